r"""What Telegraf writes of the MBeans that it reads by Jolokia: line protocol of InfluxDB, or JSON.

| part of a metric | content | example |
| --- | --- | --- |
| name, and name of a field | the name of the metric | `kafka_client`, `byte-rate` |
| tags | its labels | `client-id`, `type`, `jolokia_agent_url` |
| time | nanoseconds in line protocol; seconds and smaller parts in JSON, by their size | `1795000000000000000` |

A line is `name,tag=value,… field=value,… time`; a comma, blank or equals sign in a name stands behind a backslash. JSON
is one metric (`{"name", "tags", "fields", "timestamp"}`), a list of them in `metrics`, or one per line.

Source: docs.influxdata.com, line protocol; Telegraf's output data formats.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from re import compile as regex
from typing import Any, Final, NamedTuple

from quotaform.core.usage.format.json_text import json_documents, spell_document
from quotaform.core.usage.format.text import read_text
from quotaform.core.usage.metric.metric import read_known_metric
from quotaform.core.usage.metric.origin import Origin
from quotaform.core.usage.sample.sample import Dropped, DropReason, Item, Rejected, Sample, Unreadable, reject
from quotaform.core.usage.sample.value import make_sample, read_number, read_time, spell_value

_LINE = regex(
    r'(?!,)(?P<series>(?:\\.|[^ \\\n]|\\)+?) +(?P<fields>(?:"(?:[^"\\]|\\.)*+"|\\.|[^ "\\])++)(?: +(?P<ts>-?[0-9]+))? *'
).fullmatch
_PARTS: Final = regex(r"(?:\\.|[^,\\]|\\)+")
_PAIR = regex(r"((?:\\.|[^=\\]|\\)+?)=(.*)").fullmatch
_FIELD: Final = regex(r'((?:\\.|[^=,\\]|\\)+?)=("(?:[^"\\]|\\.)*+"|[^,"]*)(?:,|\Z)')
_ESCAPE: Final = regex(r"\\([,= ])")
_INTEGER = regex(r"-?[0-9]+[iu]").fullmatch
_SIZES: Final = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3))
"""From which size on a time counts which part of a second."""


class _Metric(NamedTuple):
    """A metric with its fields, and where it is."""

    name: str
    tags: dict[str, str]
    fields: dict[str, object]
    ts: object
    place: str
    position: int


def parse_telegraf(data: bytes | str, origin: Origin, ts: float | None = None) -> Iterator[Item]:
    """Yield what is in metrics; a position is the number of a line, or of a metric in its document, from 1.

    Args:
        data: The metrics.
        origin: What counts for metrics that do not say where they are from.
        ts: When they were read, in seconds since the epoch, for those without a time.
    """
    text = read_text(data)
    if isinstance(text, Rejected):
        yield text
        return
    dropped: Counter[DropReason] = Counter()
    for metric in _documents(text) if text.lstrip()[:1] in ("{", "[") else _lines(text):
        if isinstance(metric, Rejected):
            yield metric
            continue
        for field, raw in metric.fields.items():
            item = _item(metric, field, raw, origin, ts)
            if isinstance(item, Sample):
                yield item
            elif isinstance(item, DropReason):
                dropped[item] += 1
            else:
                yield reject(metric.position, f"{metric.place}: {item}", spell_document(metric[:4]))
    yield from (Dropped(reason, count) for reason, count in dropped.items())


def _item(metric: _Metric, field: str, raw: object, origin: Origin, ts: float | None) -> Sample | DropReason | str:
    measure = read_known_metric(f"{metric.name}_{field}", metric.tags, origin)
    if isinstance(measure, DropReason):
        return measure
    if isinstance(measure, Unreadable):
        return measure.reason
    time = _time(metric.ts, ts)
    return time if isinstance(time, str) else make_sample(measure, time, raw)


def _time(raw: object, ts: float | None) -> float | str:
    if raw is None:
        return "it has no time; say when it was read" if ts is None else ts
    number = read_number(raw)
    if number is None:
        return read_time(raw)
    return read_time(number / next((per_second for size, per_second in _SIZES if number >= size), 1.0))


def _lines(text: str) -> Iterator[_Metric | Rejected]:
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.strip("\r \t")
        if not line or line.startswith("#"):
            continue
        found = _LINE(line)
        fields = None if found is None else _fields(found["fields"])
        if found is None or fields is None:
            yield reject(number, f"line {number}: not line protocol of InfluxDB, or cut", line)
            continue
        name, *tags = _PARTS.findall(found["series"])
        pairs = [_PAIR(tag) for tag in tags]
        labels = {_plain(pair[1]): _plain(pair[2]) for pair in pairs if pair is not None}
        yield _Metric(_plain(name), labels, fields, found["ts"], f"line {number}", number)


def _fields(text: str) -> dict[str, object] | None:
    """Return the fields of a line; `None` if they cannot be read."""
    found: dict[str, object] = {}
    place = 0
    while place < len(text):
        one = _FIELD.match(text, place)
        if one is None:
            return None
        raw = one[2]
        found[_plain(one[1])] = raw[:-1] if _INTEGER(raw) else raw.strip('"')
        place = one.end()
    return found


def _plain(text: str) -> str:
    return _ESCAPE.sub(lambda found: found[1], text)


def _documents(text: str) -> Iterator[_Metric | Rejected]:
    for document in json_documents(text):
        if isinstance(document, Rejected):
            yield document
            continue
        line, found = document
        metrics = found.get("metrics", [found]) if isinstance(found, dict) else found
        for number, metric in enumerate(metrics if isinstance(metrics, list) else [metrics], start=1):
            yield _of_json(metric, f"line {line}, metric {number}", number)


def _of_json(metric: Any, place: str, number: int) -> _Metric | Rejected:
    if not isinstance(metric, dict) or not isinstance(fields := metric.get("fields"), dict):
        return reject(number, f"{place}: not a metric of Telegraf: it has no fields", spell_document(metric))
    tags, name = metric.get("tags"), metric.get("name")
    labels = tags if isinstance(tags, dict) else {}
    if not isinstance(name, str) or not all(isinstance(value, str) for value in labels.values()):
        return reject(number, f"{place}: its name is {spell_value(name)}, or a tag is no text", spell_document(metric))
    return _Metric(name, labels, fields, metric.get("timestamp"), place, number)
