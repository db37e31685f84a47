"""Desired quotas that are in a table and not in files: checked and loaded as a file with the same entries would be.

| column | content | |
| --- | --- | --- |
| cluster | the name of the cluster | required |
| entity_key | the entity, as in `user=alice,client-id=<default>` | required |
| key, value | a quota key and its value, a double | required; without a key the entity must not exist |
| owner, reason | free text | |
| expires | the day (UTC) from which the entry counts as absent | |

Other columns are ignored, so the table `desired` that quotaform makes of files can be given. Its rows with a `problem`
are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as f

from quotaform.desired.writer import match_lines, spell_scalar
from quotaform.model.address import parse_address
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.text import quote
from quotaform.model.units import spell_value
from quotaform.spark.cluster_job import ShippedJob, opened_job, outcome_batches
from quotaform.spark.named_table import bad_table, read_table, require_columns
from quotaform.spark.schemas import OUTCOMES

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession

_REQUIRED: Final = ("cluster", "entity_key", "key", "value")
_TEXTS: Final = ("owner", "reason", "expires")
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
    rows = table.select(
        *(f.col(column).cast("double" if column == "value" else "string").alias(column) for column in _REQUIRED),
        *(
            (f.col(column) if column in table.columns else f.lit(None)).cast("string").alias(column)
            for column in _TEXTS
        ),
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
    nothing = [f.lit(None).cast(kind).alias(name) for name, kind in rows.dtypes if name != "cluster"]
    wanted = rows.join(f.broadcast(places), "cluster").unionByName(places.select("place", "cluster", *nothing))
    # Not a partial: Spark looks for type hints, and warns when there is no function to look at.
    return wanted.groupBy("place").applyInArrow(lambda table: _work(job, table), OUTCOMES)


def _work(job: ShippedJob, table: pyarrow.Table) -> pyarrow.Table:
    import pyarrow

    opened = opened_job(job.bundle)
    place = table.column("place")[0].as_py()
    rows = [row for row in table.to_pylist() if row["entity_key"] is not None]
    with_rows = opened.with_file(place, desired_text(rows))
    batches = list(outcome_batches(job, with_rows, place))
    return pyarrow.Table.from_batches(batches)


def desired_text(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return a quotas.d file that declares what rows of one cluster do; what is wrong with them is found there."""
    entries: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        entries.setdefault(row["entity_key"], []).append(row)
    lines = [line for address, group in sorted(entries.items()) for line in _entry(address, group)]
    return "\n".join(["quotas:", *lines] if lines else ["quotas: []"]) + "\n"


def _entry(address: str, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines of an entry; a key that rows give twice comes twice, which is refused when they are loaded."""
    try:
        yield from match_lines(parse_address(address))
    except ValueError:
        yield f"  - match: {spell_scalar(address)}"
    values = [row for row in rows if row["key"] is not None]
    if values:
        yield "    values:"
        for row in sorted(values, key=lambda row: (str(row["key"]), repr(row["value"]))):
            yield f"      {spell_scalar(row['key'])}: {_value(row)}"
    is_absent = len(values) < len(rows)
    if is_absent:
        yield "    state: absent"
    for name in _TEXTS:
        # An entry that has expired is in the table as one that must not exist.
        if (text := rows[0][name]) is not None and not (is_absent and name == "expires"):
            yield f"    {name}: {text if name == 'expires' else spell_scalar(text)}"


def _value(row: Mapping[str, Any]) -> str:
    value, key = row["value"], QUOTA_KEYS.get(row["key"])
    if value is None:
        return '""'
    spelled = None if key is None else spell_value(key, value)
    return repr(value) if spelled is None else spelled
