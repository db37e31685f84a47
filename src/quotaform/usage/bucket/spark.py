"""The samples of recorded series, packed and brought together by bucket, on DataFrames.

A recording has far fewer series than samples. So a task packs the samples of each series that it reads, finds the
bucket of the series under the quotas, and what is shuffled, once, are some wide rows of arrays. Spark sorts nothing:
buckets and times are ordered in `bucket_rows`, as recordings nearly are.

A Python worker holds the samples of its task, and at least those of a bucket on a broker: 60 bytes each, twice while
they are ordered, and some 300 bytes of a bucket while it is replayed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache, partial
from itertools import chain
from math import ceil
from sys import float_info
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy
import pyarrow
from pyspark.sql import functions as f

from quotaform.fleet.job import kept_rows
from quotaform.model.entity import Entity
from quotaform.report.report import MOST_POINTS, Curve, curve_of
from quotaform.resolve.spark import MOST_CLUSTERS, HeldQuotas, arrow_schema, columns_of, packed, struct, unpacked
from quotaform.usage.bucket.bucket import (
    CLUSTER_KEYS,
    MEMBER_BITS,
    RECORDED_LIMIT,
    RecordedBucket,
    SeriesBucket,
    SeriesBuckets,
    bucket_rows,
    finite_limit,
)
from quotaform.usage.sample import Series
from quotaform.usage.table.schema import SERIES
from quotaform.usage.table.table import EVERY_CLUSTER, Clusters, PlainFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


PLACE: Final = ("cluster", "bucket_broker", "key", "bucket")
"""The columns by which samples are of one bucket on a broker."""
_SAMPLES: Final = ("at", "rate", "window_s", "throttle_ms")
PACKED: Final = struct(
    " ".join((*SERIES, "string")),
    "bucket_broker string",
    columns_of(SeriesBucket),
    "first last samples long",
    " ".join((*_SAMPLES, "binary")),
)
"""The samples of series, as many rows of each as there were tasks that read some of it.

`bucket_broker` is null where one limit holds for the whole cluster: brokers are not added up then, what several report
is one series. Then come those of `SeriesBucket`; `first` and `last` are in microseconds since 1970, and
samples are arrays of 8 bytes for each; NaN where there is none.
"""

_ROWS_IN_TASK: Final = 1_000_000
"""A task has so many rows in some 200 MB."""
_ROWS_IN_BATCH: Final = 10_000
"""A batch of one row takes Spark a millisecond."""


Find: TypeAlias = Callable[[Series], Iterable[SeriesBucket]]
"""What finds the buckets that a series is counted in; it runs in tasks."""


def quota_buckets(quotas: HeldQuotas, before: HeldQuotas | None = None) -> Find:
    """Return what finds the bucket of a series under the quotas of its cluster; without quotas it has no limit.

    `before`: the quotas that were in effect while the usage was recorded, if they were others. Limits are those of a
    replay then: one that no rate can exceed is none.
    """
    sides = [quotas] if before is None else [quotas, before]
    shipped = {name: packed([side.get(name, {}) for side in sides]) for name in {**quotas, **(before or {})}}
    return partial(_found, shipped, packed([{}] * len(sides)), before is not None)


def _found(
    shipped: Mapping[str | None, bytes], nothing: bytes, is_replayed: bool, series: Series
) -> list[SeriesBucket]:
    found = _buckets(shipped.get(series.cluster, nothing)).of(series)
    if is_replayed:
        limit, least_limit, before_limit = (
            finite_limit(series.key, each) for each in (found.limit, found.least_limit, found.before_limit)
        )
        found = found._replace(limit=limit, least_limit=least_limit, before_limit=before_limit)
    return [found]


@lru_cache(maxsize=MOST_CLUSTERS)
def _buckets(content: bytes) -> SeriesBuckets:
    """Return the buckets of a cluster, which are prepared once for all tasks of a worker."""
    return SeriesBuckets(*unpacked(content))


def packed_usage(
    usage: DataFrame, find: Find, clusters: Clusters = EVERY_CLUSTER, files: PlainFiles | None = None
) -> DataFrame:
    """Return `PACKED`. It is read several times: persist it.

    `files`: those of the usage, if tasks can read them.
    """
    if files is not None:
        rows = usage.sparkSession.range(0, len(files.tasks), 1, max(1, len(files.tasks)))
    else:
        times = f.unix_micros("ts").alias("at")
        rows = usage.where(f.col("ts").isNotNull()).select(*SERIES, times, *_SAMPLES[1:])
    return rows.mapInArrow(partial(_packed, find, clusters, files), PACKED)


def _packed(
    find: Find, clusters: Clusters, files: PlainFiles | None, batches: Iterable[pyarrow.RecordBatch]
) -> Iterator[pyarrow.RecordBatch]:
    """Pack the rows of a task, some at a time; `batches` are the numbers of tasks where these are of files."""
    if files is not None:
        numbers = chain.from_iterable(batch.column(0).to_pylist() for batch in batches)
        batches = chain.from_iterable(map(files.read, numbers))
    known: dict[Series, list[tuple[Any, ...]]] = {}
    part, size = [], 0
    for batch in batches:
        part.append(batch)
        size += batch.num_rows
        if size >= _ROWS_IN_TASK:
            yield from _pack(find, clusters, known, part)
            part, size = [], 0
    if size:
        yield from _pack(find, clusters, known, part)


def _pack(
    find: Find, clusters: Clusters, known: dict[Series, list[tuple[Any, ...]]], batches: Sequence[pyarrow.RecordBatch]
) -> Iterator[pyarrow.RecordBatch]:
    """Yield the rows of each series in one.

    `known`: what the columns of series say that were found before.
    """
    table = pyarrow.Table.from_batches(batches).unify_dictionaries()
    for name in _SAMPLES[1:]:
        values = table.column(name).to_numpy()
        is_measured = (values >= 0 if name == "rate" else values > 0) & (values <= float_info.max)
        column = pyarrow.array(numpy.where(is_measured, values, numpy.nan))
        table = table.set_column(table.schema.get_field_index(name), name, column)
    groups = table.group_by(list(SERIES), use_threads=False).aggregate([(name, "list") for name in _SAMPLES])
    places, rows = [], []
    for place, names in enumerate(zip(*(groups[name].to_pylist() for name in SERIES), strict=True)):
        series = Series(*names)
        if series not in known:
            own = series._replace(cluster=clusters.name_of(series.cluster))
            is_counted = clusters.names is None or own.cluster in clusters.names
            broker = None if own.key in CLUSTER_KEYS else own.broker
            known[series] = [(*own[: len(SERIES)], broker, *found) for found in find(own)] if is_counted else []
        rows += known[series]
        places += [place] * len(known[series])
    if not rows:
        return
    schema = arrow_schema(PACKED)
    lists = [groups[f"{name}_list"].combine_chunks() for name in _SAMPLES]
    offsets, at = lists[0].offsets.to_numpy(), lists[0].values.to_numpy()
    spans = [each.reduceat(at, offsets[:-1]) for each in (numpy.minimum, numpy.maximum)]
    columns = [pyarrow.array(column) for column in (*spans, numpy.diff(offsets).astype("int64"))]
    begins = pyarrow.py_buffer((offsets * 8).astype("int32"))
    for each in lists:
        content = pyarrow.py_buffer(each.values.to_numpy())
        columns.append(pyarrow.Array.from_buffers(pyarrow.binary(), len(each), [None, begins, content]))
    texts = [pyarrow.array(column, kind.type) for column, kind in zip(zip(*rows, strict=True), schema, strict=False)]
    if places != list(range(len(groups))):
        columns = [column.take(pyarrow.array(places)) for column in columns]
    yield pyarrow.record_batch([*texts, *columns], schema=schema)


def per_bucket(
    recording: DataFrame,
    compute: Callable[[RecordedBucket], Mapping[str, Any] | None],
    schema: StructType,
    size: int | None = None,
) -> DataFrame:
    """Return what is computed of each bucket of which usage is recorded. Its samples are shuffled once.

    `recording`: `PACKED`; persisted, unless the number of its samples is given as `size`: it is counted before it is
    read. `compute`: returns the columns of `schema`: a value each, or arrays or lists of one length; or `None` for no
    rows. A NaN in an array of numbers becomes null.
    """
    if size is None:
        [size] = recording.agg(f.sum("samples")).toArrow().column(0).to_pylist()
    tasks = max(2, ceil((size or 0) / _ROWS_IN_TASK))

    def computed(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        by_place: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
        for batch in batches:
            for row in batch.to_pylist():
                by_place[tuple([row[name] for name in PLACE])].append(row)
        kinds, made, rows = arrow_schema(schema), [], 0
        while by_place:
            found = compute(_bucket(*by_place.popitem()))
            if found is not None:
                made.append([_array(found[kind.name], kind.type) for kind in kinds])
                rows += len(made[-1][0])
            if rows >= _ROWS_IN_BATCH or (rows and not by_place):
                columns = [pyarrow.concat_arrays(parts) for parts in zip(*made, strict=True)]
                yield pyarrow.record_batch(columns, schema=kinds)
                made, rows = [], 0

    return recording.repartition(tasks, *PLACE).mapInArrow(computed, schema)


def _array(value: Any, kind: pyarrow.DataType) -> pyarrow.Array:
    """Return what was computed as a column; NaN is nothing in an array of numbers, and a limit where it is alone."""
    if isinstance(value, numpy.ndarray):
        return pyarrow.array(value, kind, from_pandas=True)
    return pyarrow.array(value if isinstance(value, list) else [value], kind)


def _bucket(place: tuple[Any, ...], rows: Sequence[Mapping[str, Any]]) -> RecordedBucket:
    """Return a bucket of rows of `PACKED`."""
    by_member = {row["member"]: SeriesBucket(*(row[name] for name in SeriesBucket._fields)) for row in rows}
    members = {name: number for number, name in enumerate(sorted(by_member))}
    instances = {name: number for number, name in enumerate({row["instance"] for row in rows} - {None}, 1)}
    lengths = [row["samples"] for row in rows]
    ids = [(instances.get(row["instance"], 0) << MEMBER_BITS) + members[row["member"]] for row in rows]
    limits = [finite_limit(row["key"], row["before_limit"]) for row in rows]
    columns = {
        name: numpy.frombuffer(b"".join(row[name] for row in rows), "int64" if name == "at" else "float64")
        for name in _SAMPLES
    }
    columns["series_id"] = numpy.repeat(numpy.array(ids, "int64"), lengths)
    columns[RECORDED_LIMIT] = numpy.repeat(numpy.array(limits, "float64"), lengths)
    cluster, broker, key, bucket = place
    return RecordedBucket(cluster, broker, key, bucket, [by_member[name] for name in members], bucket_rows(columns))


CurveKey: TypeAlias = tuple[str, Entity, str]
"""Whose usage a curve is: cluster, entity and quota key."""

_RATES: Final = struct("bucket string", "at long", "rate double")
"""What entities used of each broker; `at` is in microseconds since 1970."""


def entity_curves(usage: DataFrame, wanted: Sequence[CurveKey]) -> dict[CurveKey, Curve]:
    """Return what entities used over time, the highest of all brokers; one is left out if nothing is known of it.

    A broker records the bucket of an entity under the names of the entity. A recording that is finer, as that of a
    client is, is added up, see `quotaform.usage.bucket.bucket`; of an entity with both, that of the brokers
    counts. A default entity is that of many buckets, and has no curve.

    `wanted`: the entities and keys; some dozens.
    """
    named = [(cluster, entity, key) for cluster, entity, key in wanted if None not in entity.names.values()]
    if not named:
        return {}

    def summed(of: RecordedBucket) -> dict[str, Any]:
        return {"bucket": [of.bucket] * len(of.rows.at), "at": of.rows.at, "rate": of.rows.rate}

    with kept_rows(packed_usage(usage, partial(_meant, named))) as recording:
        (span,) = recording.agg(f.min("first").alias("first"), f.max("last").alias("last")).toArrow().to_pylist()
        seconds = 0 if span["first"] is None else span["last"] // 1_000_000 - span["first"] // 1_000_000
        step_s = max(1, ceil((seconds + 1) / MOST_POINTS))
        # The highest rate of each slot, at the time of the last one in it.
        slot = f.floor(f.unix_seconds(f.timestamp_micros("at")) / step_s)
        rates = per_bucket(recording, summed, _RATES).where("rate IS NOT NULL").groupBy("bucket", slot)
        highest = rates.agg(f.timestamp_micros(f.max("at")).alias("at"), f.max("rate").alias("rate"))
        points = highest.orderBy("bucket", "at").toArrow().to_pylist()
    found: dict[str, list[tuple[datetime, float]]] = defaultdict(list)
    for point in points:
        found[point["bucket"]].append((point["at"].astimezone(UTC), point["rate"]))
    curves = ((of, found[f"{number} exact"] or found[f"{number} finer"]) for number, of in enumerate(named))
    return {of: curve_of(own, step_s) for of, own in curves if own}


def _meant(named: Sequence[CurveKey], series: Series) -> Iterator[SeriesBucket]:
    """Yield what a series is a part of: the numbers of entities, and whether it has exactly their names."""
    names = series.names
    for number, (cluster, entity, key) in enumerate(named):
        if (series.cluster, series.key) == (cluster, key) and entity.names.items() <= names.items():
            kind = "exact" if entity.names == names else "finer"
            yield SeriesBucket(f"{number} {kind}", None, None, None, False, repr(names), None, None, "")
