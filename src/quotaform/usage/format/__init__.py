"""The formats of recordings; a new one is a row of `FORMATS`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from quotaform.usage.format.jmxtool import parse_jmxtool
from quotaform.usage.format.otlp import parse_otlp
from quotaform.usage.format.prometheus import parse_exposition, parse_prometheus
from quotaform.usage.format.text import Found, Source, as_items
from quotaform.usage.metric_name import Origin
from quotaform.usage.sample import Item

FORMATS: Final[dict[str, Callable[[Source, Origin, float], Iterator[Found]]]] = {
    "prometheus": parse_prometheus,
    "exposition": parse_exposition,
    "jmxtool": parse_jmxtool,
    "otlp": parse_otlp,
}
"""What finds the results in a recording, by the name of its format in options."""


def parse(name: str, source: Source, origin: Origin, ts: float = 0.0) -> Iterator[Item]:
    """Yield the items of a recording; never raises for what is in it, and counts or rejects all that it does not yield.

    `name`: its format. `origin`: what counts for metrics that do not say where they are from. `ts`: when the recording
    was read, in seconds since the epoch, for formats without times.
    """
    return as_items(FORMATS[name](source, origin, ts))
