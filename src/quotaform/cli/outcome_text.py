"""What became of many clusters: a section for each that failed, and the lines that sum up all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from quotaform.apply.freshness import Freshness
from quotaform.apply.report import resources_line
from quotaform.drift.drift import DriftClass, DriftDigest
from quotaform.drift.report import summary_line
from quotaform.model.entity import spell_name
from quotaform.model.errors import NotReadError, QuotaformError
from quotaform.model.outcome import ClusterOutcome
from quotaform.model.quotas import Action
from quotaform.model.text import listed
from quotaform.plan.plan import PlanDigest
from quotaform.plan.receipt import ReceiptDigest
from quotaform.plan.report import NOTHING_SELECTED, no_changes_line, plan_line
from quotaform.report.text import PLAIN, Style, cluster_line, counted

T = TypeVar("T")


def render_failure(cluster: str, error: QuotaformError, style: Style = PLAIN) -> str:
    """Return the section of a cluster for which nothing could be made."""
    return f"{cluster_line(cluster, style)}\n{style.paint('Error:', 'red')} {error.text_of(cluster)}\n"


def render_plan_total(outcomes: Sequence[ClusterOutcome[PlanDigest]], style: Style = PLAIN) -> str:
    """Return what all plans do together, in Terraform's words, and which clusters failed."""
    plans = list(_values(outcomes))
    counts = {action: sum(plan.summary[action.value] for plan in plans) for action in Action}
    blocked = sum(not plan.is_applyable for plan in plans)
    lines = [_clusters_line(outcomes, f"{sum(plan.changes > 0 for plan in plans)} with changes", blocked)]
    if any(counts.values()):
        lines.append(style.paint(plan_line(counts), "bold"))
    elif len(plans) == len(outcomes) and not blocked:
        has_entities = any(plan.has_entities for plan in plans)
        undeclared = sum(plan.undeclared for plan in plans)
        lines.append(style.paint(no_changes_line(undeclared) if has_entities else NOTHING_SELECTED, "bold"))
    return "\n".join(lines) + "\n"


def render_drift_total(outcomes: Sequence[ClusterOutcome[DriftDigest]], style: Style = PLAIN) -> str:
    """Return how many clusters have drift, which could not be compared, and how many entities differ on all of them."""
    drifts = list(_values(outcomes))
    drifted = sum(drift.status == "drift" for drift in drifts)
    unknown = sum(not drift.is_known for drift in drifts)
    lines = [_clusters_line(outcomes, f"{drifted} with drift", unknown, "unknown")]
    known = [drift for drift in drifts if drift.is_known]
    counts = {each.value: sum(drift.summary[each.value] for drift in known) for each in DriftClass}
    if any(counts.values()) or len(known) == len(outcomes):
        partial = "" if all(drift.is_complete for drift in known) else " of what was selected"
        line = summary_line(
            counts,
            sum(drift.in_sync for drift in known),
            partial,
            pending=sum(drift.pending for drift in known),
            ignored=sum(drift.ignored for drift in known),
        )
        has_entities = any(drift.has_entities for drift in known)
        lines.append(style.paint(line if has_entities else NOTHING_SELECTED, "bold"))
    return "\n".join(lines) + "\n"


def render_receipt_total(outcomes: Sequence[ClusterOutcome[ReceiptDigest]], style: Style = PLAIN) -> str:
    """Return what was applied to all clusters together, and which are not as planned."""
    receipts = list(_values(outcomes))
    complete = sum(receipt.is_complete for receipt in receipts)
    is_complete = complete == len(outcomes)
    return (
        f"{_clusters_line(outcomes, f'{complete} complete', len(receipts) - complete, 'incomplete')}\n"
        f"{style.paint(resources_line(receipts, is_complete=is_complete), 'green' if is_complete else 'red')}\n"
    )


def render_dry_run(outcomes: Sequence[ClusterOutcome[Freshness]], style: Style = PLAIN) -> str:
    """Return what an apply would do to all clusters together, and which it would not do it to."""
    checked = list(_values(outcomes))
    to_do = Counter(change.action for each in checked for change in each.pending)
    applied = sum(len(each.applied) for each in checked)
    lines = [_clusters_line(outcomes, f"{len(checked)} can be applied")] if len(outcomes) > 1 else []
    is_complete = len(checked) == len(outcomes)
    resources = (
        f" Resources: {to_do[Action.CREATE]} to add, {to_do[Action.UPDATE]} to change, "
        f"{to_do[Action.DELETE]} to destroy{f' ({applied} already applied)' if applied else ''}."
    )
    line = f"Dry run {'complete' if is_complete else 'failed'}!{resources if checked else ''} Nothing was written."
    return "\n".join([*lines, style.paint(line, "green" if is_complete else "red")]) + "\n"


def _values(outcomes: Iterable[ClusterOutcome[T]]) -> Iterator[T]:
    return (outcome.require() for outcome in outcomes if outcome.error is None)


def _clusters_line(outcomes: Sequence[ClusterOutcome[T]], what: str, others: int = 0, word: str = "blocked") -> str:
    unread = [spell_name(outcome.cluster) for outcome in outcomes if isinstance(outcome.error, NotReadError)]
    failed = [
        spell_name(outcome.cluster)
        for outcome in outcomes
        if outcome.error is not None and not isinstance(outcome.error, NotReadError)
    ]
    parts = [what]
    if others:
        parts.append(f"{others} {word}")
    if failed:
        parts.append(f"{len(failed):,} failed: {listed(failed)}")
    if unread:
        parts.append(f"{len(unread):,} not read: {listed(unread)}")
    return f"{counted(len(outcomes), 'cluster')}: {', '.join(parts)}."
