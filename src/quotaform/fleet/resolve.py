"""Resolving principals of any number on one cluster, into Parquet, CSV or a table of the catalog."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from quotaform.fleet.data_source import read_clusters, require_read
from quotaform.fleet.principals import (
    PrincipalCounts,
    count_principals,
    is_text,
    named_principals,
    principals_of,
    read_principals,
    unreadable,
)
from quotaform.fleet.table import located, make_table
from quotaform.model.entity import KNOWN_TYPES, Entity, spell_name
from quotaform.model.errors import UsageError
from quotaform.model.outcome import Progress, no_progress
from quotaform.model.precedence import LEVELS, Level
from quotaform.model.quota_key import QUOTA_KEYS, key_order
from quotaform.model.text import inert
from quotaform.plan.plan import Plan
from quotaform.repository.gateway import open_pinned_gateway
from quotaform.resolve.request_file import RequestFile, nameless_note
from quotaform.resolve.resolve import Detail, KeyCount, ResolveHeader, TableReport
from quotaform.resolve.run import require_key
from quotaform.resolve.spark import resolved
from quotaform.resolve.spark_quotas import DOUBLE, NAME_COLUMNS, NAMES, QUOTAS, TEXT, struct
from quotaform.system.clock import SYSTEM_CLOCK, Clock, timestamp
from quotaform.system.files import REQUESTS_LIMIT

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from quotaform.desired.config import Cluster


CHANGES: Final = struct(cluster=TEXT, entity_key=TEXT, entity=NAMES, key=TEXT, after=DOUBLE)
"""The rows of plans: what each value will be; null is no value."""


PARQUET: Final = "parquet"
CSV: Final = "csv"
TABLE: Final = "table"

_CSV_OPTIONS: Final = {"header": "true", "quote": '"', "escape": '"', "nullValue": "", "emptyValue": '""'}


@dataclass(frozen=True, slots=True)
class Target:
    """Where a table is written.

    Nothing is ever overwritten, and what is there in part does not look whole: Spark writes files aside, moves them
    when all tasks are done, and adds the file _SUCCESS last.
    """

    kind: str  # `parquet`, `csv` or `table`
    name: str  # A folder, or the name of a table

    def __str__(self) -> str:
        return self.name

    def require_free(self, spark: SparkSession) -> None:
        """Make sure that there is nothing yet, before any work is done."""
        if self.kind == TABLE:
            if spark.catalog.tableExists(self.name):
                raise UsageError(f"--out {self.kind}={inert(self.name)}: this table exists; drop it, or name another")
            return
        folder = Path(self.name)
        if folder.exists():
            is_cut = folder.is_dir() and not (folder / "_SUCCESS").exists()
            state = "exists, and is not a finished table (it has no _SUCCESS)" if is_cut else "exists"
            raise UsageError(f"--out {self.kind}={inert(self.name)}: this {state}; remove it, or name another folder")

    def write(self, rows: DataFrame) -> None:
        """Write rows."""
        writer = rows.write.mode("error")
        if self.kind == TABLE:
            writer.saveAsTable(self.name)
        elif self.kind == CSV:
            writer.options(**_CSV_OPTIONS).csv(located(self.name))
        else:
            writer.parquet(located(self.name))

    def read(self, spark: SparkSession, schema: StructType) -> DataFrame:
        """Return what was written."""
        if self.kind == TABLE:
            return spark.table(self.name)
        if self.kind == CSV:
            return spark.read.options(**_CSV_OPTIONS).schema(schema).csv(located(self.name))
        return spark.read.parquet(located(self.name))


MOST_PRINTED: Final = 10_000
"""How many principals are resolved to be printed; a table may have any number."""


def write_resolved(
    spark: SparkSession,
    cluster: Cluster,
    source: str,
    target: Target,
    *,
    plan: Plan | None = None,
    detail: Detail,
    clock: Clock = SYSTEM_CLOCK,
    progress: Progress = no_progress,
    warn: Callable[[str], None],
) -> TableReport:
    """Write `RESOLVED` of principals, with `BEFORE` if there is a plan, as if that were applied.

    `source` is a path or table of principals; see `quotaform.fleet.principals`.

    Raises `UsageError`, `InvalidFilesError`, `ClusterError` or `StaleError`.
    """
    target.require_free(spark)
    with open_pinned_gateway(cluster) as gateway:
        cluster_id, snapshot = gateway.cluster_id(), gateway.snapshot
    if plan is not None:
        plan.require_cluster(cluster_id)
    progress(f"Reading principals of {inert(source)}", 0, 0)
    listed = principals_of(read_principals(spark, source), cluster.name)
    counts = count_principals(listed, source, cluster.name)
    principals = _named(listed, source, counts, warn)
    progress(f"Reading quotas of {spell_name(cluster.label)}", 0, 0)
    with ExitStack() as stack:
        quotas = _kept(stack, read_clusters(spark, [cluster]))
        _require_quotas(quotas)
        _require_keys(quotas, detail, counts)
        after, before = quotas, None
        if plan is not None:
            after, before = _kept(stack, quotas_after(quotas, plan, cluster.name)), quotas
        rows = resolved(principals, after, keys=detail.keys, before=before, warn=warn)
        if not detail.inherited:
            rows = rows.where(_is_own(rows.columns))
        progress(f"Resolving {counts.total:,} principals", 0, 0)
        target.write(rows)
        found = _key_counts(target.read(spark, rows.schema))
    header = ResolveHeader(
        cluster_name=cluster.name,
        cluster_id=cluster_id,
        read_at=timestamp(clock),
        plan_id=plan.plan_id if plan else None,
        detail=detail,
        snapshot=snapshot,
    )
    return TableReport(header=header, target=str(target), clients=counts.clients, ips=counts.ips, keys=found)


def _named(principals: DataFrame, name: str, counts: PrincipalCounts, warn: Callable[[str], None]) -> DataFrame:
    """Return the rows that name somebody, with a warning if there are others."""
    if not counts.nameless:
        return principals
    warn(nameless_note(name, counts.nameless))
    return named_principals(principals)


def few_principals(spark: SparkSession, name: str, cluster: str, warn: Callable[[str], None]) -> list[Entity]:
    """Return principals of a cluster that are few enough to be printed, each as a concrete entity.

    A file that one process can read is read as it would be there, in the same order.

    Raises `InvalidFilesError`: They cannot be read, or are too many.
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
    """Return `QUOTAS` as they are when a plan has been applied; what it does not change stays.

    There is a row without an entity as well, by which the cluster is still known when the plan leaves nothing there.
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
    """Return `CHANGES` of a plan."""
    values: Mapping[str, list[object]] = {
        "cluster": [cluster for _ in plan.rows],
        "entity_key": [row.entity.address for row in plan.rows],
        "entity": [list(row.entity.parts) for row in plan.rows],
        "key": [row.key for row in plan.rows],
        "after": [row.after for row in plan.rows],
    }
    return make_table(spark, CHANGES, [values[name] for name in CHANGES.names])
