"""The tables of quotas and of principals: their columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import MapType, StringType, StructField, StructType

if TYPE_CHECKING:
    import pyarrow
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
