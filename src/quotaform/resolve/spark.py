"""What limits principals, for any number of them: each task looks its own up in an index of the quotas.

The index is that of one process (`quotaform.resolve.index`), and the principals stay where they are.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from pickle import dumps, loads
from sys import intern
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from zlib import compress, decompress

from pyspark.sql import functions as f

from quotaform.model.entity import Entity
from quotaform.model.precedence import LEVELS, PRECEDENCES, level_of
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import Quotas
from quotaform.resolve.index import QuotaIndex
from quotaform.resolve.request import PRECEDENCE_OF, UNMENTIONED, QuotaEntry, Request
from quotaform.resolve.spark_quotas import CLUSTER, DOUBLE, INTEGER, PRINCIPALS, RANKS, TEXT, arrow_schema, struct
from quotaform.system.process import rare_collections

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame


RESOLVED: Final = struct(
    struct(cluster=TEXT), PRINCIPALS, key=TEXT, value=DOUBLE, source=TEXT, level=INTEGER, entity_key=TEXT, bucket=TEXT
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

BEFORE: Final = struct(before_value=DOUBLE, before_source=TEXT, before_level=INTEGER, before_entity_key=TEXT)
"""What limits a principal as long as a plan is not applied; further columns of `RESOLVED`."""

HeldQuotas: TypeAlias = Mapping[str | None, Quotas]
"""What clusters hold, by their names."""


def held_quotas(quotas: DataFrame) -> dict[str | None, dict[Entity, dict[str, float]]]:
    """Bring `QUOTAS` to the driver: what the clusters hold that could be read."""
    if "failure" in quotas.columns:
        quotas = quotas.where(f.col("failure").isNull())
    rows = quotas.select(CLUSTER, "entity_key", "entity", "key", "value").toArrow().combine_chunks()
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
_MOST_KEPT: Final = 200_000
"""How many combinations of entries are kept with the rows that they make."""
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
    for the key.

    | principals have a cluster | a principal is resolved |
    | --- | --- |
    | yes | on its cluster; it is left out if that was not read |
    | no | on each cluster |

    `principals`: `PRINCIPALS`; columns may be missing, and others are ignored, but for `cluster`. `keys`: The
    quota keys that are wanted; empty for all. `before`: the quotas as they are as long as a plan is not applied;
    the result then has the columns `BEFORE` as well. `inherited`: whether to keep values of other entities than the
    principal itself.
    Raises `ValueError`.
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


_KEYS: Final = {size: frozenset(each.keys) for size, each in PRECEDENCE_OF.items()}
"""The known quota keys that can limit a request, by how many names that has."""
_Met = tuple[QuotaEntry, ...]
_Rows: TypeAlias = "tuple[array[int], ...]"


class _Side:
    """What a cluster holds, before a plan or after it, and a table of all limits that principals can have there."""

    def __init__(self, quotas: Quotas, keys: Iterable[str]) -> None:
        import pyarrow

        self._index = QuotaIndex(quotas)
        self.rows: dict[QuotaEntry, dict[str, int]] = {}
        """In which row of the table an entry has its value of a key."""
        self._whole: set[QuotaEntry] = set()
        """Entries below which none can count: they hold every key that requests of their kind can find."""
        cells: list[tuple[str, float | None, int | None, str | None]] = [(key, None, None, None) for key in keys]
        self.nothing = {key: place for place, (key, *_) in enumerate(cells)}
        """In which row of the table nothing limits a key."""
        for precedence in PRECEDENCES:
            entries = [(level, self._index.entries_of(level).values()) for level in precedence.levels]
            held = {key for _, of_level in entries for entry in of_level for key in entry.values}
            for level, of_level in entries:
                for entry in of_level:
                    self.rows[entry] = {key: len(cells) + place for place, key in enumerate(entry.values)}
                    address = entry.entity.address
                    cells += [(key, value, RANKS[level.source], address) for key, value in entry.values.items()]
                self._whole.update(entry for entry in of_level if entry.values.keys() >= held)
        names, values, self.ranks, addresses = (list(column) for column in zip(*cells, strict=True))
        ranks = pyarrow.array(self.ranks, "int8")
        self._table = {
            "key": pyarrow.array(names, "string"),
            "value": pyarrow.array(values, "float64"),
            "source": pyarrow.array([level.source for level in LEVELS], "string").take(ranks),
            "level": pyarrow.array([level.number for level in LEVELS], "int32").take(ranks),
            "entity_key": pyarrow.array(addresses, "string"),
            "bucket": pyarrow.array([",".join(level.bucket) for level in LEVELS], "string").take(ranks),
        }

    def met(self, request: Request) -> _Met:
        """Return the entries that a request meets, by precedence, as far as they can count."""
        met = self._index.entries(request)
        for place, entry in enumerate(met, 1):
            if entry in self._whole:
                return met[:place]
        return met

    def columns(self, places: Sequence[int]) -> dict[str, pyarrow.Array]:
        """Return rows of the table."""
        import numpy

        chosen = numpy.asarray(places)
        return {name: column.take(chosen) for name, column in self._table.items()}


class _Limits:
    """What limits principals on a cluster, by what it holds, and by what it held before."""

    def __init__(self, quotas: Sequence[Quotas], keys: Sequence[str], inherited: bool) -> None:
        self._keys, self._inherited = keys, inherited
        held = {key for side in quotas for values in side.values() for key in values}
        self._sides = [_Side(side, {*QUOTA_KEYS, *held, *keys}) for side in quotas]
        self._kept: dict[Hashable, _Rows] = {}

    def resolve(self, cluster: str | None, batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        """Return `RESOLVED` of principals, with `BEFORE` if there are two sides."""
        import numpy
        import pyarrow

        counts, places = array("q"), [array("q") for _ in self._sides]
        for user, client_id, ip in zip(*(batch.column(name).to_pylist() for name in PRINCIPALS.names), strict=True):
            own = self._rows(request_of_row(user, client_id, ip))
            counts.append(len(own[0]))
            for all_places, rows in zip(places, own, strict=True):
                all_places.extend(rows)
        number = len(places[0])
        repeated = numpy.repeat(numpy.arange(len(counts)), counts)
        found = {CLUSTER: pyarrow.array([cluster], "string").take(numpy.zeros(number, "int64"))}
        found |= {name: batch.column(name).take(repeated) for name in PRINCIPALS.names}
        schema = RESOLVED
        for prefix, side, chosen in zip(("", "before_"), self._sides, places, strict=False):
            found |= {f"{prefix}{name}": column for name, column in side.columns(chosen).items()}
        if len(self._sides) > 1:
            schema = struct(RESOLVED, BEFORE)
        return pyarrow.record_batch([found[name] for name in schema.names], schema=arrow_schema(schema))

    def _rows(self, request: Request) -> _Rows:
        """Return the rows of a request in the table of each side, key by key."""
        met = tuple([side.met(request) for side in self._sides])
        kind = met, len(request) if self._inherited else tuple([name is UNMENTIONED for name in request])
        rows = self._kept.get(kind)
        if rows is None:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            rows = self._kept[kind] = self._found(request, met)
        return rows

    def _found(self, request: Request, met: Sequence[_Met]) -> _Rows:
        won: list[dict[str, int]] = []
        for side, entries in zip(self._sides, met, strict=True):
            # Of a key that several hold the first one wins.
            won.append({key: row for entry in reversed(entries) for key, row in side.rows[entry].items()})
        keys = _KEYS[len(request)].union(*won)
        if self._keys:
            keys = frozenset(key for key in self._keys if key in keys or key not in QUOTA_KEYS)
        rows = [
            tuple(found.get(key, side.nothing[key]) for side, found in zip(self._sides, won, strict=True))
            for key in keys
        ]
        if not self._inherited:
            columns = zip(PRECEDENCE_OF[len(request)].columns, request, strict=True)
            own = level_of(Entity({kind: name for kind, name in columns if isinstance(name, str)}))
            rank = None if own is None else RANKS[own.source]
            rows = [row for row in rows if rank in (s.ranks[place] for s, place in zip(self._sides, row, strict=True))]
        return tuple(array("q", places) for places in zip(*rows, strict=True)) or (array("q"),) * len(self._sides)
