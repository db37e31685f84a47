"""Recommendations: sized by a usage table, followed by the files, backtested, and written.

What buckets used is a row for each bucket and broker, from which the quotas of a cluster are sized in a task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import pyarrow
from msgspec import structs
from pyspark.sql import functions as f

from quotaform.fleet.data_source import read_clusters
from quotaform.fleet.job import kept_rows, table_rows
from quotaform.model.entity import spell_name
from quotaform.model.errors import ArgumentError, QuotaformError
from quotaform.model.outcome import ClusterOutcome, Progress
from quotaform.model.quota_key import key_order
from quotaform.model.records.record import made_of
from quotaform.plan.backtest import MOST_IN_PLAN
from quotaform.plan.plan import Plan
from quotaform.plan.run import PlanRequest, plan
from quotaform.repository.repository import Repository
from quotaform.resolve.spark import arrow_schema, columns_of, held_in, packed, struct, unpacked
from quotaform.system.clock import SYSTEM_CLOCK, today
from quotaform.usage.bucket.bucket import RecordedBucket
from quotaform.usage.bucket.spark import packed_usage, per_bucket, quota_buckets
from quotaform.usage.recommend.demand import demand_of
from quotaform.usage.recommend.quota_edit import EditedFiles, edit_quotas, write_quotas
from quotaform.usage.recommend.recommendation import (
    MOST_OTHERS,
    MOST_PROPOSALS,
    Advice,
    ClusterRecording,
    EditRecord,
    ProposalBacktest,
    ProposalSummary,
    Recommendation,
    Recommendations,
    RecommendSettings,
    Sizing,
)
from quotaform.usage.recommend.right_size import recommend
from quotaform.usage.replay.run import backtested
from quotaform.usage.table.table import known_quotas, plain_files, read_usage, require_recorded, usage_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from quotaform.desired.config import Cluster, Config


RECOMMENDATIONS: Final = columns_of(Recommendation)
"""Which quotas would fit; docs/usage-recommend.md says what each column is."""


def plan_proposals(
    repository: Repository,
    config: Config,
    clusters: Sequence[Cluster],
    proposals: Iterable[Recommendation],
    edited: EditedFiles,
) -> tuple[list[Plan], int, list[ClusterOutcome[Any]]]:
    """Plan the clusters that files which follow proposals change.

    Return the plans, of nothing but the entities that proposals are about, each with what the cluster holds; how many
    other entities the files change on these clusters; and the clusters that could not be planned.

    `clusters`: the clusters, which are read now. `edited`: the files that follow the proposals, written or not. Raises
    `InvalidFilesError` if the files are invalid.
    """
    left = {(each.cluster, each.entity, each.key) for each in edited.unwritten}
    followed = {(each.cluster, each.entity) for each in proposals if (each.cluster, each.entity, each.key) not in left}
    chosen = tuple(cluster for cluster in clusters if cluster.name in {name for name, _ in followed})
    request = PlanRequest(
        repository=repository, config=config, clusters=chosen, has_lints=False, is_guarded=False, keeps_actual=True
    )
    plans, others, failed = [], 0, []
    for outcome in plan(request, files=edited.loaded) if chosen else ():
        if outcome.error is not None:
            failed.append(outcome)
            continue
        made = outcome.require()
        mine = tuple(change for change in made.changes if (outcome.cluster, change.entity) in followed)
        rest = len(made.changes) - len(mine)
        others += rest
        plans.append(replace(made, changes=mine, is_complete=False) if rest else made)
    return plans, others, failed


def require_files(repository: Repository, config: Config, clusters: Sequence[Cluster]) -> None:
    """Make sure that files which are to be changed can be read, before anything else is done."""
    loaded = repository.load(config, today(SYSTEM_CLOCK), may_be_empty=True)
    for cluster in clusters:
        loaded.desired(cluster.name)


@contextmanager
def recommended(
    spark: SparkSession,
    usage: str,
    repository: Repository,
    config: Config,
    chosen: Sequence[Cluster],
    settings: RecommendSettings,
    warn: Callable[[str], None],
    *,
    is_changing: bool,
    is_written: bool,
    is_tested: bool,
    progress: Progress,
) -> Iterator[tuple[Recommendations, DataFrame, Sequence[ClusterOutcome[Any]], EditedFiles | None]]:
    """Size quotas by what was recorded, and change the files accordingly, as far as it is asked for.

    Give what is printed, `RECOMMENDATIONS`, sorted, as long as the context lasts, the clusters that could not be read,
    and the files that follow the proposals; `None` if they are not needed.

    `usage`: the usage table. `chosen`: the clusters, which are read now. `warn`: called with a sentence about what is
    left out. `is_changing`: whether somebody asked for the change of the files; otherwise files that cannot follow the
    proposals are a warning, and there is no backtest then. `is_written`: whether the changed files are written.
    `is_tested`: whether the proposals are tested by a backtest. Raises `InvalidFilesError` if the usage cannot be read
    or has no row of the clusters, or the files are to be changed and are invalid. Raises `QuotaformError` if none of
    the clusters could be read, or the files cannot be changed.
    """
    progress("Sizing quotas", 0, 0)
    recorded = read_usage(spark, usage)
    with ExitStack() as stack:

        def kept(rows: DataFrame) -> DataFrame:
            return stack.enter_context(table_rows(rows))

        quotas = kept(read_clusters(spark, chosen))
        held, failed = known_quotas(quotas)
        selected = [cluster.name for cluster in chosen]
        unread = {outcome.cluster for outcome in failed}
        names = [name for name in selected if name not in unread]
        mine, clusters = usage_of(recorded, names, selected)
        files = plain_files(recorded, usage, clusters)
        recording = stack.enter_context(kept_rows(packed_usage(mine, quota_buckets(held), clusters, files)))
        used = kept(bucket_use(recording, settings.percentile, settings.outlier_days))
        spans = used.groupBy("cluster").agg(f.min("first").alias("first"), f.max("last").alias("last"))
        known = {row.pop("cluster"): row for row in spans.toArrow().to_pylist()}
        require_recorded(recorded, usage, names, known, warn)
        rows = kept(recommendations(used, quotas, settings, SYSTEM_CLOCK.now()))
        in_order = rows.orderBy("cluster", "entity_key", "key")
        is_proposed = ~f.col("action").isin([Advice.KEEP.value, Advice.NONE.value])
        counts = {row["action"]: row["count"] for row in rows.groupBy("action").count().toArrow().to_pylist()}
        report = Recommendations(
            usage=usage,
            settings=Sizing(**{name: getattr(settings, name) for name in Sizing.__struct_fields__}),
            clusters=tuple(ClusterRecording(cluster=name, **known.get(name, {})) for name in names),
            summary=ProposalSummary(**{action.value: counts.get(action.value, 0) for action in Advice}),
            proposals=_first(in_order.where(is_proposed), MOST_PROPOSALS),
            others=_first(in_order.where(~is_proposed), MOST_OTHERS),
        )
        total, most = report.summary.proposed, len(report.proposals)
        is_tested, edited = is_tested and total > 0, None
        try:
            if is_changing or is_tested:
                if total > most:
                    problem = f"{total:,} proposals are more than the {most:,} of a change; choose some with {{select}}"
                    raise ArgumentError(problem)
                own = {name: quotas for name, quotas in held.items() if name is not None}
                edited = edit_quotas(repository, config, report.proposals, own, today(SYSTEM_CLOCK))
        except QuotaformError as error:
            if is_changing:
                raise
            warn(f"no backtest of the proposals: {error}")
        if edited is not None and is_tested:
            progress("Replaying usage", 0, 0)
            plans, others, unplanned = plan_proposals(repository, config, chosen, report.proposals, edited)
            for outcome in unplanned:
                warn(f"no backtest of {spell_name(outcome.cluster)}: {outcome.error}")
            tested = ProposalBacktest(unwritten=len(edited.unwritten))
            if plans:
                has_others = len(plans) < len(chosen)
                with backtested(spark, usage, plans, MOST_IN_PLAN, has_others=has_others) as (found, _, _):
                    tested = structs.replace(tested, clusters=found.clusters, others=others)
            report = structs.replace(report, backtest=tested)
        if edited is not None and is_changing:
            if is_written:
                write_quotas(edited)
            changed = tuple(file.name for file in edited.files)
            edit = EditRecord(is_written=is_written, files=changed, unwritten=edited.unwritten)
            report = structs.replace(report, edit=edit)
        yield report, in_order, failed, edited


def _first(rows: DataFrame, most: int) -> tuple[Recommendation, ...]:
    found = [
        made_of(row | {"entity": dict(row["entity"])}, Recommendation) for row in rows.limit(most).toArrow().to_pylist()
    ]
    return tuple(sorted(found, key=lambda each: (each.cluster, each.entity.address, key_order(each.key))))


BUCKET_USE: Final = struct("cluster string", "first last timestamp", "use binary")
"""What each bucket used of each broker: the first and the last sample, and its `BucketDemand`, `packed`."""


def bucket_use(recording: DataFrame, percentile: float, outlier_days: int = 0) -> DataFrame:
    """Return `BUCKET_USE` of `PACKED` under the quotas, which is persisted; see `demand_of` for the other arguments."""

    def use(bucket: RecordedBucket) -> dict[str, Any]:
        demand = demand_of(bucket, percentile, outlier_days)
        return {"cluster": bucket.cluster, "first": demand.first, "last": demand.last, "use": packed(demand)}

    return per_bucket(recording, use, BUCKET_USE)


def recommendations(used: DataFrame, quotas: DataFrame, settings: RecommendSettings, now: datetime) -> DataFrame:
    """Return `RECOMMENDATIONS`: what is proposed for each value of the clusters that could be read.

    `used`: `BUCKET_USE` under these quotas.
    """
    read = quotas.where(f.col("failure").isNull())
    tasks = max(1, min(read.select("cluster").distinct().count(), 200))
    held = read.where(f.col("key").isNotNull() & f.col("value").isNotNull()).select(
        "cluster", "entity_key", "entity", "key", "value", "brokers"
    )

    def sized(values: pyarrow.Table, used: pyarrow.Table) -> pyarrow.Table:
        cluster = (values if values.num_rows else used)["cluster"][0].as_py()
        brokers = values["brokers"][0].as_py() if values.num_rows else None
        demands = list(map(unpacked, used["use"].to_pylist()))
        rows = recommend(cluster, held_in(values).get(cluster, {}), demands, settings, now, brokers)
        found = [structs.asdict(each) | {"entity": each.entity.parts} for each in rows]
        return pyarrow.Table.from_pylist(found, arrow_schema(RECOMMENDATIONS))

    return (
        held.repartition(tasks, "cluster")
        .groupBy("cluster")
        .cogroup(used.repartition(tasks, "cluster").groupBy("cluster"))
        .applyInArrow(sized, RECOMMENDATIONS)
        .select(*RECOMMENDATIONS.names)
    )
