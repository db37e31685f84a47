"""Resolving principals of any number on one cluster, into Parquet, CSV or a table of the catalog."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from pyspark.sql import functions as f

from quotaform.fleet.principals import is_text, load_principals
from quotaform.fleet.table import located
from quotaform.model.entity import Entity, spell_name
from quotaform.model.errors import ArgumentError
from quotaform.model.outcome import Progress, no_progress
from quotaform.model.quota_key import QUOTA_KEYS, key_order
from quotaform.model.text import inert, option_of
from quotaform.repository.gateway import open_pinned_gateway
from quotaform.resolve.request_file import RequestFile, nameless_note, unreadable
from quotaform.resolve.resolve import AssumedPlan, KeyCount, ResolveHeader, ResolveOptions, TableReport
from quotaform.resolve.run import require_keys
from quotaform.resolve.spark import entity_of_row, resolved
from quotaform.resolve.spark_quotas import PRINCIPALS
from quotaform.system.clock import SYSTEM_CLOCK, Clock, timestamp
from quotaform.system.files import REQUESTS_LIMIT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from quotaform.desired.config import Cluster


PARQUET: Final = "parquet"
CSV: Final = "csv"
TABLE: Final = "table"

_CSV_OPTIONS: Final = {"header": "true", "quote": '"', "escape": '"', "nullValue": "", "emptyValue": '""'}


class OutputTarget(Struct, frozen=True):
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
                raise self._taken("table exists; drop it, or name another")
            return
        folder = Path(self.name)
        if folder.exists():
            is_cut = folder.is_dir() and not (folder / "_SUCCESS").exists()
            state = "exists, and is not a finished table (it has no _SUCCESS)" if is_cut else "exists"
            raise self._taken(f"{state}; remove it, or name another folder")

    def _taken(self, problem: str) -> ArgumentError:
        return ArgumentError(f"{{out}} {self.kind}={{}}: this {problem}", inert(self.name))

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
    target: OutputTarget,
    *,
    plan: AssumedPlan | None = None,
    detail: ResolveOptions,
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
        principals, counts = load_principals(spark, source, warn, cluster=cluster.name)
        progress(f"Reading quotas of {spell_name(cluster.label)}", 0, 0)
        actual = gateway.describe()
    require_keys(detail.keys, actual, has_clients=counts.clients > 0, has_ips=counts.ips > 0)
    after = actual if plan is None else {**actual, **plan.after(actual)}
    rows = resolved(
        principals,
        {cluster.name: after},
        keys=detail.keys,
        before=None if plan is None else {cluster.name: actual},
        inherited=detail.inherited,
    )
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
    principals, counts = load_principals(spark, name, warn, cluster=cluster)
    _require_few(name, counts.total)
    return [entity_of_row(*row.values()) for row in principals.select(*PRINCIPALS.names).toArrow().to_pylist()]


def _require_few(name: str, total: int) -> None:
    if total > MOST_PRINTED:
        raise unreadable(
            name,
            f"{total:,} principals are more than the {MOST_PRINTED:,} that are printed; add {option_of('out')} "
            "parquet=FOLDER",
        )


def _key_counts(rows: DataFrame) -> tuple[KeyCount, ...]:
    limited = f.col("value").isNotNull() & (f.col("value") != float("inf"))
    for key in QUOTA_KEYS.values():
        limited &= ~((f.col("key") == key.name) & (f.col("value") >= key.maximum) & ~f.isnan("value"))
    changed = ~f.col("value").eqNullSafe(f.col("before_value")) if "before_value" in rows.columns else None
    found = rows.groupBy("key").agg(
        f.count_if(limited).alias("limited"),
        f.count_if(~limited).alias("unlimited"),
        (f.lit(None) if changed is None else f.count_if(changed)).alias("changed"),
    )
    counts = (KeyCount(**row.asDict()) for row in found.collect())
    return tuple(sorted(counts, key=lambda each: key_order(each.key)))
