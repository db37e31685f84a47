"""The formats of recordings, one module each; a new one is a row of `FORMATS`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from quotaform.core.usage.format.exposition import parse_exposition
from quotaform.core.usage.format.jmxtool import parse_jmxtool
from quotaform.core.usage.format.otlp import parse_otlp
from quotaform.core.usage.format.prometheus import parse_prometheus
from quotaform.core.usage.metric.origin import Origin
from quotaform.core.usage.sample.sample import Item


class Parser(Protocol):
    """Reads one document: never raises for what is in it, and counts or rejects all that it does not yield."""

    def __call__(self, data: bytes | str, origin: Origin, ts: float | None = None) -> Iterator[Item]:
        """Yield what is in a document.

        `origin` is what counts for metrics that do not say where they are from. `ts` is when it was read, in seconds
        since the epoch, for formats without times.
        """


FORMATS: Final[dict[str, Parser]] = {
    "prometheus": parse_prometheus,
    "exposition": parse_exposition,
    "jmxtool": parse_jmxtool,
    "otlp": parse_otlp,
}
"""How each format is read, by its name in options."""
