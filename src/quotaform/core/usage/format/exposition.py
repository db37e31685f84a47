r"""The text that an exporter serves at `/metrics`: Prometheus' text format, and OpenMetrics.

A line is `name{label="value",…} value [timestamp]`. Source: prometheus.io/docs/instrumenting/exposition_formats.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from io import StringIO
from re import compile as regex
from typing import Final

from quotaform.core.usage.format.text import read_text
from quotaform.core.usage.metric.metric import LONGEST_KNOWN, Measure, read_metric
from quotaform.core.usage.metric.metric_name import is_of_quotas
from quotaform.core.usage.metric.origin import Origin
from quotaform.core.usage.sample.sample import Dropped, DropReason, Item, Rejected, Sample, Unreadable, reject
from quotaform.core.usage.sample.value import make_sample, read_epoch

_LINE = regex(
    r"(?P<series>[A-Za-z_:][A-Za-z0-9_:.\-]*+[ \t]*+"
    r"(?:\{(?>[^\"}]++|\"(?>[^\"\\]++|\\.)*+\")*+\})?+|\{(?>[^\"}]++|\"(?>[^\"\\]++|\\.)*+\")*+\})"
    r"[ \t]*+(?P<value>[^\s{}]++)(?:[ \t]++(?P<ts>[^\s#]++))?[ \t]*+(?:#.*)?"
).fullmatch
_NAME_END: Final = regex(r"[{ \t]")
_LABEL = regex(
    r'[\s,]*+(?:([A-Za-z_][A-Za-z0-9_.\-]*+|"(?>[^"\\]++|\\.)*+")\s*+=\s*+)?"((?>[^"\\]++|\\.)*+)"\s*+(?:,|\Z)'
)
_LINES: Final = 10_000
"""After how many lines those that are of other metrics are yielded, also if there are none."""
_ESCAPE: Final = regex(r'\\([\\"n])')

_UNTIMED: Final = "the page has no times; say when it was read"


def parse_exposition(data: bytes | str, origin: Origin, ts: float | None = None) -> Iterator[Item]:
    """Yield what is on a page of metrics; a position is the number of a line, from 1.

    `origin` is what counts for metrics that do not say where they are from. `ts` is when it was read, in seconds since
    the epoch, for the lines without a time.
    """
    text = read_text(data)
    if isinstance(text, Rejected):
        yield text
        return
    dropped: Counter[DropReason] = Counter()
    for number, line in enumerate(StringIO(text, newline="\n"), start=1):
        line = line.strip()
        if not number % _LINES:
            # Yields regularly, so that callers can check their deadline.
            yield Dropped(DropReason.OTHER_METRIC, dropped.pop(DropReason.OTHER_METRIC, 0))
        if not line or line.startswith("#"):
            continue
        item = _item(line, origin, ts)
        if isinstance(item, Sample):
            yield item
        elif isinstance(item, DropReason):
            dropped[item] += 1
        else:
            yield reject(number, f"line {number}: {item}", line)
    yield from (Dropped(reason, count) for reason, count in dropped.items())


def _item(line: str, origin: Origin, ts: float | None) -> Sample | DropReason | str:
    found = _LINE(line)
    if found is None:
        return "not a metric with a value, or cut"
    series = found["series"]
    # Most lines of a page are of other metrics. OpenMetrics may have the name among the labels.
    if not series.startswith("{") and not is_of_quotas(_NAME_END.split(series, maxsplit=1)[0]):
        return DropReason.OTHER_METRIC
    measure = _known(series, origin) if len(series) <= LONGEST_KNOWN else _measure(series, origin)
    if isinstance(measure, DropReason):
        return measure
    if isinstance(measure, Unreadable):
        return measure.reason
    time = read_epoch(found["ts"]) if found["ts"] else _UNTIMED if ts is None else ts
    return time if isinstance(time, str) else make_sample(measure, time, found["value"])


@lru_cache(maxsize=65536)
def _known(series: str, origin: Origin) -> Measure | DropReason | Unreadable:
    """Return what a line's name with its labels measures; the same ones come with every scrape."""
    return _measure(series, origin)


def _measure(series: str, origin: Origin) -> Measure | DropReason | Unreadable:
    name, _, rest = series.partition("{")
    labels: dict[str, str] = {}
    rest = rest.rstrip().removesuffix("}")
    place = 0
    while rest[place:].strip(" \t,"):
        found = _LABEL.match(rest, place)
        if found is None:
            return Unreadable("its labels can't be read")
        if found[1]:
            labels[_unescape(found[1].strip('"'))] = _unescape(found[2])
        else:
            name = _unescape(found[2])
        place = found.end()
    # Tools that dump series have the name as a label.
    return read_metric(name.strip() or labels.get("__name__", ""), labels, origin)


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda found: "\n" if found[1] == "n" else found[1], text) if "\\" in text else text
