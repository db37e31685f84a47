"""What follows from a comparison beside its result: metrics and notifications."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from quotaform import __version__
from quotaform.app.clock import Clock
from quotaform.app.drift.alert import DriftAlerts
from quotaform.app.drift.metrics_file import MetricStore
from quotaform.core.check import rule
from quotaform.core.drift.drift import Drift
from quotaform.core.drift.metric import RunFacts
from quotaform.core.outcome import ClusterOutcome
from quotaform.errors import NotReadError, QuotaformError

COMMAND: Final = "drift"


@dataclass(frozen=True, slots=True)
class DriftReporter:
    """Writes metrics and notifies receivers."""

    metrics: MetricStore
    alerts: DriftAlerts
    clock: Clock

    def report(
        self, outcomes: Sequence[ClusterOutcome[Drift]], seconds: float, *, only: Collection[str] | None = None
    ) -> None:
        """Report what a run found. Metrics are written before anybody is notified, which may take long, and after it.

        Args:
            outcomes: One per cluster; one that an interrupt left unread is left out.
            seconds: How long the run took.
            only: All clusters that there are, if nothing is to be kept of others.

        Raises:
            QuotaformError: Metrics cannot be written; receivers were notified.
        """
        if only is not None:
            self.alerts.keep_only(only)
        read = [outcome for outcome in outcomes if not isinstance(outcome.error, NotReadError)]
        found = {outcome.cluster: known_drift(outcome) for outcome in read}
        runs = [self._facts(name, drift, seconds) for name, (drift, _) in found.items()]
        problem = None
        try:
            self.metrics.add(runs, only=only)
        except QuotaformError as error:
            problem = error
        if self.alerts.options.receivers:
            runs = [replace(run, is_notified=self.alerts.notify(run.cluster, *found[run.cluster])) for run in runs]
            if problem is None:
                self.metrics.add(runs, only=only)
        if problem is not None:
            raise problem

    def _facts(self, cluster: str, drift: Drift | None, seconds: float) -> RunFacts:
        first_seen = None if drift is None else self.alerts.record(cluster, drift)
        return RunFacts(
            cluster=cluster,
            command=COMMAND,
            version=__version__,
            finished_at=round(self.clock.now().timestamp(), 3),
            duration=seconds,
            drift=drift,
            first_seen=None if first_seen is None else datetime.fromisoformat(first_seen).timestamp(),
        )


def known_drift(outcome: ClusterOutcome[Drift]) -> tuple[Drift | None, str | None]:
    """Return what was found on a cluster, or why nothing is known of it."""
    if outcome.error is not None:
        return None, str(outcome.error)
    drift = outcome.require()
    if drift.is_known:
        return drift, None
    return None, next(finding.message for finding in drift.findings if finding.rule == rule.CLUSTER_ID.id)
