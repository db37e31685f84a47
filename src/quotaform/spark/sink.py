"""Writes rows of plans to clusters: `DataFrame.write.format("kafka_quotas")`.

A task buffers the rows that it is given, and applies those of each cluster by `quotaform.app.apply.apply`: checked
against the cluster, dry-run, written, read back. Attempts that Spark repeats do no harm, as
`quotaform.spark.apply_job` says. A cluster that fails keeps no other from being written; what became of each entity
goes to the table of the option `results`, and the write fails at the end if any entity does not hold its values.

Guards are not checked: the rows are taken for those of plans that passed them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from quotaform.app.apply.apply import ClusterPlan, apply_plans
from quotaform.app.clock import SYSTEM_CLOCK, timestamp
from quotaform.app.repository.repository import open_gateway
from quotaform.app.run import Applier
from quotaform.core.outcome import ClusterOutcome
from quotaform.core.plan import Plan, PlanHeader, PlanSource
from quotaform.core.receipt import Receipt, Result
from quotaform.desired.config import Cluster
from quotaform.errors import PartialError, QuotaformError
from quotaform.model.entity import spell_name
from quotaform.spark.plan_rows import Row, cluster_changes, entity_changes, grouped, require_writable_rows
from quotaform.spark.schemas import PLAN_ROWS, RESULTS, arrow_schema
from quotaform.spark.source import NAME, KafkaQuotas, dump_clusters, inside

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_MOST_REASONS: Final = 5


def write_plan_rows(rows: DataFrame, clusters: Sequence[Cluster], results: str | None = None) -> None:
    """Apply rows of plans, a cluster in each task.

    Args:
        rows: `schemas.PLAN_ROWS` without `rows`.
        clusters: The clusters that they are for.
        results: Where the results are appended as Parquet: a path, or a URI that pyarrow knows.

    Raises:
        QuotaformError: Rows contradict each other or name no cluster; nothing was written.
        PySparkException: Entities of some clusters do not hold what the rows say; the message has their numbers.
    """
    require_writable_rows(rows, [cluster.name for cluster in clusters])
    rows.sparkSession.dataSource.register(KafkaQuotas)
    options = {"clusters": dump_clusters(clusters), "directory": str(Path.cwd())}
    if results is not None:
        options["results"] = results
    grouped(rows, max(1, len(clusters))).write.format(NAME).options(**options).mode("append").save()


@dataclass
class Written(WriterCommitMessage):
    """What became of the entities of one task.

    Attributes:
        results: `schemas.RESULTS` as a stream of Arrow.
    """

    results: bytes


class QuotaSinkWriter(DataSourceArrowWriter):
    """Applies the rows of a task."""

    def __init__(
        self, schema: StructType, clusters: Sequence[Cluster], directory: str | None, results: str | None
    ) -> None:
        """Check what can be checked before there are rows.

        Args:
            schema: The columns of what is written.
            clusters: The clusters, see `quotaform.spark.source.load_clusters`.
            directory: What relative paths are relative to.
            results: Where the results are written.

        Raises:
            ValueError: The columns are not those of `schemas.PLAN_ROWS`.
        """
        found = {field.name: field.dataType for field in schema}
        expected = {field.name: field.dataType for field in PLAN_ROWS}
        if found != expected:
            wrong = sorted(name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name))
            columns = ", ".join(f"{name} {kind.simpleString()}" for name, kind in expected.items())
            raise ValueError(f"{NAME}: these columns are missing, unknown or of another type: {wrong}; write {columns}")
        self.clusters = {cluster.name: cluster for cluster in clusters}
        self.directory = directory
        self.results = results
        self.applier = Applier.current()

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        """Apply the rows of a partition, cluster by cluster."""
        by_cluster: dict[str | None, list[Row]] = {}
        for batch in iterator:
            for row in batch.to_pylist():
                by_cluster.setdefault(row["cluster"], []).append(row)
        with inside(self.directory):
            results = [row for name, rows in by_cluster.items() for row in self._applied(name, rows)]
        return Written(_dump(results))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Write the results, and fail if anything does not hold.

        Raises:
            PartialError: Something does not hold; or the results cannot be written.
        """
        rows = self._keep(messages)
        failed = [row for row in rows if not Result(row["result"]).holds]
        if failed:
            raise PartialError(_failure(failed, len(rows), self.results))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Write the results of those tasks that have any."""
        self._keep(messages)

    def _applied(self, name: str | None, rows: Sequence[Row]) -> list[dict[str, Any]]:
        try:
            receipt = self._apply(name, rows)
        except QuotaformError as error:
            held = {row["entity_key"]: row for row in rows}
            result = Result.NOT_ATTEMPTED.value
            return [{**_about(row), "result": result, "message": str(error)} for row in held.values()]
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

    def _apply(self, name: str | None, rows: Sequence[Row]) -> Receipt:
        """Apply the rows of a cluster.

        Raises:
            QuotaformError: Nothing was written, for this reason.
        """
        cluster = None if name is None else self.clusters.get(name)
        if name is None or cluster is None:
            known = ", ".join(map(spell_name, self.clusters))
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
            [ClusterPlan(cluster, plan)], lambda *_: None, connect=lambda _: gateway, applier=self.applier
        )
        return outcome.require()

    def _keep(self, messages: Sequence[WriterCommitMessage | None]) -> list[dict[str, Any]]:
        """Append the results of tasks to the table, if there is one, and return them.

        Raises:
            PartialError: They cannot be written.
        """
        import pyarrow

        tables = [_load(message.results) for message in messages if isinstance(message, Written)]
        if not tables:
            return []
        table = pyarrow.concat_tables(tables)
        if self.results is not None:
            try:
                with inside(self.directory):
                    _append(table, self.results)
            except (OSError, pyarrow.ArrowException) as error:
                counts = _counts(table.column("result").to_pylist())
                raise PartialError(f"the results cannot be written to {self.results}: {error} ({counts})") from error
        rows: list[dict[str, Any]] = table.to_pylist()
        return rows


def _about(row: Row) -> dict[str, Any]:
    return {name: row[name] for name in ("cluster", "cluster_id", "entity_key", "entity")}


def _dump(results: Sequence[dict[str, Any]]) -> bytes:
    import pyarrow

    table = pyarrow.Table.from_pylist(list(results), arrow_schema(RESULTS))
    stream = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    content: bytes = stream.getvalue().to_pybytes()
    return content


def _load(content: bytes) -> pyarrow.Table:
    import pyarrow

    with pyarrow.ipc.open_stream(content) as reader:
        return reader.read_all()


def _append(table: pyarrow.Table, place: str) -> None:
    """Add a file to a Parquet table; a reader sees all of it or nothing.

    Raises:
        OSError: It cannot be written.
    """
    from pyarrow import fs, parquet

    system, folder = fs.FileSystem.from_uri(place if "://" in place else str(Path(place).absolute()))
    system.create_dir(folder, recursive=True)
    name = f"part-{uuid4().hex}.parquet"
    # What begins with a dot is no part of a table.
    hidden = f"{folder}/.{name}.tmp"
    try:
        parquet.write_table(table, hidden, filesystem=system)
        system.move(hidden, f"{folder}/{name}")
    except BaseException:
        with suppress(OSError):
            system.delete_file(hidden)
        raise


def _failure(failed: Sequence[dict[str, Any]], total: int, results: str | None) -> str:
    reasons = Counter((row["cluster"], row["message"] or row["result"]) for row in failed)
    words = [
        f"{'null' if name is None else spell_name(name)}: {count:,} {reason}"
        for (name, reason), count in reasons.most_common(_MOST_REASONS)
    ]
    if len(reasons) > _MOST_REASONS:
        words.append(f"and for {len(reasons) - _MOST_REASONS:,} more reasons")
    where = "" if results is None else f"; the results are in {results}"
    counts = _counts([row["result"] for row in failed])
    return f"{len(failed):,} of {total:,} entities do not hold what was written ({counts}): {'; '.join(words)}{where}"


def _counts(results: Sequence[str]) -> str:
    return ", ".join(f"{count:,} {result}" for result, count in sorted(Counter(results).items()))
