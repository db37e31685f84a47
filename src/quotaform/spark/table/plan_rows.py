"""Rows of plans (`schemas.PLAN_ROWS`): grouped by cluster, checked, and turned into changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from quotaform.core.change import Change
from quotaform.core.check.saved.plan import entity_problems, value_problem
from quotaform.core.effects import NO_EFFECT
from quotaform.core.entity_change import EntityChange
from quotaform.errors import QuotaformError
from quotaform.model.entity import Entity, spell_name
from quotaform.model.quotas import Quotas, Values, same_value
from quotaform.model.text import quote
from quotaform.spark.job.partition import by_place
from quotaform.spark.schemas import PLAN_ROWS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Row = Mapping[str, Any]

_NEVER_NULL: Final = ("cluster", "cluster_id", "entity_key", "entity", "key")


def grouped(rows: DataFrame, clusters: Sequence[str]) -> DataFrame:
    """Return `schemas.PLAN_ROWS`: the rows of a cluster are in one partition, and each has their number.

    Args:
        rows: The other columns of `schemas.PLAN_ROWS`.
        clusters: The names of the clusters; there are as many partitions, or fewer of very many: see
            `quotaform.spark.job.cluster_job.task_count`.
    """
    from pyspark.sql import Window
    from pyspark.sql.functions import broadcast, count, lit

    columns = [name for name in PLAN_ROWS.names if name != "rows"]
    in_cluster = count(lit(1)).over(Window.partitionBy("cluster"))
    places = rows.sparkSession.createDataFrame(list(enumerate(clusters)), "place int, cluster string")
    placed = rows.select(*columns, in_cluster.alias("rows")).join(broadcast(places), "cluster", "left")
    return by_place(placed, len(clusters)).select(*columns, "rows")


def require_writable_rows(rows: DataFrame, clusters: Sequence[str]) -> None:
    """Make sure of all that can be told of rows before a task has them: see `cluster_changes` for the rest.

    Raises `QuotaformError` if a row has a null or an unknown cluster, or two are about the same value.
    """
    from pyspark.sql.functions import col, concat_ws, count, lit, when

    nulls = [when(col(name).isNull(), lit(f"{name} is null")) for name in _NEVER_NULL]
    unknown = when(~col("cluster").isin(*clusters), lit("the option clusters does not have the cluster"))
    problem = concat_ws(", ", *nulls, unknown)
    bad = rows.select("cluster", "entity_key", "key", problem.alias("problem")).where("problem <> ''").head()
    if bad is None:
        same = rows.groupBy("cluster", "entity_key", "key").agg(count(lit(1)).alias("times")).where("times > 1")
        bad = same.select("cluster", "entity_key", "key", lit("is in more than one row").alias("problem")).head()
    if bad is not None:
        raise _invalid(bad.cluster, bad, bad.problem)


def cluster_changes(cluster: str, rows: Sequence[Row]) -> tuple[str, dict[Entity, list[Change]]]:
    """Return the id of a cluster and its changes, after making sure that its rows are such as a plan has.

    Raises `QuotaformError` if something is null, contradicts something else, is there twice or is missing, or files
    could not declare it.
    """
    changes: dict[Entity, list[Change]] = {}
    ids = {row["cluster_id"] for row in rows}
    for row in rows:
        if row["rows"] != len(rows):
            raise QuotaformError(
                f"{_spelled(cluster)}: a task has {len(rows)} rows, but the cluster has {row['rows']}; group them with "
                "quotaform.spark.table.plan_rows.grouped"
            )
        if missing := [name for name in _NEVER_NULL if row[name] is None]:
            raise _invalid(cluster, row, f"{missing[0]} is null")
        if len(ids) > 1:
            raise _invalid(cluster, row, f"the rows of the cluster have {len(ids)} ids")
        entity = Entity(dict(row["entity"]))
        own = changes.setdefault(entity, [])
        if any(change.key == row["key"] for change in own):
            raise _invalid(cluster, row, "is in more than one row")
        if problem := _problem(entity, row):
            raise _invalid(cluster, row, problem)
        own.append(Change(entity, row["key"], row["before"], row["after"]))
    return ids.pop(), changes


def entity_changes(changes: Mapping[Entity, Sequence[Change]], actual: Quotas) -> tuple[EntityChange, ...]:
    """Return changes as a plan has them: of the keys without a row an entity keeps what it holds."""
    return tuple(
        EntityChange(
            entity=entity,
            before=_values(actual.get(entity, {}), {row.key: row.before for row in rows}),
            after=_values(actual.get(entity, {}), {row.key: row.after for row in rows}),
            changes=tuple(sorted(rows, key=lambda row: row.key)),
            effects=(NO_EFFECT,) * len(rows),
        )
        for entity, rows in sorted(changes.items(), key=lambda item: item[0].address)
    )


def _values(held: Values, changed: Mapping[str, float | None]) -> Values:
    return {key: value for key, value in {**held, **changed}.items() if value is not None}


def _problem(entity: Entity, row: Row) -> str | None:
    """Return what is wrong with a row of which nothing is null."""
    if entity.address != row["entity_key"]:
        return f"entity_key is not that of the entity, which is {entity.address}"
    problems: Iterable[tuple[str, str]] = entity_problems(entity)
    for _, problem in problems:
        return f"the entity {problem}"
    if found := value_problem(entity.types, row["key"], row["after"]):
        return f"{found[0]} {found[1]}"
    return "before and after are the same" if same_value(row["before"], row["after"]) else None


def _invalid(cluster: str | None, row: Any, problem: str) -> QuotaformError:
    where = [f"cluster {_spelled(cluster)}"]
    where += [f"{name} {quote(row[name])}" for name in ("entity_key", "key") if row[name] is not None]
    return QuotaformError(f"{', '.join(where)}: {problem}; nothing was written to the cluster")


def _spelled(cluster: str | None) -> str:
    return "null" if cluster is None else spell_name(cluster)
