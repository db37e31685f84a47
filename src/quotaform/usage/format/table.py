"""Rows of tables (Parquet, CSV), and the mapping of their columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from json import loads
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct, field

from quotaform.model.entity import desanitize
from quotaform.model.records.schema import Node, choice, closed, mapping, text, titled
from quotaform.model.text import listed, option_of, quote
from quotaform.usage.format.text import Parsed, TimeUnit, make_sample, read_number, read_time
from quotaform.usage.metric import OTHER_LABELS, Measure, check_series, may_name, names_of, read_metric
from quotaform.usage.metric_name import LABELS, Origin, fold, key_of_type
from quotaform.usage.sample import Attribute, DropReason, Series, broker_window_s

# Which columns of a table hold what of a recording.
#
# A row is a sample of a metric, with its name and labels, or what a bucket used at a time. Both may have cluster and
# broker. A field is a column or a constant; a label of a metric may have a column of its own.

TS: Final = "ts"
NAME_LABEL: Final = "__name__"
PLACES: Final = ("cluster", "broker")


class _Field(NamedTuple):
    description: str
    aliases: str  # The usual names of its column, folded, best first
    rows_of: str = ""  # Which rows alone have it
    is_number: bool = False  # Whether it is a number, which may have another unit than the table of usage
    may_be_constant: bool = False


_METRICS: Final = "metrics"
_BUCKETS: Final = "buckets"
_FIELDS: Final = {
    TS: _Field("The time.", "ts timestamp time datetime date"),
    "cluster": _Field("The name of the cluster.", "cluster clustername", may_be_constant=True),
    "broker": _Field("The broker.", "broker brokerid nodeid", may_be_constant=True),
    "metric": _Field("The name of the metric.", "metric metricname name measurement", _METRICS, may_be_constant=True),
    "value": _Field("The value of the metric.", "value val", _METRICS, is_number=True),
    "labels": _Field("All labels of the metric: a map, pairs, or JSON.", "labels tags attributes", _METRICS),
    "key": _Field(
        "The quota key, or the type of the quota: Produce, Fetch, Request, ControllerMutation.",
        "key quotakey quotatype quota",
        _BUCKETS,
        may_be_constant=True,
    ),
    "rate": _Field("The rate.", "rate", _BUCKETS, is_number=True),
    "throttle_ms": _Field(
        "The average delay of throttled requests.", "throttlems throttletimems throttletime", _BUCKETS, is_number=True
    ),
    "window_s": _Field("How many seconds up to the time the rate covers.", "windows", _BUCKETS, is_number=True),
    "user": _Field("The user.", "user principal username", _BUCKETS, may_be_constant=True),
    "client_id": _Field("The client-id.", "clientid client", _BUCKETS, may_be_constant=True),
    "ip": _Field("The address.", "ip address", _BUCKETS, may_be_constant=True),
    "instance": _Field(
        "Which of several clients with these names measured itself, in rows without a broker.",
        "instance clientinstanceid",
        _BUCKETS,
    ),
}
VALUE_FIELDS: Final = ("value", "rate", "throttle_ms")
"""The fields with numbers, which differ from row to row."""


class TableMapping(Struct, frozen=True, kw_only=True):
    """Which columns of a table hold what."""

    columns: Mapping[str, str]  # The column of each field, by field
    constants: Mapping[str, str] = {}  # What a field is in all rows, by field
    labels: Mapping[str, str] = {}  # The column of each label that has one, by label
    factors: Mapping[str, float] = {}
    """By what a number is multiplied to be in the unit of the table of usage, by field."""
    time_unit: TimeUnit | None = None  # What a number in the column of the time counts; `None` goes by its size
    has_sanitized_users: bool = field(default=False, name="sanitized_users")
    """Whether users in rows of buckets are percent-encoded, as metrics have them."""

    @property
    def is_of_metrics(self) -> bool:
        """Whether a row is a sample of a metric, which may be named by the label `__name__`."""
        return "metric" in self.columns or "metric" in self.constants or "value" in self.columns

    @property
    def names(self) -> frozenset[str]:
        """The columns that a table has to have."""
        return frozenset((*self.columns.values(), *self.labels.values()))


def mapping_problem(mapping: TableMapping) -> tuple[tuple[str, ...], str] | None:
    """Return what is wrong with a mapping, and the path of the part of the file with it; `None` if it is right."""
    columns, given = mapping.columns.keys(), mapping.columns.keys() | mapping.constants.keys()
    for name in sorted(columns & mapping.constants.keys()):
        return ("constants", name), f"{name} is a column and a constant; remove one of the two"
    kind = _METRICS if mapping.is_of_metrics else _BUCKETS
    for part, fields in (("columns", mapping.columns), ("constants", mapping.constants), ("factors", mapping.factors)):
        for name in fields:
            if _FIELDS[name].rows_of not in ("", kind):
                return (part, name), f"{name} is no field of rows of {kind}; remove it"
    for name, factor in mapping.factors.items():
        if not 1e-30 <= factor <= 1e30:
            return ("factors", name), "the factor must lie between 1e-30 and 1e+30"
    if mapping.is_of_metrics:
        is_whole = "value" in columns and (given & {"metric", "labels"} or NAME_LABEL in mapping.labels)
    elif mapping.labels:
        return ("labels",), "rows of buckets have no labels; name user, client_id and ip in columns"
    else:
        is_whole = "key" in given and columns & {"rate", "throttle_ms"}
    if TS not in columns or not is_whole:
        return ("columns",), (
            "rows of metrics need the columns ts and value, and metric, labels or the label __name__; "
            "rows of buckets need ts, key, and rate or throttle_ms"
        )
    return None


def guess_mapping(columns: Iterable[str]) -> TableMapping | str:
    """Return the mapping of a table whose columns have usual names, or what is missing for that."""
    by_fold: dict[str, str] = {}
    for column in columns:
        by_fold.setdefault(fold(column), column)
    found = {
        name: next(by_fold[alias] for alias in field.aliases.split() if alias in by_fold)
        for name, field in _FIELDS.items()
        if not by_fold.keys().isdisjoint(field.aliases.split())
    }
    of_metrics = found.keys() >= {TS, "value"} and bool(found.keys() & {"metric", "labels"})
    # The places of a metric are labels.
    wanted = {_METRICS} if of_metrics else {"", _BUCKETS}
    mapping = TableMapping(
        columns={name: column for name, column in found.items() if name == TS or _FIELDS[name].rows_of in wanted},
        labels={
            column: column
            for folded, column in by_fold.items()
            if of_metrics and (folded in _LABELS or may_name("user", column) or may_name("client_id", column))
        },
    )
    if mapping_problem(mapping) is None:
        for name in () if of_metrics else ("user", "client_id"):
            others = [each for each in by_fold.values() if each not in found.values() and may_name(name, each)]
            if name not in found and others:
                return (
                    f"it has no column {name}, but {others[0]}; say in a mapping file which columns it has, "
                    f"and whether that is {name}"
                )
        return mapping
    if by_fold.keys() & {"sdata0", "scolindexes", "cfmetachunk0", "cfmetaindex"}:
        # Parquet files of Cortex, Mimir and Thanos
        return (
            f"its samples are encoded in chunks; ask the store by its HTTP API, with {option_of('prometheus')} ADDRESS"
        )
    return (
        f"its columns are {listed(by_fold.values())}, not those of metrics (ts, metric, value, labels) or of buckets "
        "(ts, key, rate); say in a mapping file what they are, or in its first line if it is CSV"
    )


_LABELS: Final = frozenset((*chain(*LABELS.values()), *OTHER_LABELS))
"""The labels, folded, that are often columns."""


Cells: TypeAlias = Mapping[str, object]
"""The cells of a row, by column."""
Measures: TypeAlias = dict[str, Measure]
"""What the numbers of a row are, by field."""

_NAMELESS: Final = (
    "it has no name of a metric; if all rows of the file are of one, say in a mapping file what it is called: "
    "constants: {metric: NAME}"
)


def read_row(cells: Cells, mapping: TableMapping, origin: Origin) -> Iterator[Parsed]:
    """Yield what the numbers of a row say; `origin` is what counts for one that does not say where it is from."""
    measures = read_names(cells, mapping, origin)
    if not isinstance(measures, dict):
        yield measures
        return
    ts = read_time(cells.get(mapping.columns[TS]), mapping.time_unit)
    values = {name: cells.get(mapping.columns[name]) for name in measures}
    found = [name for name, value in values.items() if value is not None or mapping.is_of_metrics]
    yield from (make_sample(measures[name], ts, values[name]) for name in found)
    if not found:
        yield DropReason.MISSING


def read_labels(cell: object) -> dict[str, str] | None:
    """Return the labels in a cell: a map, JSON, or pairs; `None` if they can't be read."""
    if isinstance(cell, str):
        try:
            cell = loads(cell)
        except (ValueError, RecursionError):
            return None
    if isinstance(cell, list | tuple):
        # Of two fields, the one called value comes last, in whatever order they are.
        pairs = [
            tuple(each[name] for name in sorted(each, key=lambda name: name == "value"))
            if isinstance(each, dict)
            else each
            for each in cell
        ]
        if not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs):
            return None
    elif isinstance(cell, Mapping):
        pairs = list(cell.items())
    else:
        return {} if cell is None else None
    if any(isinstance(each, list | tuple | Mapping) for pair in pairs for each in pair):
        return None
    return {str(name): str(value) for name, value in pairs if value is not None}


def read_names(cells: Cells, mapping: TableMapping, origin: Origin) -> Measures | DropReason | str:
    """Return what the numbers of a row are, why it is left out, or what is wrong with it: by its other cells."""
    if not mapping.is_of_metrics:
        return _of_bucket(cells, mapping, origin)
    labels = read_labels(_cell(cells, mapping, "labels"))
    if labels is None:
        return "its labels are no map, no pairs and no JSON"
    labels |= {label: text for label, column in mapping.labels.items() if (text := _text(cells.get(column)))}
    labels |= {name: text for name in PLACES if (text := _text(_cell(cells, mapping, name)))}
    name = _text(_cell(cells, mapping, "metric")) or labels.get(NAME_LABEL, "")
    measure = read_metric(name, labels, origin) if name else _NAMELESS
    if isinstance(measure, Measure):
        return {"value": measure._replace(factor=measure.factor * mapping.factors.get("value", 1.0))}
    return measure


def _of_bucket(cells: Cells, mapping: TableMapping, origin: Origin) -> Measures | DropReason | str:
    kind, user, client_id, ip, cluster, broker, instance = (
        _text(_cell(cells, mapping, name)) or None for name in ("key", "user", "client_id", "ip", *PLACES, "instance")
    )
    key = key_of_type(kind or "")
    if key is None:
        return f"{quote(kind or '')} is no quota key and no type of quota"
    names = names_of(key, desanitize(user) if user and mapping.has_sanitized_users else user, client_id, ip)
    if isinstance(names, str):
        return names
    # Where a broker measured, what is called instance is that broker.
    instance = None if broker else instance
    places = cluster or origin.cluster, broker or origin.broker
    series = check_series(Series(*places, key, *names, instance))
    if not isinstance(series, Series):
        return series
    window = read_number(_cell(cells, mapping, "window_s"))
    window_s = broker_window_s(series.key) if window is None else window * mapping.factors.get("window_s", 1.0)
    if not 0 <= window_s < float("inf"):
        return f"{quote(str(window))} is no number of seconds"
    attributes = {"rate": Attribute.RATE, "throttle_ms": Attribute.THROTTLE_TIME}
    return {
        name: Measure(series._replace(attribute=attribute), mapping.factors.get(name, 1.0), window_s)
        for name, attribute in attributes.items()
        if name in mapping.columns
    }


def _cell(cells: Cells, mapping: TableMapping, name: str) -> object:
    return cells.get(mapping.columns[name]) if name in mapping.columns else mapping.constants.get(name)


def _text(cell: object) -> str | None:
    return None if cell is None else str(cell)


def usage_mapping() -> Node:
    """Return the schema and its definitions."""
    fields = {
        "columns": closed(
            "The column of each field. Rows of metrics have ts, metric, value and labels; rows of buckets have ts, "
            "key, rate or throttle_ms, and user, client_id or ip.",
            {name: text(field.description, minLength=1) for name, field in _FIELDS.items()},
            required=["ts"],
        ),
        "constants": closed(
            "Fields that are the same in all rows.",
            {
                name: text(f"In all rows: {field.description}", minLength=1)
                for name, field in _FIELDS.items()
                if field.may_be_constant
            },
        ),
        "labels": mapping(
            "Rows of metrics: the column of each label that has one.",
            {"type": "string", "minLength": 1},
            examples=[{"user": "u"}],
        ),
        "factors": closed(
            "By what numbers are multiplied to be in bytes per second, percent of one thread, events per second, "
            "milliseconds (throttle_ms) or seconds (window_s).",
            {
                name: {"description": f"By what {name} is multiplied.", "type": "number", "exclusiveMinimum": 0}
                for name, field in _FIELDS.items()
                if field.is_number
            },
        ),
        "time_unit": choice("What a number in the column of ts counts since 1970; by its size if omitted.", TimeUnit),
        "sanitized_users": {
            "description": "Rows of buckets: whether users are percent-encoded, as metrics of Kafka have them.",
            "type": "boolean",
        },
    }
    schema = closed("What the columns of a table with usage are.", fields, required=["columns"])
    return titled("columns of a table with usage", schema)
