"""Which columns of a table hold what of a recording.

A row is a sample of a metric, with its name and labels, or what a bucket used at a time:

| rows of | fields |
| --- | --- |
| metrics | ts, metric, value, labels (a column with all labels), or a column per label |
| buckets | ts, key, rate, throttle_ms, window_s, user, client_id, ip, instance |

Both may have cluster and broker. A field is a column or a constant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from quotaform.core.usage.metric.metric_label import may_name_client, may_name_user
from quotaform.core.usage.metric.origin import (
    BROKER_LABELS,
    CLIENT_ID_LABELS,
    CLUSTER_LABELS,
    INSTANCE_LABELS,
    IP_LABELS,
    TYPE_LABELS,
    USER_LABELS,
    fold,
)
from quotaform.core.usage.sample.value import read_number
from quotaform.model.text import listed

TS: Final = "ts"
NAME_LABEL: Final = "__name__"
PLACES: Final = ("cluster", "broker")
NAMES: Final = ("user", "client_id", "ip")
METRIC_FIELDS: Final = ("metric", "value", "labels")
BUCKET_FIELDS: Final = ("key", "rate", "throttle_ms", "window_s", *NAMES, "instance")
COLUMN_FIELDS: Final = (TS, *PLACES, *METRIC_FIELDS, *BUCKET_FIELDS)
"""The fields that may be columns."""
CONSTANT_FIELDS: Final = (*PLACES, "metric", "key", *NAMES)
"""The fields that may be the same for the whole table."""
FACTOR_FIELDS: Final = ("value", "rate", "throttle_ms", "window_s")
"""The fields that may have another unit than the table of usage."""

LARGEST_FACTOR: Final = 1e30
"""The limit on factors; one divided by it is the smallest."""


class TimeUnit(StrEnum):
    """What a number in the column of the time counts since 1970."""

    S = "s"
    MS = "ms"
    US = "us"
    NS = "ns"


UNITS_PER_SECOND: Final = {TimeUnit.S: 1.0, TimeUnit.MS: 1e3, TimeUnit.US: 1e6, TimeUnit.NS: 1e9}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMapping:
    """Which columns of a table hold what.

    Attributes:
        columns: The column of each field, by field.
        constants: What a field is in all rows, by field.
        labels: The column of each label that has one, by label.
        factors: By what a number is multiplied to be in the unit of the table of usage, by field.
        time_unit: What a number in the column of the time counts; `None` goes by its size.
        has_sanitized_users: Whether users in rows of buckets are percent-encoded, as metrics have them.
    """

    columns: Mapping[str, str]
    constants: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    factors: Mapping[str, float] = field(default_factory=dict)
    time_unit: TimeUnit | None = None
    has_sanitized_users: bool = False

    @property
    def is_of_metrics(self) -> bool:
        """Whether a row is a sample of a metric, which may be named by the label `__name__`."""
        return "metric" in self.columns or "metric" in self.constants or "value" in self.columns

    @property
    def names(self) -> frozenset[str]:
        """The columns that a table has to have."""
        return frozenset((*self.columns.values(), *self.labels.values()))

    def factor(self, name: str) -> float:
        """By what the numbers of a field are multiplied."""
        return self.factors.get(name, 1.0)


def mapping_problem(mapping: TableMapping) -> tuple[tuple[str, ...], str] | None:
    """Return what is wrong with a mapping, and the path of the part of the file with it; `None` if it is right.

    >>> mapping_problem(TableMapping(columns={"ts": "t", "key": "k"}))
    (('columns',), 'rows of buckets need a column rate or throttle_ms')
    """
    given = mapping.columns.keys() | mapping.constants.keys()
    for name in sorted(mapping.columns.keys() & mapping.constants.keys()):
        return ("constants", name), f"{name} is a column and a constant; remove one of the two"
    if TS not in mapping.columns:
        return ("columns",), "there is no column ts; name the column with the time"
    if mapping.is_of_metrics == ("key" in given):
        what = "both metric and key" if "key" in given else "neither metric nor key"
        return ("columns",), f"the mapping has {what}; name metric for rows of metrics, key for rows of buckets"
    if mapping.is_of_metrics and not given & {"metric", "labels"} and NAME_LABEL not in mapping.labels:
        return ("columns",), "rows of metrics need metric, or labels with __name__"
    kind, others = ("metrics", BUCKET_FIELDS) if mapping.is_of_metrics else ("buckets", METRIC_FIELDS)
    for part, fields in (("columns", mapping.columns), ("constants", mapping.constants), ("factors", mapping.factors)):
        for name in fields:
            if name in others:
                return (part, name), f"{name} is no field of rows of {kind}; remove it"
    for name, factor in mapping.factors.items():
        if not 1 / LARGEST_FACTOR <= factor <= LARGEST_FACTOR:
            return ("factors", name), f"the factor must lie between {1 / LARGEST_FACTOR:g} and {LARGEST_FACTOR:g}"
    if mapping.is_of_metrics and "value" not in mapping.columns:
        return ("columns",), "rows of metrics need a column value"
    if not mapping.is_of_metrics and mapping.labels:
        return ("labels",), "rows of buckets have no labels; name user, client_id and ip in columns"
    if not mapping.is_of_metrics and not mapping.columns.keys() & {"rate", "throttle_ms"}:
        return ("columns",), "rows of buckets need a column rate or throttle_ms"
    return None


def guess_mapping(columns: Iterable[str]) -> TableMapping | str:
    """Return the mapping of a table whose columns have usual names, or what is missing for that.

    >>> guess_mapping(["timestamp", "name", "labels", "value"]).columns
    {'ts': 'timestamp', 'metric': 'name', 'value': 'value', 'labels': 'labels'}
    """
    by_fold: dict[str, str] = {}
    for column in columns:
        by_fold.setdefault(fold(column), column)
    found = {
        name: by_fold[alias] for name, aliases in _ALIASES.items() for alias in reversed(aliases) if alias in by_fold
    }
    of_metrics = found.keys() >= {TS, "value"} and bool(found.keys() & {"metric", "labels"})
    wanted = (TS, *METRIC_FIELDS) if of_metrics else (TS, *PLACES, *BUCKET_FIELDS)
    mapping = TableMapping(
        columns={name: column for name, column in found.items() if name in wanted},
        labels={column: column for column in by_fold.values() if of_metrics and _is_label(column)},
    )
    if mapping_problem(mapping) is None:
        other = None if of_metrics else _other_column(found, by_fold.values())
        return mapping if other is None else other
    if {*_CHUNK_COLUMNS} & by_fold.keys():
        return (
            "its samples are encoded in chunks, as stores of Prometheus keep them; ask the store by its HTTP API, "
            "with --prometheus ADDRESS"
        )
    if any(read_number(column) is not None for column in by_fold.values()):
        return (
            f"its first line is {listed(by_fold.values())}, which are values and not names of columns; "
            "put a line with the names before it"
        )
    return (
        f"its columns are {listed(by_fold.values())}, not those of metrics (ts, metric, value, labels) "
        "or of buckets (ts, key, rate); say in a mapping file what they are"
    )


def _is_label(column: str) -> bool:
    return fold(column) in _LABELS or may_name_user(column) or may_name_client(column)


def _other_column(found: Mapping[str, str], columns: Iterable[str]) -> str | None:
    """Return that a column of rows of buckets may have the names that no column is known to have."""
    for field_name, may_name in (("user", may_name_user), ("client_id", may_name_client)):
        for column in columns if field_name not in found else ():
            if column not in found.values() and may_name(column):
                return (
                    f"it has no column {field_name}, but {column}; say in a mapping file which columns it has, "
                    f"and whether that is {field_name}"
                )
    return None


_CHUNK_COLUMNS: Final = ("sdata0", "scolindexes", "cfmetachunk0", "cfmetaindex")
"""Columns of Parquet files of Cortex, Mimir and Thanos, folded."""

_ALIASES: Final = {
    TS: ("ts", "timestamp", "time", "datetime", "date"),
    "metric": ("metric", "metricname", "name", "measurement"),
    "value": ("value", "val"),
    "labels": ("labels", "tags", "attributes"),
    "key": ("key", "quotakey", "quotatype", "quota"),
    "rate": ("rate",),
    "throttle_ms": ("throttlems", "throttletimems", "throttletime"),
    "window_s": ("windows",),
    "cluster": ("cluster", "clustername"),
    "broker": ("broker", "brokerid", "nodeid"),
    "user": ("user", "principal", "username"),
    "client_id": ("clientid", "client"),
    "ip": ("ip", "address"),
    "instance": ("instance", "clientinstanceid"),
}
"""The usual names of columns, folded, best first."""

_LABELS: Final = frozenset(
    map(
        fold,
        (
            *CLUSTER_LABELS,
            *BROKER_LABELS,
            *TYPE_LABELS,
            *USER_LABELS,
            *CLIENT_ID_LABELS,
            *IP_LABELS,
            *INSTANCE_LABELS,
            *("attribute_name", "attribute", "quantile", "le", "topic", "partition"),
            *("attr", "mbean", "object_name", "bean", "_objectname"),
        ),
    )
)
"""The labels, folded, that are often columns."""
