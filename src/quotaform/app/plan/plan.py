"""Planning clusters: what an apply would do on each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol

from quotaform.app.actual import bulk_of, read_settled
from quotaform.app.clock import SYSTEM_CLOCK, Clock, plan_timestamp, today
from quotaform.app.each_cluster import ClusterWork, Connect
from quotaform.app.plan.pruning import make_pruning
from quotaform.app.repository.policy import NO_POLICIES, LoadedPolicies
from quotaform.app.repository.repository import Repository, open_gateway
from quotaform.app.repository.safeguard import safeguards_of
from quotaform.app.repository.source import Source, read_source
from quotaform.app.steps import Steps
from quotaform.cluster.gateway import Gateway, Progress, no_progress
from quotaform.core.change import Change
from quotaform.core.check.facts import Facts, LintRequest
from quotaform.core.check.plan import CHECKS, GUARDS, with_findings
from quotaform.core.claim import Claim, check_claims
from quotaform.core.cluster_base import ClusterBase
from quotaform.core.difference import diff, make_plan, removals
from quotaform.core.guard_limits import DEFAULT_GUARD_LIMITS
from quotaform.core.outcome import ClusterOutcome
from quotaform.core.plan import Plan, PlanHeader
from quotaform.core.plan_options import PlanOptions
from quotaform.core.prune import PruneMode
from quotaform.core.receipt import SavedReceipt
from quotaform.core.revert import Revert, as_revert
from quotaform.core.scope import ALL, Selection
from quotaform.errors import InvalidFilesError, ReceiptClusterError
from quotaform.model.allowance import Allowance
from quotaform.model.approval import Approval
from quotaform.model.entry import Desired
from quotaform.model.quotas import Quotas
from quotaform.model.snapshot import SnapshotFile

if TYPE_CHECKING:
    from quotaform.app.base.base import BaseChoice
    from quotaform.desired.config import Cluster, Config
    from quotaform.desired.loader import LoadedFiles
    from quotaform.desired.tree import Tree


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """What to plan.

    Attributes:
        repository: Where the files are.
        config: The content of quotaform.yaml.
        clusters: The clusters to plan for.
        selection: The part of each that was asked for.
        policies: The policies that the plans are checked against.
        base: What to compare the files with, if anything.
        prune: What happens to entities that no file declares, if not what quotaform.yaml says.
        revert: What is to be put back, for `quotaform.app.plan.revert`.
        has_lints: Whether lints are made.
        allowances: The rules that the operator allows.
        approvals: What the repository approves.
        is_guarded: Whether guards are checked: a plan that only drift is read from is not going to be applied.
    """

    repository: Repository
    config: Config
    clusters: tuple[Cluster, ...]
    selection: Selection = ALL
    policies: LoadedPolicies = NO_POLICIES
    base: BaseChoice | None = None
    prune: PruneMode | None = None
    revert: SavedReceipt | None = None
    has_lints: bool = True
    allowances: tuple[Allowance, ...] = ()
    approvals: tuple[Approval, ...] = ()
    is_guarded: bool = True

    @property
    def prune_mode(self) -> PruneMode:
        """What happens to entities that no file declares."""
        return self.prune or self.config.prune


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read of a cluster.

    Attributes:
        cluster_id: The id that the cluster gave itself.
        quotas: Everything that it holds.
        snapshot: The snapshot that was read in its place.
    """

    cluster_id: str
    quotas: Quotas
    snapshot: SnapshotFile | None = None


class Planner(Protocol):
    """Plans clusters, in this process or elsewhere; see `plan`."""

    def __call__(
        self, request: PlanRequest, *, clock: Clock = SYSTEM_CLOCK, progress: Progress = no_progress
    ) -> Iterator[ClusterOutcome[Plan]]: ...


def plan(
    request: PlanRequest,
    *,
    clock: Clock = SYSTEM_CLOCK,
    progress: Progress = no_progress,
    connect: Connect = open_gateway,
) -> Iterator[ClusterOutcome[Plan]]:
    """Plan clusters in this process, all at a time: the files are read while the brokers answer.

    Files that are invalid for a cluster are its outcome, whether or not it could be read. An interrupt (Ctrl-C) is
    raised again after the outcomes of all clusters that are finished were yielded.

    Args:
        request: What to plan.
        clock: The time.
        progress: Called with what is being done.
        connect: Opens the gateway of a cluster.

    Yields:
        One outcome per cluster, in the order of the request.

    Raises:
        InvalidFilesError: Nothing could be read for any cluster.
        BaseError: The base that somebody named cannot be read.
    """
    declared: dict[str, Future[Desired]] = {cluster.name: Future() for cluster in request.clusters}
    context: Future[Source] = Future()
    steps = Steps(progress)
    step = steps if len(request.clusters) == 1 else no_progress

    def work(cluster: Cluster, gateway: Gateway) -> Plan:
        return plan_cluster(
            request,
            cluster,
            gateway,
            desired=declared[cluster.name].result,
            source=context.result,
            clock=clock,
            progress=step,
        )

    with ClusterWork(request.clusters, work, connect) as working:
        invalid: dict[str, InvalidFilesError] = {}
        try:
            files = request.repository.load(request.config, today(clock), may_be_empty=request.is_guarded)
            for cluster in request.clusters:
                try:
                    declared[cluster.name].set_result(files.desired(cluster.name, request.policies.problems))
                except InvalidFilesError as error:
                    invalid[cluster.name] = error
                    declared[cluster.name].set_exception(error)
            context.set_result(read_plan_source(request, files.layout.tree, clock, files))
        except BaseException as error:
            _fail((*declared.values(), context), error)
            raise
        yield from working.outcomes(invalid, steps)


def _fail(futures: Iterable[Future[Any]], error: BaseException) -> None:
    """Let nobody wait for what will not come: the threads of a process that goes on would pile up."""
    for future in futures:
        if not future.done():
            future.set_exception(error)


def plan_cluster(
    request: PlanRequest,
    cluster: Cluster,
    gateway: Gateway,
    *,
    desired: Callable[[], Desired],
    source: Callable[[], Source],
    clock: Clock = SYSTEM_CLOCK,
    progress: Progress = no_progress,
) -> Plan:
    """Plan one cluster.

    Args:
        request: What to plan.
        cluster: The cluster.
        gateway: Its gateway.
        desired: Returns what the files declare for it; called after the first read was asked for.
        source: Returns where the files came from; called like `desired`.
        clock: The time.
        progress: Called with what is being done.

    Raises:
        ClusterError: The cluster could not be read.
    """
    cluster_id = gateway.cluster_id()

    def make(actual: Quotas) -> Plan:
        declared = desired()
        return make_cluster_plan(
            request,
            cluster,
            Reading(cluster_id, actual, gateway.snapshot),
            diff(declared, actual),
            declared,
            source=source(),
            clock=clock,
        )

    return read_settled(gateway, make, bulk_of_plan, clock=clock, progress=progress)


def read_plan_source(request: PlanRequest, tree: Tree, clock: Clock, files: LoadedFiles | None = None) -> Source:
    """Return where the files of a plan come from, and what its base declares.

    Args:
        request: What to plan.
        tree: The quotas directory as it was read.
        clock: The time.
        files: What was parsed of it, which is not parsed again for the base.

    Raises:
        BaseError: The base that somebody named cannot be read.
        InvalidFilesError: Another quota repository that quotaform.yaml lists is invalid.
    """
    day = today(clock)
    source = replace(read_source(request.repository, request.config, tree, day), missing=tree.missing)
    if request.config.roots:
        from quotaform.app.repository.root import read_claims

        source = replace(source, claims=read_claims(request.repository, request.config, day))
    if request.base is None:
        return source
    from quotaform.app.base.base import read_chosen_base

    bases = read_chosen_base(request.repository, request.config, request.base, request.clusters, day, similar=files)
    return replace(source, bases=bases)


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
        request: What to plan.
        cluster: The cluster.
        reading: What was read of it.
        rows: What is to change.
        desired: What the files declare for it.
        source: Where the files came from.
        clock: The time.
        revert: What the rows put back, when they do not come from the files.

    Raises:
        ReceiptClusterError: The base is a receipt of another cluster.
        InvalidFilesError: Another quota repository declares an entity of the files for this cluster.
    """
    actual = reading.quotas
    claims = [claim for claim in source.claims if claim.is_of(cluster.name, reading.cluster_id)]
    if problems := check_claims([Claim(cluster.name, reading.cluster_id, desired)], claims):
        raise InvalidFilesError(problems)
    claimed = frozenset(entity for claim in claims for entity in claim.desired)
    base = source.bases.get(cluster.name) or ClusterBase()
    if base.cluster_id not in (None, reading.cluster_id):
        raise ReceiptClusterError(base.cluster_id or "", reading.cluster_id)
    pruning = make_pruning(request, reading, desired, base, claimed, clock=clock)
    header = PlanHeader(
        cluster_name=cluster.name,
        cluster_id=reading.cluster_id,
        created_at=plan_timestamp(clock),
        source=replace(source.plan_source, base=base.declared.base if base.declared else None),
        options=PlanOptions(
            prune=request.prune_mode,
            select=tuple(request.selection.select),
            exclude=tuple(request.selection.exclude),
            limits=request.config.guard_limits if request.is_guarded else DEFAULT_GUARD_LIMITS,
            bootstrap_server=cluster.given_servers or None,
            revert=revert.receipt.plan_id if revert else None,
        ),
        snapshot=reading.snapshot,
    )
    made = make_plan(
        chain(rows, removals(pruning.pruned, actual)),
        desired,
        actual,
        header,
        scope=request.config.scope,
        selection=request.selection,
        allowances=request.allowances,
        base=base.declared,
        pruned=pruning.pruned,
        claimed=claimed,
    )
    if revert is not None:
        made = as_revert(made, revert)
    facts = Facts(
        desired=desired,
        actual=actual,
        pinned_id=cluster.cluster_id,
        selection=request.selection,
        removed=source.removed(cluster.name, [item.entity for item in made.unmanaged if item.in_scope]),
        source_problem=source.problem,
        policies=request.policies.policies,
        base=base,
        pruning=pruning,
        revert=revert,
        lints=LintRequest(settings=request.config.lints, capacity=cluster.capacity, today=today(clock))
        if request.has_lints
        else None,
        safeguards=safeguards_of(request.config, cluster, request.policies.digests),
        approvals=request.approvals,
        today=today(clock),
        missing=source.missing,
    )
    return with_findings(made, facts, (*GUARDS, *CHECKS) if request.is_guarded else CHECKS)


def bulk_of_plan(made: Plan, actual: Quotas) -> int:
    """Return how many entities a plan changes when that looks like somebody's bulk change, else 0."""
    return bulk_of(len(made.changes), max(len(made.changes) + made.unchanged, len(actual)))
