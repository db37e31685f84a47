"""The formats of recordings; a new one is a row of `FORMATS`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from quotaform.usage.format.jmxtool import parse_jmxtool
from quotaform.usage.format.otlp import parse_otlp
from quotaform.usage.format.prometheus import parse_exposition, parse_prometheus
from quotaform.usage.format.text import Source
from quotaform.usage.metric_name import Origin
from quotaform.usage.sample import Item


class Parser(Protocol):
    """Reads a recording: never raises for what is in it, and counts or rejects all that it does not yield."""

    def __call__(self, source: Source, origin: Origin, ts: float | None = None) -> Iterator[Item]:
        """Yield what is in a recording.

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
