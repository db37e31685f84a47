"""Prometheus: the answers of its HTTP API, and the text that its exporters serve.

A document is the whole answer (`{"status": …, "data": {"result": […]}}`), its data, the list of series, or one series
alone, as an engine gets that splits large files. Documents may follow one another, as in a file of JSON lines.

VictoriaMetrics exports series with two lists instead of pairs: `values`, in which NaN is null, and `timestamps` in
milliseconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from io import StringIO
from json import JSONDecoder
from math import nan
from re import compile as regex
from typing import Any, Final, NamedTuple

from quotaform.model.text import quote
from quotaform.usage.format.text import (
    json_documents,
    make_sample,
    read_epoch,
    read_number,
    read_text,
    read_time,
    spell_document,
    spell_value,
)
from quotaform.usage.metric import LONGEST_KNOWN, Measure, read_known_metric, read_metric
from quotaform.usage.metric_name import Origin, is_of_quotas
from quotaform.usage.sample import Dropped, DropReason, Item, Rejected, Sample, Unreadable, reject

NAME_LABEL: Final = "__name__"
_DECODER: Final = JSONDecoder()
_SHOWN: Final = 40
_ERROR_OF_PART: Final = "Prometheus answered with an error, and a part of the series"
_PARTIAL_ANSWER: Final = (
    "the answer is partial, as some of the servers behind it did not answer; samples may be missing"
)


def parse_prometheus(data: bytes | str, origin: Origin, ts: float | None = None) -> Iterator[Item]:
    """Yield what is in the answers; a position is the number of the series in its document, from 1.

    `data`: one answer, or several that follow one another. `origin`: what counts for metrics that do not say where they
    are from. `ts`: not used: each value has its time.
    """
    for document in json_documents(data):
        if isinstance(document, Rejected):
            yield document
            continue
        line, answer = document
        elements = series_elements(answer)
        if isinstance(elements, str):
            yield reject(line, f"line {line}: {elements}", _spell(answer))
            continue
        for problem in answer_problems(answer):
            yield reject(line, f"line {line}: {problem}", "")
        for number, element in enumerate(elements, start=1):
            yield from parse_element(element, origin, number)


def series_elements(answer: object) -> list[Any] | str:
    """Return the series of a document, or what is wrong with it.

    >>> series_elements({"status": "error", "error": "query timed out"})
    'Prometheus answered with an error: "query timed out"'
    """
    data = answer.get("data", answer) if isinstance(answer, dict) else answer
    if isinstance(data, dict):
        if "metric" in data:
            return [data]
        kind = data.get("resultType")
        if kind in ("scalar", "string"):
            return f"the result is a {kind}, not series; query a metric"
        data = data.get("result")
    if isinstance(data, list):
        return data
    if isinstance(answer, dict) and answer.get("status") == "error":
        return f"Prometheus answered with an error: {spell_value(answer.get('error'))}"
    return "not an answer of Prometheus: it has no result"


def answer_problems(answer: object) -> Iterator[str]:
    """Yield why an answer that has series may not have all of them.

    >>> list(answer_problems({"status": "success", "isPartial": True, "data": {}}))
    ['the answer is partial, as some of the servers behind it did not answer; samples may be missing']
    """
    if not isinstance(answer, dict):
        return
    if answer.get("status") == "error":
        yield f"{_ERROR_OF_PART}: {spell_value(answer.get('error'))}"
    if answer.get("isPartial") is True:
        yield _PARTIAL_ANSWER
    warnings = answer.get("warnings")
    for warning in warnings if isinstance(warnings, list) else []:
        yield f"Prometheus warns that samples may be missing: {spell_value(warning)}"


class Frame(NamedTuple):
    """What stands around the series of an answer."""

    problems: tuple[str, ...]  # What is wrong with the answer
    head: str  # What stands before the first series of the answer that follows it


def read_frame(head: str, behind: str, *, is_last: bool) -> Frame:
    """Return what an answer says of which only that is known what stands around its series.

    >>> read_frame('{"data":{"result":[', ']},"warnings":["down"]}', is_last=True).problems
    ('Prometheus warns that samples may be missing: "down"',)
    >>> read_frame('{"data":{"result":[', ']}', is_last=True).problems
    ('the file ends behind this series, and not its list; it is cut',)

    `head`: what stands before the first series. `behind`: what stands behind a series; of one that is followed by
    another one, what is between. `is_last`: whether it is the last one of the file.
    """
    frame = (head if head.rstrip().endswith("[") else f"{head}null").lstrip("\ufeff \t\r\n") + behind
    try:
        answer, end = _DECODER.raw_decode(frame)
    except (ValueError, RecursionError):
        return Frame(("the file ends behind this series, and not its list; it is cut",) if is_last else (), head)
    problems, rest = list(answer_problems(answer)), frame[end:].strip()
    if is_last and rest:
        problems.append(f"what stands behind the end of the answer is not read: {quote(rest[:_SHOWN])}")
    return Frame(tuple(problems), rest)


def parse_element(element: object, origin: Origin, number: int) -> Iterator[Item]:
    """Yield what is in one series.

    `element`: `{"metric": {…}, "values": [[ts, "value"], …]}`, or with one `value`. `origin`: what counts for metrics
    that do not say where they are from. `number`: the position of what can't be read.
    """
    labels = element.get("metric") if isinstance(element, dict) else None
    if not isinstance(element, dict) or not isinstance(labels, dict) or not all(map(_is_text, labels.values())):
        yield reject(number, f"series {number}: no series: it has no labels in metric", _spell(element))
        return
    pairs = _pairs(element)
    if isinstance(pairs, str):
        yield reject(number, f"series {number}: {pairs}", _spell(element))
        return
    if histograms := _histograms(element):
        yield Dropped(DropReason.OTHER_METRIC, histograms)
        if not pairs:
            return
    measure = _measure(labels, origin)
    if isinstance(measure, Unreadable):
        count = f"{len(pairs):,} sample{'' if len(pairs) == 1 else 's'}"
        yield reject(number, f"series {number} of {count}: {measure.reason}", _spell(labels))
    elif isinstance(measure, DropReason):
        yield from [Dropped(measure, len(pairs))] if pairs else []
    else:
        yield from parse_values(pairs, measure, number)


def parse_values(pairs: Iterable[object], measure: Measure, number: int) -> Iterator[Item]:
    """Yield the samples of a series from its `[ts, "value"]` pairs."""
    dropped: Counter[DropReason] = Counter()
    for place, pair in enumerate(pairs, start=1):
        if not isinstance(pair, list) or len(pair) != 2:
            yield reject(number, f"series {number}, sample {place}: not a pair of time and value", _spell(pair))
            continue
        ts = read_time(pair[0])
        sample = ts if isinstance(ts, str) else make_sample(measure, ts, pair[1])
        if isinstance(sample, Sample):
            yield sample
        elif isinstance(sample, DropReason):
            dropped[sample] += 1
        else:
            yield reject(number, f"series {number}, sample {place}: {sample}", _spell(pair))
    yield from (Dropped(reason, count) for reason, count in dropped.items())


def _pairs(element: dict[str, Any]) -> list[Any] | str:
    """Return the pairs of time and value of a series, or what is wrong with it."""
    values, times = element.get("values", [element["value"]] if "value" in element else []), element.get("timestamps")
    if not isinstance(values, list):
        return "values is not a list"
    if times is None:
        return values
    if not isinstance(times, list) or len(times) != len(values):
        return f"values and timestamps are not lists of one length, as there are {len(values):,} values"
    return [[_seconds(ts), nan if value is None else value] for ts, value in zip(times, values, strict=True)]


def _seconds(milliseconds: object) -> object:
    number = None if isinstance(milliseconds, str) else read_number(milliseconds)
    return milliseconds if number is None else number / 1000


def _histograms(element: dict[str, Any]) -> int:
    """Return how many native histograms a series has, which no metric of client quotas is."""
    histograms = element.get("histograms", [element["histogram"]] if "histogram" in element else [])
    return len(histograms) if isinstance(histograms, list) else 0


def _measure(labels: dict[str, str], origin: Origin) -> Measure | DropReason | Unreadable:
    name = labels.get(NAME_LABEL)
    if not name:
        return Unreadable("it has no name, as a function in a query takes it away; query the metric itself")
    return read_known_metric(name, labels, origin)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _spell(document: object) -> str:
    """Return a document as JSON, or the beginning of it."""
    if isinstance(document, dict) and isinstance(document.get("values"), list):
        document = {**document, "values": document["values"][:3]}
    elif isinstance(document, list):
        document = document[:3]
    return spell_document(document)


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
    measure = _known(series, origin) if len(series) <= LONGEST_KNOWN else _measure_of_line(series, origin)
    if isinstance(measure, DropReason):
        return measure
    if isinstance(measure, Unreadable):
        return measure.reason
    time = read_epoch(found["ts"]) if found["ts"] else _UNTIMED if ts is None else ts
    return time if isinstance(time, str) else make_sample(measure, time, found["value"])


@lru_cache(maxsize=65536)
def _known(series: str, origin: Origin) -> Measure | DropReason | Unreadable:
    """Return what a line's name with its labels measures; the same ones come with every scrape."""
    return _measure_of_line(series, origin)


def _measure_of_line(series: str, origin: Origin) -> Measure | DropReason | Unreadable:
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
