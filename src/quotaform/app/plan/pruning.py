"""What a plan deletes although no file declares it."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING

from quotaform.app.base.receipt import last_receipt_base
from quotaform.app.clock import SYSTEM_CLOCK, Clock
from quotaform.core.cluster_base import ClusterBase
from quotaform.core.prune import PruneMode, Pruning, prune, removable_entities
from quotaform.core.safeguards import Safeguards
from quotaform.model.entity import Entity
from quotaform.model.entry import Desired

if TYPE_CHECKING:
    from quotaform.app.plan.request import PlanRequest, Reading


def make_pruning(
    request: PlanRequest,
    cluster_name: str,
    reading: Reading,
    desired: Desired,
    base: ClusterBase,
    claimed: Collection[Entity] = (),
    *,
    clock: Clock = SYSTEM_CLOCK,
) -> Pruning:
    """Return what to delete of the entities that no file declares.

    Args:
        reading: What was read of the cluster.
        desired: What the files declare for it.
        base: What they are compared with.
        claimed: What other quota repositories declare for it.
    """
    mode = request.prune_mode
    if mode is PruneMode.REPORT:
        return Pruning()
    candidates = list(removable_entities(desired, reading.quotas, request.config.scope, claimed))
    if request.selection.is_partial or not candidates:
        return Pruning(mode=mode, candidates=len(candidates))
    declared = base.declared
    problem, receipt = None, None
    ignored: tuple[str, ...] = ()
    if declared is None and request.base is None and mode is PruneMode.REMOVED:
        others = request.config.clusters.keys() - {cluster_name}
        declared, problem, ignored = last_receipt_base(request.repository, reading.cluster_id, clock, others)
        receipt = None if declared is None else declared.base
    elif declared is None and mode is PruneMode.REMOVED:
        problem = "the base cannot be used, see above; give another one with --base"
    return Pruning(
        mode=mode,
        pruned=prune(candidates, mode, declared, partial(_was_pruned, request.prune, base.safeguards)),
        candidates=len(candidates),
        problem=problem if declared is None else None,
        ignored=ignored,
        receipt=receipt,
    )


def _was_pruned(option: PruneMode | None, base: Safeguards | None, entity: Entity) -> bool:
    """Whether an undeclared entity would be deleted with the settings of the base; what is not known has not changed.

    Args:
        option: The mode of the command line, which is that of both.
        base: The settings of the base.
    """
    return base is None or ((option or base.prune) is PruneMode.SCOPE and base.scope.contains(entity))
