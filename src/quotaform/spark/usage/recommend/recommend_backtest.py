"""The backtest of proposals: what the changed quota files would have throttled of the usage that they rest on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from quotaform.app.quota_edit.edited_plan import plan_proposals
from quotaform.app.quota_edit.quota_edit import EditedFiles
from quotaform.app.repository.repository import Repository
from quotaform.core.usage.backtest import MOST_IN_PLAN
from quotaform.core.usage.sizing.recommendation import ProposalBacktest, RecommendReport
from quotaform.model.entity import spell_name
from quotaform.spark.usage.replay.backtest_run import BacktestRequest, backtested

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from quotaform.desired.config import Cluster, Config


def backtest_proposals(
    spark: SparkSession,
    report: RecommendReport,
    edited: EditedFiles,
    repository: Repository,
    config: Config,
    clusters: Sequence[Cluster],
    warn: Callable[[str], None],
) -> ProposalBacktest:
    """Return what the changed files of proposals would have throttled of the same usage.

    Args:
        spark: The session.
        report: What is proposed.
        edited: The files that follow the proposals, written or not.
        repository: Where the files are.
        config: The content of quotaform.yaml.
        clusters: The clusters, which are read now.
        warn: Called with a sentence about a cluster that cannot be planned.

    Raises:
        InvalidFilesError: The files are invalid, or the usage cannot be read.
    """
    proposed = plan_proposals(repository, config, clusters, report.proposals, edited)
    for name, error in proposed.failures:
        warn(f"no backtest of {spell_name(name)}: {error}")
    unwritten = len(edited.edit.unwritten)
    if not proposed.plans:
        return ProposalBacktest(unwritten=unwritten)
    has_others = len(proposed.plans) < len(clusters)
    tested = BacktestRequest(usage=report.usage, most=MOST_IN_PLAN, has_others=has_others)
    with backtested(spark, tested, proposed.plans) as (found, _):
        return ProposalBacktest(clusters=found.clusters, unwritten=unwritten, others=proposed.others)
