"""Rows of plans as they are written to clusters: what they must be, how they are applied, and what became of them.

A task applies the rows of each cluster that it is given by `quotaform.apply.run.apply_cluster`: checked against the
cluster, dry-run, written, read back. Attempts that Spark repeats do no harm, as `quotaform.fleet.apply` says. A cluster
that fails keeps no other from being written. What was done is on record in receipts, which each task writes at once.

Guards are not checked: the rows are taken for those of plans that passed them. Rows of one entity in several tasks may
be refused as stale, so that the rows of a cluster belong into one: `rows.repartition("cluster")`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import PySparkException
from pyspark.sql.datasource import WriterCommitMessage

from quotaform.apply.applier import Applier
from quotaform.apply.ledger import ClusterPlan
from quotaform.apply.lock import cluster_lock
from quotaform.apply.run import apply_cluster
from quotaform.fleet.bundle import DriverContext
from quotaform.fleet.job import by_place, final_rows
from quotaform.fleet.table import located, row_batch
from quotaform.model.entity import Entity, spell_name
from quotaform.model.errors import ApplyRunningError, PartialError, QuotaformError
from quotaform.model.quotas import Change, Quotas, Values, same_value
from quotaform.model.text import listed, quote
from quotaform.plan.change import EntityChange
from quotaform.plan.check.saved import entity_problems, value_problem
from quotaform.plan.plan import Plan, PlanHeader, PlanSource
from quotaform.plan.receipt import Receipt, Result
from quotaform.plan.receipt_file import receipt_name, start_receipt, write_receipt
from quotaform.repository.gateway import open_gateway
from quotaform.resolve.effect import NO_EFFECT
from quotaform.resolve.spark_quotas import DOUBLE, NAMES, TEXT, struct
from quotaform.system.clock import SYSTEM_CLOCK, timestamp

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame

    from quotaform.desired.config import Cluster


PLAN_ROWS: Final = struct(
    cluster=TEXT, cluster_id=TEXT, entity_key=TEXT, entity=NAMES, key=TEXT, before=DOUBLE, after=DOUBLE
)
"""The rows of plans as they are written: what each value is and will be; null is no value."""

RESULTS: Final = struct(
    cluster=TEXT,
    cluster_id=TEXT,
    entity_key=TEXT,
    entity=NAMES,
    result=TEXT,
    message=TEXT,
    finished_at=TEXT,
    unsaved=TEXT,
)
"""What became of each entity that was written: `quotaform.plan.receipt.Result`, and why if it was not applied.

`finished_at` is null where nothing was written to the cluster; `unsaved` is why its receipt could not be written.
"""

PlanRow = Mapping[str, Any]
ResultRow = tuple[Any, ...]
"""A row of `RESULTS`."""

_AT_ONCE: Final = 500
"""How many clusters are written by one job: their locks are open files of the driver."""
_MOST_REASONS: Final = 5
_NEVER_NULL: Final = ("cluster", "cluster_id", "entity_key", "entity", "key")


@dataclass(frozen=True, slots=True, kw_only=True)
class RowApplier:
    """Applies the rows of a task; it is pickled."""

    clusters: Mapping[str, Cluster]
    driver: DriverContext
    receipts: str | None  # A folder that executors see; `None` if receipts are not wanted
    applier: Applier

    @classmethod
    def of(cls, clusters: Iterable[Cluster], directory: str | None, receipts: str | None) -> RowApplier:
        """Return one that has this process's folder, and make the folder of receipts."""
        if receipts is not None:
            Path(receipts).mkdir(parents=True, exist_ok=True)
        return cls(
            clusters={cluster.name: cluster for cluster in clusters},
            driver=DriverContext.current(directory),
            receipts=receipts,
            applier=Applier.current(),
        )

    def __call__(self, batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        """Apply `PLAN_ROWS`, and yield `RESULTS`; runs on an executor."""
        yield row_batch(RESULTS, self.results(batches))

    def results(self, batches: Iterable[pyarrow.RecordBatch]) -> list[ResultRow]:
        """Apply rows, cluster by cluster, and return what became of each entity.

        Raises `QuotaformError` if the folder of receipts is not there, where nobody would look for them.
        """
        by_cluster: dict[str | None, list[PlanRow]] = {}
        for batch in batches:
            for row in batch.to_pylist():
                by_cluster.setdefault(row["cluster"], []).append(row)
        with self.driver.entered():
            if by_cluster and self.receipts is not None and not Path(self.receipts).is_dir():
                raise QuotaformError(
                    f"the executor does not see the folder {self.receipts} of the option receipts; nothing was written "
                    "to the clusters of this task; give a folder that all executors see"
                )
            return [row for name, rows in by_cluster.items() for row in self._applied(name, rows)]

    def _applied(self, name: str | None, rows: Sequence[PlanRow]) -> list[ResultRow]:
        started: list[Path | None] = []

        def start(receipt: Receipt) -> None:
            if self.receipts is not None:
                started.append(start_receipt(Path(self.receipts) / receipt_name(receipt.plan.digest), receipt))

        try:
            cluster, plan = self._plan(name, rows)
            receipt, _ = apply_cluster(ClusterPlan(cluster, plan), lambda _: None, start=start, applier=self.applier)
        except QuotaformError as error:
            held = {row["entity_key"]: row for row in rows}
            result = Result.NOT_ATTEMPTED.value
            return [
                (name, row["cluster_id"], row["entity_key"], dict(row["entity"] or ()), result, str(error), None, None)
                for row in held.values()
            ]
        unsaved = self._save(receipt, next(iter(started), None))
        return [
            (
                name,
                plan.header.cluster_id,
                item.entity.address,
                item.entity.names,
                item.result.value,
                item.message,
                receipt.finished_at,
                unsaved,
            )
            for item in receipt.results
        ]

    def _plan(self, name: str | None, rows: Sequence[PlanRow]) -> tuple[Cluster, Plan]:
        """Return the plan that rows are, with what the entities hold now of the keys without a row."""
        cluster = None if name is None else self.clusters.get(name)
        if name is None or cluster is None:
            known = listed(map(spell_name, self.clusters))
            raise QuotaformError(f"the options name no cluster {name and spell_name(name)}, but {known}")
        cluster_id, changes = cluster_changes(name, rows)
        with open_gateway(cluster) as gateway:
            actual = gateway.describe_entities(list(changes))
        header = PlanHeader(
            cluster_name=name,
            cluster_id=cluster_id,
            created_at=timestamp(SYSTEM_CLOCK),
            source=PlanSource(directory="kafka_quotas"),
        )
        return cluster, Plan(header=header, changes=entity_changes(changes, actual))

    def _save(self, receipt: Receipt, started: Path | None) -> str | None:
        """Write a receipt, if anything was sent; return why it cannot be written."""
        if self.receipts is None or not receipt.results:
            return None
        try:
            path = started or Path(self.receipts) / receipt_name(receipt.plan.digest)
            write_receipt(path, receipt, is_started=started is not None)
        except (OSError, QuotaformError) as error:
            return f"{spell_name(receipt.plan.header.cluster_name)}: {error}"
        return None


def write_plan_rows(
    rows: DataFrame, clusters: Sequence[Cluster], results: str | None = None, receipts: str | None = None
) -> None:
    """Apply rows of plans, a cluster in each task, or a few of very many.

    `rows`: `PLAN_ROWS`. `results`: A folder where `RESULTS` are added as Parquet. `receipts`: A folder where a receipt
    of each cluster is added: a path that executors see.
    Raises `QuotaformError`, `ApplyRunningError` or `PySparkException`.
    """
    failures: list[Exception] = []
    # What was checked is what is written, however the rows are made.
    with final_rows(rows.select(*PLAN_ROWS.names)) as own:
        ids = {row["cluster"]: row["cluster_id"] for row in own.select("cluster", "cluster_id").distinct().collect()}
        if unknown := [name for name in ids if name not in {cluster.name for cluster in clusters}]:
            raise QuotaformError(
                f"there are rows of cluster {_spelled(unknown[0])}, which is not given; nothing was written"
            )
        wanted = iter([cluster for cluster in clusters if cluster.name in ids])
        while part := list(islice(wanted, _AT_ONCE)):
            try:
                failures += _write_part(own, part, ids, results, receipts)
            except PartialError as error:
                failures.append(error)
            except PySparkException as error:
                failures.append(error)
                break  # Spark itself has failed: no others are begun.
    for other in failures[1:]:
        failures[0].add_note(str(other))
    if failures:
        raise failures[0]


def _write_part(
    rows: DataFrame, clusters: Sequence[Cluster], ids: Mapping[str, str], results: str | None, receipts: str | None
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
            applier = RowApplier.of(free, str(Path.cwd()), receipts)
            applied = stack.enter_context(
                final_rows(_grouped(rows, list(applier.clusters)).mapInArrow(applier, RESULTS))
            )
            if results is not None:
                applied.write.mode("append").parquet(located(results))
            require_written([summary_of(map(tuple, applied.toLocalIterator()))], results)
    return [error for error in locks.values() if error is not None]


def _grouped(rows: DataFrame, clusters: Sequence[str]) -> DataFrame:
    """Return the rows of some clusters, those of each in one task."""
    from pyspark.sql.functions import broadcast

    places = rows.sparkSession.createDataFrame(list(enumerate(clusters)), "place int, cluster string")
    return by_place(rows.join(broadcast(places), "cluster"), len(clusters)).select(*PLAN_ROWS.names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Written(WriterCommitMessage):
    """What became of the entities of one task; its size does not grow with them."""

    counts: Mapping[str, int] = field(default_factory=dict)  # How many entities have a `Result`, by its value
    reasons: Mapping[tuple[str | None, str], int] = field(default_factory=dict)
    """Why entities do not hold what was written: the most frequent ones, by cluster and reason."""
    more: int = 0  # How many other reasons there are
    unsaved: tuple[str, ...] = ()  # Why receipts were not written, for each cluster


def summary_of(rows: Iterable[ResultRow]) -> Written:
    """Return what `RESULTS` amount to."""
    counts: Counter[str] = Counter()
    reasons: Counter[tuple[str | None, str]] = Counter()
    unsaved: dict[str, None] = {}
    for cluster, _, _, _, result, message, _, problem in rows:
        counts[result] += 1
        if not Result(result).holds:
            reasons[cluster, message or result] += 1
        if problem is not None:
            unsaved[problem] = None
    most = reasons.most_common(_MOST_REASONS)
    return Written(counts=counts, reasons=dict(most), more=len(reasons) - len(most), unsaved=tuple(unsaved))


def require_written(tasks: Sequence[Written], results: str | None = None) -> None:
    """Make sure that all entities hold what was written.

    `tasks`: What each task has done; a cluster is in one of them. `results`: Where the results are.
    Raises `PartialError`: Some do not; or a receipt was not written.
    """
    counts: Counter[str] = Counter()
    reasons: Counter[tuple[str | None, str]] = Counter()
    for task in tasks:
        counts.update(task.counts)
        reasons.update(task.reasons)
    failed = {result: count for result, count in counts.items() if not Result(result).holds}
    words = [
        f"{'null' if name is None else spell_name(name)}: {count:,} {reason}"
        for (name, reason), count in reasons.most_common(_MOST_REASONS)
    ]
    more = len(reasons) - len(words) + sum(task.more for task in tasks)
    if more:
        words.append(f"and for {more:,} more reasons")
    where = "" if results is None else f"; the results are in {results}"
    unsaved = [text for task in tasks for text in task.unsaved]
    if failed:
        shown = ", ".join(f"{count:,} {result}" for result, count in sorted(failed.items()))
        of_all = f"{sum(failed.values()):,} of {sum(counts.values()):,} entities do not hold what was written"
        raise PartialError(f"{of_all} ({shown}): {'; '.join(words)}{where}")
    if unsaved:
        shown = "; ".join(unsaved[:_MOST_REASONS])
        raise PartialError(f"all is written, but {len(unsaved):,} receipts are not: {shown}{where}")


def cluster_changes(cluster: str, rows: Sequence[PlanRow]) -> tuple[str, dict[Entity, list[Change]]]:
    """Return the id of a cluster and its changes, after making sure that its rows are such as a plan has.

    Raises `QuotaformError` if something is null, contradicts something else, is there twice or is missing, or files
    could not declare it.
    """
    changes: dict[Entity, list[Change]] = {}
    ids = {row["cluster_id"] for row in rows}
    for row in rows:
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


def _problem(entity: Entity, row: PlanRow) -> str | None:
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
