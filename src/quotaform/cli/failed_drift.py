"""Reporting a drift check that failed before it was known which clusters to compare."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from quotaform.cli.console import Console
from quotaform.errors import QuotaformError, UsageError

if TYPE_CHECKING:
    from quotaform.app.drift.report import DriftReporter
    from quotaform.cli.option.alerting import Alerting
    from quotaform.cli.option.cluster import ManyClusters


def report_failed_drift(
    error: QuotaformError, alerting: Alerting, target: ManyClusters, seconds: float, console: Console
) -> None:
    """Write metrics and notify, so that the last result does not stand as if the check still succeeded.

    quotaform.yaml could not be used, so the clusters are those that `--cluster` names, and those that the files of
    `--metrics` and `--notify-state` know. Wrong usage is not reported: it is for whoever typed it.

    Args:
        error: Why nothing was compared.
        alerting: What is reported, and to whom.
        target: The clusters that were asked for.
        seconds: How long the run took.
        console: Where it is said that reporting failed, too.
    """
    from quotaform.core.outcome import ClusterOutcome
    from quotaform.views.drift.log_text import warning_text

    try:
        if isinstance(error, UsageError) or not alerting.is_used():
            return
        named = target.literal_names
        reporter = alerting.reporter(named, lambda warning: console.report_failure(f"Warning: {warning_text(warning)}"))
        clusters = {*named, *_known_clusters(reporter, alerting, target.cluster or ())}
        reporter.report([ClusterOutcome(name, error=error) for name in sorted(clusters)], seconds)
        if not clusters:
            console.report_failure(
                "Warning: the failure of this check is in no metric and no notification, because it is not known which "
                "clusters it was about; name them with --cluster"
            )
    except QuotaformError as problem:
        # What failed first is what matters.
        console.report_failure(f"Warning: the failure of this check is not reported: {problem}")


def _known_clusters(reporter: DriftReporter, alerting: Alerting, patterns: Sequence[str]) -> set[str]:
    from quotaform.core.scope import matches_glob

    known = reporter.metrics.clusters_in(alerting.metric_files()) | reporter.alerts.clusters_remembered()
    return {name for name in known if not patterns or any(matches_glob(name, pattern) for pattern in patterns)}
