"""The schemas of the DataFrames of the Spark engine.

They are in long format: one row per cluster, entity and quota key. An entity is identified by its `entity_key`, which
is `Entity.address`: canonical, unique and never null. Its names are in `entity`, where null is the default; they are
never join columns, because NULL = NULL is not true in SQL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow
    from pyspark.sql import DataFrame, SparkSession

_NAMES: Final = MapType(StringType(), StringType())

FAILURE: Final = StructType(
    [
        StructField("kind", StringType()),
        StructField("message", StringType()),
        StructField("remedy", StringType()),
        StructField("cluster", StringType()),
        StructField("server", StringType()),
        StructField("code", IntegerType()),
        StructField("problems", StringType()),
    ]
)
"""The failure to read a cluster: the class of `quotaform.errors`, its message, the attributes of a `ClusterError`,
and if files are invalid all problems as JSON; see `quotaform.spark.failure`."""

QUOTAS: Final = StructType(
    [
        StructField("cluster", StringType()),
        StructField("cluster_id", StringType()),
        StructField("entity_key", StringType()),
        StructField("entity", _NAMES),
        StructField("key", StringType()),
        StructField("value", DoubleType()),
        StructField("failure", FAILURE),
        StructField("read_at", TimestampType()),
        StructField("brokers", IntegerType()),
    ]
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

SNAPSHOTS: Final = StructType([*QUOTAS.fields, StructField("file", StringType())])
"""What snapshot files hold: as `QUOTAS`, with the file; of one that cannot be read, the cluster is null."""

CHANGED_BY: Final = StructType(
    [
        StructField("actor", StringType()),
        StructField("plan_id", StringType()),
        StructField("commit", StringType()),
        StructField("at", TimestampType()),
    ]
)
"""Who changed a value, by which plan of which commit, and when that apply was finished; as a receipt says."""

HISTORY: Final = StructType(
    [
        StructField("cluster", StringType()),
        StructField("cluster_id", StringType()),
        StructField("entity_key", StringType()),
        StructField("entity", _NAMES),
        StructField("key", StringType()),
        StructField("value", DoubleType()),
        StructField("valid_from", TimestampType()),
        StructField("valid_to", TimestampType()),
        StructField("changed_by", CHANGED_BY),
        StructField("ended_by", CHANGED_BY),
    ]
)
"""What clusters held and when, by the snapshots that are known.

| row | meaning |
| --- | --- |
| with an entity | the value was in all snapshots from `valid_from` on and before `valid_to`; null: in the last one |
| without an entity | a snapshot was taken at `valid_from`, which is also `valid_to` |

So a value that changed between two snapshots changes in the table at the second one. `changed_by` is who set the value,
`ended_by` who replaced or removed it; both are null when no receipt says so.
"""

RECEIPTS: Final = StructType(
    [
        StructField("file", StringType()),
        StructField("cluster_id", StringType()),
        StructField("entity_key", StringType()),
        StructField("key", StringType()),
        StructField("before", DoubleType()),
        StructField("after", DoubleType()),
        StructField("started_at", TimestampType()),
        StructField("changed_by", CHANGED_BY),
        StructField("problem", StringType()),
    ]
)
"""What receipts say was changed, and when; null is no value. One that cannot be read is a row with a `problem`."""

HISTORY_CHANGES: Final = StructType(
    [
        StructField("cluster", StringType()),
        StructField("entity_key", StringType()),
        StructField("entity", _NAMES),
        StructField("key", StringType()),
        StructField("before", DoubleType()),
        StructField("after", DoubleType()),
        StructField("changed_at", TimestampType()),
        StructField("changed_by", CHANGED_BY),
    ]
)
"""What differs between two moments; null is no value. `changed_at` is the snapshot that showed the last change."""

CLUSTER: Final = "cluster"
"""The column by which rows are of a cluster: all tables about clusters have it, and one of principals may."""

PRINCIPALS: Final = StructType(
    [StructField("user", StringType()), StructField("client_id", StringType()), StructField("ip", StringType())]
)
"""Who makes requests: a row is a client (user, client-id or both) or an address (ip alone).

Null is a name that no quota mentions, and "" an empty client-id. A table may also have the column `cluster`.
"""

RESOLVED: Final = StructType(
    [
        StructField("cluster", StringType()),
        *PRINCIPALS,
        StructField("key", StringType()),
        StructField("value", DoubleType()),
        StructField("source", StringType()),
        StructField("level", IntegerType()),
        StructField("entity_key", StringType()),
        StructField("bucket", StringType()),
    ]
)
"""What limits principals, a row per principal and key, as `quotaform.spark.resolve.resolved` makes it.

| column | content |
| --- | --- |
| cluster | that of the principal or of the quotas; null when neither has one |
| value | the limit; null, as all that follow, when nothing limits the principal |
| source, level | the name that KIP-248 gave to the level of precedence that won, and its number |
| entity_key | the entity match whose value it is |
| bucket | the entity types whose names distinguish one rate from another, such as `user,client-id` |
"""

BEFORE: Final = StructType(
    [
        StructField("before_value", DoubleType()),
        StructField("before_source", StringType()),
        StructField("before_level", IntegerType()),
        StructField("before_entity_key", StringType()),
    ]
)
"""What limits a principal as long as a plan is not applied; further columns of `RESOLVED`."""

CHANGES: Final = StructType(
    [
        StructField("cluster", StringType()),
        StructField("entity_key", StringType()),
        StructField("entity", _NAMES),
        StructField("key", StringType()),
        StructField("after", DoubleType()),
    ]
)
"""The rows of plans: what each value will be; null is no value."""

PLANNED_QUOTAS: Final = StructType(
    [
        StructField("cluster", StringType()),
        StructField("entity_key", StringType()),
        StructField("entity", _NAMES),
        StructField("key", StringType()),
        StructField("before", DoubleType()),
        StructField("after", DoubleType()),
        StructField("changed", BooleanType()),
    ]
)
"""What clusters hold, and what their plans change: each value before and after; null is no value."""

LIMIT_CHANGES: Final = StructType(
    [
        StructField("cluster", StringType()),
        *PRINCIPALS,
        StructField("key", StringType()),
        StructField("direction", StringType()),
        StructField("factor", DoubleType()),
        *(
            StructField(f"{side}_{name}", kind)
            for side in ("before", "after")
            for name, kind in (
                ("value", DoubleType()),
                ("entity_key", StringType()),
                ("source", StringType()),
                ("level", IntegerType()),
                ("bucket", StringType()),
            )
        ),
    ]
)
"""The effective limits of principals that a plan changes: the columns of `quotaform.core.limit_change.change_row`."""

LIMIT_COUNTS: Final = StructType(
    [
        StructField("cluster", StringType()),
        StructField("direction", StringType()),
        StructField("principals", LongType()),
        StructField("limits", LongType()),
    ]
)
"""How many principals and effective limits plans change; `direction` is null in the row of a whole cluster."""

OUTCOMES: Final = StructType(
    [
        StructField("place", IntegerType()),
        StructField("name", StringType()),
        StructField("content", BinaryType()),
    ]
)
"""What a job makes of clusters, see `quotaform.spark.job.cluster_job`.

| row | name | content |
| --- | --- | --- |
| a part of a document | the document's | compressed |
| the end of a cluster | null | pickled: what its result amounts to, or the error |

`place` is that of the cluster among those of the job. The parts of a document follow each other.
"""


PLAN_ROWS: Final = StructType(
    [
        StructField("cluster", StringType()),
        StructField("cluster_id", StringType()),
        StructField("entity_key", StringType()),
        StructField("entity", _NAMES),
        StructField("key", StringType()),
        StructField("before", DoubleType()),
        StructField("after", DoubleType()),
        StructField("rows", LongType()),
    ]
)
"""The rows of plans as the data source `kafka_quotas` writes them: what each value is and will be; null is no value.

`rows` is how many rows the cluster has, by which a task knows that it has all of them, see
`quotaform.spark.table.plan_rows.grouped`.
"""

RESULTS: Final = StructType(
    [
        StructField("cluster", StringType()),
        StructField("cluster_id", StringType()),
        StructField("entity_key", StringType()),
        StructField("entity", _NAMES),
        StructField("result", StringType()),
        StructField("message", StringType()),
        StructField("finished_at", StringType()),
    ]
)
"""What became of each entity that was written: `quotaform.core.receipt.Result`, and why if it was not applied.

`finished_at` is null where nothing was written to the cluster.
"""


def make_table(spark: SparkSession, schema: StructType, columns: Iterable[Sequence[object]]) -> DataFrame:
    """Return a DataFrame of values on the driver, given column by column; bit for bit, as Arrow keeps them."""
    import pyarrow

    return spark.createDataFrame(pyarrow.table(list(columns), schema=arrow_schema(schema)), schema)


def row_batch(schema: StructType, rows: Sequence[tuple[Any, ...]]) -> pyarrow.RecordBatch:
    """Return rows as Arrow has them; maps are given as mappings, and structs as tuples."""
    import pyarrow

    columns = zip(*rows, strict=True) if rows else ([] for _ in schema)
    return pyarrow.record_batch(
        [_spelled(field, list(column)) for field, column in zip(schema, columns, strict=True)],
        schema=arrow_schema(schema),
    )


def _spelled(field: StructField, values: list[Any]) -> list[Any]:
    """Return the values of a column as Arrow takes them."""
    if isinstance(field.dataType, MapType):
        return [None if value is None else list(value.items()) for value in values]
    if isinstance(field.dataType, StructType):
        names = field.dataType.names
        return [None if value is None else dict(zip(names, value, strict=True)) for value in values]
    return values


def arrow_schema(schema: StructType) -> pyarrow.Schema:
    """Return the schema as Arrow has it, with times in UTC."""
    return to_arrow_schema(schema, timezone="UTC")
