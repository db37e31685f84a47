"""Applying saved plans: all of them are read and checked before the first one is applied."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quotaform.cli.apply.approval import ask, show_plan
from quotaform.cli.apply.engine import apply_engine
from quotaform.cli.apply.expected import require_expected
from quotaform.cli.apply.run import apply_and_report
from quotaform.errors import QuotaformError, UsageError

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
    repository = target.repository()
    with apply_engine(
        settings, len(files), lambda: sum(file.stat().st_size for file in files if file.is_file())
    ) as engine:
        plans, problems = _read_plans(settings, files, target, repository, engine.keep)
        with (
            settings.reports.covering([each.cluster.name for each in plans]),
            settings.audit.refusals([each.digest for each in plans]),
        ):
            require_expected(plans, settings.expected_id)
            for problem in problems:
                raise problem
            for each in plans:
                must_confirm = each.cluster.confirm == "name" and each.digest.changes > 0 and each.digest.is_applyable
                is_asked = not (settings.auto_approve or settings.is_dry_run)
                if must_confirm and is_asked and sys.stdin.isatty():
                    show_plan(settings, each.plan)
                    ask(settings, each.cluster)
        return apply_and_report(settings, engine, plans, (), repository)


def _read_plans(
    settings: ApplySettings,
    files: Sequence[Path],
    target: ManyClusters,
    repository: Repository,
    keep: Callable[[Plan], Any],
) -> tuple[list[ClusterPlan[Any]], list[QuotaformError]]:
    """Return the plans as an engine keeps them, and why they must not be applied."""
    from quotaform.app.apply.apply import ClusterPlan
    from quotaform.app.plan.plan_file import load_plan_file, require_guards, require_recent

    plans: dict[str, ClusterPlan[Any]] = {}
    problems: list[QuotaformError] = []
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
        plans[cluster.name] = ClusterPlan(cluster, keep(saved))
        try:
            require_recent(saved, settings.max_age)
            require_guards(saved, repository)
        except QuotaformError as error:
            problems.append(error)
    if not plans:
        raise UsageError("each of these plans is for a snapshot, which cannot be applied to")
    if len(plans) > 1 and target.is_narrow:
        raise UsageError("each saved plan names its cluster; leave out the options that choose one")
    return list(plans.values()), problems


def _is_snapshot(plan: Plan, repository: Repository) -> bool:
    """Whether quotaform.yaml says that the cluster of a saved plan is a snapshot."""
    cluster = repository.config().clusters.get(plan.header.cluster_name)
    return cluster is not None and cluster.snapshot is not None
