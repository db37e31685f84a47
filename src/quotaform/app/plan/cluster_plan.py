"""The plan of one cluster: what is deleted besides, what it was made of, and what the checks find."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from quotaform.app.base.receipt import last_receipt_base
from quotaform.app.clock import SYSTEM_CLOCK, Clock, plan_timestamp, today
from quotaform.app.plan.request import PlanRequest, Reading
from quotaform.app.repository.safeguard import safeguards_of
from quotaform.app.repository.source import Source
from quotaform.core.blast_radius import make_blast_radius
from quotaform.core.change import Change
from quotaform.core.check.facts import Facts, LintRequest
from quotaform.core.check.guard.approval import is_of_cluster
from quotaform.core.check.plan import CHECKS, GUARDS, with_findings
from quotaform.core.claim import Claim, check_claims
from quotaform.core.cluster_base import ClusterBase
from quotaform.core.difference import make_plan, removals
from quotaform.core.guard_limits import DEFAULT_GUARD_LIMITS
from quotaform.core.plan import Plan, PlanHeader
from quotaform.core.plan_options import PlanOptions
from quotaform.core.prune import PruneMode, Pruning, prune, removable_entities
from quotaform.core.revert import Revert, as_revert
from quotaform.core.safeguards import Safeguards
from quotaform.errors import InvalidFilesError, ReceiptClusterError
from quotaform.model.entity import Entity
from quotaform.model.entry import Desired

if TYPE_CHECKING:
    from quotaform.app.plan.request import PlanRequest, Reading
    from quotaform.desired.config import Cluster, Config


def make_cluster_plan(
    request: PlanRequest,
    cluster: Cluster,
    reading: Reading,
    rows: Iterable[Change],
    desired: Desired,
    *,
    source: Source,
    clock: Clock,
    revert: Revert | None = None,
) -> Plan:
    """Make the plan of one cluster of the rows by which it differs, whichever engine found them.

    Args:
        revert: What the rows put back, when they do not come from the files.

    Raises:
        ReceiptClusterError: The base is a receipt of another cluster.
        InvalidFilesError: Another quota repository declares an entity of the files for this cluster.
    """
    claimed = _claimed(source, cluster, reading, desired)
    base = _base_of(source, cluster, reading)
    pruning = make_pruning(request, cluster.name, reading, desired, base, claimed, clock=clock)
    made = make_plan(
        chain(rows, removals(pruning.pruned, reading.quotas)),
        desired,
        reading.quotas,
        PlanHeader(
            cluster_name=cluster.name,
            cluster_id=reading.cluster_id,
            created_at=plan_timestamp(clock),
            source=replace(source.plan_source, base=base.declared.base if base.declared else None),
            options=_options(request, cluster, revert),
            snapshot=reading.snapshot,
        ),
        scope=request.config.scope,
        selection=request.selection,
        allowances=request.allowances,
        base=base.declared,
        pruned=pruning.pruned,
        claimed=claimed,
    )
    if revert is not None:
        made = as_revert(made, revert)
    undeclared = [item.entity for item in made.unmanaged if item.in_scope]
    facts = replace(
        _facts(request, cluster, reading, desired, source, clock),
        removed=source.removed(cluster.name, undeclared, pruning.receipt.commit if pruning.receipt else None),
        base=base,
        pruning=pruning,
        revert=revert,
    )
    made = with_findings(made, facts, (*GUARDS, *CHECKS) if request.is_guarded else CHECKS)
    if request.keeps_actual:
        made = replace(made, actual=reading.quotas)
    if request.principals is not None and request.principals.table is not None:
        return replace(made, actual=reading.quotas)
    if reading.principals is None:
        return made
    file = None if request.principals is None else request.principals.files.get(cluster.name)
    return replace(made, blast_radius=make_blast_radius(reading.principals, reading.quotas, made.changes, file=file))


def _claimed(source: Source, cluster: Cluster, reading: Reading, desired: Desired) -> frozenset[Entity]:
    """Return what other quota repositories declare for a cluster, after making sure that these files do not.

    Raises `InvalidFilesError` if they do.
    """
    claims = [claim for claim in source.claims if claim.is_of(cluster.name, reading.cluster_id)]
    if problems := check_claims([Claim(cluster.name, reading.cluster_id, desired)], claims):
        raise InvalidFilesError(problems)
    return frozenset(entity for claim in claims for entity in claim.desired)


def _base_of(source: Source, cluster: Cluster, reading: Reading) -> ClusterBase:
    """Return the base of a cluster. Raises `ReceiptClusterError` if it is a receipt of another cluster."""
    base = source.bases.get(cluster.name) or ClusterBase()
    if base.cluster_id not in (None, reading.cluster_id):
        raise ReceiptClusterError(base.cluster_id or "", reading.cluster_id)
    return base


def _options(request: PlanRequest, cluster: Cluster, revert: Revert | None) -> PlanOptions:
    return PlanOptions(
        prune=request.prune_mode,
        select=tuple(request.selection.select),
        exclude=tuple(request.selection.exclude),
        limits=request.config.guard_limits if request.is_guarded else DEFAULT_GUARD_LIMITS,
        bootstrap_server=cluster.given_servers or None,
        revert=revert.receipt.plan_id if revert else None,
        is_prune_given=request.prune is not None and revert is None,
    )


def _facts(
    request: PlanRequest, cluster: Cluster, reading: Reading, desired: Desired, source: Source, clock: Clock
) -> Facts:
    """Return what checks need to know that was known before the plan was made."""
    day = today(clock)
    lints = LintRequest(settings=request.config.lints, capacity=cluster.capacity, today=day)
    return Facts(
        desired=desired,
        actual=reading.quotas,
        pinned_id=cluster.cluster_id,
        other_pin=_other_pin(request.config, cluster, reading.cluster_id),
        selection=request.selection,
        source_problem=source.problem,
        policies=request.policies.policies,
        lints=lints if request.has_lints else None,
        safeguards=safeguards_of(request.config, cluster, request.policies.digests),
        approvals=tuple(each for each in request.approvals if is_of_cluster(each, cluster.name)),
        today=day,
        missing=source.missing,
    )


def _other_pin(config: Config, cluster: Cluster, cluster_id: str) -> str | None:
    """Return the name of another live cluster that quotaform.yaml pins to the id of this one."""
    if cluster.name not in config.clusters:
        return None
    return next((name for name in reversed(config.pins.get(cluster_id, ())) if name != cluster.name), None)


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

    `base` is what they are compared with. `claimed` is what other quota repositories declare for it.
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

    `option` is the mode of the command line, which is that of both. `base` holds the settings of the base.
    """
    return base is None or ((option or base.prune) is PruneMode.SCOPE and base.scope.contains(entity))
