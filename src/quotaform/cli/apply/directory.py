"""Applying a quotas directory: planned, shown and approved in one run."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from quotaform.app.rendering import render
from quotaform.cli.apply.approval import ask, show_plan
from quotaform.cli.apply.engine import apply_engine
from quotaform.cli.apply.expected import require_expected
from quotaform.cli.apply.run import apply_and_report
from quotaform.cli.outcomes import digests, echo_outcomes
from quotaform.cli.plan_engine import quota_bytes
from quotaform.cli.selection import require_selected
from quotaform.core.outcome import ClusterOutcome
from quotaform.errors import NotApprovedError, PlanIdError, UsageError
from quotaform.model.text import listed

if TYPE_CHECKING:
    from quotaform.app.apply.apply import ClusterPlan
    from quotaform.app.plan.request import PlanRequest
    from quotaform.cli.apply.engine import ApplyEngine
    from quotaform.cli.apply.settings import ApplySettings


def apply_directory(settings: ApplySettings, request: PlanRequest, *, takes_all: bool) -> int:
    """Plan clusters, show what would be done, ask, apply it, and return how the process ends.

    Args:
        takes_all: Whether every cluster of quotaform.yaml is meant (`--all`).

    Raises:
        UsageError: A cluster is a snapshot.
        StaleError: A plan is not the approved one.
        NotApprovedError: Nobody approved the plans.
    """
    request = _without_snapshots(settings, request, takes_all=takes_all)
    names = [cluster.name for cluster in request.clusters]
    with (
        settings.reports.covering(names),
        apply_engine(settings, len(names), partial(quota_bytes, request)) as engine,
    ):
        return _apply(settings, request, engine)


def _apply(settings: ApplySettings, request: PlanRequest, engine: ApplyEngine) -> int:
    from quotaform.app.apply.apply import ClusterPlan
    from quotaform.views.plan.outcome_text import render_plan_total

    console = settings.console
    outcomes = tuple(engine.plan(settings, request))
    require_selected(request.selection, digests(outcomes))
    if len(outcomes) == 1:
        show_plan(settings, outcomes[0].require())
    elif settings.is_text:
        echo_outcomes(console, "plan", "text", outcomes, render_plan_total, style=console.style())
        console.echo("\n")
    plans: list[ClusterPlan[Any]] = []
    failed: list[ClusterOutcome[Any]] = []
    for cluster, outcome in zip(request.clusters, outcomes, strict=True):
        if outcome.error is None:
            plans.append(ClusterPlan(cluster, outcome.require()))
        else:
            failed.append(ClusterOutcome(cluster.name, error=outcome.error))
    with settings.audit.refusals([each.digest for each in plans]):
        _require_expected(settings, plans)
        _require_approved(settings, plans)
    return apply_and_report(settings, engine, plans, failed, request.repository)


def _require_approved(settings: ApplySettings, plans: Sequence[ClusterPlan[Any]]) -> None:
    """Ask a person to approve what is going to change, unless nobody is to be asked."""
    changed = [each.cluster for each in plans if each.digest.changes and each.digest.is_applyable]
    if not changed or settings.auto_approve or settings.is_dry_run:
        return
    if not sys.stdin.isatty():
        raise NotApprovedError(
            [cluster.name for cluster in changed],
            "there is no terminal to ask for approval",
            remedy="give --auto-approve, or apply a saved plan",
        )
    for cluster in changed:
        ask(settings, cluster)


def _require_expected(settings: ApplySettings, plans: Sequence[ClusterPlan[Any]]) -> None:
    """Make sure that a plan which was just made is the approved one, or that there is nothing to do."""
    expected = settings.expected_id
    only = plans[0].digest if len(plans) == 1 else None
    if expected is not None and only is not None and not only.changes and only.is_applyable:
        settings.console.warn(
            f"Nothing to do: the cluster matches the files. The plan {expected} is already applied, or its changes "
            "came about otherwise."
        )
        return
    try:
        require_expected(plans, expected)
    except PlanIdError:
        if not settings.is_text:
            settings.console.write_stderr("".join(render("plan", "text", plans[0].plan)))
        raise


def _without_snapshots(settings: ApplySettings, request: PlanRequest, *, takes_all: bool) -> PlanRequest:
    """Return what is left to plan when snapshots, which cannot be applied to, are left out."""
    snapshots = [cluster.name for cluster in request.clusters if cluster.snapshot is not None]
    if not snapshots:
        return request
    if not takes_all or len(snapshots) == len(request.clusters):
        raise UsageError(f"cluster {snapshots[0]} is a snapshot file, which can be planned but not applied")
    settings.console.warn(f"Not applied: {listed(snapshots)}, as a snapshot can only be planned")
    return replace(request, clusters=tuple(cluster for cluster in request.clusters if cluster.snapshot is None))
