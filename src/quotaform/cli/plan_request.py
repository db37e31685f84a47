"""What plan, drift and apply share: from options to what is to be planned."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from quotaform.errors import UsageError

if TYPE_CHECKING:
    from quotaform.app.base.base import BaseChoice
    from quotaform.app.plan.request import PlanRequest
    from quotaform.cli.option.cluster import ManyClusters
    from quotaform.core.prune import PruneMode
    from quotaform.core.scope import Selection
    from quotaform.model.allowance import Allowance


def make_request(
    target: ManyClusters,
    directory: Path | None,
    select: list[str] | None,
    exclude: list[str] | None,
    snapshot: Path | None = None,
    base: BaseChoice | None = None,
    prune: PruneMode | None = None,
    *,
    allow: list[str] | None = None,
    is_guarded: bool = True,
    revert: Path | None = None,
) -> PlanRequest:
    """Return what is to be planned.

    Args:
        snapshot: The snapshot to read instead of a cluster.
        base: What to compare the files with.
        prune: What happens to undeclared entities, if not what quotaform.yaml says.
        is_guarded: Whether guards, policies and lints are checked: not so when only drift is read from the plan.
        revert: The receipt of the apply that is to be reverted.

    Raises:
        UsageError: It is not clear for which clusters, or an option has a wrong value.
        InvalidFilesError: quotaform.yaml or approvals.yaml is invalid, or does not allow the mode of pruning.
        ReceiptFileError: The receipt cannot be read, or is not valid.
        ReceiptFileChangedError: The receipt was changed after it was written.
    """
    from quotaform.app.clock import SYSTEM_CLOCK, today
    from quotaform.app.plan.request import PlanRequest
    from quotaform.app.repository.policy import NO_POLICIES, load_policies

    selection = read_selection(select, exclude)
    allowances: tuple[Allowance, ...] = ()
    if allow:
        from quotaform.cli.option.allowance_reader import read_allowances

        allowances = read_allowances(allow)
    repository = target.repository(directory)
    config = repository.config()
    if prune is not None:
        repository.require_prunable(config, prune)
    receipt = None
    if revert is None:
        clusters = target.choose(repository, config, snapshot=snapshot)
    else:
        from quotaform.app.plan.revert import load_revertible

        receipt = load_revertible(revert)
        pinned = (cluster.name for cluster in config.clusters.values() if cluster.cluster_id == receipt.cluster_id)
        name = next(pinned, receipt.cluster_name)
        clusters = (target.choose_for_plan(repository, revert, name, noun="receipt"),)
    return PlanRequest(
        repository=repository,
        config=config,
        clusters=clusters,
        selection=selection,
        base=base,
        prune=prune,
        policies=load_policies(repository, config) if is_guarded else NO_POLICIES,
        has_lints=is_guarded and revert is None,
        revert=receipt,
        allowances=allowances,
        approvals=repository.approvals(today(SYSTEM_CLOCK)) if is_guarded else (),
        is_guarded=is_guarded,
    )


def read_selection(select: Sequence[str] | None, exclude: Sequence[str] | None) -> Selection:
    """Return the entities that `--select` and `--exclude` leave.

    Raises `UsageError` if there are too many patterns, or one is too long.
    """
    from quotaform.core.scope import Selection, count_problem, pattern_problem

    for option, patterns in (("--select", select), ("--exclude", exclude)):
        if problem := count_problem(patterns or ()):
            raise UsageError(f"{option}: {problem}")
    for pattern in (*(select or ()), *(exclude or ())):
        if problem := pattern_problem(pattern):
            raise UsageError(f"{problem}; shorten it")
    return Selection(tuple(select or ()), tuple(exclude or ()))
