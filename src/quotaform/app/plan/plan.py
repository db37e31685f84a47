"""Planning clusters: what an apply would do on each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Any, Protocol

from quotaform.app.actual import bulk_of, read_settled
from quotaform.app.clock import SYSTEM_CLOCK, Clock, today
from quotaform.app.each_cluster import ClusterWork, Connect
from quotaform.app.plan.cluster_plan import make_cluster_plan
from quotaform.app.plan.request import PlanRequest, Reading
from quotaform.app.repository.gateway import open_gateway
from quotaform.app.repository.source import Source, read_source
from quotaform.app.steps import Steps
from quotaform.cluster.gateway import Gateway, Progress, no_progress
from quotaform.core.check import rule
from quotaform.core.check.same_cluster import check_plans
from quotaform.core.difference import diff
from quotaform.core.outcome import ClusterOutcome
from quotaform.core.plan import Plan
from quotaform.errors import InvalidFilesError
from quotaform.model.entry import Desired
from quotaform.model.finding import by_weight
from quotaform.model.quotas import Quotas

if TYPE_CHECKING:
    from quotaform.desired.config import Cluster
    from quotaform.desired.loader import LoadedFiles
    from quotaform.desired.tree import Tree


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
        outcomes = working.outcomes(invalid, steps)
        yield from with_same_clusters(outcomes) if request.is_guarded else outcomes


def with_same_clusters(outcomes: Iterable[ClusterOutcome[Plan]]) -> Iterator[ClusterOutcome[Plan]]:
    """Yield outcomes with a finding for each plan whose live cluster an earlier plan of another name is for, too."""
    earlier: dict[str, Plan] = {}
    for outcome in outcomes:
        made = outcome.value
        if made is None or made.header.snapshot is not None:
            yield outcome
            continue
        first = earlier.setdefault(made.header.cluster_id, made)
        if first is made:
            yield outcome
            continue
        known = [finding for finding in made.findings if finding.rule != rule.SAME_CLUSTER.id]
        findings = tuple(by_weight([*known, check_plans(first, made)]))
        yield replace(outcome, value=replace(made, findings=findings))


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
        desired: Returns what the files declare for it; called after the first read was asked for.
        source: Returns where the files came from; called like `desired`.

    Raises:
        ClusterError: The cluster could not be read.
    """
    cluster_id = gateway.cluster_id()
    principals = request.principals_of(cluster)

    def make(actual: Quotas) -> Plan:
        declared = desired()
        return make_cluster_plan(
            request,
            cluster,
            Reading(cluster_id, actual, gateway.snapshot, principals),
            diff(declared, actual),
            declared,
            source=source(),
            clock=clock,
        )

    return read_settled(gateway, make, bulk_of_plan, clock=clock, progress=progress)


def read_plan_source(request: PlanRequest, tree: Tree, clock: Clock, files: LoadedFiles | None = None) -> Source:
    """Return where the files of a plan come from, and what its base declares.

    Args:
        tree: The quotas directory as it was read.
        files: What was parsed of it, which is not parsed again for the base.

    Raises:
        BaseError: The base that somebody named cannot be read.
        InvalidFilesError: Another quota repository that quotaform.yaml lists is invalid.
    """
    day = today(clock)
    source = replace(read_source(request.repository, request.config, tree, day), missing=tree.missing)
    source = with_claims(source, request, day)
    if request.base is None:
        return source
    from quotaform.app.base.base import read_chosen_base

    bases = read_chosen_base(request.repository, request.config, request.base, request.clusters, day, similar=files)
    return replace(source, bases=bases)


def with_claims(source: Source, request: PlanRequest, today: date) -> Source:
    """Return a source with what the other quota repositories declare that quotaform.yaml lists.

    Raises `InvalidFilesError` if one of them is invalid.
    """
    if not request.config.roots:
        return source
    from quotaform.app.repository.root import read_claims

    return replace(source, claims=read_claims(request.repository, request.config, today))


def bulk_of_plan(made: Plan, actual: Quotas) -> int:
    """Return how many entities a plan changes when that looks like somebody's bulk change, else 0."""
    return bulk_of(len(made.changes), max(len(made.changes) + made.unchanged, len(actual)))
