"""Answers of Prometheus' HTTP API: range queries (`values`) and instant queries (`value`).

A document is the whole answer (`{"status": …, "data": {"result": […]}}`), its data, the list of series, or one series
alone, as an engine gets that splits large files. Documents may follow one another, as in a file of JSON lines.

VictoriaMetrics exports series with two lists instead of pairs: `values`, in which NaN is null, and `timestamps` in
milliseconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from json import JSONDecoder
from math import nan
from typing import Any, Final, NamedTuple

from quotaform.core.usage.format.json_text import json_documents, spell_document
from quotaform.core.usage.metric.metric import Measure, read_known_metric
from quotaform.core.usage.metric.origin import Origin
from quotaform.core.usage.sample.sample import Dropped, DropReason, Item, Rejected, Sample, Unreadable, reject
from quotaform.core.usage.sample.value import make_sample, read_number, read_time, spell_value
from quotaform.model.text import quote

NAME_LABEL: Final = "__name__"
_DECODER: Final = JSONDecoder()
_SHOWN: Final = 40
_ERROR_OF_PART: Final = "Prometheus answered with an error, and a part of the series"
_PARTIAL_ANSWER: Final = (
    "the answer is partial, as some of the servers behind it did not answer; samples may be missing"
)


def parse_prometheus(data: bytes | str, origin: Origin, ts: float | None = None) -> Iterator[Item]:
    """Yield what is in the answers; a position is the number of the series in its document, from 1.

    Args:
        data: One answer, or several that follow one another.
        origin: What counts for metrics that do not say where they are from.
        ts: Not used: each value has its time.
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
    """What stands around the series of an answer.

    Attributes:
        problems: What is wrong with the answer.
        head: What stands before the first series of the answer that follows it.
    """

    problems: tuple[str, ...]
    head: str


def read_frame(head: str, behind: str, *, is_last: bool) -> Frame:
    """Return what an answer says of which only that is known what stands around its series.

    >>> read_frame('{"data":{"result":[', ']},"warnings":["down"]}', is_last=True).problems
    ('Prometheus warns that samples may be missing: "down"',)
    >>> read_frame('{"data":{"result":[', ']}', is_last=True).problems
    ('the file ends behind this series, and not its list; it is cut',)

    Args:
        head: What stands before the first series.
        behind: What stands behind a series; of one that is followed by another one, what is between.
        is_last: Whether it is the last one of the file.
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

    Args:
        element: `{"metric": {…}, "values": [[ts, "value"], …]}`, or with one `value`.
        origin: What counts for metrics that do not say where they are from.
        number: The position of what can't be read.
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
