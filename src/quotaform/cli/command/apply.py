"""`quotaform apply`: apply plans to clusters."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from re import compile as regex
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol

import typer

from quotaform.cli.ci import Ci
from quotaform.cli.console import Console
from quotaform.cli.exit_code import decide, decide_apply
from quotaform.cli.option.cluster import ManyClusters
from quotaform.cli.option.common import AllowOption, ExcludeOption, SelectOption
from quotaform.cli.option.engine import SPARK, Engine
from quotaform.cli.option.output import ReportOutput, format_option, report_option, require_format, with_option_groups
from quotaform.cli.planning import Comparison, make_request, quota_bytes, require_selected
from quotaform.cli.present import (
    STDOUT,
    FleetReports,
    cluster_paths,
    digests,
    documents_of,
    echo_outcomes,
    gather,
    warn_of_started,
)
from quotaform.model.errors import (
    ApplyLostError,
    ExitCode,
    NotApprovedError,
    NotReadError,
    PlanIdError,
    QuotaformError,
    UsageError,
)
from quotaform.model.outcome import ClusterOutcome, Progress
from quotaform.model.text import inert, listed, quote
from quotaform.report.format import REPORT, Document, render
from quotaform.system.files import is_folder
from quotaform.system.process import held_signals, read_typed_line

if TYPE_CHECKING:
    from quotaform.apply.audit import AuditFile
    from quotaform.apply.ledger import Applied, ClusterPlan
    from quotaform.desired.config import Cluster
    from quotaform.fleet.options import SessionOptions
    from quotaform.plan.plan import Plan
    from quotaform.plan.run import PlanRequest
    from quotaform.repository.repository import Repository


_ID: Final = regex(r"(?:sha256:)?[0-9a-f]{64}").fullmatch


def _read_plan_id(text: str | None) -> str | None:
    """Return the value of `--expect-plan-id`; an empty one, of a variable that is not set, is no id of any plan."""
    if text is not None and not _ID(text):
        raise UsageError(f"--expect-plan-id: {quote(text)} is not a plan id; write sha256: and 64 hexadecimal digits")
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplySettings:
    """One apply, and where it prints: when stdout is for JSON, what people read goes to stderr.

    Attributes:
        auto_approve: Whether nobody is asked.
        expected_id: The id of the plan that was approved elsewhere.
        max_age: How old a saved plan may be; `None` for any age.
        receipt_path: Where the receipts go; `None` for the folder of receipts.
        is_dry_run: Whether to stop before the first change is sent, without a receipt.
        has_written: Set once anything was or may have been written to a cluster.
    """

    console: Console
    format_name: str
    auto_approve: bool
    ci: Ci
    audit: AuditFile
    engine: Engine
    reports: FleetReports
    expected_id: str | None = None
    max_age: timedelta | None = None
    receipt_path: Path | None = None
    is_dry_run: bool = False
    has_written: Event = field(default_factory=Event)

    @property
    def is_text(self) -> bool:
        """Whether stdout is for people."""
        return self.format_name == "text"


@with_option_groups
def apply(
    *,
    sources: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="PLAN.json...|DIR",
            help="Saved plans, at most one per cluster, or a quotas directory. [default: quotas.d]",
        ),
    ] = None,
    target: ManyClusters,
    select: SelectOption = None,
    exclude: ExcludeOption = None,
    comparison: Comparison,
    allow: AllowOption = None,
    auto_approve: Annotated[bool, typer.Option("--auto-approve", help="Apply without asking for approval.")] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Check everything, also on the broker, and stop before anything is written."),
    ] = False,
    expect_plan_id: Annotated[
        str | None,
        typer.Option(
            "--expect-plan-id",
            metavar="ID",
            help="Exit 5 unless the plan has this id, or a directory has nothing to apply.",
        ),
    ] = None,
    max_age: Annotated[
        str | None,
        typer.Option("--max-age", metavar="DURATION", help="Exit 5 if a saved plan is older, e.g. 30m, 24h or 7d."),
    ] = None,
    receipt: Annotated[
        Path | None,
        typer.Option(
            "--receipt",
            metavar="FILE",
            help="Path of the receipt; {cluster} stands for the cluster name. [default: .quotaform/receipts/]",
        ),
    ] = None,
    audit: Annotated[
        Path | None,
        typer.Option("--audit", metavar="FILE", help="Append a JSON line per changed key to a file (schema: audit)."),
    ] = None,
    report: Annotated[list[str] | None, report_option()] = None,
    engine: Engine,
    format_name: Annotated[str, format_option("receipt")] = "text",
    output: ReportOutput,
) -> int:
    """Apply plans to clusters, one after the other, or many at a time on Spark: check, dry-run, write and read back.

    A saved plan is applied unchanged, or rejected if the cluster has changed since. A directory is planned, and the
    plan is shown and applied after approval.

    \b
    Examples:
      quotaform apply plan.json
      quotaform apply plans/*.json --max-age 24h
      quotaform apply
      quotaform apply quotas.d --auto-approve
      quotaform apply plan.json --dry-run
      quotaform apply plans/*.json --engine spark --report json=fleet.json --format report
    """
    require_format("receipt", format_name)
    engine.require_valid()
    console = output.console()
    console.keep_code()
    from quotaform.apply.audit import AuditFile

    given = sources or []
    is_saved = bool(given) and not any(map(is_folder, given))
    if is_saved and (select or exclude):
        raise UsageError(
            "--select and --exclude limit what is planned; a saved plan is applied completely, so leave them out"
        )
    if is_saved and comparison.is_given:
        raise UsageError("--base, --no-base and --prune say what is planned; leave them out with a saved plan")
    if is_saved and allow:
        raise UsageError(
            "--allow is recorded in a plan and covered by its id, so a saved plan takes none; plan again with --allow, "
            "and apply that plan"
        )
    if not is_saved and len(given) > 1:
        raise UsageError("give one quotas directory, or saved plans")
    if dry_run and (report or receipt or audit or format_name != "text" or engine.is_given):
        raise UsageError(
            "--dry-run checks in this process, prints text and writes no file; leave out --format, --report, "
            "--receipt, --audit and --engine"
        )
    expected_id, longest = _read_plan_id(expect_plan_id), _read_max_age(max_age)
    reports = FleetReports(console, "apply", report or ())
    has_written = Event()
    with (
        noting_nothing_written(has_written.is_set),
        closing(AuditFile(audit)) as log,
        reports.covering(target.literal_names),
    ):
        settings = ApplySettings(
            console=console,
            format_name=format_name,
            auto_approve=auto_approve,
            audit=log,
            engine=engine,
            reports=reports,
            ci=output.ci(),
            expected_id=expected_id,
            max_age=longest,
            receipt_path=receipt,
            is_dry_run=dry_run,
            has_written=has_written,
        )
        if is_saved:
            return apply_saved(settings, given, target)

        base = comparison.choose_base(console)
        mode = comparison.prune_mode()
        directory = given[0] if given else None
        request = make_request(target, directory, select, exclude, base=base, prune=mode, allow=allow)
        return apply_directory(settings, request, takes_all=target.all_clusters)


def _read_max_age(text: str | None) -> timedelta | None:
    from quotaform.model.moment import parse_duration

    try:
        return None if text is None else parse_duration(text)
    except ValueError as error:
        raise UsageError(f"--max-age: {error}") from None


@contextmanager
def noting_nothing_written(has_written: Callable[[], bool]) -> Iterator[None]:
    """Note on an interrupt that nothing was written, unless something was or may have been."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        if not has_written():
            interrupt.add_note("nothing was written")
        raise


def show_plan(settings: ApplySettings, plan: Any) -> None:
    """Print what is going to be applied: a plan, or a `StoredResult` of one."""
    if settings.is_text:
        settings.console.echo(render("plan", "text", plan, style=settings.console.style()))
    elif sys.stdin.isatty():
        settings.console.write_stderr("".join(render("plan", "text", plan)))


def ask(settings: ApplySettings, cluster: Cluster) -> None:
    """Ask a person for approval."""
    console = settings.console
    if console.is_lost:
        raise NotApprovedError([cluster.name], "the plan cannot be shown, so it was not approved")
    wanted = cluster.name if cluster.confirm == "name" else "yes"
    question = (
        f"\nApply this plan to cluster {cluster.label}? Nothing is rolled back afterwards.\n"
        f"Only {wanted!r} will be accepted to approve.\n\nEnter a value: "
    )
    write = console.echo if settings.is_text else console.write_stderr
    answer = ""
    try:
        write(question)
        answer = read_typed_line(sys.stdin)
    finally:
        if not answer.endswith("\n"):  # After Ctrl-C or Ctrl-D the cursor is still behind the question.
            write("\n")
    if answer.strip() != wanted:
        raise NotApprovedError([cluster.name])


@dataclass(frozen=True, slots=True)
class ApplyWork:
    """What to apply, and where its receipts go."""

    repository: Repository
    plans: Sequence[ClusterPlan[Any]]
    receipts: Mapping[str, Path] | None  # By cluster; `None` for the folder of receipts
    clusters: int  # How many there are, with those that have no plan


class ApplyEngine(Protocol):
    """What makes and applies plans."""

    def plan(self, settings: ApplySettings, request: PlanRequest) -> Iterator[ClusterOutcome[Any]]:
        """Yield the plan of each cluster: a `Plan`, or a `StoredResult` of one."""

    def keep(self, plan: Plan) -> Any:
        """Return a saved plan as `apply` takes it."""

    def apply(
        self, settings: ApplySettings, work: ApplyWork, show: Callable[[Cluster, Applied[Any]], None]
    ) -> Iterator[ClusterOutcome[Applied[Any]]]:
        """Yield the receipt of each cluster: a `Receipt`, or a `StoredResult` of one."""


class LocalEngine:
    """This process: one cluster after the other."""

    def plan(self, settings: ApplySettings, request: PlanRequest) -> Iterator[ClusterOutcome[Any]]:
        """Yield the plan of each cluster."""
        from quotaform.plan.run import plan

        return plan(request, progress=settings.console.progress)

    def keep(self, plan: Plan) -> Any:
        """Return the plan as it is."""
        return plan

    def apply(
        self, settings: ApplySettings, work: ApplyWork, show: Callable[[Cluster, Applied[Any]], None]
    ) -> Iterator[ClusterOutcome[Applied[Any]]]:
        """Yield the receipt of each cluster."""
        from quotaform.apply.run import apply_plans

        return apply_plans(
            work.repository,
            work.plans,
            receipts=work.receipts,
            audit=settings.audit,
            show=show,
            progress=settings.console.progress,
        )


class SparkEngine:
    """A Spark session, which starts when it is needed and serves what is planned and what is applied."""

    def __init__(self, session: SessionOptions, stack: ExitStack) -> None:
        """Prepare.

        Args:
            stack: What ends the session.
        """
        from quotaform.fleet.job import DocumentStore

        self._session = session
        self._store = DocumentStore()
        self._stack = stack
        self._is_started = False

    def plan(self, settings: ApplySettings, request: PlanRequest) -> Iterator[ClusterOutcome[Any]]:
        """Yield the plan of each cluster, with its text and its plan file."""
        from quotaform.fleet.plan import plan
        from quotaform.report.text import counted

        progress = self._progress(settings, f"Planning {counted(len(request.clusters), 'cluster')}")
        self._start(progress)
        style = {"style": settings.console.style()} if settings.is_text else {}
        documents = (Document("text", "text", style), Document("json", "json", {}))
        return iter(plan(request, documents, progress=progress))

    def keep(self, plan: Plan) -> Any:
        """Return the plan with its content on disk."""
        from quotaform.fleet.apply import store_plan

        return store_plan(plan, self._store)

    def apply(
        self, settings: ApplySettings, work: ApplyWork, show: Callable[[Cluster, Applied[Any]], None]
    ) -> Iterator[ClusterOutcome[Applied[Any]]]:
        """Yield the receipt of each cluster, with what is printed and written of it."""
        from quotaform.fleet.apply import apply_plans
        from quotaform.report.text import counted

        progress = self._progress(settings, f"Applying {counted(len(work.plans), 'plan')}")
        self._start(progress)
        printed = {**settings.ci.options, "style": settings.console.style()}
        return apply_plans(
            work.repository,
            work.plans,
            documents_of(settings.format_name, printed, ["json"], settings.ci, work.clusters),
            receipts=work.receipts,
            audit=settings.audit,
            show=show,
            progress=progress,
        )

    def _progress(self, settings: ApplySettings, work: str) -> Progress:
        from quotaform.cli.option.engine import JobProgress

        return JobProgress(settings.console, work, self._session)

    def _start(self, progress: Progress) -> None:
        from quotaform.fleet.session import spark_session

        if not self._is_started:
            self._stack.enter_context(spark_session(self._session, progress))
            self._is_started = True


@contextmanager
def apply_engine(settings: ApplySettings, clusters: int, size: Callable[[], int]) -> Iterator[ApplyEngine]:
    """Yield the engine that was asked for.

    Args:
        size: Returns how many bytes their files have.
    """
    if settings.is_dry_run or settings.engine.choose(settings.console, clusters, size) != SPARK:
        yield LocalEngine()
        return
    with ExitStack() as stack:
        yield SparkEngine(settings.engine.session(), stack)


def apply_and_report(
    settings: ApplySettings,
    engine: ApplyEngine,
    plans: Sequence[ClusterPlan[Any]],
    failed: Sequence[ClusterOutcome[Any]],
    repository: Repository,
) -> int:
    """Apply plans, print what was done, and return how the process ends.

    Args:
        failed: The clusters for which there is no plan.
    """
    console = settings.console
    for each in plans:
        warn_of_started(console, repository, each.cluster.name, each.digest.cluster_id)
    if settings.is_dry_run:
        return _check_and_report(settings, plans, failed, repository)
    names = [cluster.name for cluster, _ in plans]
    receipts = None
    if settings.receipt_path is not None:
        receipts = cluster_paths("--receipt", settings.receipt_path, names, example="receipts/{cluster}.json")
    settings = replace(settings, ci=replace(settings.ci, root=repository.directory))
    work = ApplyWork(repository, plans, receipts, len(plans) + len(failed))
    show = partial(_show, settings, work.clusters)
    with settings.reports.covering([*names, *(each.cluster for each in failed)]):
        gathered = gather(_receipts(settings, engine.apply(settings, work, show)), names, missing="not applied")
        outcomes = [*gathered.outcomes, *failed]
        with held_signals():
            try:
                _report(settings, outcomes)
            except QuotaformError as error:
                if gathered.interrupt is None:
                    raise
                settings.console.write_stderr(f"Error: {error}\n")
        gathered.raise_interrupt()
    return decide_apply(digests(outcomes))


def _check_and_report(
    settings: ApplySettings,
    plans: Sequence[ClusterPlan[Any]],
    failed: Sequence[ClusterOutcome[Any]],
    repository: Repository,
) -> int:
    """Do what comes before the first change of an apply, print what would follow, and return how the process ends."""
    from quotaform.apply.run import check_plans
    from quotaform.cli.outcome_text import render_dry_run

    console = settings.console
    names = [cluster.name for cluster, _ in plans]
    gathered = gather(check_plans(repository, plans, progress=console.progress), names, missing="not checked")
    outcomes = [*gathered.outcomes, *failed]
    if len(outcomes) > 1:
        _echo_failures(console, outcomes)
    console.echo(render_dry_run(outcomes, console.style()))
    gathered.raise_interrupt()
    if len(outcomes) == 1:
        outcomes[0].require()
    return decide(outcomes, lambda _: ExitCode.DONE)


def _receipts(
    settings: ApplySettings, outcomes: Iterable[ClusterOutcome[Applied[Any]]]
) -> Iterator[ClusterOutcome[Any]]:
    """Yield the receipts, and print what failed when a cluster was done."""
    for outcome in outcomes:
        if isinstance(outcome.error, ApplyLostError):
            settings.has_written.set()
        for error in () if outcome.value is None else outcome.value.late:
            settings.console.write_stderr(f"Error: {inert(outcome.cluster)}, when everything was done: {error}\n")
        yield outcome.map(lambda applied: applied.receipt)


def _show(settings: ApplySettings, clusters: int, cluster: Cluster, applied: Applied[Any]) -> None:
    """Print what was done, and where the receipt is; one that could not be written is shown in its place."""
    from quotaform.report.text import cluster_line

    console, is_text = settings.console, settings.is_text
    if applied.digest.wrote_anything:
        settings.has_written.set()
    if is_text and clusters > 1:
        console.echo(f"{cluster_line(cluster.name, console.style())}\n")
    if applied.unsaved is not None:
        text = "".join(render("receipt", "json", applied.receipt))
        console.write_stderr(f"Error: {applied.unsaved}; this is the receipt:\n{text}")
    elif applied.path is not None:
        console.warn(f"Receipt: {applied.path}")
    if is_text:
        console.echo(render("receipt", "text", applied.receipt, style=console.style(), document=STDOUT))
    if is_text and clusters > 1:
        console.echo("\n")


def _report(settings: ApplySettings, outcomes: Sequence[ClusterOutcome[Any]]) -> None:
    """Print what became of all clusters."""
    from quotaform.cli.outcome_text import render_receipt_total

    console, ci = settings.console, settings.ci
    found = digests(outcomes)
    settings.reports.write(found)
    ci.report(console, "receipt", outcomes)
    if settings.format_name == REPORT:
        settings.reports.echo(found)
    elif not settings.is_text:
        options = {**ci.options, "document": STDOUT}
        echo_outcomes(console, "receipt", settings.format_name, outcomes, render_receipt_total, **options)
    elif len(outcomes) == 1:
        outcomes[0].require()
    else:
        _sum_up(console, outcomes)


def _sum_up(console: Console, outcomes: Sequence[ClusterOutcome[Any]]) -> None:
    from quotaform.cli.outcome_text import render_receipt_total

    _echo_failures(console, outcomes)
    console.echo(render_receipt_total(digests(outcomes), console.style()))


def _echo_failures(console: Console, outcomes: Sequence[ClusterOutcome[Any]]) -> None:
    from quotaform.cli.outcome_text import render_failure

    for outcome in outcomes:
        if outcome.error is not None and not isinstance(outcome.error, NotReadError):
            console.echo(f"{render_failure(outcome.cluster, outcome.error, console.style())}\n")


def apply_directory(settings: ApplySettings, request: PlanRequest, *, takes_all: bool) -> int:
    """Plan clusters, show what would be done, ask, apply it, and return how the process ends.

    Args:
        takes_all: Whether every cluster of quotaform.yaml is meant (`--all`).

    Raises:
        UsageError: A cluster is a snapshot.
        StaleError: A plan is not the approved one.
        NotApprovedError: Nobody approved the plans.
    """
    request = _without_snapshots(settings, request, takes_all=takes_all)
    names = [cluster.name for cluster in request.clusters]
    with (
        settings.reports.covering(names),
        apply_engine(settings, len(names), partial(quota_bytes, request)) as engine,
    ):
        return _apply(settings, request, engine)


def _apply(settings: ApplySettings, request: PlanRequest, engine: ApplyEngine) -> int:
    from quotaform.apply.ledger import ClusterPlan
    from quotaform.cli.outcome_text import render_plan_total

    console = settings.console
    outcomes = tuple(engine.plan(settings, request))
    require_selected(request.selection, digests(outcomes))
    if len(outcomes) == 1:
        show_plan(settings, outcomes[0].require())
    elif settings.is_text:
        echo_outcomes(console, "plan", "text", outcomes, render_plan_total, style=console.style())
        console.echo("\n")
    plans: list[ClusterPlan[Any]] = []
    failed: list[ClusterOutcome[Any]] = []
    for cluster, outcome in zip(request.clusters, outcomes, strict=True):
        if outcome.error is None:
            plans.append(ClusterPlan(cluster, outcome.require()))
        else:
            failed.append(ClusterOutcome(cluster.name, error=outcome.error))
    _require_approved(settings, plans)
    return apply_and_report(settings, engine, plans, failed, request.repository)


def _require_approved(settings: ApplySettings, plans: Sequence[ClusterPlan[Any]]) -> None:
    """Make sure that plans which were just made are the approved ones, or that there is nothing to do."""
    from quotaform.apply.run import require_approved

    expected = settings.expected_id
    only = plans[0].digest if len(plans) == 1 else None
    if expected is not None and only is not None and not only.changes and only.is_applyable:
        settings.console.warn(
            f"Nothing to do: the cluster matches the files. The plan {expected} is already applied, or its changes "
            "came about otherwise."
        )
        expected = None
    try:
        require_approved(plans, settings.audit, expect_plan_id=expected, approve=partial(_ask, settings))
    except PlanIdError:
        if not settings.is_text:
            settings.console.write_stderr("".join(render("plan", "text", plans[0].plan)))
        raise


def _ask(settings: ApplySettings, plans: Sequence[ClusterPlan[Any]]) -> None:
    """Ask a person to approve what is going to change, unless nobody is to be asked."""
    if not plans or settings.auto_approve or settings.is_dry_run:
        return
    if not sys.stdin.isatty():
        raise NotApprovedError(
            [each.cluster.name for each in plans],
            "there is no terminal to ask for approval",
            remedy="give --auto-approve, or apply a saved plan",
        )
    for each in plans:
        ask(settings, each.cluster)


def _without_snapshots(settings: ApplySettings, request: PlanRequest, *, takes_all: bool) -> PlanRequest:
    """Return what is left to plan when snapshots, which cannot be applied to, are left out."""
    snapshots = [cluster.name for cluster in request.clusters if cluster.snapshot is not None]
    if not snapshots:
        return request
    if not takes_all or len(snapshots) == len(request.clusters):
        raise UsageError(f"cluster {snapshots[0]} is a snapshot file, which can be planned but not applied")
    settings.console.warn(f"Not applied: {listed(snapshots)}, as a snapshot can only be planned")
    return replace(request, clusters=tuple(cluster for cluster in request.clusters if cluster.snapshot is None))


def apply_saved(settings: ApplySettings, files: Sequence[Path], target: ManyClusters) -> int:
    """Apply plan files, and return how the process ends.

    Raises:
        UsageError: A file is no plan, or it is not clear for which cluster it is.
        PlanFileError: A plan cannot be read.
        StaleError: A plan was changed after it was written, is not the approved one, is too old, or was made by looser
            guards than those of the repository.
        NotApprovedError: A person did not approve a plan.
    """
    from quotaform.apply.run import require_approved

    repository = target.repository()
    with apply_engine(
        settings, len(files), lambda: sum(file.stat().st_size for file in files if file.is_file())
    ) as engine:
        plans, problems = _read_plans(settings, files, target, repository, engine.keep)
        with settings.reports.covering([each.cluster.name for each in plans]):
            require_approved(
                plans,
                settings.audit,
                expect_plan_id=settings.expected_id,
                approve=partial(_ask_by_name, settings, problems),
            )
        return apply_and_report(settings, engine, plans, (), repository)


def _ask_by_name(
    settings: ApplySettings, problems: Sequence[QuotaformError], plans: Sequence[ClusterPlan[Any]]
) -> None:
    """Raise what keeps the plans from being applied; ask a person where a cluster is to be confirmed by its name."""
    for problem in problems:
        raise problem
    if settings.auto_approve or settings.is_dry_run or not sys.stdin.isatty():
        return
    for each in plans:
        if each.cluster.confirm == "name":
            show_plan(settings, each.plan)
            ask(settings, each.cluster)


def _read_plans(
    settings: ApplySettings,
    files: Sequence[Path],
    target: ManyClusters,
    repository: Repository,
    keep: Callable[[Plan], Any],
) -> tuple[list[ClusterPlan[Any]], list[QuotaformError]]:
    """Return the plans as an engine keeps them, and why they must not be applied."""
    from quotaform.apply.ledger import ClusterPlan
    from quotaform.plan.plan_file import load_plan_file, require_guards, require_recent

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
