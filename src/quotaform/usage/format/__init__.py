"""The formats of recordings; a new one is a row of `FORMATS`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from quotaform.usage.format.jmxtool import parse_jmxtool
from quotaform.usage.format.otlp import parse_otlp
from quotaform.usage.format.prometheus import parse_exposition, parse_prometheus
from quotaform.usage.sample import Item

FORMATS: Final[dict[str, Callable[..., Iterator[Item]]]] = {
    "prometheus": parse_prometheus,
    "exposition": parse_exposition,
    "jmxtool": parse_jmxtool,
    "otlp": parse_otlp,
}
"""What yields the items of a recording, by the name of its format in options.

It takes a `Source`, the `Origin` of metrics that do not say where they are from, and when the recording was read, in
seconds since the epoch, for formats without times. It never raises for what is in a recording, and counts or rejects
all that it does not yield.
"""
