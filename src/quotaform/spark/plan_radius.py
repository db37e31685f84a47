"""Planning clusters beside a table of principals, which no process has all rows of.

Each cluster is planned in a task. What the clusters hold, and what the plans change, then becomes a table that is
joined with the principals, and tasks add to each plan what that amounts to, before it is rendered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as f

from quotaform.app.plan.principals import PrincipalList
from quotaform.app.rendering import Document, StoredResult, render
from quotaform.app.resolve.request_file import nameless_note
from quotaform.cluster.gateway import Progress
from quotaform.core.blast_radius import BlastRadius, DirectionCount
from quotaform.core.digest import PlanDigest
from quotaform.core.limit_change import LimitChange, LimitDirection
from quotaform.core.outcome import ClusterOutcome
from quotaform.core.resolve.entry import NO_LIMIT, Effective
from quotaform.errors import QuotaformError
from quotaform.model.address import parse_address
from quotaform.model.entity import KNOWN_TYPES, Entity
from quotaform.model.precedence import level_of
from quotaform.spark.job.cluster_job import (
    Places,
    ShippedJob,
    collected,
    compressed,
    outcome_of,
    outcome_rows,
    stored_outcomes,
)
from quotaform.spark.job.kept_rows import final_rows, in_few_tasks, repeatable_rows, table_rows
from quotaform.spark.plan_job import PLAN, QUOTA_LINES, same_clusters
from quotaform.spark.radius.blast_radius import blast_radius, distinct_principals, largest_changes, limit_counts
from quotaform.spark.radius.planned_quotas import DocumentLines, planned_quotas_of
from quotaform.spark.schemas import CLUSTER, OUTCOMES, arrow_schema
from quotaform.spark.session.progress import reported_tasks
from quotaform.spark.table.path import located
from quotaform.spark.table.principal_check import count_principals
from quotaform.spark.table.principals import named_principals, read_principals

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, Row, SparkSession


PLAN_FILE: Final = Document("plan-file", "json", {}, PLAN)
"""The document from which a plan is read again."""
_LINE_BYTES: Final = 10
"""About as many bytes a line of quotas takes when it is compressed."""

Outcome = ClusterOutcome[StoredResult[PlanDigest]]
_Radii = Mapping[str, BlastRadius]


def plan_beside_table(
    spark: SparkSession,
    job: ShippedJob,
    people: PrincipalList,
    documents: Sequence[Document],
    progress: Progress,
    warn: Callable[[str], None],
) -> list[Outcome]:
    """Plan clusters, and return one outcome per cluster, in order.

    Args:
        job: Plans clusters, and renders `PLAN_FILE`.
        people: A table of principals, and where all changes of limits are wanted.
        progress: Called with what is being done, and with a sentence if the principals have to be shuffled.
        warn: Called with a sentence if rows are left out, since they name nobody.

    Raises:
        InvalidFilesError: The table cannot be read, or something is wrong in it.
    """
    table = people.table or ""
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
        if people.folder is not None:
            changes.write.parquet(located(people.folder))
        radii = _radii(changes, _totals(principals, job.names), people)
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
    """Return `schemas.OUTCOMES` of all clusters, kept until the stack is closed.

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


def _radii(changes: DataFrame, totals: Mapping[str, int], people: PrincipalList) -> _Radii:
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
            source=people.table or "",
            principals=total,
            affected=counts.get((name, None), DirectionCount()).principals,
            counts={each: counts.get((name, each.value), DirectionCount()) for each in LimitDirection},
            largest=tuple(largest.get(name, ())),
            file=people.folder,
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
    from quotaform.document.plan import load_plan

    plan = replace(load_plan(content + b"\n", "the plan of a task"), blast_radius=radius)
    for each in documents:
        for part in compressed(render(each.subject or PLAN, each.format_name, plan, **each.options)):
            yield {"place": place, "name": each.name, "content": part}
