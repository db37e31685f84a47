"""`quotaform usage headroom`: how close clients are to their quotas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quotaform.cli.option.cluster import ManyClusters
from quotaform.cli.option.common import Period, SnapshotOption, UsageOption, option, with_options
from quotaform.cli.option.engine import SparkPlace, spark_job
from quotaform.cli.option.output import DrawnOutOption, Output, printed
from quotaform.cli.present import TableOutput, report_failures

if TYPE_CHECKING:
    from quotaform.desired.config import Cluster


@with_options
def headroom(
    *,
    usage: UsageOption,
    target: ManyClusters,
    snapshot: SnapshotOption = None,
    quotas: str | None = option(
        "--quotas DIR|TABLE", "Table of quotas instead of clusters: Parquet, or of the catalog."
    ),
    period: Period,
    top: int = option("--top N", "How many rows to show.", 20, min=1, max=10_000),
    out: DrawnOutOption = None,
    place: SparkPlace,
    output: Output = printed("usage-headroom"),
) -> int:
    """Show how close clients are to their quotas: throttled, at 80% or more, and unused.

    A limit is compared with the 99th percentile of the rates of all clients that share it, on each broker.

    \b
    Examples:
      quotaform usage headroom --usage /srv/usage
      quotaform usage headroom --usage /srv/usage --cluster prod-eu --since 14d --out parquet=headroom
      quotaform usage headroom --usage /srv/usage --cluster prod-eu --out html=headroom.html
      quotaform usage headroom --usage lake.usage --quotas lake.quotas --format json
    """
    console = output.console
    clusters: tuple[Cluster, ...] = ()
    is_unnamed = False
    if quotas is None:
        repository = target.repository()
        config = repository.config()
        clusters = target.choose(repository, config, snapshot=snapshot)
        is_unnamed = len(clusters) == 1 and clusters[0].name not in config.clusters
    from quotaform.fleet.session import require_installed

    require_installed()
    from quotaform.fleet.table import require_table
    from quotaform.usage.headroom.run import HeadroomRequest, measured_headroom
    from quotaform.usage.table.table import QuotaSource

    request = HeadroomRequest(
        usage=usage,
        quotas=QuotaSource(clusters, quotas),
        only_chosen=bool(target.cluster),
        is_unnamed=is_unnamed,
        since=period.since,
        until=period.until,
        most=top,
    )
    files = TableOutput(output, out)
    session = place.session(usage)
    if quotas is not None:
        require_table(quotas, session)
    with (
        spark_job(console, "Measuring headroom", session) as (spark, _),
        measured_headroom(spark, request, console.warn_of) as found,
    ):
        files.write(found.report, found.rows)
    files.present(found.report)
    return report_failures(console, found.failed)
