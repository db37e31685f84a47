"""Planning and comparing clusters on Spark, a cluster in each task; for a table of principals, what changes.

The driver reads the files, and lists of commits, into a `Bundle`; an executor parses the files of the cluster that it
plans, and those that all clusters have in common once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from json import dumps, loads
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, TypeVar
from zlib import decompressobj

from pyspark.sql import functions as f

from quotaform.desired.loader import LoadedFiles
from quotaform.drift.drift import DriftDigest
from quotaform.drift.run import drift_of, without_baseline
from quotaform.fleet.bundle import Bundle
from quotaform.fleet.job import (
    OUTCOMES,
    Made,
    Places,
    ShippedJob,
    collected,
    compressed,
    final_rows,
    in_few_tasks,
    new_bundle,
    outcome_of,
    outcome_rows,
    repeatable_rows,
    run_job,
    ship_job,
    stored_outcomes,
    table_rows,
)
from quotaform.fleet.options import LOCAL_SESSION, SessionOptions
from quotaform.fleet.principals import count_principals, named_principals, read_principals
from quotaform.fleet.session import reported_tasks, spark_session
from quotaform.fleet.table import located
from quotaform.model.entity import KNOWN_TYPES, Entity, parse_address
from quotaform.model.errors import BaseError, QuotaformError
from quotaform.model.outcome import ClusterOutcome, Progress, digest_of, no_progress
from quotaform.model.precedence import level_of
from quotaform.model.records.document import json_number
from quotaform.model.records.field import load_number
from quotaform.plan.base import ClusterBases
from quotaform.plan.blast_radius import BlastRadius, DirectionCount, LimitChange, LimitDirection
from quotaform.plan.plan import Plan, PlanDigest
from quotaform.plan.principals import PrincipalList
from quotaform.plan.run import PlanRequest, plan_cluster, read_plan_source, with_same_clusters
from quotaform.plan.source import Source
from quotaform.plan.spark import blast_radius, distinct_principals, largest_changes, limit_counts
from quotaform.report.format import Document, StoredResult, render
from quotaform.repository.gateway import open_gateway
from quotaform.resolve.request import NO_LIMIT, Effective
from quotaform.resolve.request_file import nameless_note
from quotaform.resolve.spark_quotas import BOOLEAN, CANONICAL, CLUSTER, DOUBLE, NAMES, TEXT, arrow_schema, struct
from quotaform.system.clock import SYSTEM_CLOCK, Clock, today

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, Row, SparkSession

    from quotaform.desired.config import Cluster


PLANNED_QUOTAS: Final = struct(
    cluster=TEXT, entity_key=TEXT, entity=NAMES, key=TEXT, before=DOUBLE, after=DOUBLE, changed=BOOLEAN
)
"""What clusters hold, and what their plans change: each value before and after; null is no value."""


PLAN: Final = "plan"
DRIFT: Final = "drift"
QUOTA_LINES: Final = "quota-lines"
"""The document of what a cluster holds and what its plan changes, if that is needed outside of the task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanJob:
    """Plans clusters."""

    subject: str  # What is made of a plan, and rendered: `plan` or `drift`
    request: PlanRequest
    files: LoadedFiles
    source: Source  # Where they came from, and what the base declares
    clock: Clock
    documents: tuple[Document, ...]

    @property
    def clusters(self) -> Sequence[Cluster]:
        """The clusters of the request."""
        return self.request.clusters

    def run(self, place: int, other: int | None = None) -> Made:
        """Plan a cluster, and render what was asked for.

        `other`: The place of an earlier cluster that turned out to be the same live cluster.
        """
        outcome = self._plan(place)
        if other is not None:
            *_, outcome = with_same_clusters([self._plan(other), outcome])
        value: object = outcome.require()
        if self.subject == DRIFT:
            value = drift_of(self.request, outcome, today(self.clock)).require()
        rendered = {each.name: self._rendered(each, value) for each in self.documents}
        if isinstance(value, Plan) and value.actual is not None:
            rendered[QUOTA_LINES] = planned_quota_lines(value)
        return Made(digest_of(value), rendered)

    def release(self, place: int) -> None:
        """Let go of the files of one cluster."""
        name = self.request.clusters[place].name
        self.files.release(name)
        if isinstance(self.source.bases, ClusterBases):
            self.source.bases.release(name)

    def _plan(self, place: int) -> ClusterOutcome[Plan]:
        cluster: Cluster = self.request.clusters[place]
        desired = self.files.desired(cluster.name, self.request.policies.problems)
        with open_gateway(cluster) as gateway:
            made = plan_cluster(
                self.request,
                cluster,
                gateway,
                desired=lambda: desired,
                source=lambda: self.source,
                clock=self.clock,
            )
        return ClusterOutcome(cluster.name, made)

    def _rendered(self, document: Document, value: object) -> Iterable[str]:
        options: dict[str, Any] = dict(document.options)
        return render(document.subject or self.subject, document.format_name, value, **options)


def same_clusters(outcomes: Iterable[ClusterOutcome[StoredResult[PlanDigest]]]) -> list[tuple[int, int]]:
    """Return the plans whose live cluster an earlier plan of another name is for, too: their places, and its."""
    first: dict[str, int] = {}
    same: list[tuple[int, int]] = []
    for place, outcome in enumerate(outcomes):
        if outcome.value is not None and not outcome.value.digest.is_snapshot:
            earlier = first.setdefault(outcome.value.digest.cluster_id, place)
            if earlier != place:
                same.append((place, earlier))
    return same


def planned_quota_lines(plan: Plan) -> Iterator[str]:
    """Yield what a cluster holds and a plan changes, as JSON lines: entity, key, value before and after, changed.

    Of what stays there are the keys that change somewhere, and all keys of addresses, whose entries can take each
    other's place. A plan without changes has no lines.
    """
    changed = {(row.entity, row.key) for change in plan.changes for row in change.changes}
    keys = {key for _, key in changed}
    for entity, values in (plan.actual or {}).items() if changed else ():
        has_spellings = not CANONICAL.keys().isdisjoint(entity.types)
        for key, value in values.items():
            if (key in keys or has_spellings) and (entity, key) not in changed:
                yield _line(entity, key, value, value, is_changed=False)
    for change in plan.changes:
        for row in change.changes:
            yield _line(row.entity, row.key, row.before, row.after, is_changed=True)


def _line(entity: Entity, key: str, before: float | None, after: float | None, *, is_changed: bool) -> str:
    return f"{dumps([entity.parts, key, json_number(before), json_number(after), is_changed])}\n"


def planned_quotas_of(outcomes: DataFrame, document: str, clusters: Sequence[str]) -> DataFrame:
    """Return `PLANNED_QUOTAS` of the outcomes of clusters.

    `outcomes`: `OUTCOMES`, with `planned_quota_lines` as a document.
    """

    def read(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        import pyarrow

        schema = arrow_schema(PLANNED_QUOTAS)
        place, lines = -1, DocumentLines()
        for batch in batches:
            rows: list[dict[str, Any]] = []
            for row in batch.to_pylist():
                if row["place"] != place:
                    place, lines = row["place"], DocumentLines()
                rows += [_row(clusters[place], line) for line in lines.add(row["content"])]
            yield pyarrow.RecordBatch.from_pylist(rows, schema)

    return outcomes.where(f.col("name") == document).mapInArrow(read, PLANNED_QUOTAS).select(*PLANNED_QUOTAS.names)


class DocumentLines:
    """The lines of a document whose compressed parts come one after the other."""

    def __init__(self) -> None:
        self._decompressor = decompressobj()
        self._rest = b""

    def add(self, content: bytes) -> list[bytes]:
        """Return the lines that are complete with a part."""
        *lines, self._rest = (self._rest + self._decompressor.decompress(content)).split(b"\n")
        return lines


def _row(cluster: str, line: bytes) -> dict[str, Any]:
    parts, key, before, after, is_changed = loads(line)
    entity = Entity.of([(kind, name) for kind, name in parts])
    return {
        "cluster": cluster,
        "entity_key": entity.address,
        "entity": list(entity.parts),
        "key": key,
        "before": load_number(before),
        "after": load_number(after),
        "changed": is_changed,
    }


D = TypeVar("D")

Stored = ClusterOutcome[StoredResult[D]]


def no_warning(text: str) -> None:
    """Warn nobody."""


def plan(
    request: PlanRequest,
    documents: Iterable[Document],
    *,
    session: SessionOptions = LOCAL_SESSION,
    clock: Clock = SYSTEM_CLOCK,
    progress: Progress = no_progress,
    warn: Callable[[str], None] = no_warning,
) -> list[Stored[PlanDigest]]:
    """Plan clusters on Spark; see `quotaform.plan.run.plan`.

    Raises `EngineError`, `InvalidFilesError` or `BaseError`.
    """
    with TemporaryDirectory(prefix="quotaform-") as folder, spark_session(session, progress) as spark:
        principal_list = request.principals
        if principal_list is not None and principal_list.table is not None:
            job, bundle = _job(folder, PLAN, request, [PLAN_FILE], clock, progress)
            shipped = ship_job(spark, bundle, job)
            return list(plan_with_table(spark, shipped, principal_list, tuple(documents), progress, warn))
        job, bundle = _job(folder, PLAN, request, documents, clock, progress)
        shipped = ship_job(spark, bundle, job)
        outcomes = list(run_job(spark, shipped, "Planning clusters on Spark", progress))
        if request.is_guarded and (same := same_clusters(outcomes)):
            # What two plans disagree about is not in their digests: such a plan is made again beside the earlier one.
            again = run_job(spark, shipped, "Comparing plans for the same live cluster", progress, same)
            for (place, _), outcome in zip(same, again, strict=True):
                outcomes[place] = outcome
    return outcomes


def check_drift(
    request: PlanRequest,
    documents: Iterable[Document],
    *,
    session: SessionOptions = LOCAL_SESSION,
    clock: Clock = SYSTEM_CLOCK,
    progress: Progress = no_progress,
) -> list[Stored[DriftDigest]]:
    """Compare clusters on Spark; see `quotaform.drift.run.check_drift`.

    Raises `EngineError` or `InvalidFilesError`.
    """
    with TemporaryDirectory(prefix="quotaform-") as folder:
        try:
            job, bundle = _job(folder, DRIFT, request, documents, clock, progress)
        except BaseError as error:
            return list(without_baseline([cluster.name for cluster in request.clusters], error))
        with spark_session(session, progress) as spark:
            shipped = ship_job(spark, bundle, job)
            return list(run_job(spark, shipped, "Comparing clusters on Spark", progress))


def _job(
    folder: str,
    subject: str,
    request: PlanRequest,
    documents: Iterable[Document],
    clock: Clock,
    progress: Progress,
) -> tuple[PlanJob, Bundle]:
    """Return what executors are to do, and the archive that has the files for it."""
    progress("Reading files", 0, 0)
    bundle = new_bundle(folder)
    day = today(clock)
    repository = replace(request.repository, keep=bundle.keep)
    files = repository.load(request.config, day, may_be_empty=request.is_guarded)
    source = read_plan_source(replace(request, repository=repository), files.layout.tree, clock, files)
    job = PlanJob(subject=subject, request=request, files=files, source=source, clock=clock, documents=tuple(documents))
    return job, bundle


# Planning clusters with a table of principals, which no process has all rows of.
#
# Each cluster is planned in a task. What the clusters hold, and what the plans change, then becomes a table that is
# joined with the principals, and tasks add to each plan what that amounts to, before it is rendered.


PLAN_FILE: Final = Document("plan-file", "json", {}, PLAN)
"""The document from which a plan is read again."""
_LINE_BYTES: Final = 10
"""About as many bytes a line of quotas takes when it is compressed."""

Outcome = ClusterOutcome[StoredResult[PlanDigest]]
_Radii = Mapping[str, BlastRadius]


def plan_with_table(
    spark: SparkSession,
    job: ShippedJob,
    principal_list: PrincipalList,
    documents: Sequence[Document],
    progress: Progress,
    warn: Callable[[str], None],
) -> list[Outcome]:
    """Plan clusters, and return one outcome per cluster, in order.

    Raises `InvalidFilesError`: The table cannot be read, or something is wrong in it.
    """
    table = principal_list.table or ""
    progress("Reading principals", 0, 0)
    read = read_principals(spark, table)
    counts = count_principals(read, table)
    if counts.nameless:
        warn(nameless_note(table, counts.nameless))
        read = named_principals(read)
    with ExitStack() as stack:
        planned = _planned(spark, job, progress, stack)

        progress("Resolving principals before and after the plans", 0, 0)
        clusters = 1 if CLUSTER in read.columns else len(job.names)
        distinct = in_few_tasks(distinct_principals(read), counts.total * clusters)
        principals = stack.enter_context(repeatable_rows(distinct))
        lines = in_few_tasks(planned, _line_count(planned))
        quotas = stack.enter_context(table_rows(planned_quotas_of(lines, QUOTA_LINES, job.names)))
        found = blast_radius(principals, quotas, lambda note: progress(note, 0, 0))
        changes = stack.enter_context(repeatable_rows(found))
        if principal_list.folder is not None:
            changes.write.parquet(located(principal_list.folder))
        radii = _radii(changes, _totals(principals, job.names), principal_list)
        plans = planned.where("name IS NULL OR name = 'plan-file'")
        work = partial(_render, job, radii, tuple(documents))
        rendered = plans.mapInArrow(work, OUTCOMES)
        outcomes = _in_order(collected(spark, rendered, job, len(job.names), "Writing plans", progress), job)
        return [_with_radius(outcome, radii[outcome.cluster]) for outcome in outcomes]


def _with_radius(outcome: Outcome, radius: BlastRadius) -> Outcome:
    """Add the counts to the digest of a plan, which was made before they were known."""
    if outcome.value is None:
        return outcome
    digest = replace(outcome.value.digest, blast_radius=radius.without_changes())
    return replace(outcome, value=replace(outcome.value, digest=digest))


def _planned(spark: SparkSession, job: ShippedJob, progress: Progress, stack: ExitStack) -> DataFrame:
    """Return `OUTCOMES` of all clusters, kept until the stack is closed.

    They are final, so that the blast radius and the plan of a cluster are of the same reading.
    """
    places: Places = [(place, None) for place in range(len(job.names))]
    with reported_tasks(spark, "Planning clusters on Spark", len(places), progress):
        planned = stack.enter_context(final_rows(outcome_rows(spark, job, places)))
    ended = _in_order(stored_outcomes(planned.where("name IS NULL").coalesce(1), job.names), job)
    if same := same_clusters(ended):
        again = stack.enter_context(final_rows(outcome_rows(spark, job, same)))
        planned = planned.where(~planned["place"].isin([place for place, _ in same])).unionAll(again)
    return planned


def _line_count(planned: DataFrame) -> int:
    """Return how many lines of quotas there are, about."""
    size = f.sum(f.octet_length("content"))
    [row] = planned.where(f.col("name") == QUOTA_LINES).agg(size.alias("size")).collect()
    return int(row["size"] or 0) // _LINE_BYTES


def _in_order(outcomes: Iterable[Outcome], job: ShippedJob) -> list[Outcome]:
    found = {outcome.cluster: outcome for outcome in outcomes}
    return [found[name] for name in job.names]


def _totals(principals: DataFrame, clusters: Sequence[str]) -> Mapping[str, int]:
    """Return how many principals each cluster has: all of them, unless the table says which cluster is theirs."""
    if CLUSTER not in principals.columns:
        return dict.fromkeys(clusters, principals.count())
    counts = {row[CLUSTER]: row["count"] for row in principals.groupBy(CLUSTER).count().collect()}
    return {name: counts.get(name, 0) for name in clusters}


def _radii(changes: DataFrame, totals: Mapping[str, int], principal_list: PrincipalList) -> _Radii:
    """Return the blast radius of the plan of each cluster; of the changes, only the largest come to the driver."""
    counts: dict[tuple[str, str | None], DirectionCount] = {
        (row["cluster"], row["direction"]): DirectionCount(row["principals"], row["limits"])
        for row in limit_counts(changes).collect()
    }
    largest: dict[str, list[LimitChange]] = {}
    for row in largest_changes(changes).collect():
        largest.setdefault(row["cluster"], []).append(_limit_change(row))
    return {
        name: BlastRadius(
            source=principal_list.table or "",
            principals=total,
            affected=counts.get((name, None), DirectionCount()).principals,
            counts={each: counts.get((name, each.value), DirectionCount()) for each in LimitDirection},
            largest=tuple(largest.get(name, ())),
            file=principal_list.folder,
        )
        for name, total in totals.items()
    }


def _limit_change(row: Row) -> LimitChange:
    names = [(kind, row[each.parameter]) for kind, each in KNOWN_TYPES.items() if row[each.parameter] is not None]
    return LimitChange(Entity.of(names), row["key"], _limit(row, "before"), _limit(row, "after"))


def _limit(row: Row, side: str) -> Effective:
    address = row[f"{side}_entity_key"]
    if address is None:
        return NO_LIMIT
    entity = parse_address(address)
    return Effective(row[f"{side}_value"], entity, level_of(entity))


def _render(
    job: ShippedJob, radii: _Radii, documents: Sequence[Document], batches: Iterator[pyarrow.RecordBatch]
) -> Iterator[pyarrow.RecordBatch]:
    """Add the blast radius to the plans of a partition, and render them; runs on an executor."""
    import pyarrow

    schema = arrow_schema(OUTCOMES)
    with job.driver.entered():
        lines, plan = DocumentLines(), list[bytes]()
        for batch in batches:
            for row in batch.to_pylist():
                if row["name"] is not None:
                    plan += lines.add(row["content"])
                    continue
                if not isinstance(outcome_of(row["content"]), QuotaformError):
                    for part in _documents(row["place"], radii[job.names[row["place"]]], b"\n".join(plan), documents):
                        yield pyarrow.RecordBatch.from_pylist([part], schema)
                yield pyarrow.RecordBatch.from_pylist([row], schema)
                lines, plan = DocumentLines(), []


def _documents(
    place: int, radius: BlastRadius, content: bytes, documents: Sequence[Document]
) -> Iterator[dict[str, Any]]:
    from quotaform.plan.records import load_plan

    plan = replace(load_plan(content + b"\n", "the plan of a task"), blast_radius=radius)
    for each in documents:
        for part in compressed(render(each.subject or PLAN, each.format_name, plan, **each.options)):
            yield {"place": place, "name": each.name, "content": part}
