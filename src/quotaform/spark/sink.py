"""Writes rows of plans to clusters: `DataFrame.write.format("kafka_quotas")`.

A task buffers the rows that it is given, and applies those of each cluster by `quotaform.app.apply.apply`: checked
against the cluster, dry-run, written, read back. Attempts that Spark repeats do no harm, as
`quotaform.spark.apply_job` says. A cluster that fails keeps no other from being written, and the write fails at the
end if any entity does not hold its values. What is left behind whoever dies meanwhile: `quotaform.spark.sink_record`.

`write_plan_rows` holds the locks of `quotaform apply` while it writes. A writer of a data source by itself has no
process that lives as long as the write does, so that `DataFrame.write.format("kafka_quotas")` holds none.

Guards are not checked: the rows are taken for those of plans that passed them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from quotaform.app.apply.apply import ClusterPlan, apply_plans
from quotaform.app.apply.lock import cluster_lock
from quotaform.app.clock import SYSTEM_CLOCK, timestamp
from quotaform.app.repository.gateway import open_gateway
from quotaform.app.run import Applier
from quotaform.core.outcome import ClusterOutcome
from quotaform.core.plan import Plan, PlanHeader, PlanSource
from quotaform.core.receipt import Receipt, Result
from quotaform.desired.config import Cluster
from quotaform.errors import ApplyRunningError, PartialError, QuotaformError
from quotaform.model.entity import spell_name
from quotaform.model.text import listed
from quotaform.spark.job.driver_context import DriverContext, inside
from quotaform.spark.job.kept_rows import final_rows
from quotaform.spark.schemas import PLAN_ROWS
from quotaform.spark.sink_record import Record, ResultRow, Written, require_written, summary_of
from quotaform.spark.source import NAME, dump_clusters, register_source
from quotaform.spark.table.plan_rows import Row, cluster_changes, entity_changes, grouped, require_writable_rows

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_AT_ONCE: Final = 500
"""How many clusters are written by one job: their locks are open files of the driver."""


def write_plan_rows(
    rows: DataFrame, clusters: Sequence[Cluster], results: str | None = None, receipts: str | None = None
) -> None:
    """Apply rows of plans, a cluster in each task, or a few of very many.

    Args:
        rows: `schemas.PLAN_ROWS` without `rows`.
        results: A folder where the results are added as Parquet: a path that executors see, or a URI for pyarrow.
        receipts: A folder where a receipt of each cluster is added: a path that executors see.

    Raises:
        QuotaformError: Rows contradict each other or name no cluster; nothing was written.
        ApplyRunningError: Somebody else is writing to a cluster; nothing was written to it, and all is to the others.
        PySparkException: Entities of some clusters do not hold what the rows say; the message has their numbers.
    """
    failures: list[Exception] = []
    # What was checked is what is written, however the rows are made.
    with final_rows(rows.select(*(name for name in PLAN_ROWS.names if name != "rows"))) as own:
        require_writable_rows(own, [cluster.name for cluster in clusters])
        register_source(own.sparkSession)
        ids = {row["cluster"]: row["cluster_id"] for row in own.select("cluster", "cluster_id").distinct().collect()}
        wanted = iter([cluster for cluster in clusters if cluster.name in ids])
        while part := list(islice(wanted, _AT_ONCE)):
            try:
                failures += _write_part(own, part, ids, {"results": results, "receipts": receipts})
            except PySparkException as error:
                failures.append(error)
                if PartialError.__name__ not in str(error):
                    break  # Spark itself has failed: no others are begun.
    for other in failures[1:]:
        failures[0].add_note(str(other))
    if failures:
        raise failures[0]


def _write_part(
    rows: DataFrame, clusters: Sequence[Cluster], ids: Mapping[str, str], places: Mapping[str, str | None]
) -> list[ApplyRunningError]:
    """Apply the rows of some clusters while their locks are held; return why some are left out."""
    locks: dict[tuple[Path | None, str], ApplyRunningError | None] = {}
    with ExitStack() as stack:
        for cluster in clusters:
            # Two names of one cluster have one lock.
            key = (cluster.folder, ids[cluster.name])
            if cluster.folder is not None and key not in locks:
                try:
                    stack.enter_context(cluster_lock(cluster.folder, cluster.name, ids[cluster.name]))
                    locks[key] = None
                except ApplyRunningError as error:
                    locks[key] = error
        free = [cluster for cluster in clusters if locks.get((cluster.folder, ids[cluster.name])) is None]
        if free:
            names = [cluster.name for cluster in free]
            options = {"clusters": dump_clusters(free), "directory": str(Path.cwd())}
            options |= {option: place for option, place in places.items() if place is not None}
            own = grouped(rows.where(rows["cluster"].isin(names)), names)
            own.write.format(NAME).options(**options).mode("append").save()
    return [error for error in locks.values() if error is not None]


class QuotaSinkWriter(DataSourceArrowWriter):
    """Applies the rows of a task."""

    def __init__(
        self,
        schema: StructType,
        clusters: Sequence[Cluster],
        directory: str | None,
        *,
        results: str | None = None,
        receipts: str | None = None,
    ) -> None:
        """Check what can be checked before there are rows, and create the folders of results and receipts.

        Args:
            clusters: The clusters, see `quotaform.spark.source.load_clusters`.
            directory: What relative paths are relative to.

        Raises:
            ValueError: The columns are not those of `schemas.PLAN_ROWS`.
            OSError: A folder cannot be created.
        """
        found = {field.name: field.dataType for field in schema}
        expected = {field.name: field.dataType for field in PLAN_ROWS}
        if found != expected:
            wrong = sorted(name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name))
            columns = ", ".join(f"{name} {kind.simpleString()}" for name, kind in expected.items())
            raise ValueError(f"{NAME}: these columns are missing, unknown or of another type: {wrong}; write {columns}")
        self.clusters = {cluster.name: cluster for cluster in clusters}
        self.driver = DriverContext.current(directory)
        self.record = Record(results, receipts)
        self.applier = Applier.current()
        with inside(directory):
            self.record.make_folders()

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        """Apply the rows of a partition, cluster by cluster, and record what became of them.

        Raises:
            QuotaformError: The executor does not see where it is to be recorded; nothing was written.
            PartialError: It cannot be recorded.
        """
        by_cluster: dict[str | None, list[Row]] = {}
        for batch in iterator:
            for row in batch.to_pylist():
                by_cluster.setdefault(row["cluster"], []).append(row)
        if not by_cluster:
            return Written()
        context = TaskContext.get()
        partition = 0 if context is None else context.partitionId()
        with self.driver.entered():
            self.record.require_folders()
            if (known := self.record.known(partition)) is not None:
                return known
            unsaved: list[str] = []
            results = [row for name, rows in by_cluster.items() for row in self._applied(name, rows, unsaved)]
            self.record.add(partition, results)
        return summary_of(results, unsaved)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Fail if anything does not hold."""
        require_written([each for each in messages if isinstance(each, Written)], self.record.results)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Do nothing: tasks have recorded what they did. It is called after a `commit` that fails, too."""

    def _applied(self, name: str | None, rows: Sequence[Row], unsaved: list[str]) -> list[ResultRow]:
        started: list[Path | None] = []
        try:
            receipt = self._apply(name, rows, lambda _, receipt: started.append(self.record.start_receipt(receipt)))
        except QuotaformError as error:
            held = {row["entity_key"]: row for row in rows}
            result = Result.NOT_ATTEMPTED.value
            return [{**_about(row), "result": result, "message": str(error)} for row in held.values()]
        if (problem := self.record.add_receipt(receipt, next(iter(started), None))) is not None:
            unsaved.append(problem)
        cluster_id = receipt.plan.header.cluster_id
        return [
            {
                "cluster": name,
                "cluster_id": cluster_id,
                "entity_key": item.entity.address,
                "entity": list(item.entity.parts),
                "result": item.result.value,
                "message": item.message or None,
                "finished_at": receipt.finished_at,
            }
            for item in receipt.results
        ]

    def _apply(self, name: str | None, rows: Sequence[Row], start: Callable[[Cluster, Receipt], None]) -> Receipt:
        """Apply the rows of a cluster; `start` is called as `apply_plans` does."""
        cluster = None if name is None else self.clusters.get(name)
        if name is None or cluster is None:
            known = listed(map(spell_name, self.clusters))
            raise QuotaformError(f"the option clusters has no cluster {name and spell_name(name)}, but {known}")
        cluster_id, changes = cluster_changes(name, rows)
        gateway = open_gateway(cluster)
        try:
            actual = gateway.describe_entities(list(changes))
        except BaseException:
            gateway.close()
            raise
        header = PlanHeader(
            cluster_name=name,
            cluster_id=cluster_id,
            created_at=timestamp(SYSTEM_CLOCK),
            source=PlanSource(directory=NAME),
        )
        plan = Plan(header=header, changes=entity_changes(changes, actual))
        outcome: ClusterOutcome[Receipt]
        (outcome,) = apply_plans(
            [ClusterPlan(cluster, plan)],
            lambda *_: None,
            start=start,
            connect=lambda _: gateway,
            applier=self.applier,
        )
        return outcome.require()


def _about(row: Row) -> dict[str, Any]:
    return {name: row[name] for name in ("cluster", "cluster_id", "entity_key", "entity")}
