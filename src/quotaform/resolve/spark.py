"""The tables of quotas and of principals, and what limits principals: each task looks its own up in an index of quotas.

The index is that of one process (`quotaform.resolve.index`), and the principals stay where they are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from functools import lru_cache, partial
from itertools import chain, pairwise
from math import nan
from pickle import dumps, loads
from sys import intern
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, get_args, get_type_hints
from zlib import compress, decompress

import numpy
import pyarrow
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import MapType, StringType, StructField, StructType

from quotaform.model.entity import KNOWN_TYPES, Entity
from quotaform.model.precedence import CLIENT_PRECEDENCE, IP_PRECEDENCE, LEVELS, level_of
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import Quotas
from quotaform.model.records.record import Double, Record
from quotaform.resolve.index import UNMENTIONED, Kind, QuotaIndex, Request, kind_of, winner
from quotaform.system.process import rare_collections

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


# Tables of the Spark engine are in long format: one row per cluster, entity and quota key. An entity is identified by
# its `entity_key`, which is `Entity.address`: canonical, unique and never null. Its names are in `entity`, where null
# is the default; they are never join columns, because NULL = NULL is not true in SQL.

ENTITY: Final = StructField("entity", MapType(StringType(), StringType()))
"""The names of an entity by entity type."""


def struct(*columns: str | StructField | StructType) -> StructType:
    """Return the columns of a table: names with Spark's name of their type behind them, fields, or those of a table.

    >>> struct("first last timestamp", "key string").simpleString()
    'struct<first:timestamp,last:timestamp,key:string>'
    """
    found = StructType()
    for each in columns:
        if isinstance(each, str):
            *names, kind = each.split()
            for name in names:
                found.add(name, kind)
        else:
            for field in [each] if isinstance(each, StructField) else each:
                found.add(field)
    return found


_NUMBERS: Final = {bool: "boolean", int: "long", float: "double", Double: "double"}
_KINDS: Final = {**_NUMBERS, str: "string", datetime: "timestamp", date: "date"}


def columns_of(record: type, *without: str) -> StructType:
    """Return the columns of a table whose rows are records: their fields, with `ENTITY` for the one of an entity.

    A record in a record is a struct.

    >>> from quotaform.history.history import Coverage
    >>> columns_of(Coverage, "is_compared").simpleString()
    'struct<cluster:string,first_at:timestamp,before_at:timestamp,after_at:timestamp>'

    `without`: the fields that are no columns, by name.
    """
    found = StructType()
    for name, kind in get_type_hints(record).items():
        [kind] = {*(get_args(kind) or [kind])} - {NoneType}
        if kind is Entity:
            found.add(ENTITY)
        elif name in without:
            continue
        elif issubclass(kind, Record):
            found.add(name, columns_of(kind))
        else:
            found.add(name, next(column for base, column in _KINDS.items() if issubclass(kind, base)))
    return found


def arrow_schema(schema: StructType) -> pyarrow.Schema:
    """Return the schema as Arrow has it, with times in UTC."""
    return to_arrow_schema(schema, timezone="UTC")


def completed(rows: DataFrame, schema: StructType) -> DataFrame:
    """Return the columns of a schema; those that rows lack are null, and others are left out."""
    present = set(rows.columns)
    return rows.select(
        *(
            f.col(field.name) if field.name in present else f.lit(None).cast(field.dataType).alias(field.name)
            for field in schema
        )
    )


FAILURE: Final = struct("kind message remedy cluster server string", "code integer")
"""The failure to read a cluster: the class of `quotaform.model.errors`, its message (of invalid files, a line for each
problem), and the attributes of a `ClusterError`."""

QUOTAS: Final = struct(
    "cluster cluster_id entity_key string",
    ENTITY,
    "key string",
    "value double",
    StructField("failure", FAILURE),
    "read_at timestamp",
    "brokers integer",
)
"""What clusters hold, as the data source `kafka_quotas` reads it.

| cluster | rows |
| --- | --- |
| with quotas | one per entity and key |
| without any | one without an entity |
| that could not be read | one without an id and an entity, with `failure` |

`read_at` is when the cluster was read, in the time of its snapshot if it is one; null if it could not be read.
`brokers` is how many brokers the cluster has; null of a snapshot and where it is not known.
"""

CLUSTER: Final = "cluster"
"""The column by which rows are of a cluster: all tables about clusters have it, and one of principals may."""

PRINCIPALS: Final = struct("user client_id ip string")
"""Who makes requests: a row is a client (user, client-id or both) or an address (ip alone).

Null is a name that no quota mentions, and "" an empty client-id. A table may also have the column `cluster`.
"""

RESOLVED: Final = struct(
    "cluster string",
    PRINCIPALS,
    "key string",
    "value double",
    "source string",
    "level integer",
    "entity_key bucket string",
)
"""What limits principals, a row per principal and key, as `quotaform.resolve.spark` makes it.

| column | content |
| --- | --- |
| cluster | that of the principal or of the quotas; null when neither has one |
| value | the limit; null, as all that follow, when nothing limits the principal |
| source, level | the name that KIP-248 gave to the level of precedence that won, and its number |
| entity_key | the entity match whose value it is |
| bucket | the entity types whose names distinguish one rate from another, such as `user,client-id` |
"""

BEFORE: Final = struct(
    "before_value double", "before_source string", "before_level integer", "before_entity_key string"
)
"""What limits a principal as long as a plan is not applied; further columns of `RESOLVED`."""

HeldQuotas: TypeAlias = Mapping[str | None, Quotas]
"""What clusters hold, by their names."""


def held_quotas(quotas: DataFrame) -> dict[str | None, dict[Entity, dict[str, float]]]:
    """Bring `QUOTAS` to the driver: what the clusters hold that could be read."""
    if "failure" in quotas.columns:
        quotas = quotas.where(f.col("failure").isNull())
    return held_in(quotas.select(CLUSTER, "entity_key", "entity", "key", "value").toArrow())


def held_in(rows: pyarrow.Table) -> dict[str | None, dict[Entity, dict[str, float]]]:
    """Return what the clusters hold by rows of `QUOTAS` on the driver, of clusters that could be read."""
    rows = rows.combine_chunks()
    maps = rows.column("entity").combine_chunks()
    parts = list(zip(maps.keys.to_pylist(), maps.items.to_pylist(), strict=True))
    found: dict[str | None, dict[Entity, dict[str, float]]] = {}
    known: dict[str | None, Entity] = {}
    columns = (rows.column(name).to_pylist() for name in (CLUSTER, "entity_key", "key", "value"))
    for cluster, address, key, value, (begin, end) in zip(*columns, pairwise(maps.offsets.to_pylist()), strict=True):
        held = found.setdefault(cluster, {})
        if value is None:
            continue
        entity = known.get(address)
        if entity is None:
            entity = known[address] = Entity.of(parts[begin:end])
        held.setdefault(entity, {})[intern(key)] = value
    return found


_AT_ONCE: Final = 10_000
"""How many principals are resolved at a time; each has several rows."""
MOST_CLUSTERS: Final = 256
"""How many clusters a task has indexed at a time."""


def resolved(
    principals: DataFrame,
    quotas: HeldQuotas,
    *,
    keys: Sequence[str] = (),
    before: HeldQuotas | None = None,
    inherited: bool = True,
) -> DataFrame:
    """Return `RESOLVED`: what `quotaform.resolve.resolve` finds, for any number of principals.

    There are as many rows as principals times quota keys that are valid for them, equal principals included. Of other
    keys (those that this version does not know) there is a row where an entry limits the principal, or if one asks
    for the key. Principals that have a cluster are resolved on that, and left out if it was not read; others on each.

    `principals`: `PRINCIPALS`; columns may be missing, and others are ignored, but for `cluster`. `keys`: The
    quota keys that are wanted; empty for all. `before`: the quotas as they are as long as a plan is not applied;
    the result then has the columns `BEFORE` as well. `inherited`: whether to keep values of other entities than the
    principal itself. Raises `ValueError` if principals have none of their columns.
    """
    sides: list[HeldQuotas] = [quotas or {None: {}}, *([] if before is None else [before])]
    shipped = {name: packed(tuple(side.get(name, {}) for side in sides)) for name in sides[0]}
    schema = struct(RESOLVED, *(() if before is None else (BEFORE,)))
    work = partial(_resolve, shipped, tuple(keys), inherited)
    return principal_columns(principals).mapInArrow(work, schema)


def packed(value: object) -> bytes:
    """Return what `unpacked` reads in a task."""
    return compress(dumps(value), 1)


def unpacked(content: bytes) -> Any:
    """Return what was `packed` by this application."""
    return loads(decompress(content))  # noqa: S301


def principal_columns(principals: DataFrame) -> DataFrame:
    """Return `PRINCIPALS`, and the cluster if principals are of one. Raises `ValueError` if no column is there."""
    present = [column for column in PRINCIPALS.names if column in principals.columns]
    if not present:
        raise ValueError(f"principals have one or more of the columns {', '.join(PRINCIPALS.names)}")
    clusters = [CLUSTER] if CLUSTER in principals.columns else []
    return principals.select(
        *clusters,
        *((f.col(name) if name in present else f.lit(None)).cast("string").alias(name) for name in PRINCIPALS.names),
    )


def by_cluster(
    clusters: Iterable[str | None], batches: Iterable[pyarrow.RecordBatch]
) -> Iterator[tuple[str | None, pyarrow.RecordBatch]]:
    """Yield `principal_columns` with the cluster on which they are resolved, some at a time."""
    for batch in batches:
        for begin in range(0, batch.num_rows, _AT_ONCE):
            part = batch.slice(begin, _AT_ONCE)
            if CLUSTER not in part.schema.names:
                yield from ((cluster, part) for cluster in clusters)
                continue
            places: dict[str | None, list[int]] = defaultdict(list)
            for place, cluster in enumerate(part.column(CLUSTER).to_pylist()):
                places[cluster].append(place)
            yield from ((cluster, part.take(places[cluster])) for cluster in clusters if cluster in places)


def request_of_row(user: str | None, client_id: str | None, ip: str | None) -> Request:
    """Return the request of a row of `PRINCIPALS`; one without any name is of a client that no quota mentions."""
    if ip is not None:
        return (ip,)
    return UNMENTIONED if user is None else user, UNMENTIONED if client_id is None else client_id


def entity_of_row(*names: str | None) -> Entity:
    """Return who a row of `PRINCIPALS` is, as a concrete entity."""
    return Entity.of([(kind, name) for kind, name in zip(KNOWN_TYPES, names, strict=True) if name is not None])


def _resolve(
    shipped: Mapping[str | None, bytes], keys: tuple[str, ...], inherited: bool, batches: Iterator[pyarrow.RecordBatch]
) -> Iterator[pyarrow.RecordBatch]:
    """Resolve the principals of a partition; runs on an executor."""
    with rare_collections():
        for cluster, batch in by_cluster(shipped, batches):
            yield _limits(shipped[cluster], keys, inherited).resolve(cluster, batch)


@lru_cache(maxsize=MOST_CLUSTERS)
def _limits(content: bytes, keys: tuple[str, ...], inherited: bool) -> _Limits:
    """Return what limits principals on a cluster, which is prepared once for all tasks of a worker."""
    return _Limits(unpacked(content), keys, inherited)


_Numbers: TypeAlias = numpy.ndarray[Any, Any]
"""Numbers of entries."""


class _Limits:
    """What limits principals on a cluster, by what it holds, and by what it held before; entries have numbers."""

    def __init__(self, quotas: Sequence[Quotas], keys: Sequence[str], inherited: bool) -> None:
        held = {key for side in quotas for values in side.values() for key in values}
        self._keys = list(dict.fromkeys(keys)) or [*QUOTA_KEYS, *sorted(held - QUOTA_KEYS.keys())]
        self._inherited = inherited
        # Of which keys there is a row even if nothing limits them: for clients, and for addresses.
        asked = set(keys) - QUOTA_KEYS.keys()
        precedences = (CLIENT_PRECEDENCE, IP_PRECEDENCE)
        self._always = numpy.array([[key in asked or key in each.keys for key in self._keys] for each in precedences])
        self._indexes = list(map(QuotaIndex, quotas))
        by_level = [[entry for each in self._indexes for entry in each.entries_of(level).values()] for level in LEVELS]
        entries = list(chain.from_iterable(by_level))
        # The number of nothing is the last.
        self._numbers = {entry: number for number, entry in enumerate([*entries, None])}
        self._nothing = len(entries)
        self._levels = numpy.repeat(numpy.arange(len(LEVELS) + 1), [*map(len, by_level), 1])
        self._addresses = pyarrow.array([*(entry.entity.address for entry in entries), None], "string")
        values = [entry.values.get(key, nan) for entry in entries for key in self._keys]
        self._values = numpy.array([*values, *(nan for _ in self._keys)]).reshape(-1, len(self._keys))
        # The numbers of the entries that win in each step of an index, a row per group with a column for each key.
        self._groups: dict[tuple[QuotaIndex, Kind], list[_Numbers]] = {}

    def _winners(self, index: QuotaIndex, requests: Sequence[Request]) -> _Numbers:
        """Return the numbers of the entries that win, a row per request with a column for each key."""
        found = numpy.empty((len(requests), len(self._keys)), "int32")
        kinds = list(map(kind_of, requests))
        for kind in set(kinds):
            rows = [row for row, each in enumerate(kinds) if each == kind]
            of_kind = [requests[row] for row in rows]
            steps, numbers = index.steps(kind), self._numbers
            if (index, kind) not in self._groups:
                self._groups[index, kind] = [
                    numpy.array([[numbers[winner(met, key)] for key in self._keys] for met in step.groups], "int32")
                    for step in steps
                ]
            won, *weaker = (
                winners[[places.get(name, 0) for name in map(pick, of_kind)]]
                for (pick, places, _), winners in zip(steps, self._groups[index, kind], strict=True)
            )
            for each in weaker:
                won = numpy.where(won == self._nothing, each, won)
            found[rows] = won
        return found

    def resolve(self, cluster: str | None, batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        """Return `RESOLVED` of principals, with `BEFORE` if there are two sides."""
        names = [batch.column(name).to_pylist() for name in PRINCIPALS.names]
        requests = list(map(request_of_row, *names))
        sides = [self._winners(index, requests) for index in self._indexes]
        is_row = self._always[[int(len(request) == 1) for request in requests]]
        is_row |= numpy.any([won != self._nothing for won in sides], axis=0)
        if not self._inherited:
            levels = [level_of(entity_of_row(*each)) for each in zip(*names, strict=True)]
            own = numpy.array([[LEVELS.index(level) if level else len(LEVELS)] for level in levels])
            is_row &= numpy.any([self._levels[won] == own for won in sides], axis=0)
        rows, keys = is_row.nonzero()
        found = {CLUSTER: pyarrow.repeat(pyarrow.scalar(cluster, "string"), len(rows))}
        found |= {name: batch.column(name).take(rows) for name in PRINCIPALS.names}
        found["key"] = pyarrow.array(self._keys).take(keys)
        for prefix, winners in zip(("", "before_"), sides, strict=False):
            won = winners[rows, keys]
            of_level = self._levels[won]
            found[f"{prefix}value"] = pyarrow.array(self._values[won, keys], mask=won == self._nothing)
            found[f"{prefix}source"] = pyarrow.array([*(level.source for level in LEVELS), None]).take(of_level)
            found[f"{prefix}level"] = pyarrow.array([*(level.number for level in LEVELS), None], "int32").take(of_level)
            found[f"{prefix}entity_key"] = self._addresses.take(won)
            found[f"{prefix}bucket"] = pyarrow.array([*(",".join(level.bucket) for level in LEVELS), None]).take(
                of_level
            )
        schema = RESOLVED if len(sides) == 1 else struct(RESOLVED, BEFORE)
        return pyarrow.record_batch([found[name] for name in schema.names], schema=arrow_schema(schema))
