"""Applying saved plans: all of them are read and checked before the first one is applied."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from quotaform.cli.apply.approval import ask, show_plan
from quotaform.cli.apply.expected import require_expected
from quotaform.cli.apply.interruption import noting_nothing_written
from quotaform.cli.apply.run import apply_and_report
from quotaform.errors import UsageError

if TYPE_CHECKING:
    from quotaform.app.apply.apply import ClusterPlan
    from quotaform.app.repository.repository import Repository
    from quotaform.cli.apply.settings import ApplySettings
    from quotaform.cli.option.cluster import ManyClusters
    from quotaform.core.plan import Plan


def apply_saved(settings: ApplySettings, files: Sequence[Path], target: ManyClusters) -> int:
    """Apply plan files, and return how the process ends.

    Raises:
        UsageError: A file is no plan, or it is not clear for which cluster it is.
        PlanFileError: A plan cannot be read.
        StaleError: A plan was changed after it was written, is not the approved one, is too old, or was made by looser
            guards than those of the repository.
        NotApprovedError: A person did not approve a plan.
    """
    from quotaform.app.plan.plan_file import require_guards, require_recent

    repository = target.repository()
    plans = _read_plans(settings, files, target, repository)
    with noting_nothing_written(), settings.audit.refusals([plan for _, plan in plans]):
        require_expected(plans, settings.expected_id)
        for _, plan in plans:
            require_recent(plan, settings.max_age)
            require_guards(plan, repository)
        for cluster, plan in plans:
            must_confirm = cluster.confirm == "name" and bool(plan.changes) and plan.is_applyable
            if must_confirm and not settings.auto_approve and sys.stdin.isatty():
                show_plan(settings, plan)
                ask(settings, cluster)
    return apply_and_report(settings, plans, (), repository)


def _read_plans(
    settings: ApplySettings, files: Sequence[Path], target: ManyClusters, repository: Repository
) -> list[ClusterPlan]:
    from quotaform.app.apply.apply import ClusterPlan
    from quotaform.app.plan.plan_file import load_plan_file

    plans: dict[str, ClusterPlan] = {}
    for path in files:
        if path.suffix in {".yaml", ".yml"}:
            raise UsageError(f"{path} contains quotas; apply takes saved plans or a quotas directory")
        saved = load_plan_file(path)
        if len(files) > 1 and _is_snapshot(saved, repository):
            settings.console.warn(f"Not applied: {path} is a plan for cluster {saved.header.cluster_name}, a snapshot")
            continue
        cluster = target.choose_for_plan(repository, path, saved.header.cluster_name)
        if cluster.name in plans:
            raise UsageError(f"{path}: another plan is also for cluster {cluster.name}; give one of them")
        plans[cluster.name] = ClusterPlan(cluster, saved)
    if not plans:
        raise UsageError("each of these plans is for a snapshot, which cannot be applied to")
    if len(plans) > 1 and target.is_narrow:
        raise UsageError("each saved plan names its cluster; leave out the options that choose one")
    return list(plans.values())


def _is_snapshot(plan: Plan, repository: Repository) -> bool:
    """Whether quotaform.yaml says that the cluster of a saved plan is a snapshot."""
    cluster = repository.config().clusters.get(plan.header.cluster_name)
    return cluster is not None and cluster.snapshot is not None
