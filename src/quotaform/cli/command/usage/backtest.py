"""`quotaform usage backtest`: what a plan would have throttled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from quotaform.cli.option.cluster import ManyClusters, Selecting, make_request
from quotaform.cli.option.common import Period, SnapshotOption, UsageOption, argument, option, with_options
from quotaform.cli.option.engine import SparkPlace, spark_job
from quotaform.cli.option.output import DrawnOutOption, Output, printed
from quotaform.cli.present import TableOutput, report_failures
from quotaform.model.errors import InvalidFilesError
from quotaform.model.outcome import ClusterOutcome

if TYPE_CHECKING:
    from quotaform.cli.console import Console
    from quotaform.plan.plan import Plan

_MOST = 10_000


@with_options
def backtest(
    *,
    source: Path | None = argument(
        "[DIR|PLAN.json]", "A quotas directory, which is planned, or a saved plan. [default: quotas.d]"
    ),
    usage: UsageOption,
    target: ManyClusters,
    snapshot: SnapshotOption = None,
    period: Period,
    top: int = option("--top", "How many buckets of each kind to show.", 20, min=1, max=_MOST),
    out: DrawnOutOption = None,
    place: SparkPlace,
    output: Output = printed("usage-backtest"),
) -> int:
    """Replay recorded usage against the limits of a plan: who would have been throttled, when and for how long, next to
    the recorded throttling.

    Each quota is modelled as Kafka implements it: windows of rates, caps on delays, and the token bucket of mutations.
    Lower and upper bounds cover what the recording cannot show. Nothing is written to a cluster.

    \b
    Examples:
      quotaform usage backtest --usage /srv/usage
      quotaform usage backtest plan.json --usage /srv/usage --since 30d
      quotaform usage backtest plan.json --usage /srv/usage --out html=backtest.html
      quotaform usage backtest proposal/quotas.d --snapshot prod.json --usage /srv/usage --out parquet=backtest
    """
    console = output.console
    files = TableOutput(output, out)
    session = place.session(usage)
    outcomes = _plans(console, source, target, snapshot)
    plans = [outcome.value for outcome in outcomes if outcome.value is not None]
    if plans:
        from quotaform.usage.replay.run import BacktestRequest, backtested

        has_others = len(plans) < len(outcomes)
        request = BacktestRequest(
            usage=usage,
            most=top,
            since=period.since,
            until=period.until,
            has_others=has_others,
            is_required=True,
        )
        with spark_job(console, "Replaying usage", session) as (spark, _):
            try:
                with backtested(spark, request, plans, console.warn_of) as (found, rows, replayed):
                    shown = {"replays": replayed()} if files.has_page else {}
                    files.write(found, rows, **shown)
            except InvalidFilesError:
                # The clusters that failed before have errors of their own.
                report_failures(console, outcomes)
                raise
        files.present(found, **shown)
    return report_failures(console, outcomes)


def _plans(
    console: Console, source: Path | None, target: ManyClusters, snapshot: Path | None
) -> Sequence[ClusterOutcome[Plan]]:
    """Return the plans to test, each with what its cluster holds; or why there is none."""
    if source is not None and (source.is_file() or source.suffix == ".json"):
        return [_saved(source, target, snapshot)]
    from quotaform.api import plan_clusters

    request = make_request(target, target.repository(source), Selecting(), snapshot=snapshot, is_guarded=False)
    request = structs.replace(request, keeps_actual=True, has_lints=False)
    return list(plan_clusters(request, progress=console.progress))


def _saved(path: Path, target: ManyClusters, snapshot: Path | None) -> ClusterOutcome[Plan]:
    from quotaform.plan.receipt_file import load_plan_file
    from quotaform.repository.gateway import open_pinned_gateway

    saved = load_plan_file(path)
    name = saved.header.cluster_name
    if snapshot is not None:
        is_known = name in target.repository().config().clusters
        chosen = replace(target, cluster=target.cluster or [name]) if is_known else target
        [cluster] = chosen.choose(snapshot=snapshot)
    else:
        cluster = target.choose_for_plan(target.repository(), path, name)
    with open_pinned_gateway(cluster) as gateway:
        saved.require_cluster(gateway.cluster_id())
        header = structs.replace(saved.header, cluster_name=cluster.name)
        # Plan files do not have what the cluster holds.
        return ClusterOutcome(cluster.name, value=replace(saved, header=header, actual=gateway.describe()))
