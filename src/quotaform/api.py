"""The use cases as functions of Python: what a command does, for programs and notebooks.

`from quotaform import Repository, plan` is how they are imported. They share one shape: a repository, the clusters that
are meant, what to do, and how. `clusters` are names of quotaform.yaml or globs over them (`["*"]` is all of them), or a
`Target` for a snapshot or an address; without any, the only cluster is meant. Where clusters are read, there is one
outcome for each, in order: one that fails never hides the others, and an interrupt (Ctrl-C) is raised again after the
outcomes of all clusters that are finished were yielded.

`engine` is the Spark on which clusters are worked on, one in each task; without it, that is this process.

What cannot be done for any cluster is raised by the call itself: a `UsageError` for wrong arguments, an
`InvalidFilesError` with all problems of quotaform.yaml, a `BaseError` as soon as the first outcome is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import timedelta
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

from msgspec.structs import replace

from quotaform.desired.config import Cluster, Config
from quotaform.model.entity import Entity
from quotaform.model.errors import ArgumentError, InvalidFilesError, QuotaformError, UsageError
from quotaform.model.filter import EVERYTHING, Described, EntityFilter
from quotaform.model.outcome import ClusterOutcome, Progress, loaded, no_progress
from quotaform.model.quota_key import key_order
from quotaform.model.rule import read_allowances
from quotaform.model.scope import Selection, count_problem, pattern_problem
from quotaform.model.settings import PruneMode, read_sources
from quotaform.model.text import require_items, require_type, spell_type
from quotaform.repository.gateway import Connect, open_gateway, open_pinned_gateway, work_on
from quotaform.repository.repository import Repository, Target
from quotaform.system.clock import SYSTEM_CLOCK, Clock, today
from quotaform.system.files import write_files

# What a use case needs is imported when it is called: a command loads only itself.
if TYPE_CHECKING:
    from quotaform.apply.audit import AuditFile
    from quotaform.apply.freshness import Freshness
    from quotaform.apply.ledger import Applied, ClusterPlan
    from quotaform.cluster.gateway import Gateway
    from quotaform.cluster.scram import ScramGateway
    from quotaform.drift.drift import Drift
    from quotaform.fleet.options import SessionOptions
    from quotaform.history.drift import Past
    from quotaform.model.finding import Finding
    from quotaform.model.quotas import Snapshot
    from quotaform.plan.base import BaseChoice
    from quotaform.plan.plan import Plan
    from quotaform.plan.principals import PrincipalList
    from quotaform.plan.receipt import Receipt, SavedReceipt
    from quotaform.plan.run import PlanRequest
    from quotaform.plan.validate import Validation
    from quotaform.resolve.explain import Explained
    from quotaform.resolve.request_file import RequestFile
    from quotaform.resolve.resolve import AssumedPlan, ResolveOptions
    from quotaform.resolve.run import ResolveRun
    from quotaform.review.report import Import
    from quotaform.usage.record.recording import Recording
    from quotaform.usage.top import Top

Clusters: TypeAlias = "Collection[str] | Sequence[Cluster] | Target | None"
"""Names of clusters and globs over them, clusters, or where to read one; `None` is the only one of quotaform.yaml."""
Approve: TypeAlias = "Callable[[Sequence[ClusterPlan[Any]]], bool | None]"
"""Is called with the plans that change something; raises `NotApprovedError`, or returns `False`, to refuse them."""


def plan(
    repository: Repository,
    clusters: Clusters = None,
    *,
    select: Sequence[str] = (),
    exclude: Sequence[str] = (),
    base: str | PathLike[str] | None = None,
    prune: str | None = None,
    allow: Sequence[str] = (),
    principals: str | PathLike[str] | None = None,
    revert: str | PathLike[str] | None = None,
    engine: SessionOptions | None = None,
    progress: Progress = no_progress,
    clock: Clock = SYSTEM_CLOCK,
    connect: Connect = open_gateway,
) -> Iterator[ClusterOutcome[Plan]]:
    """Return what an apply would change on clusters, with the findings of guards, policies and lints.

    `select` and `exclude` are globs over addresses (`user=svc-*`), `base` is a git revision or a receipt, `prune` is
    `report`, `removed` or `scope` (without it, what quotaform.yaml says), and `allow` holds allowances as `delete=8`.
    With `principals`, plans have their blast radius: a file of those who connect, `scram` for the users of each
    cluster, or with an `engine` a table. `revert` is a receipt: the plan puts back what its apply changed.
    """
    from quotaform.plan.base import choose_base
    from quotaform.plan.receipt_file import load_receipt_file

    require_engine(engine)
    receipt = None
    if revert is not None:
        if engine is not None or base is not None or prune is not None:
            raise ArgumentError("{revert} cannot be used with {base}, {prune} or {engine}")
        receipt = load_receipt_file(Path(revert))
        clusters = [cluster_of(receipt, repository.config())] if clusters is None else clusters
    request = make_request(
        repository,
        clusters,
        select=select,
        exclude=exclude,
        base=None if base is None else choose_base(base),
        prune=prune,
        allow=allow,
        revert=receipt,
        clock=clock,
    )
    if receipt is not None and len(request.clusters) > 1:
        raise ArgumentError("{revert} is of one cluster; choose that one alone, or none")
    if principals is not None:
        request = replace(request, principals=choose_principals(fspath(principals), engine))
    # What `quotaform.spark.planned_quotas` needs; a plan that comes back from Spark would carry it all.
    request = replace(request, keeps_actual=engine is None)
    plans = plan_clusters(request, engine=engine, clock=clock, progress=progress, connect=connect)
    return (outcome.map(loaded) for outcome in plans)


def plan_clusters(
    request: PlanRequest,
    *,
    engine: SessionOptions | None = None,
    clock: Clock = SYSTEM_CLOCK,
    progress: Progress = no_progress,
    warn: Callable[[str], None] = lambda _: None,
    connect: Connect = open_gateway,
) -> Iterator[ClusterOutcome[Any]]:
    """Plan what a request says; see `plan`. On Spark, plans are `Kept`; a revert is of one cluster, without Spark."""
    if request.revert is not None:
        from quotaform.plan.run import plan_revert

        return plan_revert(request, clock=clock, progress=progress, connect=connect)
    if engine is not None:
        from quotaform.fleet.run import plan as plan_on_spark

        return iter(plan_on_spark(request, session=engine, clock=clock, progress=progress, warn=warn))
    from quotaform.plan.run import plan

    return plan(request, clock=clock, progress=progress, connect=connect)


def choose_principals(
    text: str,
    engine: SessionOptions | None = None,
    files: Mapping[str, str] | None = None,
    folder: str | None = None,
) -> PrincipalList:
    """Return whose effective limits a plan is checked for: `scram`, or those of a file or, on Spark, of a table.

    All changes of limits are written to `files`, by cluster, or as Parquet to a `folder`. Raises `UsageError` or
    `InvalidFilesError`.
    """
    from quotaform.plan.principals import read_principals

    listed = read_principals(text, files, folder, on_spark=engine is not None)
    if engine is not None and listed.table is not None:
        # Before Spark is started to read it.
        from quotaform.fleet.principals import require_files

        require_files(text, engine)
    return listed


def drift(
    repository: Repository,
    clusters: Clusters = None,
    *,
    select: Sequence[str] = (),
    exclude: Sequence[str] = (),
    baseline: str | PathLike[str] | None = None,
    progress: Progress = no_progress,
    clock: Clock = SYSTEM_CLOCK,
    connect: Connect = open_gateway,
) -> Iterator[ClusterOutcome[Drift]]:
    """Return how clusters differ from the files, read-only; with a `baseline`, from what was last agreed.

    `baseline` is a git revision or a receipt: what the files have changed since then is pending, and no drift.
    """
    from quotaform.plan.base import choose_base

    request = make_request(
        repository,
        clusters,
        select=select,
        exclude=exclude,
        base=None if baseline is None else choose_base(baseline, "baseline"),
        prune=PruneMode.REPORT,
        is_guarded=False,
        clock=clock,
    )
    return compare_clusters(request, clock=clock, progress=progress, connect=connect)


def compare_clusters(
    request: PlanRequest,
    past: Past | None = None,
    *,
    engine: SessionOptions | None = None,
    clock: Clock = SYSTEM_CLOCK,
    progress: Progress = no_progress,
    connect: Connect = open_gateway,
) -> Iterator[ClusterOutcome[Any]]:
    """Compare clusters as a request says; see `drift`. On Spark, drifts are `Kept`.

    With `past`, which needs an `engine`, clusters are compared with that and not with the files.
    """
    from quotaform.drift.run import check_drift

    if engine is None:
        return check_drift(request, clock=clock, progress=progress, connect=connect)
    if past is not None:
        from quotaform.history.drift import check_drift_against

        return iter(check_drift_against(request, past, session=engine, clock=clock, progress=progress))
    from quotaform.fleet.run import plan as plan_on_spark

    return iter([*check_drift(request, plan_on_spark, session=engine, clock=clock, progress=progress)])


@overload
def apply(
    repository: Repository,
    plans: Iterable[Plan | Path],
    *,
    approve: Approve | None = ...,
    expect_plan_id: str | None = ...,
    max_age: timedelta | None = ...,
    receipts: Mapping[str, Path] | None = ...,
    audit: Path | None = ...,
    dry_run: Literal[False] = ...,
    engine: SessionOptions | None = ...,
    clock: Clock = ...,
    progress: Progress = ...,
    connect: Connect = ...,
) -> Iterator[ClusterOutcome[Applied[Receipt]]]: ...


@overload
def apply(
    repository: Repository,
    plans: Iterable[Plan | Path],
    *,
    approve: Approve | None = ...,
    expect_plan_id: str | None = ...,
    max_age: timedelta | None = ...,
    audit: Path | None = ...,
    dry_run: Literal[True],
    clock: Clock = ...,
    progress: Progress = ...,
    connect: Connect = ...,
) -> Iterator[ClusterOutcome[Freshness]]: ...


def apply(
    repository: Repository,
    plans: Iterable[Plan | Path],
    *,
    approve: Approve | None = None,
    expect_plan_id: str | None = None,
    max_age: timedelta | None = None,
    receipts: Mapping[str, Path] | None = None,
    audit: Path | None = None,
    dry_run: bool = False,
    engine: SessionOptions | None = None,
    clock: Clock = SYSTEM_CLOCK,
    progress: Progress = no_progress,
    connect: Connect = open_gateway,
) -> Iterator[ClusterOutcome[Applied[Receipt]]] | Iterator[ClusterOutcome[Freshness]]:
    """Apply plans to the clusters of a repository that they name: those just made, or the files of saved ones.

    Each outcome comes when its cluster is done, and holds the receipt, which is written by then: next to
    quotaform.yaml, or where `receipts` says for the name of its cluster. With `dry_run`, everything is checked, also on
    the broker, and nothing is written: an outcome holds what is left to send and what the cluster holds already. A dry
    run is made by this process.

    `approve` is called with the plans that change something, and raises `NotApprovedError` or returns `False` to refuse
    them; without it they count as approved. `expect_plan_id` is the id of the only plan; `max_age` is how old a plan
    may be. `audit` is a file that gets a line per changed key.

    Raises what concerns all of them, before anything is written: `UsageError` and `SavedFileError` by the call itself,
    `StaleError` and `NotApprovedError` as soon as the first outcome is asked for.
    """
    from quotaform.apply.audit import AuditFile
    from quotaform.apply.run import read_plan_id, read_plans

    require_engine(engine)
    require_type(dry_run, bool, "dry_run", "True or False")
    if approve is not None and not callable(approve):
        raise TypeError(f"approve must be a function, not {spell_type(approve)}")
    require_type(expect_plan_id, (str, NoneType), "expect_plan_id", "a string")
    require_type(max_age, (timedelta, NoneType), "max_age", "a timedelta")
    for argument, path in (("audit", audit), *(("a value of receipts", each) for each in (receipts or {}).values())):
        require_type(path, (Path, NoneType), argument, "a pathlib.Path")
    expected = None if expect_plan_id is None else read_plan_id(expect_plan_id)
    found, problems = read_plans(repository, plans, max_age=max_age, clock=clock)

    def outcomes() -> Iterator[ClusterOutcome[Any]]:
        with closing(AuditFile(audit, clock)) as log:
            for outcome in apply_clusters(
                repository,
                found,
                log,
                problems,
                approve=approve,
                expect_plan_id=expected,
                receipts=receipts,
                dry_run=dry_run,
                engine=engine,
                clock=clock,
                progress=progress,
                connect=connect,
            ):
                yield outcome if dry_run else outcome.map(lambda done: replace(done, receipt=loaded(done.receipt)))

    return outcomes()


def apply_clusters(
    repository: Repository,
    plans: Sequence[ClusterPlan[Any]],
    audit: AuditFile,
    problems: Sequence[QuotaformError] = (),
    *,
    approve: Approve | None = None,
    expect_plan_id: str | None = None,
    dry_run: bool = False,
    engine: SessionOptions | None = None,
    clock: Clock = SYSTEM_CLOCK,
    progress: Progress = no_progress,
    connect: Connect = open_gateway,
    **options: Any,
) -> Iterator[ClusterOutcome[Any]]:
    """Apply plans whose clusters are known; see `apply`. On Spark, plans may be `Kept`, and receipts are.

    `problems` are why saved plans must not be applied; `options` are those of `quotaform.apply.run.apply_plans`.
    """
    from quotaform.apply.run import apply_plans, check_plans, require_approved

    require_approved(plans, audit, problems, expect_plan_id=expect_plan_id, approve=approve)
    if dry_run:
        yield from check_plans(repository, plans, clock=clock, progress=progress, connect=connect)
        return
    options |= {"audit": audit, "clock": clock, "progress": progress}
    if engine is None:
        yield from apply_plans(repository, plans, connect=connect, **options)
        return
    from quotaform.fleet.run import apply_plans as apply_on_spark

    yield from apply_on_spark(repository, plans, session=engine, **options)


def require_engine(engine: SessionOptions | None) -> None:
    """Make sure that Spark can be used if an engine is given: before a module is imported that needs it."""
    if engine is not None:
        from quotaform.fleet.session import require_installed

        require_installed(engine)


def validate(*repositories: Repository, clusters: Sequence[str] = (), clock: Clock = SYSTEM_CLOCK) -> Validation:
    """Check the files of quota repositories offline; two of them may not declare an entity for the same cluster.

    `clusters` are names or globs; every cluster of quotaform.yaml without any.
    """
    from quotaform.plan.validate import validate_files, validate_together

    if not repositories:
        raise TypeError("validate() needs a repository, as in validate(Repository.at('.'))")
    for repository in repositories:
        require_type(repository, Repository, "repository", "a Repository")
    clusters = require_items(clusters, str, "clusters", "names")
    if len(repositories) > 1:
        return validate_together(repositories, clusters, clock=clock)
    return validate_files(repositories[0], clusters, clock=clock).report


def check_principals(
    repository: Repository, clusters: Clusters = None, *, connect: Callable[[Cluster], ScramGateway] | None = None
) -> tuple[ClusterOutcome[tuple[Finding, ...]], ...]:
    """Return which users in the files have no SCRAM credentials on clusters.

    Raises `InvalidFilesError` if the files are invalid.
    """
    from quotaform.plan.validate import check_clusters_users, validate_files
    from quotaform.repository.run import open_scram

    chosen = choose_clusters(repository, clusters)
    checked = validate_files(repository)
    if not checked.report.is_valid:
        raise InvalidFilesError(checked.report.problems)
    return check_clusters_users(checked, chosen, connect=connect or open_scram)


def explain(
    repository: Repository, entity: Entity, clusters: Sequence[str] = (), *, clock: Clock = SYSTEM_CLOCK
) -> Explained:
    """Return where the declared values of an entity come from, offline, for each cluster that is meant.

    Raises `QuotaformError` if no file declares the entity; `InvalidFilesError` if the files that might are invalid.
    """
    from quotaform.resolve.run import explain_entity

    require_type(repository, Repository, "repository", "a Repository")
    require_type(entity, Entity, "entity", "an Entity")
    clusters = require_items(clusters, str, "clusters", "names")
    return explain_entity(repository, entity, clusters, today(clock))


def snapshot(
    repository: Repository,
    clusters: Clusters = None,
    *,
    engine: SessionOptions | None = None,
    progress: Progress = no_progress,
    clock: Clock = SYSTEM_CLOCK,
    connect: Connect = open_pinned_gateway,
) -> Iterator[ClusterOutcome[Snapshot]]:
    """Return everything that clusters hold."""
    require_engine(engine)
    chosen = choose_clusters(repository, clusters)
    if engine is not None:
        from quotaform.fleet.run import take_snapshots

        taken = take_snapshots(chosen, session=engine, clock=clock, progress=progress)
        return (outcome.map(loaded) for outcome in taken)
    from quotaform.repository.run import snapshot_of

    return work_on(chosen, partial(snapshot_of, clock=clock), connect, progress)


def import_quotas(
    repository: Repository,
    clusters: Clusters = None,
    *,
    is_split: bool = False,
    engine: SessionOptions | None = None,
    progress: Progress = no_progress,
    clock: Clock = SYSTEM_CLOCK,
    connect: Connect = open_pinned_gateway,
) -> Iterator[ClusterOutcome[Import]]:
    """Write the live quotas that no file declares yet as YAML, and return what was written and what was left out.

    A plan made right after it is empty. No file is overwritten. With `is_split` there is one file per first word of the
    names; of several clusters of quotaform.yaml, each has its own folder.
    """
    from quotaform.review.init import import_cluster

    config = repository.config()

    def write(outcome: ClusterOutcome[Snapshot]) -> Import:
        actual = outcome.require().quotas
        made = import_cluster(repository, config, outcome.cluster, actual, is_split=is_split, clock=clock)
        write_files(made.files)
        return made

    taken = snapshot(repository, clusters, engine=engine, progress=progress, clock=clock, connect=connect)
    return (ClusterOutcome.of(each.cluster, partial(write, each)) for each in taken)


def describe(
    repository: Repository,
    clusters: Clusters = None,
    entity_filter: EntityFilter = EVERYTHING,
    *,
    keys: Sequence[str] = (),
    progress: Progress = no_progress,
    clock: Clock = SYSTEM_CLOCK,
    connect: Connect = open_pinned_gateway,
) -> Iterator[ClusterOutcome[Described]]:
    """Return the live quotas that a filter selects, exactly as clusters have them.

    With quota `keys`, only those, of the entities that have any of them; one that neither this version nor the cluster
    knows is the error of the outcome, a `UsageError`.
    """
    from quotaform.resolve.quota_admin import describe_cluster

    require_type(entity_filter, EntityFilter, "entity_filter", "an EntityFilter")
    keys = require_items(keys, str, "keys", "names")

    def work(cluster: Cluster, gateway: Gateway, _: Progress) -> Described:
        return describe_cluster(cluster, gateway, entity_filter=entity_filter, keys=keys, clock=clock)

    return work_on(choose_clusters(repository, clusters), work, connect, progress)


def resolve(
    repository: Repository,
    entities: Iterable[Entity],
    clusters: Clusters = None,
    *,
    keys: Sequence[str] = (),
    plan: Plan | None = None,
    inherited: bool = True,
    overridden: bool = True,
    progress: Progress = no_progress,
    clock: Clock = SYSTEM_CLOCK,
    connect: Connect = open_pinned_gateway,
) -> Iterator[ClusterOutcome[ResolveRun]]:
    """Return which quotas limit requests; the value of an outcome yields one `Resolution` per entity.

    `entities` make the requests: users, client-ids, pairs of both, or ips. `keys` are the quota keys that are wanted.
    With a `plan`, requests are resolved as if it were applied. `inherited` and `overridden` say whether keys are
    wanted whose value comes from another entity, and the entries that lost.
    """
    from quotaform.apply.freshness import as_if_applied
    from quotaform.plan.plan import Plan
    from quotaform.resolve.index import request_of
    from quotaform.resolve.resolve import ResolveOptions

    asked = require_items(entities, Entity, "entities", "Entity")
    keys = require_items(keys, str, "keys", "names")
    require_type(plan, (Plan, NoneType), "plan", "a Plan")
    for entity in asked:
        request_of(entity)
    assumed = None if plan is None else as_if_applied(plan)
    detail = ResolveOptions(keys=tuple(sorted(set(keys), key=key_order)), inherited=inherited, overridden=overridden)
    chosen = choose_clusters(repository, clusters)
    return resolve_clusters(chosen, asked, assumed, detail, progress=progress, clock=clock, connect=connect)


def resolve_clusters(
    clusters: Sequence[Cluster],
    entities: Sequence[Entity] | RequestFile,
    plan: AssumedPlan | None,
    detail: ResolveOptions,
    *,
    progress: Progress = no_progress,
    clock: Clock = SYSTEM_CLOCK,
    connect: Connect = open_pinned_gateway,
) -> Iterator[ClusterOutcome[ResolveRun]]:
    """Resolve requests on clusters that are chosen already; see `resolve`."""
    from quotaform.resolve.run import ResolveRun

    def work(_: Cluster, gateway: Gateway, progress: Progress) -> ResolveRun:
        return ResolveRun(entities, gateway, plan, detail, progress, clock=clock)

    return work_on(clusters, work, connect, progress)


def top(
    repository: Repository,
    clusters: Clusters = None,
    *,
    source: Sequence[str] = (),
    prometheus: str | None = None,
    labels: Mapping[str, str] | None = None,
    progress: Progress = no_progress,
    clock: Clock = SYSTEM_CLOCK,
) -> tuple[ClusterOutcome[Top], ...]:
    """Return who is throttled on clusters now, and by which quota; measured once.

    `source` (such as `1=http://broker-1:7071/metrics`) and `prometheus`, with `labels`, say where one cluster is
    measured; else quotaform.yaml does. What of it cannot be read is in `Top.unread`.
    """
    from quotaform.usage.top_reader import read_all, top_readers

    chosen = choose_clusters(repository, clusters)
    opened = top_readers(
        chosen, read_sources(source), prometheus=prometheus, labels=labels, once=True, progress=progress, clock=clock
    )
    with opened as (readers, failed):
        outcomes = {outcome.cluster: outcome for outcome in (*read_all(readers), *failed)}
    return tuple(outcomes[cluster.label] for cluster in chosen)


def record_usage(
    repository: Repository,
    usage: str | PathLike[str],
    clusters: Clusters = None,
    *,
    duration: timedelta | None = None,
    interval: timedelta = timedelta(seconds=10),
    source: Sequence[str] = (),
    warn: Callable[[str], None] = lambda _: None,
) -> tuple[ClusterOutcome[Recording], ...]:
    """Record what the brokers of clusters measure into a usage table, the directory `usage`, and return what was read.

    It ends after `duration`, or with an interrupt (Ctrl-C). `interval` is the time between two measurements of a
    broker. `source` (such as `1=http://broker-1:7071/metrics`) says where the brokers of one cluster are measured; else
    quotaform.yaml does. `warn` is called with what cannot be read or written in the meantime.
    """
    from quotaform.usage.record.run import open_recorder

    require_type(duration, (timedelta, NoneType), "duration", "a timedelta")
    require_type(interval, timedelta, "interval", "a timedelta")
    for argument, time in (("duration", duration), ("interval", interval)):
        if time is not None and time <= timedelta(0):
            raise ArgumentError(f"{{{argument}}} must be longer than nothing")
    recorder = open_recorder(
        choose_clusters(repository, clusters),
        read_sources(source),
        Path(usage),
        interval=interval.total_seconds(),
        seconds=None if duration is None else duration.total_seconds(),
        warn=warn,
    )
    return tuple(recorder.run())


def choose_clusters(repository: Repository, clusters: Clusters, config: Config | None = None) -> tuple[Cluster, ...]:
    """Return the clusters that are meant, in the order of quotaform.yaml; those that are chosen already stay so."""
    require_type(repository, Repository, "repository", "a Repository")
    target = clusters
    if not isinstance(target, Target):
        named = require_items(() if clusters is None else clusters, (str, Cluster), "clusters", "names")
        if named and all(isinstance(each, Cluster) for each in named):
            return named
        target = Target(clusters=named)
    return repository.clusters(repository.config() if config is None else config, target)


def cluster_of(receipt: SavedReceipt, config: Config) -> str:
    """Return what quotaform.yaml calls the cluster of a receipt, which it may know by the cluster's id."""
    pinned = (cluster.name for cluster in config.clusters.values() if cluster.cluster_id == receipt.cluster.id)
    return next(pinned, receipt.cluster.name)


def make_selection(select: Sequence[str], exclude: Sequence[str]) -> Selection:
    """Return the entities that globs over addresses leave.

    Raises `UsageError` if there are too many patterns, or one is too long.
    """
    for argument, patterns in (("select", select), ("exclude", exclude)):
        if problem := count_problem(patterns):
            raise ArgumentError(f"{{{argument}}}: {{}}", problem)
    for pattern in (*select, *exclude):
        if problem := pattern_problem(pattern):
            raise UsageError(f"{problem}; shorten it")
    return Selection(tuple(select), tuple(exclude))


def make_request(
    repository: Repository,
    clusters: Clusters,
    config: Config | None = None,
    *,
    select: Sequence[str] = (),
    exclude: Sequence[str] = (),
    base: BaseChoice | None = None,
    prune: str | None = None,
    allow: Sequence[str] = (),
    revert: SavedReceipt | None = None,
    is_guarded: bool = True,
    clock: Clock = SYSTEM_CLOCK,
) -> PlanRequest:
    """Return what is to be planned. `config` is quotaform.yaml, if it is read already.

    `is_guarded` says whether guards, policies and lints are checked: not so when only drift is read from the plan.
    Raises `InvalidFilesError` if approvals.yaml is invalid, or quotaform.yaml does not allow the mode of pruning.
    """
    from quotaform.plan.run import PlanRequest
    from quotaform.repository.policy import NO_POLICIES, load_policies

    require_type(repository, Repository, "repository", "a Repository")
    for argument, given in (("select", select), ("exclude", exclude), ("allow", allow)):
        # A text would be taken for its letters, of which `*` selects everything.
        require_items(given, str, argument, "strings")
    selection = make_selection(select, exclude)
    config = repository.config() if config is None else config
    allowances = read_allowances(allow) if allow else ()
    if prune not in (None, *PruneMode):
        raise ArgumentError("{prune}: {} is none of {}", repr(prune), ", ".join(PruneMode))
    mode = None if prune is None else PruneMode(prune)
    if mode is not None:
        repository.require_prunable(config, mode)
    return PlanRequest(
        repository=repository,
        config=config,
        clusters=choose_clusters(repository, clusters, config),
        selection=selection,
        base=base,
        prune=mode,
        policies=load_policies(repository, config) if is_guarded else NO_POLICIES,
        has_lints=is_guarded and revert is None,
        revert=revert,
        allowances=allowances,
        approvals=repository.approvals(today(clock)) if is_guarded else {},
        is_guarded=is_guarded,
    )
