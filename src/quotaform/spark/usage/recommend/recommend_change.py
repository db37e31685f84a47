"""Right-sized quotas as a change of the quota files: sized, followed by the files, tested, and written or shown.

| step | when |
| --- | --- |
| the quotas are sized by what was recorded | always |
| the files are changed in memory | they are to be written or shown, or there are proposals to test |
| the proposals are tested by a backtest of the changed files | it is asked for, and there are proposals |
| the changed files are written | it is asked for |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import TYPE_CHECKING

from quotaform.app.clock import SYSTEM_CLOCK, Clock, today
from quotaform.app.quota_edit.edited_plan import plan_proposals
from quotaform.app.quota_edit.quota_edit import EditedFiles, edit_quotas, write_quotas
from quotaform.app.repository.repository import Repository
from quotaform.cluster.gateway import Progress, no_progress
from quotaform.core.usage.backtest import MOST_IN_PLAN
from quotaform.core.usage.sizing.recommendation import PROPOSED, ProposalBacktest, RecommendReport, RecommendSettings
from quotaform.errors import QuotaformError, UsageError
from quotaform.model.entity import spell_name
from quotaform.spark.usage.recommend.recommend_run import Recommended, recommended
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
        edited: The files that follow the proposals, written or not.
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


class FileChange(Enum):
    """What is done with the files that follow proposals."""

    NOT_ASKED = auto()
    SHOWN = auto()
    WRITTEN = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecommendRequest:
    """What to size, by what, and what to do with it.

    Attributes:
        usage: The usage table.
        clusters: The clusters, which are read now.
        is_tested: Whether the proposals are tested by a backtest.
    """

    usage: str
    repository: Repository
    config: Config
    clusters: Sequence[Cluster]
    settings: RecommendSettings
    change: FileChange = FileChange.NOT_ASKED
    is_tested: bool = True

    @property
    def is_changing(self) -> bool:
        """Whether somebody asked for the change of the files."""
        return self.change is not FileChange.NOT_ASKED


def require_files(request: RecommendRequest, clock: Clock = SYSTEM_CLOCK) -> None:
    """Make sure that files which are to be changed can be read, before anything else is done."""
    if request.is_changing:
        loaded = request.repository.load(request.config, today(clock), may_be_empty=True)
        for cluster in request.clusters:
            loaded.desired(cluster.name)


@contextmanager
def recommended_change(
    spark: SparkSession,
    request: RecommendRequest,
    warn: Callable[[str], None],
    *,
    clock: Clock = SYSTEM_CLOCK,
    progress: Progress = no_progress,
) -> Iterator[Recommended]:
    """Size quotas and change the files accordingly, as far as it is asked for.

    Without a change that somebody asked for, files that cannot follow the proposals are a warning: there is no backtest
    then.

    Args:
        warn: Called with a sentence about what is left out.

    Raises:
        InvalidFilesError: The usage cannot be read or has no row of the clusters, or the files are to be changed and
            are invalid.
        QuotaformError: None of the clusters could be read, or the files cannot be changed.
    """
    progress("Sizing quotas", 0, 0)
    with recommended(spark, request.usage, request.clusters, request.settings, clock.now(), warn) as found:
        report = found.report
        edited = _edited(request, found, clock, warn)
        if edited is not None and request.is_tested and report.proposals:
            progress("Replaying usage", 0, 0)
            tested = backtest_proposals(
                spark, report, edited, request.repository, request.config, request.clusters, warn
            )
            report = replace(report, backtest=tested)
        yield replace(found, report=_changed(report, edited, request.change))


def _edited(
    request: RecommendRequest, found: Recommended, clock: Clock, warn: Callable[[str], None]
) -> EditedFiles | None:
    """Return the files as they follow the proposals; `None` if they are not needed, or cannot do so for a backtest."""
    report = found.report
    total = sum(report.counts[action] for action in PROPOSED)
    if not request.is_changing and not (request.is_tested and total):
        return None
    try:
        if total > (most := len(report.proposals)):
            raise UsageError(f"{total:,} proposals are more than the {most:,} of a change; choose some with --select")
        return edit_quotas(request.repository, request.config, report.proposals, found.live, today(clock))
    except QuotaformError as error:
        if request.is_changing:
            raise
        warn(f"no backtest of the proposals: {error}")
        return None


def _changed(report: RecommendReport, edited: EditedFiles | None, change: FileChange) -> RecommendReport:
    """Return what is proposed with what becomes of the files, which are written if that is asked for."""
    if edited is None or change is FileChange.NOT_ASKED:
        return report
    return replace(report, edit=write_quotas(edited) if change is FileChange.WRITTEN else edited.edit)
