"""Desired quotas that are in a table and not in files: checked and loaded as a file with the same entries would be.

| column | content | |
| --- | --- | --- |
| cluster | the name of the cluster | required |
| entity_key | the entity, as in `user=alice,client-id=<default>` | required |
| key, value | a quota key and its value: a double, or anything that reads as a value of files does | required |
| owner, reason | free text | |
| expires | the day (UTC) from which the entry counts as absent | |

A row without a key and a value says that the entity must not exist. The rows of an entity must agree; see
`quotaform.desired.entry_row`. Other columns are ignored, so the table `desired` that quotaform makes of files can be
given. Its rows with a `problem` are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as f

from quotaform.desired.entry_row import TEXT_COLUMNS, EntryRow
from quotaform.model.text import quote
from quotaform.spark.job.cluster_job import ShippedJob, opened_job, outcome_batches
from quotaform.spark.job.partition import by_place
from quotaform.spark.schemas import OUTCOMES
from quotaform.spark.table.named_table import bad_table, read_table, require_columns

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession

_REQUIRED: Final = ("cluster", "entity_key", "key", "value")
_DOUBLES: Final = frozenset({"double", "float"})
_FEW: Final = 5


def read_desired_table(spark: SparkSession, name: str, clusters: Iterable[str]) -> DataFrame:
    """Return the rows of a table of desired quotas, with the columns above.

    Args:
        spark: The session.
        name: A path of Parquet files, or a table of the catalog.
        clusters: The names of all clusters.

    Raises:
        InvalidFilesError: It cannot be read, lacks a column, or has rows that cannot be used.
    """
    table = read_table(spark, name)
    require_columns(name, table, _REQUIRED)
    if "problem" in table.columns:
        table = table.where(f.col("problem.severity").isNull() | (f.col("problem.severity") == "error"))
        broken = table.where(f.col("problem").isNotNull()).select("cluster", "problem.message").limit(_FEW).collect()
        if broken:
            raise bad_table(name, f"has rows with problems: {'; '.join(f'{row[0]}: {row[1]}' for row in broken)}")
    types = dict(table.dtypes)
    # Other numbers keep their digits, which a double might not hold: files refuse such a value, too.
    kinds = {"value": "double"} if types["value"] in _DOUBLES else {}
    rows = table.select(
        *(
            (f.col(column) if column in types else f.lit(None)).cast(kinds.get(column, "string")).alias(column)
            for column in (*_REQUIRED, *TEXT_COLUMNS)
        )
    )
    known = spark.createDataFrame([(each,) for each in clusters], "cluster string")
    _require_known(name, rows, known)
    return rows


def _require_known(name: str, rows: DataFrame, clusters: DataFrame) -> None:
    unknown = rows.select("cluster").join(f.broadcast(clusters), "cluster", "left_anti")
    found = [row[0] for row in unknown.distinct().limit(_FEW).collect()]
    if found:
        names = ", ".join("null" if each is None else quote(each) for each in found)
        raise bad_table(name, f"has rows of clusters that are not known: {names}; remove them, or add the clusters")


def table_outcomes(spark: SparkSession, job: ShippedJob, rows: DataFrame) -> DataFrame:
    """Return `schemas.OUTCOMES`: what a `PlanJob` makes of clusters whose desired quotas are rows of a table.

    The rows of one cluster are brought together, and are in the memory of one task.

    Args:
        spark: The session.
        job: The job.
        rows: What `read_desired_table` returns.
    """
    places = spark.createDataFrame(list(enumerate(job.names)), "place int, cluster string")
    own = rows.join(f.broadcast(places), "cluster").withColumn("is_row", f.lit(True))
    # A cluster without rows has one that says where it is planned.
    nothing = [f.lit(None).cast(kind).alias(name) for name, kind in rows.dtypes if name != "cluster"]
    wanted = own.unionByName(places.select("place", "cluster", *nothing, f.lit(False).alias("is_row")))
    # Not a partial: Spark looks for type hints, and warns when there is no function to look at.
    return by_place(wanted, len(job.names)).mapInArrow(lambda batches: _work(job, batches), OUTCOMES)


def _work(job: ShippedJob, batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    opened = opened_job(job.bundle)
    rows = chain.from_iterable(batch.to_pylist() for batch in batches)
    for place, group in groupby(rows, lambda row: row["place"]):
        found = [_entry_row(row) for row in group if row["is_row"]]
        yield from outcome_batches(job, opened.with_rows(place, found), place)


def _entry_row(row: dict[str, Any]) -> EntryRow:
    return EntryRow(**{name: row[name] for name in EntryRow.__slots__})
