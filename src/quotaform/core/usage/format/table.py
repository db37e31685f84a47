"""Rows of tables (Parquet, CSV) by a mapping of their columns: the definition, row by row.

An engine that reads tables does the same by columns: `read_metric` or `read_bucket` once per distinct name, the rest
in its own expressions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, time
from json import loads
from typing import Final

from quotaform.core.usage.format.table_mapping import NAME_LABEL, UNITS_PER_SECOND, TableMapping
from quotaform.core.usage.metric.metric import Measure, check_series, read_metric
from quotaform.core.usage.metric.metric_name import key_of_type
from quotaform.core.usage.metric.origin import Origin
from quotaform.core.usage.sample.sample import Dropped, DropReason, Item, Sample, Unreadable, reject
from quotaform.core.usage.sample.series import Attribute, Series, broker_window_s
from quotaform.core.usage.sample.value import make_sample, read_number, read_time
from quotaform.model.ip import canonical_ip
from quotaform.model.moment import read_moment
from quotaform.model.quota_key import CONNECTION_CREATION_RATE
from quotaform.model.sanitizer import desanitize
from quotaform.model.text import quote

Cells = Mapping[str, object]
"""The cells of a row, by column."""

_NAMELESS: Final = (
    "it has no name of a metric; if all rows of the file are of one, say in a mapping file what it is called: "
    "constants: {metric: NAME}"
)
_SIZES = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3))
"""From which size on a number of a time counts which part of a second: seconds reach 1e11 in the year 5138, and
milliseconds passed it in 1973."""


def parse_rows(rows: Iterable[Cells], mapping: TableMapping, origin: Origin) -> Iterator[Item]:
    """Yield what is in rows; a position is the number of a row, from 1.

    `mapping` is what their columns are. `origin` is what counts for rows that do not say where they are from.
    """
    read = _of_metric if mapping.is_of_metrics else _of_bucket
    for number, cells in enumerate(rows, start=1):
        for item in read(cells, mapping, origin):
            if isinstance(item, Sample):
                yield item
            elif isinstance(item, DropReason):
                yield Dropped(item, 1)
            else:
                yield reject(number, f"row {number}: {item}", str(dict(cells)))


def read_bucket(
    names: Mapping[str, str | None], mapping: TableMapping, origin: Origin
) -> Series | DropReason | Unreadable:
    """Return the series of the rates of a bucket.

    Args:
        names: What a row has in the fields key, cluster, broker, user, client_id, ip and instance, columns and
            constants alike. Where a broker measured, what is called instance is that broker.
        mapping: How users are spelled.
        origin: What counts for rows that do not say where they are from.
    """
    kind, user, client_id, ip = (names.get(name) or None for name in ("key", "user", "client_id", "ip"))
    key = key_of_type(kind) if kind else None
    if key is None:
        return Unreadable(f"{quote(kind or '')} is no quota key and no type of quota")
    if user and mapping.has_sanitized_users:
        user = desanitize(user)
    if key == CONNECTION_CREATION_RATE.name:
        address = canonical_ip(ip) if ip else None
        if ip and address is None:
            return Unreadable(f"{quote(ip)} is not an IP address")
        user, client_id, ip = None, None, address
    else:
        ip = None
    instance = None if names.get("broker") else names.get("instance") or None
    cluster, broker = names.get("cluster") or origin.cluster, names.get("broker") or origin.broker
    return check_series(Series(cluster, broker, key, user, client_id, ip, Attribute.RATE, instance))


def read_labels(cell: object) -> dict[str, str] | None:
    """Return the labels in a cell: a map, JSON, or pairs; `None` if they can't be read.

    >>> read_labels('{"user": "a"}'), read_labels([("user", "a")]), read_labels([{"name": "user", "value": "a"}])
    ({'user': 'a'}, {'user': 'a'}, {'user': 'a'})
    """
    if isinstance(cell, str):
        try:
            cell = loads(cell)
        except (ValueError, RecursionError):
            return None
    if isinstance(cell, list | tuple):
        pairs = [tuple(each.values()) if isinstance(each, dict) else each for each in cell]
        if not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs):
            return None
    elif isinstance(cell, Mapping):
        pairs = list(cell.items())
    else:
        return {} if cell is None else None
    if any(isinstance(each, list | tuple | Mapping) for pair in pairs for each in pair):
        return None
    return {str(name): str(value) for name, value in pairs if value is not None}


def read_cell_time(cell: object, mapping: TableMapping) -> float | str:
    """Return the time in a cell, in seconds since the epoch, or what is wrong with it.

    A time without a zone is in UTC. A number counts what the mapping says, or what its size says.

    >>> mapping = TableMapping(columns={"ts": "t"})
    >>> {read_cell_time(each, mapping) for each in (1.8e9, 1.8e12, "1800000000000000", "2027-01-15T08:00:00Z")}
    {1800000000.0}
    """
    if isinstance(cell, date):
        moment = cell if isinstance(cell, datetime) else datetime.combine(cell, time())
        return read_time((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
    number = read_number(cell)
    if number is not None:
        sizes = (per_second for size, per_second in _SIZES if number >= size)
        per_second = UNITS_PER_SECOND[mapping.time_unit] if mapping.time_unit else next(sizes, 1.0)
        return read_time(number / per_second)
    try:
        return read_moment(cell).timestamp() if isinstance(cell, str) else "there is no time"
    except ValueError as error:
        return str(error)


def _of_metric(cells: Cells, mapping: TableMapping, origin: Origin) -> Iterator[Sample | DropReason | str]:
    labels = read_labels(_cell(cells, mapping, "labels"))
    if labels is None:
        yield "its labels are no map, no pairs and no JSON"
        return
    labels |= {label: text for label, column in mapping.labels.items() if (text := _text(cells.get(column)))}
    labels |= {name: text for name in ("cluster", "broker") if (text := _text(_cell(cells, mapping, name)))}
    name = _text(_cell(cells, mapping, "metric")) or labels.get(NAME_LABEL, "")
    if not name:
        yield _NAMELESS
        return
    measure = read_metric(name, labels, origin)
    if isinstance(measure, Unreadable):
        yield measure.reason
    elif isinstance(measure, DropReason):
        yield measure
    else:
        measure = measure._replace(factor=measure.factor * mapping.factor("value"))
        yield _sample(measure, cells, mapping, _cell(cells, mapping, "value"))


def _of_bucket(cells: Cells, mapping: TableMapping, origin: Origin) -> Iterator[Sample | DropReason | str]:
    fields = ("key", "cluster", "broker", "user", "client_id", "ip", "instance")
    series = read_bucket({name: _text(_cell(cells, mapping, name)) for name in fields}, mapping, origin)
    if isinstance(series, Unreadable):
        yield series.reason
        return
    if isinstance(series, DropReason):
        yield series
        return
    window = read_number(_cell(cells, mapping, "window_s"))
    window_s = broker_window_s(series.key) if window is None else window * mapping.factor("window_s")
    if not 0 <= window_s < float("inf"):
        yield f"{quote(str(window))} is no number of seconds"
        return
    values = {name: _cell(cells, mapping, name) for name in ("rate", "throttle_ms")}
    for name, attribute in (("rate", Attribute.RATE), ("throttle_ms", Attribute.THROTTLE_TIME)):
        if values[name] is not None:
            measure = Measure(series._replace(attribute=attribute), mapping.factor(name), window_s)
            yield _sample(measure, cells, mapping, values[name])
    if all(raw is None for raw in values.values()):
        yield DropReason.MISSING


def _sample(measure: Measure, cells: Cells, mapping: TableMapping, raw: object) -> Sample | DropReason | str:
    ts = read_cell_time(_cell(cells, mapping, "ts"), mapping)
    return ts if isinstance(ts, str) else make_sample(measure, ts, raw)


def _cell(cells: Cells, mapping: TableMapping, name: str) -> object:
    return cells.get(mapping.columns[name]) if name in mapping.columns else mapping.constants.get(name)


def _text(cell: object) -> str | None:
    return None if cell is None else str(cell)
