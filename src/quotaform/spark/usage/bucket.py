"""Which bucket each recorded series belongs to under some quotas: a broker measures and limits per bucket.

A broker names a bucket by the user and the client-id that its level distinguishes (`core.resolve.bucket`), so a series
is resolved like a principal, where a name that it lacks is one that no quota mentions. Several series make one bucket
where other quotas join them; a recording cannot be split where other quotas do (`schemas.BUCKETS`, `is_coarse`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from quotaform.model.entity import CLIENT_ID, IP, USER, Entity
from quotaform.model.ip import address_of
from quotaform.model.precedence import LEVELS
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.spark.resolve.level import LEVEL_OF, source_of
from quotaform.spark.resolve.resolved import resolved
from quotaform.spark.schemas import CLUSTER
from quotaform.spark.usage.schemas import BUCKET_NAMES, BUCKETS

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import Column, DataFrame

OF_SERIES: Final = (CLUSTER, "key", *BUCKET_NAMES)
"""The columns by which a series, on whichever broker, has a bucket."""
CLUSTER_KEYS: Final = [key.name for key in QUOTA_KEYS.values() if key.per == "cluster"]
"""The quota keys whose limit holds for a whole cluster."""
_TYPES: Final = {"user": USER, "client_id": CLIENT_ID, "ip": IP}
_WEAKEST: Final = 1 + max(level.number for level in LEVELS)


def recorded_series(usage: DataFrame) -> DataFrame:
    """Return what was recorded: the distinct `cluster`, `key`, `user`, `client_id` and `ip`.

    Args:
        usage: `schemas.USAGE`, or any table with these columns.
    """
    return usage.select(*OF_SERIES).distinct()


def buckets(series: DataFrame, quotas: DataFrame, before: DataFrame | None = None) -> DataFrame:
    """Return `schemas.BUCKETS`: the bucket and the limit of each series under some quotas.

    | recorded as | quotas | is_coarse |
    | --- | --- | --- |
    | user and client-id | any | no: what is recorded is at least as fine as any bucket |
    | user alone | each client-id has a bucket, or an entry for a client-id wins that did not win `before` | yes |
    | client-id alone | each user has a bucket, or an entry for a user wins that did not win `before` | yes |

    A series of a cluster that the quotas do not have has no limit.

    Args:
        series: `recorded_series`.
        quotas: `quotaform.spark.schemas.QUOTAS`, a table or persisted: they are read several times.
        before: The quotas while the usage was recorded, if other ones: brokers measured by their buckets.
    """
    limits = resolved(series.select(CLUSTER, *BUCKET_NAMES).distinct(), quotas, before=before)
    levels = ("level",) if before is None else ("level", "before_level")
    found = series.alias("series").join(
        limits.withColumnRenamed("bucket", "shared_by").alias("limit"),
        same_columns("series", "limit", OF_SERIES),
        "left",
    )
    rows = found.select(
        *(f.col(f"series.{name}") for name in OF_SERIES),
        "shared_by",
        f.col("limit.value").alias("limit"),
        "source",
        "entity_key",
        *(f.coalesce(f"limit.{name}", f.lit(_WEAKEST)).alias(name) for name in levels),
    )
    is_split, least = f.lit(False), f.col("limit")
    if before is not None:
        rows, is_split, least = _beside_entries(rows, _named_entries(quotas, before))
    rows = rows.withColumns({"is_coarse": _is_coarser() | is_split, "least_limit": least})
    return _with_address(rows).select(*BUCKETS.names)


def same_columns(left: str, right: str, columns: Iterable[str]) -> Column:
    """Return whether columns of two tables are equal, where null is equal to null."""
    return reduce(and_, (f.col(f"{left}.{name}").eqNullSafe(f.col(f"{right}.{name}")) for name in columns))


def _is_coarser() -> Column:
    """Return whether a bucket has a name that the recording lacks; without a limit there is no bucket."""
    shared = f.split(f.coalesce("shared_by", f.lit("")), ",")
    lacks_client = f.col("client_id").isNull() & f.array_contains(shared, CLIENT_ID)
    lacks_user = f.col("user").isNull() & f.array_contains(shared, USER)
    return f.col("ip").isNull() & (lacks_client | lacks_user)


def _named_entries(quotas: DataFrame, before: DataFrame) -> DataFrame:
    """Return the entries with a name: `cluster`, `key`, `user`, `client_id`, `level`, `value`, whether one `is_new`."""
    value = [CLUSTER, "entity_key", "key"]
    known = before.select(*value, f.lit(False).alias("is_new"))
    number = f.create_map(*(f.lit(each) for name, level in LEVEL_OF.items() for each in (name, level.number)))
    entity = f.col("entity")
    entries = quotas.join(known, value, "left").select(
        CLUSTER,
        "key",
        f.try_element_at(entity, f.lit(USER)).alias("user"),
        f.try_element_at(entity, f.lit(CLIENT_ID)).alias("client_id"),
        f.try_element_at(number, source_of(entity)).alias("level"),
        "value",
        f.coalesce("is_new", f.lit(True)).alias("is_new"),
    )
    return entries.where(f.col("level").isNotNull() & (f.col("user").isNotNull() | f.col("client_id").isNotNull()))


def _beside_entries(rows: DataFrame, entries: DataFrame) -> tuple[DataFrame, Column, Column]:
    """Return rows beside entries for names that they lack, whether one takes a part of a series, and the least limit.

    An entry takes a part if it is stronger than what limits the series, and was not so before: then the broker already
    measured that part by itself. The least limit is that of all parts.
    """
    of_client = entries.where(f.col("client_id").isNotNull())
    of_user = entries.where(f.col("user").isNotNull())
    joins = (
        (of_client.where(f.col("user").isNotNull()), ("user",), "client_id"),
        (of_client.where(f.col("user").isNull()), (), "client_id"),
        (of_user.where(f.col("client_id").isNotNull()), ("client_id",), "user"),
        (of_user.where(f.col("client_id").isNull()), (), "user"),
    )
    is_split, limits = f.lit(False), [f.col("limit"), f.lit(None).cast("double")]
    for number, (named, names, lacking) in enumerate(joins):
        columns = [CLUSTER, "key", *names]
        met = f"met_{number}"
        found = named.groupBy(*columns).agg(f.collect_set(f.struct("level", "is_new", "value")).alias(met))
        rows = rows.join(f.broadcast(found), columns, "left")
        of_part = f.when(f.col("ip").isNull() & f.col(lacking).isNull(), f.filter(met, _wins_newly))
        is_split |= f.coalesce(f.size(of_part) > 0, f.lit(False))
        limits.append(f.array_min(f.transform(of_part, lambda entry: entry["value"])))
    return rows, is_split, f.least(*limits)


def _wins_newly(entry: Column) -> Column:
    level = entry["level"]
    return (level < f.col("level")) & (entry["is_new"] | (level > f.col("before_level")))


def _with_address(rows: DataFrame) -> DataFrame:
    """Return the rows with the address of their bucket; without a limit that of the series."""
    columns = [*OF_SERIES, "limit", "source", "entity_key", "is_coarse", "least_limit"]
    schema = BUCKETS

    def addressed(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        import pyarrow

        for batch in batches:
            names = [batch.column(name).to_pylist() for name in BUCKET_NAMES]
            shared = batch.column("shared_by").to_pylist()
            addresses = [
                bucket_address(dict(zip(BUCKET_NAMES, row, strict=True)), types)
                for *row, types in zip(*names, shared, strict=True)
            ]
            members = [
                bucket_address(dict(zip(BUCKET_NAMES, row, strict=True)), None) for row in zip(*names, strict=True)
            ]
            made = {"bucket": pyarrow.array(addresses, "string"), "member": pyarrow.array(members, "string")}
            by_name = {name: batch.column(name) for name in columns} | made
            yield pyarrow.record_batch([by_name[name] for name in schema.names], names=schema.names)

    return rows.select(*columns, "shared_by").mapInArrow(addressed, schema)


def bucket_address(names: dict[str, str | None], shared_by: str | None) -> str:
    """Return the address of the bucket of a series.

    >>> bucket_address({"user": "alice", "client_id": "app", "ip": None}, "user")
    'user=alice'
    >>> bucket_address({"user": "alice", "client_id": "app", "ip": None}, None)
    'user=alice,client-id=app'

    Args:
        names: The names of the series, by column of `schemas.BUCKET_NAMES`.
        shared_by: The entity types that distinguish buckets, as in `quotaform.spark.schemas.RESOLVED`; `None` if
            nothing limits the series.
    """
    types = shared_by.split(",") if shared_by else list(_TYPES.values())
    found = {_TYPES[column]: name for column, name in names.items() if name is not None and _TYPES[column] in types}
    if IP in found:
        found[IP] = address_of(found[IP]) or found[IP]
    # A bucket that is finer than what was recorded: the names that are there, as far as they go.
    return Entity(found or {_TYPES[column]: name for column, name in names.items() if name is not None}).address
