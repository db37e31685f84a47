"""Prometheus: the answers of its HTTP API, and the text that its exporters serve.

A document is the whole answer (`{"status": …, "data": {"result": […]}}`), its data, the list of series, or one series
alone. A file has one document, or one in each line.

VictoriaMetrics exports series with two lists instead of pairs: `values`, in which NaN is null, and `timestamps` in
milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import nan
from re import compile as regex
from typing import Any, Final, TypeAlias

from msgspec import UNSET, Raw, Struct
from msgspec.json import decode, encode

from quotaform.model.text import inert
from quotaform.usage.format.text import (
    Found,
    Parsed,
    Source,
    decoded,
    json_documents,
    make_sample,
    quote_value,
    read_time,
    text_lines,
)
from quotaform.usage.metric import Read, read_metric, remembered
from quotaform.usage.metric_name import Origin, read_metric_name
from quotaform.usage.sample import Dropped, DropReason, Sample

NAME_LABEL: Final = "__name__"
_NAMELESS: Final = "it has no name, as a function in a query takes it away; query the metric itself"
Answer: TypeAlias = dict[str, Raw] | list[Raw]
"""A document: its parts are decoded one by one, so that the values of one series are in memory at a time."""


class Element(Struct):
    """A series; VictoriaMetrics adds times to the values."""

    metric: dict[str, str]
    value: Any = UNSET
    values: list[Any] = []
    timestamps: list[Any] | None = None
    histogram: Any = None
    histograms: list[Any] = []


def parse_prometheus(source: Source, origin: Origin, _at: float) -> Iterator[Found]:
    """Yield what is in the answers, of which each value has its time.

    A position is the number of the series in its document, from 1. `source`: one answer, or one in each line.
    """
    for line, answer, text in json_documents(source, Answer):
        elements, problems = ([], [answer]) if isinstance(answer, str) else _elements(answer)
        for problem in problems:
            yield line, f"line {line}", problem, text
        for number, element in enumerate(elements, start=1):
            yield from _parse_element(element, origin, number)


def _elements(answer: Answer) -> tuple[list[Raw], list[str]]:
    """Return the series of a document, and what is wrong with it: an answer may have a part of the series."""
    parts = answer if isinstance(answer, dict) else {}
    said = decoded(parts.get("warnings"), list[object]) or []
    if decoded(parts.get("status"), str) == "error":
        said = [decoded(parts.get("error"), object), *said]
    if decoded(parts.get("isPartial"), bool):
        said.append("the answer is partial")
    problems = [f"samples may be missing, as Prometheus says: {quote_value(each)}" for each in said]
    data = decoded(parts["data"], Answer) if "data" in parts else answer
    if isinstance(data, dict):
        if "metric" in data:
            return [Raw(encode(data))], problems
        kind = decoded(data.get("resultType"), str)
        if kind in ("scalar", "string"):
            return [], [f"the result is a {kind}, not series; query a metric"]
        data = decoded(data.get("result"), list[Raw])
    return data or [], problems if data is not None or problems else ["not an answer of Prometheus: it has no result"]


def _parse_element(raw: Raw, origin: Origin, number: int) -> Iterator[Found]:
    place = f"series {number}"
    try:
        element = decode(raw, type=Element)
        pairs = element.values if element.value is UNSET else [element.value]
        if element.timestamps is not None:
            if len(element.timestamps) != len(pairs):
                raise ValueError("values and timestamps are not lists of one length")
            times = zip(element.timestamps, pairs, strict=True)
            pairs = [[ts, nan if value is None else value] for ts, value in times]
    except (ValueError, RecursionError) as error:
        yield number, place, f"not as the format has it: {inert(str(error))}", raw
        return
    # No metric of client quotas is a native histogram.
    if histograms := len(element.histograms) + (element.histogram is not None):
        yield number, place, Dropped(DropReason.OTHER_METRIC, histograms), None
    name = element.metric.get(NAME_LABEL)
    measure = read_metric(name, element.metric, origin) if name else _NAMELESS
    if isinstance(measure, str):
        if pairs:
            yield number, place, measure, raw
    elif isinstance(measure, DropReason):
        yield number, place, Dropped(measure, len(pairs)), None
    else:
        for each, pair in enumerate(pairs, start=1):
            is_pair = isinstance(pair, list) and len(pair) == 2
            result = make_sample(measure, read_time(pair[0]), pair[1]) if is_pair else "not a pair of time and value"
            yield number, f"{place}, sample {each}", result, pair


# The text that an exporter serves at `/metrics`: Prometheus' text format, and OpenMetrics.
#
# A line is `name{label="value",…} value [timestamp]`. Source: prometheus.io/docs/instrumenting/exposition_formats.

_LINE = regex(
    r"(?P<series>[A-Za-z_:][A-Za-z0-9_:.\-]*+[ \t]*+"
    r"(?:\{(?>[^\"}]++|\"(?>[^\"\\]++|\\.)*+\")*+\})?+|\{(?>[^\"}]++|\"(?>[^\"\\]++|\\.)*+\")*+\})"
    r"[ \t]*+(?P<value>[^\s{}]++)(?:[ \t]++(?P<ts>[^\s#]++))?[ \t]*+(?:#.*)?"
).fullmatch
_NAME_END: Final = regex(r"[{ \t]")
_LABEL = regex(
    r'[\s,]*+(?:([A-Za-z_][A-Za-z0-9_.\-]*+|"(?>[^"\\]++|\\.)*+")\s*+=\s*+)?"((?>[^"\\]++|\\.)*+)"\s*+(?:,|\Z)'
)
_ESCAPE: Final = regex(r'\\([\\"n])')


def parse_exposition(source: Source, origin: Origin, ts: float) -> Iterator[Found]:
    """Yield what is on a page of metrics; a position is the number of a line, from 1.

    `source`: a page, or a file of lines; the last line of a file may be cut if it has no end and is not the only one.
    `ts`: when it was read, in seconds since the epoch, for the lines without a time.
    """
    is_file = not isinstance(source, bytes | str)
    for number, text in enumerate(text_lines(source), start=1):
        line = text.strip()
        result = _result(line, origin, ts) if line and not line.startswith("#") else None
        if isinstance(result, Sample) and is_file and number > 1 and not text.endswith("\n"):
            result = "the file ends here, the value or the time may be cut"
        yield number, f"line {number}", result, line


def _result(line: str, origin: Origin, ts: float) -> Parsed:
    found = _LINE(line)
    if found is None:
        return "not a metric with a value, or cut"
    series = found["series"]
    # Most lines of a page are of other metrics. OpenMetrics may have the name among the labels.
    if not series.startswith("{") and read_metric_name(_NAME_END.split(series, maxsplit=1)[0]) is None:
        return DropReason.OTHER_METRIC
    return make_sample(_measure_of_line(origin, series), read_time(found["ts"]) if found["ts"] else ts, found["value"])


@remembered
def _measure_of_line(origin: Origin, series: str) -> Read:
    name, _, rest = series.partition("{")
    labels: dict[str, str] = {}
    rest = rest.rstrip().removesuffix("}")
    place = 0
    while rest[place:].strip(" \t,"):
        found = _LABEL.match(rest, place)
        if found is None:
            return "its labels can't be read"
        if found[1]:
            labels[_unescape(found[1].strip('"'))] = _unescape(found[2])
        else:
            name = _unescape(found[2])
        place = found.end()
    # Tools that dump series have the name as a label.
    return read_metric(name.strip() or labels.get(NAME_LABEL, ""), labels, origin)


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda found: "\n" if found[1] == "n" else found[1], text) if "\\" in text else text
