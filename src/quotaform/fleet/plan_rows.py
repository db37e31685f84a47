"""Rows of plans as they are written to clusters: what they must be, how they are applied, and what became of them.

A task applies the rows of each cluster that it is given by `quotaform.apply.run.apply_cluster`: checked against the
cluster, dry-run, written, read back. Attempts that Spark repeats do no harm, as `quotaform.fleet.apply` says. A cluster
that fails keeps no other from being written. What was done is on record in receipts, which each task writes at once.

Guards are not checked: the rows are taken for those of plans that passed them. A task holds the lock of
`quotaform apply` where it sees its folder. Rows of one entity in several tasks may be refused as stale, so that the
rows of a cluster belong into one: `rows.repartition("cluster")`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from quotaform.apply.applier import Applier
from quotaform.apply.ledger import ClusterPlan, ReceiptKeeper
from quotaform.apply.lock import cluster_lock
from quotaform.apply.run import apply_cluster
from quotaform.fleet.bundle import DriverContext
from quotaform.model.entity import Entity, spell_name
from quotaform.model.errors import PartialError, QuotaformError
from quotaform.model.quotas import Change, Quotas, Values, same_value
from quotaform.model.text import listed, quote
from quotaform.plan.change import EntityChange
from quotaform.plan.check.saved import entity_problems, value_problem
from quotaform.plan.plan import Plan, PlanHeader, PlanSource
from quotaform.plan.receipt import Result
from quotaform.plan.receipt_file import receipt_name
from quotaform.repository.gateway import open_gateway
from quotaform.resolve.effect import NO_EFFECT
from quotaform.resolve.spark_quotas import ENTITY, struct
from quotaform.system.clock import SYSTEM_CLOCK, timestamp

if TYPE_CHECKING:
    import pyarrow

    from quotaform.desired.config import Cluster


PLAN_ROWS: Final = struct("cluster cluster_id entity_key string", ENTITY, "key string", "before after double")
"""The rows of plans as they are written: what each value is and will be; null is no value."""

PlanRow = Mapping[str, Any]

_MOST_REASONS: Final = 5
_NEVER_NULL: Final = ("cluster", "cluster_id", "entity_key", "entity", "key")


class PlanWriter(DataSourceArrowWriter):
    """Applies the rows of each task; it is pickled."""

    def __init__(self, clusters: Iterable[Cluster], receipts: str | None = None) -> None:
        """Make the folder of receipts, which executors must see; `None` if they are not wanted."""
        if receipts is not None:
            Path(receipts).mkdir(parents=True, exist_ok=True)
        self._clusters = {cluster.name: cluster for cluster in clusters}
        self._driver = DriverContext.current(None)
        self._receipts = None if receipts is None else Path(receipts)
        self._applier = Applier.current()

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> Written:
        """Apply `PLAN_ROWS`, cluster by cluster; runs on an executor.

        Raises `QuotaformError` if the folder of receipts is not there, where nobody would look for them.
        """
        by_cluster: dict[str | None, list[PlanRow]] = {}
        for batch in iterator:
            for row in batch.to_pylist():
                by_cluster.setdefault(row["cluster"], []).append(row)
        written = Written()
        with self._driver.entered():
            if by_cluster and self._receipts is not None and not self._receipts.is_dir():
                raise QuotaformError(
                    f"the executor does not see the folder {self._receipts} of the option receipts; nothing was "
                    "written to the clusters of this task; give a folder that all executors see"
                )
            for name, rows in by_cluster.items():
                self._apply(name, rows, written)
        return written

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Fail if anything does not hold."""
        require_written([each for each in messages if isinstance(each, Written)])

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Do nothing: what was done stays done. It is called after a `commit` that fails, too."""

    def _apply(self, name: str | None, rows: Sequence[PlanRow], written: Written) -> None:
        try:
            cluster, plan = self._plan(name, rows)
            keeper = ReceiptKeeper(self._receipts and self._receipts / receipt_name(plan.digest))
            with ExitStack() as stack:
                # That of `quotaform apply`, where this process sees its folder.
                if cluster.folder is not None and cluster.folder.is_dir():
                    stack.enter_context(cluster_lock(cluster.folder, cluster.name, plan.header.cluster_id))
                work = ClusterPlan(cluster, plan)
                receipt, _ = apply_cluster(work, keeper, applier=self._applier)
        except QuotaformError as error:
            for _ in {row["entity_key"] for row in rows}:
                written.add(name, Result.NOT_ATTEMPTED, str(error))
            return
        for item in receipt.results:
            written.add(name, item.result, item.message)
        if keeper.unsaved is not None:
            written.unsaved.append(f"{spell_name(cluster.name)}: {keeper.unsaved}")

    def _plan(self, name: str | None, rows: Sequence[PlanRow]) -> tuple[Cluster, Plan]:
        """Return the plan that rows are, with what the entities hold now of the keys without a row."""
        cluster = None if name is None else self._clusters.get(name)
        if name is None or cluster is None:
            known = listed(map(spell_name, self._clusters))
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


@dataclass(slots=True)
class Written(WriterCommitMessage):
    """What became of the entities of a task; its size does not grow with them."""

    counts: Counter[str] = field(default_factory=Counter)  # How many entities have a `Result`, by its value
    reasons: list[str] = field(default_factory=list)  # Why some do not hold what was written, each once; the first ones
    unsaved: list[str] = field(default_factory=list)  # Why receipts were not written, for each cluster

    def add(self, cluster: str | None, result: Result, message: str | None) -> None:
        """Count an entity."""
        self.counts[result.value] += 1
        reason = f"{'null' if cluster is None else spell_name(cluster)}: {message or result.value}"
        if not result.holds and reason not in self.reasons and len(self.reasons) < _MOST_REASONS:
            self.reasons.append(reason)


def require_written(tasks: Sequence[Written]) -> None:
    """Make sure that all entities hold what was written, and receipts say so.

    Raises `PartialError` with the first reasons if not.
    """
    counts = sum((task.counts for task in tasks), Counter[str]())
    unsaved = [reason for task in tasks for reason in task.unsaved]
    if failed := {result: count for result, count in counts.items() if not Result(result).holds}:
        shown = ", ".join(f"{count:,} {result}" for result, count in sorted(failed.items()))
        reasons = list(dict.fromkeys(reason for task in tasks for reason in task.reasons))[:_MOST_REASONS]
        raise PartialError(
            f"{sum(failed.values()):,} of {counts.total():,} entities do not hold what was written ({shown}): "
            f"{'; '.join(reasons)}"
        )
    if unsaved:
        shown = "; ".join(unsaved[:_MOST_REASONS])
        raise PartialError(f"all is written, but {len(unsaved):,} receipts are not: {shown}")


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


def _invalid(cluster: str, row: PlanRow, problem: str) -> QuotaformError:
    where = [f"cluster {spell_name(cluster)}"]
    where += [f"{name} {quote(row[name])}" for name in ("entity_key", "key") if row[name] is not None]
    return QuotaformError(f"{', '.join(where)}: {problem}; nothing was written to the cluster")
