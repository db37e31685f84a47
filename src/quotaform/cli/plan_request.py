"""What plan, drift and apply share: from options to what is to be planned."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from quotaform.errors import UsageError

if TYPE_CHECKING:
    from quotaform.app.base import BaseChoice
    from quotaform.app.plan import Planner, PlanRequest
    from quotaform.cli.option.cluster import ManyClusters
    from quotaform.core.prune import PruneMode


def make_request(
    target: ManyClusters,
    directory: Path | None,
    select: list[str] | None,
    exclude: list[str] | None,
    snapshot: Path | None = None,
    base: BaseChoice | None = None,
    prune: PruneMode | None = None,
    *,
    checks_files: bool = True,
    revert: Path | None = None,
) -> PlanRequest:
    """Return what is to be planned.

    Args:
        target: For which clusters.
        directory: The quotas directory.
        select: Globs of the part that is asked for.
        exclude: Globs of what is left out of it.
        snapshot: A snapshot to plan against.
        base: What to compare the files with.
        prune: What happens to undeclared entities, if not what quotaform.yaml says.
        checks_files: Whether policies and lints are checked; those of a revert are not.
        revert: The receipt of the apply that is to be reverted.

    Raises:
        UsageError: It is not clear for which clusters.
        InvalidFilesError: quotaform.yaml is invalid, or does not allow the mode of pruning.
        ReceiptFileError: The receipt cannot be read, or is not valid.
        ReceiptFileChangedError: The receipt was changed after it was written.
    """
    from quotaform.app.plan import PlanRequest
    from quotaform.app.policy import NO_POLICIES, load_policies
    from quotaform.core.scope import Selection, count_problem, pattern_problem

    for option, patterns in (("--select", select), ("--exclude", exclude)):
        if problem := count_problem(patterns or ()):
            raise UsageError(f"{option}: {problem}")
    for pattern in (*(select or ()), *(exclude or ())):
        if problem := pattern_problem(pattern):
            raise UsageError(f"{problem}; shorten it")
    repository = target.repository(directory)
    config = repository.config()
    if prune is not None:
        repository.require_prunable(config, prune)
    receipt = None
    if revert is None:
        clusters = target.choose(repository, config, snapshot=snapshot)
    else:
        from quotaform.app.revert import load_revertible

        receipt = load_revertible(revert)
        pinned = (cluster.name for cluster in config.clusters.values() if cluster.cluster_id == receipt.cluster_id)
        name = next(pinned, receipt.cluster_name)
        clusters = (target.choose_for_plan(repository, revert, name, noun="receipt"),)
    checks_files = checks_files and revert is None
    return PlanRequest(
        repository=repository,
        config=config,
        clusters=clusters,
        selection=Selection(tuple(select or ()), tuple(exclude or ())),
        base=base,
        prune=prune,
        policies=load_policies(repository, config) if checks_files else NO_POLICIES,
        has_lints=checks_files,
        revert=receipt,
    )


def planner(engine: str, *, is_revert: bool = False) -> Planner:
    """Return what plans on an engine, or in this process what puts back the changes of an apply."""
    if is_revert:
        from quotaform.app.revert import plan_revert

        return plan_revert
    if engine == "spark":
        from quotaform.spark.plan import plan as plan_on_spark

        return plan_on_spark
    from quotaform.app.plan import plan

    return plan
