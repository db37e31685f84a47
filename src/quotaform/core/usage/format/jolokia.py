"""Answers of Jolokia to read requests: one, a list (a bulk read), or one per line (polls).

An answer is `{"request": {"mbean": …, "attribute": …}, "value": …, "timestamp": s, "status": 200}`. Its value goes by
the request:

| request | value |
| --- | --- |
| a pattern of MBeans | `{mbean: {attribute: number}}` |
| an MBean, several or all attributes | `{attribute: number}` |
| an MBean, one attribute | `number` |

NaN is `null` or `"NaN"`. Source: jolokia.org, protocol, read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import nan
from typing import Any, Final

from quotaform.core.usage.format.json_text import json_documents, spell_document
from quotaform.core.usage.metric.metric import read_known_object_name
from quotaform.core.usage.metric.object_name import parse_object_name
from quotaform.core.usage.metric.origin import Origin
from quotaform.core.usage.sample.sample import Dropped, DropReason, Item, Rejected, Sample, Unreadable, reject
from quotaform.core.usage.sample.value import make_sample, read_epoch, spell_value
from quotaform.model.text import quote

Reading = tuple[str, str, object]
"""An MBean, an attribute and its value."""

_OK: Final = 200
_READINGS: Final = 10_000
"""After how many values those of other attributes are yielded, also if there are none."""
_ABSENT: Final = "InstanceNotFoundException"
_NONE_HAS: Final = "No matching attributes"
"""What Jolokia says of a pattern of which no MBean has the attributes: a quota manager that has measured nobody."""


def parse_jolokia(data: bytes | str, origin: Origin, ts: float | None = None) -> Iterator[Item]:
    """Yield what is in the answers; a position is the number of the answer in its document, from 1.

    Args:
        data: The answers.
        origin: What counts, as MBeans do not say where they are from.
        ts: When they came, in seconds since the epoch, for answers without a time.
    """
    for document in json_documents(data):
        if isinstance(document, Rejected):
            yield document
            continue
        _, answers = document
        for number, answer in enumerate(answers if isinstance(answers, list) else [answers], start=1):
            yield from _items(answer, number, origin, ts)


def _items(answer: Any, number: int, origin: Origin, ts: float | None) -> Iterator[Item]:
    if isinstance(answer, dict) and (_ABSENT in str(answer.get("error_type")) or _NONE_HAS in str(answer.get("error"))):
        # A pattern that matches no MBean: there was no such traffic, or no such quota yet.
        yield Dropped(DropReason.MISSING, 1)
        return
    readings = _readings(answer)
    time = "" if isinstance(readings, str) else _time(answer, ts)
    if isinstance(readings, str) or isinstance(time, str):
        yield reject(number, f"answer {number}: {readings if isinstance(readings, str) else time}", _spell(answer))
        return
    dropped: Counter[DropReason] = Counter()
    if not readings:
        # A pattern of which there is no MBean, to Jolokia 1.
        dropped[DropReason.MISSING] += 1
    for place, (mbean, attribute, raw) in enumerate(readings, start=1):
        if not place % _READINGS:
            # Who reads an answer of other metrics, too, can look at the time now and then.
            yield Dropped(DropReason.OTHER_ATTRIBUTE, dropped.pop(DropReason.OTHER_ATTRIBUTE, 0))
        measure = read_known_object_name(mbean, attribute, origin)
        if isinstance(measure, DropReason):
            dropped[measure] += 1
            continue
        # Jolokia writes null for NaN, which JSON does not have.
        value = nan if raw is None else raw
        sample = measure.reason if isinstance(measure, Unreadable) else make_sample(measure, time, value)
        if isinstance(sample, Sample):
            yield sample
        elif isinstance(sample, DropReason):
            dropped[sample] += 1
        else:
            yield reject(number, f"answer {number}: {quote(attribute)}: {sample}", mbean)
    yield from (Dropped(reason, count) for reason, count in dropped.items())


def _readings(answer: Any) -> list[Reading] | str:
    """Return the values of an answer, or what is wrong with it."""
    if not isinstance(answer, dict) or not isinstance(request := answer.get("request", {}), dict):
        return "not an answer of Jolokia"
    if answer.get("status", _OK) != _OK or "error" in answer:
        error = answer["error"] if isinstance(answer.get("error"), str) else ""
        remedy = "; this version of Jolokia cannot answer NaN: update it" if "NumberFormatException" in error else ""
        return f"Jolokia answered with status {spell_value(answer.get('status'))}: {quote(error, 160)}{remedy}"
    if request.get("type", "read") != "read":
        return f"an answer to {spell_value(request['type'])}, not to read"
    if "value" not in answer:
        return "not an answer of Jolokia: it has no value"
    value, mbean, attribute = answer["value"], request.get("mbean"), request.get("attribute")
    if isinstance(value, dict) and any(":" in name and parse_object_name(name) for name in value):
        return [reading for name, values in value.items() for reading in _of_mbean(name, attribute, values)]
    if not isinstance(mbean, str):
        return "the answer does not say which MBean was read"
    return _of_mbean(mbean, attribute, value)


def _of_mbean(mbean: str, attribute: object, value: object) -> list[Reading]:
    if isinstance(value, dict):
        return [(mbean, name, each) for name, each in value.items()]
    return [(mbean, attribute if isinstance(attribute, str) else "", value)]


def _time(answer: dict[str, Any], ts: float | None) -> float | str:
    if "timestamp" in answer:
        return read_epoch(answer["timestamp"])
    return "the answer has no time; say when it came" if ts is None else ts


def _spell(answer: object) -> str:
    return spell_document(answer)
