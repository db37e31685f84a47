"""Planning clusters: what an apply would do on each of them, and the way back from an apply."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field, structs

from quotaform.cluster.gateway import Gateway, bulk_of, read_settled
from quotaform.desired.loader import Claim, check_claims
from quotaform.model import rule
from quotaform.model.entity import Entity
from quotaform.model.errors import InvalidFilesError, OtherClusterError
from quotaform.model.finding import Allowance, Approval, Location, by_severity
from quotaform.model.outcome import ClusterOutcome, Kept, Progress, digest_of, loaded, no_progress
from quotaform.model.quotas import Change, Desired, Quotas, SnapshotFile
from quotaform.model.records.record import ClusterRecord
from quotaform.model.scope import ALL, Selection
from quotaform.model.settings import DEFAULT_GUARD_LIMITS, PruneMode
from quotaform.model.text import option_of
from quotaform.plan.blast_radius import make_blast_radius
from quotaform.plan.check.check import CHECKS, is_of_cluster, with_findings
from quotaform.plan.check.guard import GUARDS, ClusterBase, Facts, RemovalSearch, Safeguards, check_second_plan
from quotaform.plan.difference import Pruning, diff, make_plan, prune, removable_entities, removals
from quotaform.plan.digest import ClusterDigest, FleetStatus
from quotaform.plan.plan import Plan, PlanHeader, PlanOptions, PlanSource
from quotaform.plan.source import Source, read_source
from quotaform.repository.gateway import Connect, open_gateway, work_on
from quotaform.repository.policy import NO_POLICIES, LoadedPolicies
from quotaform.repository.repository import Repository, read_claims
from quotaform.system.clock import SYSTEM_CLOCK, Clock, plan_timestamp, today

if TYPE_CHECKING:
    from quotaform.desired.config import Cluster, Config
    from quotaform.desired.loader import LoadedFiles
    from quotaform.plan.base import BaseChoice
    from quotaform.plan.blast_radius import Principals
    from quotaform.plan.principals import PrincipalList
    from quotaform.plan.receipt import Revert, SavedReceipt


class PlanRequest(Struct, frozen=True, kw_only=True):
    """What to plan."""

    repository: Repository
    config: Config
    clusters: tuple[Cluster, ...]
    selection: Selection = ALL
    policies: LoadedPolicies = NO_POLICIES
    base: BaseChoice | None = None
    prune: PruneMode | None = None  # What happens to entities that no file declares, if not what quotaform.yaml says
    revert: SavedReceipt | None = None  # What is to be put back, for `quotaform.plan.run`
    has_lints: bool = True
    allowances: tuple[Allowance, ...] = ()
    approvals: Mapping[Approval, Location] = field(default_factory=dict)  # With their places in the file
    # Whether guards are checked: a plan that only drift is read from is not going to be applied.
    is_guarded: bool = True
    principals: PrincipalList | None = None  # Whose effective limits are compared before and after, if any
    keeps_actual: bool = False  # Whether the plans keep everything that the clusters hold, for a backtest

    def can_apply(self, cluster: Cluster, plan: ClusterDigest) -> bool:
        """Whether a plan has something to apply and a running cluster, even if a snapshot of it was read instead."""
        known = self.config.clusters.get(cluster.name)
        is_running = cluster.snapshot is None or (known is not None and known.snapshot is None)
        return plan.row.status is FleetStatus.CHANGE and is_running


class ActualState(Struct, frozen=True):
    """What was read of a cluster. `principals` is who connects to it, if the plan is to say whose limits change."""

    cluster_id: str
    quotas: Quotas
    snapshot: SnapshotFile | None = None
    principals: Principals | None = None


def make_cluster_plan(
    request: PlanRequest,
    cluster: Cluster,
    reading: ActualState,
    rows: Iterable[Change],
    desired: Desired,
    *,
    source: Source,
    clock: Clock,
    revert: Revert | None = None,
) -> Plan:
    """Make the plan of one cluster of the rows by which it differs, whichever engine found them.

    Raises `OtherClusterError` or `InvalidFilesError`.
    """
    if problems := check_claims([Claim(cluster.name, reading.cluster_id, desired)], source.claims):
        raise InvalidFilesError(problems)
    claimed = _claimed(source.claims, cluster, reading.cluster_id)
    base = ClusterBase() if source.bases is None else source.bases.of(cluster.name)
    if base.cluster_id not in (None, reading.cluster_id):
        raise OtherClusterError("receipt", base.cluster_id or "", reading.cluster_id)
    pruning = _make_pruning(request, cluster.name, reading, desired, base, claimed, clock=clock)
    made = make_plan(
        chain(rows, removals(pruning.pruned, reading.quotas)),
        desired,
        reading.quotas,
        PlanHeader(
            cluster=ClusterRecord(name=cluster.name, id=reading.cluster_id),
            created_at=plan_timestamp(clock),
            source=structs.replace(source.plan_source, base=base.declared.base if base.declared else None),
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
        from quotaform.plan.receipt import as_revert  # Most plans are none.

        made = as_revert(made, revert)
    undeclared = [item.entity for item in made.unmanaged if item.in_scope]
    removed = RemovalSearch()
    if source.history is not None and undeclared:
        applied = pruning.receipt.commit if pruning.receipt else None
        removed = source.history.find(cluster.name, undeclared, applied)
    facts = Facts(
        desired=desired,
        actual=reading.quotas,
        safeguards=Safeguards(request.config, cluster, request.policies.digests),
        selection=request.selection,
        removed=removed,
        approvals={each: at for each, at in request.approvals.items() if is_of_cluster(each, cluster.name)},
        today=today(clock),
        missing=source.missing,
        source_problem=source.problem,
        policies=request.policies.policies,
        base=base,
        pruning=pruning,
        revert=revert,
        has_lints=request.has_lints,
    )
    made = with_findings(made, facts, (*GUARDS, *CHECKS) if request.is_guarded else CHECKS)
    if request.keeps_actual or (request.principals is not None and request.principals.table is not None):
        made = replace(made, actual=reading.quotas)
    if reading.principals is None:
        return made
    file = None if request.principals is None else request.principals.files.get(cluster.name)
    radius, limit_changes = make_blast_radius(reading.principals, reading.quotas, made.changes, file=file)
    return replace(made, blast_radius=radius, limit_changes=limit_changes)


def _claimed(claims: Iterable[Claim], cluster: Cluster, cluster_id: str) -> frozenset[Entity]:
    """Return what other quota repositories declare for a cluster."""
    return frozenset(entity for claim in claims if claim.is_of(cluster.name, cluster_id) for entity in claim.desired)


def _options(request: PlanRequest, cluster: Cluster, revert: Revert | None) -> PlanOptions:
    return PlanOptions.of(
        request.config.guard_limits if request.is_guarded else DEFAULT_GUARD_LIMITS,
        prune=request.prune or request.config.prune,
        select=tuple(request.selection.select),
        exclude=tuple(request.selection.exclude),
        bootstrap_server=cluster.given_servers or None,
        revert=revert.receipt.plan_id if revert else None,
        is_prune_given=request.prune is not None and revert is None,
    )


def _make_pruning(
    request: PlanRequest,
    cluster_name: str,
    reading: ActualState,
    desired: Desired,
    base: ClusterBase,
    claimed: Collection[Entity],
    *,
    clock: Clock,
) -> Pruning:
    """Return what to delete of the entities that no file declares; what other quota repositories claim stays."""
    mode = request.prune or request.config.prune
    if mode is PruneMode.REPORT:
        return Pruning()
    candidates = list(removable_entities(desired, reading.quotas, request.config.scope, claimed))
    if request.selection.is_partial or not candidates:
        return Pruning(mode=mode, candidates=len(candidates))
    declared = base.declared
    problem, receipt = None, None
    ignored: list[str] = []
    if declared is None and request.base is None and mode is PruneMode.REMOVED:
        from quotaform.plan.receipt_file import last_receipt_base  # Most plans read no receipt.

        others = request.config.clusters.keys() - {cluster_name}
        declared, problem, ignored = last_receipt_base(request.repository, reading.cluster_id, clock, others)
        receipt = None if declared is None else declared.base
    elif declared is None and mode is PruneMode.REMOVED:
        problem = f"the base cannot be used, see above; give another one with {option_of('base')}"
    earlier = None if base.safeguards is None else base.safeguards.config

    def was_pruned(entity: Entity) -> bool:
        """Whether it would be deleted with the settings of the base; what is not known has not changed."""
        if earlier is None:
            return True
        return (request.prune or earlier.prune) is PruneMode.SCOPE and earlier.scope.contains(entity)

    return Pruning(
        mode=mode,
        pruned=prune(candidates, mode, declared, was_pruned),
        candidates=len(candidates),
        problem=problem if declared is None else None,
        ignored=tuple(ignored),
        receipt=receipt,
    )


def plan_cluster(
    request: PlanRequest,
    cluster: Cluster,
    gateway: Gateway,
    desired: Desired,
    source: Source,
    *,
    clock: Clock = SYSTEM_CLOCK,
    progress: Progress = no_progress,
) -> Plan:
    """Plan one cluster of what the files declare for it. Raises `ClusterError` if it could not be read."""
    cluster_id = gateway.cluster_id()
    principals = None if request.principals is None else request.principals.of_cluster(cluster)

    def make(actual: Quotas) -> Plan:
        reading = ActualState(cluster_id, actual, gateway.snapshot, principals)
        return make_cluster_plan(request, cluster, reading, diff(desired, actual), desired, source=source, clock=clock)

    return read_settled(gateway, make, bulk_of_plan, clock=clock, progress=progress)


def plan(
    request: PlanRequest,
    *,
    clock: Clock = SYSTEM_CLOCK,
    progress: Progress = no_progress,
    connect: Connect = open_gateway,
    files: LoadedFiles | None = None,
    make: Callable[..., Any] = plan_cluster,
) -> Iterator[ClusterOutcome[Any]]:
    """Plan clusters in this process, all at a time, once the files are read; or do as `make` does with each of them,
    which takes what `plan_cluster` takes.

    Files that are invalid for a cluster are its outcome, whether or not it could be read. An interrupt (Ctrl-C) is
    raised again after the outcomes of all clusters that are finished were yielded.

    `files`: those of the repository, if they were read. Raises `InvalidFilesError` or `BaseError`.
    """
    if files is None:
        files = request.repository.load(request.config, today(clock), may_be_empty=request.is_guarded)
    declared: dict[str, Desired] = {}
    invalid: dict[str, InvalidFilesError] = {}
    for cluster in request.clusters:
        try:
            declared[cluster.name] = files.desired(cluster.name, request.policies.problems)
        except InvalidFilesError as error:
            invalid[cluster.name] = error
    source = read_plan_source(request, files, clock)

    def work(cluster: Cluster, gateway: Gateway, progress: Progress) -> Any:
        return make(request, cluster, gateway, declared[cluster.name], source, clock=clock, progress=progress)

    outcomes = work_on(request.clusters, work, connect, progress, invalid)
    yield from with_same_clusters(outcomes) if request.is_guarded else outcomes


def with_same_clusters(outcomes: Iterable[ClusterOutcome[Any]]) -> Iterator[ClusterOutcome[Any]]:
    """Yield outcomes with a finding for each plan whose live cluster an earlier plan of another name is for, too.

    The plans may be `Kept`; the second of two is not any more.
    """
    earlier: dict[str, Plan | Kept[Plan]] = {}
    for outcome in outcomes:
        made = outcome.value
        if (
            made is None
            or (row := digest_of(made).row).is_snapshot
            or (first := earlier.setdefault(row.cluster_id or "", made)) is made
        ):
            yield outcome
            continue
        one, second = loaded(first), loaded(made)
        known = [finding for finding in second.findings if finding.rule != rule.SAME_CLUSTER.id]
        findings = tuple(by_severity([*known, check_second_plan(one, second)]))
        yield ClusterOutcome(outcome.cluster, replace(second, findings=findings))


def read_plan_source(request: PlanRequest, files: LoadedFiles, clock: Clock) -> Source:
    """Return where the files of a plan come from, and what its base declares.

    Raises `BaseError` or `InvalidFilesError`.
    """
    day, tree = today(clock), files.layout.tree
    source = structs.replace(
        read_source(request.repository, request.config, tree, day),
        missing=tree.missing,
        claims=read_claims(request.repository, request.config, day),
    )
    if request.base is None:
        return source
    from quotaform.plan.base import read_chosen_base

    bases = read_chosen_base(request, request.base, day, files)
    return structs.replace(source, bases=bases)


def bulk_of_plan(made: Plan, actual: Quotas) -> int:
    """Return how many entities a plan changes when that looks like a bulk change in progress, else 0."""
    return bulk_of(len(made.changes), max(len(made.changes) + made.unchanged, len(actual)))


def plan_revert(
    request: PlanRequest,
    *,
    clock: Clock = SYSTEM_CLOCK,
    progress: Progress = no_progress,
    connect: Connect = open_gateway,
) -> Iterator[ClusterOutcome[Plan]]:
    """Plan to put back what an apply changed.

    The files say only whether the next plan would change it again, so that they may be invalid.

    `request.revert` is the receipt, and the only cluster is that of the receipt. The error of its outcome may be a
    `OtherClusterError` or another `StaleError`.
    """
    from quotaform.plan.receipt import find_revert, require_revertible

    receipt = request.revert
    if receipt is None:
        raise ValueError("no receipt to revert")
    request = structs.replace(request, base=None, prune=PruneMode.REPORT)
    repository, day = request.repository, today(clock)
    invalid = "invalid (quotaform validate shows the problems)"
    desired: Desired = {}
    claims: tuple[Claim, ...] = ()
    source = Source(PlanSource(directory=repository.directory.as_posix()))
    files_problem, claims_problem = None, None
    try:
        files = repository.load(request.config, day)
        source = read_source(repository, request.config, files.layout.tree, day)
        desired = files.desired(request.clusters[0].name)
    except InvalidFilesError:  # That is no reason to leave a bad change where it is.
        files_problem = f"the files are {invalid}"
    try:
        claims = read_claims(repository, request.config, day)
    except InvalidFilesError:  # It blocks until that is allowed.
        claims_problem = f"files in roots are {invalid}"

    def bulk(made: tuple[Quotas, Revert], actual: Quotas) -> int:
        # What has moved on counts only in two equal reads.
        revert = made[1]
        return len(revert.moved) + len(revert.unwritable) or bulk_of(len(revert.rows), len(actual))

    def work(cluster: Cluster, gateway: Gateway, progress: Progress) -> Plan:
        cluster_id = gateway.cluster_id()
        if receipt.cluster.id != cluster_id:
            raise OtherClusterError("receipt", expected=receipt.cluster.id, found=cluster_id)
        actual, revert = read_settled(
            gateway,
            lambda actual: (actual, find_revert(receipt, actual, request.selection)),
            bulk,
            clock=clock,
            progress=progress,
        )
        require_revertible(revert)
        principals = None if request.principals is None else request.principals.of_cluster(cluster)
        return make_cluster_plan(
            request,
            cluster,
            ActualState(cluster_id, actual, gateway.snapshot, principals),
            revert.rows,
            desired,
            source=source,
            clock=clock,
            revert=structs.replace(
                revert,
                files_problem=files_problem,
                claimed=_claimed(claims, cluster, cluster_id),
                claims_problem=claims_problem,
                policies_problem=f"policies are {invalid}" if request.policies.problems else None,
            ),
        )

    yield from work_on(request.clusters, work, connect, progress)
