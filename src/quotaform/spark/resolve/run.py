"""Resolving principals of any number on one cluster, into a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from quotaform.app.clock import SYSTEM_CLOCK, Clock, timestamp
from quotaform.app.repository.gateway import open_pinned_gateway
from quotaform.app.resolve.request_file import RequestFile, nameless_note
from quotaform.app.resolve.resolve import require_key
from quotaform.cluster.gateway import Progress, no_progress
from quotaform.core.freshness import require_cluster
from quotaform.core.plan import Plan
from quotaform.core.resolve.resolution import Detail, KeyCount, ResolveHeader, TableReport
from quotaform.files import REQUESTS_LIMIT
from quotaform.model.entity import KNOWN_TYPES, Entity, spell_name
from quotaform.model.precedence import LEVELS, Level
from quotaform.model.quota_key import QUOTA_KEYS, key_order
from quotaform.model.text import inert
from quotaform.spark.failure import require_read
from quotaform.spark.resolve.level import NAME_COLUMNS
from quotaform.spark.resolve.resolved import resolved
from quotaform.spark.resolve.target import Target
from quotaform.spark.schemas import CHANGES, QUOTAS, make_table
from quotaform.spark.source import read_clusters
from quotaform.spark.table.principal_check import PrincipalCounts, count_principals
from quotaform.spark.table.principals import is_text, named_principals, principals_of, read_principals, unreadable

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from quotaform.desired.config import Cluster

MOST_PRINTED: Final = 10_000
"""How many principals are resolved to be printed; a table may have any number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRequest:
    """What to resolve.

    Attributes:
        principals: A path or table; see `quotaform.spark.table.principals`.
        plan: A plan to assume as applied.
        detail: Which keys are wanted.
    """

    cluster: Cluster
    principals: str
    target: Target
    plan: Plan | None = None
    detail: Detail


def write_resolved(
    spark: SparkSession,
    request: TableRequest,
    *,
    clock: Clock = SYSTEM_CLOCK,
    progress: Progress = no_progress,
    warn: Callable[[str], None],
) -> TableReport:
    """Write `schemas.RESOLVED` of principals, with `schemas.BEFORE` if there is a plan.

    Raises:
        UsageError: There is something at the target, or a quota key is wanted that no principal can have.
        InvalidFilesError: The principals, the snapshot or the client properties cannot be read.
        ClusterError: The cluster could not be read.
        StaleError: The plan is for another cluster.
    """
    cluster, detail = request.cluster, request.detail
    request.target.require_free(spark)
    with open_pinned_gateway(cluster) as gateway:
        cluster_id, snapshot = gateway.cluster_id(), gateway.snapshot
    if request.plan is not None:
        require_cluster(request.plan, cluster_id)
    progress(f"Reading principals of {inert(request.principals)}", 0, 0)
    listed = principals_of(read_principals(spark, request.principals), cluster.name)
    counts = count_principals(listed, request.principals, cluster.name)
    principals = _named(listed, request.principals, counts, warn)
    progress(f"Reading quotas of {spell_name(cluster.label)}", 0, 0)
    with ExitStack() as stack:
        quotas = _kept(stack, read_clusters(spark, [cluster]))
        _require_quotas(quotas)
        _require_keys(quotas, detail, counts)
        after, before = quotas, None
        if request.plan is not None:
            after, before = _kept(stack, quotas_after(quotas, request.plan, cluster.name)), quotas
        rows = resolved(principals, after, keys=detail.keys, before=before, warn=warn)
        if not detail.inherited:
            rows = rows.where(_is_own(rows.columns))
        progress(f"Resolving {counts.total:,} principals", 0, 0)
        request.target.write(rows)
        found = _key_counts(request.target.read(spark, rows.schema))
    header = ResolveHeader(
        cluster_name=cluster.name,
        cluster_id=cluster_id,
        read_at=timestamp(clock),
        plan_id=request.plan.plan_id if request.plan else None,
        detail=detail,
        snapshot=snapshot,
    )
    return TableReport(header=header, target=str(request.target), clients=counts.clients, ips=counts.ips, keys=found)


def _named(principals: DataFrame, name: str, counts: PrincipalCounts, warn: Callable[[str], None]) -> DataFrame:
    """Return the rows that name somebody, with a warning if there are others."""
    if not counts.nameless:
        return principals
    warn(nameless_note(name, counts.nameless))
    return named_principals(principals)


def few_principals(spark: SparkSession, name: str, cluster: str, warn: Callable[[str], None]) -> list[Entity]:
    """Return principals of a cluster that are few enough to be printed, each as a concrete entity.

    A file that one process can read is read as it would be there, in the same order.

    Args:
        name: A path or table; see `quotaform.spark.table.principals`.
        warn: Called with a sentence if rows are left out, since they name nobody.

    Raises:
        InvalidFilesError: They cannot be read, or are too many.
    """
    path = Path(name)
    if is_text(name) and path.is_file() and path.stat().st_size <= REQUESTS_LIMIT:
        listed = RequestFile.read(path)
        _require_few(name, len(listed))
        if listed.nameless:
            warn(nameless_note(name, listed.nameless))
        return list(listed)
    found = principals_of(read_principals(spark, name), cluster)
    counts = count_principals(found, name, cluster)
    _require_few(name, counts.total)
    principals = _named(found, name, counts, warn)
    columns = {column: kind for kind, column in NAME_COLUMNS.items()}
    rows = principals.select(*(each for each in principals.columns if each in columns)).toArrow().to_pylist()
    return [Entity({columns[column]: cell for column, cell in row.items() if cell is not None}) for row in rows]


def _require_few(name: str, total: int) -> None:
    if total > MOST_PRINTED:
        raise unreadable(
            name, f"{total:,} principals are more than the {MOST_PRINTED:,} that are printed; add --out parquet=FOLDER"
        )


def _kept(stack: ExitStack, rows: DataFrame) -> DataFrame:
    """Keep rows that are read several times until the stack is closed."""
    kept = rows.persist()
    stack.callback(kept.unpersist)
    return kept


def _require_quotas(quotas: DataFrame) -> None:
    """Read the quotas, and raise the error of a cluster that could not be read."""
    failed = quotas.where(f.col("failure").isNotNull()).select("failure").limit(1).collect()
    for row in failed:
        require_read(row.failure.asDict())


def _require_keys(quotas: DataFrame, detail: Detail, counts: PrincipalCounts) -> None:
    """Make sure that the principals can have the quota keys that are wanted."""
    if detail.keys:
        held = {row.key for row in quotas.select("key").distinct().collect()}
        for key in detail.keys:
            require_key(key, key in held, has_clients=counts.clients > 0, has_ips=counts.ips > 0)


def _is_own(columns: list[str]) -> Column:
    """Return whether a value is that of an entry for the very names of the principal, before or after a plan."""
    found = f.lit(False)
    for level in LEVELS:
        if level.defaults:
            continue
        won = f.col("source") == level.source
        if "before_source" in columns:
            won = f.coalesce(won, f.lit(False)) | f.coalesce(f.col("before_source") == level.source, f.lit(False))
        found |= won & _names_exactly(level)
    return f.coalesce(found, f.lit(False))


def _names_exactly(level: Level) -> Column:
    found = f.lit(True)
    for row in KNOWN_TYPES.values():
        column = f.col(row.parameter)
        found &= column.isNotNull() if row.name in level.named else column.isNull()
    return found


def _key_counts(rows: DataFrame) -> tuple[KeyCount, ...]:
    limited = f.col("value").isNotNull() & (f.col("value") != float("inf"))
    for key in QUOTA_KEYS.values():
        limited &= ~((f.col("key") == key.name) & (f.col("value") >= key.maximum) & ~f.isnan("value"))
    changed = ~f.col("value").eqNullSafe(f.col("before_value")) if "before_value" in rows.columns else None
    found = (
        rows.groupBy("key")
        .agg(
            f.count("*").alias("total"),
            f.count_if(limited).alias("limited"),
            *([] if changed is None else [f.count_if(changed).alias("changed")]),
        )
        .collect()
    )
    counts = [
        KeyCount(
            key=row.key,
            limited=row.limited,
            unlimited=row.total - row.limited,
            changed=None if changed is None else row.changed,
        )
        for row in found
    ]
    return tuple(sorted(counts, key=lambda each: key_order(each.key)))


_VALUE: Final = ["cluster", "entity_key", "key"]


def quotas_after(quotas: DataFrame, plan: Plan, cluster: str) -> DataFrame:
    """Return `schemas.QUOTAS` as they are when a plan has been applied; what it does not change stays.

    There is a row without an entity as well, by which the cluster is still known when the plan leaves nothing there.

    Args:
        plan: The plan of one of the clusters.
        cluster: The name by which the quotas have that cluster.
    """
    changes = _changes(quotas.sparkSession, plan, cluster)
    left = quotas.join(changes, _VALUE, "left_anti")
    planned = changes.where(f.col("after").isNotNull()).withColumnRenamed("after", "value")
    known = quotas.sparkSession.createDataFrame([(cluster,)], "cluster string")
    return (
        left.unionByName(planned, allowMissingColumns=True)
        .unionByName(known, allowMissingColumns=True)
        .select(*QUOTAS.names)
    )


def _changes(spark: SparkSession, plan: Plan, cluster: str) -> DataFrame:
    """Return `schemas.CHANGES` of a plan."""
    values: Mapping[str, list[object]] = {
        "cluster": [cluster for _ in plan.rows],
        "entity_key": [row.entity.address for row in plan.rows],
        "entity": [list(row.entity.parts) for row in plan.rows],
        "key": [row.key for row in plan.rows],
        "after": [row.after for row in plan.rows],
    }
    return make_table(spark, CHANGES, [values[name] for name in CHANGES.names])
