"""`quotaform plan`: show what apply would change."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer

from quotaform.cli.ci import Ci
from quotaform.cli.console import Console, remove_earlier, write_file
from quotaform.cli.exit_code import decide, judge_plan
from quotaform.cli.option.cluster import ManyClusters
from quotaform.cli.option.common import AllowOption, DirectoryArgument, ExcludeOption, SelectOption, SnapshotOption
from quotaform.cli.option.engine import AUTO, LOCAL, SPARK, Engine, SparkPlace
from quotaform.cli.option.output import (
    ReportOutput,
    format_option,
    out_option,
    report_option,
    require_format,
    with_option_groups,
)
from quotaform.cli.option.value import one_of, shorten
from quotaform.cli.planning import Comparison, make_request, plan_engine, require_selected
from quotaform.cli.present import (
    PLACEHOLDER,
    STDOUT,
    FleetReports,
    OutputFiles,
    cluster_paths,
    digests,
    documents_of,
    echo_outcomes,
    report_saved_files,
    require_one,
    warn_of_started_receipts,
)
from quotaform.model.errors import QuotaformError, UsageError
from quotaform.model.outcome import ClusterOutcome
from quotaform.model.text import inert
from quotaform.report.format import FORMATS, REPORT, Document, render
from quotaform.system.files import require_writable

if TYPE_CHECKING:
    from quotaform.cli.present import Gathered
    from quotaform.desired.config import Cluster
    from quotaform.plan.backtest import ClusterBacktest
    from quotaform.plan.plan import Plan, PlanDigest
    from quotaform.plan.principals import PrincipalList
    from quotaform.plan.run import PlanRequest
    from quotaform.usage.replay.run import BacktestRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class PrincipalOptions:
    """The options of a command that shows the blast radius of a plan."""

    principals: Annotated[
        str | None,
        typer.Option(
            "--principals",
            metavar="FILE|TABLE|scram",
            help="Show whose effective limits change: of a CSV or JSON lines file with user, client_id, ip (- is "
            "stdin), of all users with SCRAM credentials, or with --engine spark of a table (Parquet, or a name in the "
            "catalog).",
        ),
    ] = None
    principals_out: Annotated[
        str | None,
        typer.Option(
            "--principals-out",
            metavar="[FORMAT=]PATH",
            help="With --principals: write all changes of limits to a file, .csv or .jsonl; for a table, parquet=DIR.",
        ),
    ] = None

    def require_valid(self) -> None:
        """Make sure that the options go together."""
        if self.principals is None and self.principals_out is not None:
            raise UsageError("--principals-out requires --principals")

    def require_files(self, engine: Engine) -> None:
        """Make sure that files of principals are there, before Spark is started to read them.

        Raises `EngineError` if Spark is not installed.
        """
        from quotaform.plan.principals import is_table

        if self.principals is not None and is_table(self.principals, on_spark=True):
            from quotaform.fleet.session import require_installed

            require_installed(engine.session())
            from quotaform.fleet.principals import require_files

            require_files(self.principals, engine.session())

    def read(
        self, console: Console, files: LimitChangeFiles, engine: Engine, *, on_spark: bool
    ) -> PrincipalList | None:
        """Read the list of principals; `None` if nobody asked for the blast radius.

        `on_spark`: whether the plans are computed on Spark.
        """
        if self.principals is None:
            return None
        from quotaform.plan.principals import read_principals

        found = read_principals(self.principals, files.names, files.folder, on_spark=on_spark)
        if found.table is not None:
            self.require_files(engine)
        if found.nameless:
            from quotaform.resolve.request_file import nameless_note

            console.warn(f"Warning: {nameless_note(self.principals, found.nameless)}")
        return found


T = TypeVar("T")

_OPTION: Final = "--principals-out"
_SUBJECT: Final = "limit-changes"
PARQUET: Final = "parquet"
"""The format of a folder that Spark writes."""
_SUFFIXES: Final = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}


def read_changes_path(text: str) -> tuple[str, Path]:
    """Read the value of `--principals-out`: FORMAT=PATH, or a path whose suffix says the format.

    >>> read_changes_path("changed.csv")[0], read_changes_path("jsonl=changed.txt")[0]
    ('csv', 'jsonl')
    """
    name, separator, path = text.partition("=")
    if not (separator and name in (*FORMATS[_SUBJECT], PARQUET)):
        path = text
        name = _SUFFIXES.get(Path(path).suffix.lower(), "")
    if not name:
        raise UsageError(
            f"{_OPTION} {shorten(text)}: the name must end in {one_of(_SUFFIXES)}, or begin with "
            f"{one_of(f'{each}=' for each in (*FORMATS[_SUBJECT], PARQUET))}"
        )
    if path in ("", "-"):
        raise UsageError(f"{_OPTION} {shorten(text)}: a path is missing; write for example {_OPTION} changed.csv")
    return name, Path(path)


class LimitChangeFiles:
    """Writes the changes of limits of each cluster, if that was asked for."""

    def __init__(self, console: Console, text: str | None, clusters: Sequence[str]) -> None:
        """Read the value of `--principals-out`.

        Raises `UsageError` if it cannot be read, or several clusters would share one file.
        """
        self._console = console
        self._format, self._paths = "", dict[str, Path]()
        self._folder: str | None = None
        if text is None:
            return
        self._format, path = read_changes_path(text)
        if self._format == PARQUET:
            if os.path.lexists(path):
                raise UsageError(f"{_OPTION} {shorten(text)}: there is such a file or folder already; name a new one")
            self._folder = text.partition("=")[2]
            return
        paths: Mapping[str, Path] = cluster_paths(_OPTION, path, clusters, example=f"changed/{PLACEHOLDER}.csv")
        for each in paths.values():
            require_writable(each)
        self._paths.update(paths)

    @property
    def names(self) -> Mapping[str, str]:
        """Cluster to its file, as plans name it."""
        return {cluster: path.as_posix() for cluster, path in self._paths.items()}

    @property
    def folder(self) -> str | None:
        """The folder of all changes as Parquet, if that is what was asked for."""
        return self._folder

    @property
    def documents(self) -> tuple[Document, ...]:
        """What is to be rendered of each plan."""
        return (Document(_SUBJECT, self._format, {}, _SUBJECT),) if self._paths else ()

    def write(self, outcomes: Iterable[ClusterOutcome[T]]) -> None:
        """Write the changes of each plan.

        The file of a cluster that failed is removed, so that an earlier one is not taken for its result.
        """
        for outcome in outcomes if self._paths else ():
            path = self._paths[outcome.cluster]
            if outcome.error is None:
                write_file(path, render(_SUBJECT, self._format, outcome.require(), document=_SUBJECT))
            else:
                remove_earlier(self._console, path)

    def remove(self) -> None:
        """Remove the files of an earlier run, so that they are not taken for the result of this one."""
        for path in self._paths.values():
            remove_earlier(self._console, path)


@with_option_groups
def plan(
    *,
    directory: DirectoryArgument = None,
    target: ManyClusters,
    snapshot: SnapshotOption = None,
    select: SelectOption = None,
    exclude: ExcludeOption = None,
    comparison: Comparison,
    people: PrincipalOptions,
    backtest: Annotated[
        str | None,
        typer.Option(
            "--backtest",
            metavar="USAGE",
            help="Show what the plan would have throttled, by a usage table (DIR or TABLE; needs the spark extra).",
        ),
    ] = None,
    allow: AllowOption = None,
    out: Annotated[list[str] | None, out_option("plan")] = None,
    report: Annotated[list[str] | None, report_option()] = None,
    revert: Annotated[
        Path | None,
        typer.Option("--revert", metavar="RECEIPT", help="Plan to put back what the apply of this receipt changed."),
    ] = None,
    detailed_exitcode: Annotated[
        bool, typer.Option("--detailed-exitcode", help="Exit 2 if there are differences.")
    ] = False,
    summary: Annotated[
        bool,
        typer.Option("--summary", help="Print counts, the largest changes and everything deleted; --format summary."),
    ] = False,
    show_unchanged: Annotated[bool, typer.Option("--show-unchanged", help="Also show unchanged keys.")] = False,
    show_unmanaged: Annotated[
        bool, typer.Option("--show-unmanaged", help="List live entities that no file declares.")
    ] = False,
    engine: Engine,
    format_name: Annotated[str, format_option("plan")] = "text",
    output: ReportOutput,
) -> int:
    """Show what apply would change, entity by entity, with the effective limits before and after.

    With --base, each change has an origin: config (the files changed since the base), drift (the cluster did) or both.

    With --principals, the plan also shows its blast radius: which of those who connect get another effective limit.

    \b
    Examples:
      quotaform plan
      quotaform plan --base origin/main
      quotaform plan --out plan.json --detailed-exitcode
      quotaform plan --snapshot snapshots/lab.json --select 'user=svc-*'
      quotaform plan --all --out 'plans/{cluster}.json'
      quotaform plan --all --engine spark --report markdown=fleet.md --format report
      quotaform plan --principals clients.csv --principals-out changed.csv
      quotaform plan --backtest /srv/usage
      quotaform plan --revert .quotaform/receipts/RECEIPT.json --out revert.json
    """
    from quotaform.cli.outcome_text import render_plan_total

    console = output.console()
    if summary:
        format_name = _summary_format(format_name)
    require_format("plan", format_name)
    engine.require_valid()
    people.require_valid()
    replay = PlanBacktest.read(backtest, engine)
    engine = replay.engine(engine)
    base = None
    if revert is None:
        base = comparison.choose_base(console)
    elif snapshot is not None or engine.is_given or comparison.is_given:
        raise UsageError(
            "--revert reads the cluster of the receipt and does not follow the files; leave --snapshot, --engine, "
            "--base and --prune out"
        )
    mode = comparison.prune_mode()
    reports = FleetReports(console, "plan", report or ())
    try:
        with reports.covering(target.literal_names):
            request = make_request(target, directory, select, exclude, snapshot, base, mode, allow=allow, revert=revert)
    except QuotaformError as error:
        ci = output.ci(target.repository(directory).directory)
        write_failed_plan(error, out or (), target.literal_names, ci, console)
        raise
    names = [cluster.name for cluster in request.clusters]
    require_one(format_name, names)
    files = OutputFiles(console, "plan", out or (), names)
    changes = LimitChangeFiles(console, people.principals_out, names)
    ci = output.ci(request.repository.directory)
    options = {"style": console.style(), "shows_unchanged": show_unchanged, "shows_unmanaged": show_unmanaged}
    options |= {**ci.options, "document": STDOUT}
    try:
        with reports.covering(names):
            chosen = plan_engine(console, engine, request)
            request = replace(request, principals=people.read(console, changes, engine, on_spark=chosen.is_spark))
            request = replay.request(request)
            formats = [*files.formats, "github"] if ci.is_github else files.formats
            documents = documents_of(format_name, options, formats, ci, len(names))
            gathered = replay.beside(chosen.plan(request, (*documents, *changes.documents)), console)
    except QuotaformError as error:
        changes.remove()
        write_failed_plan(error, out or (), names, ci, console)
        raise
    found = digests(gathered.outcomes)
    require_selected(request.selection, found, files, reports)
    outcomes = gathered.outcomes
    changes.write(outcomes)
    files.write(outcomes, **ci.options)
    reports.write(found)
    warn_of_started_receipts(console, request.repository, found, request.revert)
    ci.report(console, "plan", outcomes)
    if format_name == REPORT:
        reports.echo(found)
    else:
        echo_outcomes(console, "plan", format_name, outcomes, render_plan_total, **options)
    for outcome, made in zip(outcomes, found, strict=True):
        if made.error is None and not made.require().is_applyable:
            ci.annotate(console, "plan", format_name, outcome.require())
    report_saved(console, request, files.paths("json"), found)
    gathered.raise_interrupt()
    return decide(found, lambda made: judge_plan(made, is_detailed=detailed_exitcode))


def _summary_format(format_name: str) -> str:
    """Return the format of `--summary`."""
    if format_name not in ("text", "summary"):
        raise UsageError(f"--summary is a format of its own; leave out --format {format_name}, or write it with --out")
    return "summary"


def write_failed_plan(
    error: QuotaformError, out: Iterable[str], clusters: Sequence[str], ci: Ci, console: Console
) -> None:
    """Write why there is no plan, so that a comment does not go on showing the plan of an earlier commit.

    Wrong usage is not written: it is for whoever typed it.

    `out`: the values of `--out`. `clusters`: the names of the clusters, as far as they are known: quotaform.yaml may be
    invalid.
    """
    if isinstance(error, UsageError) or not clusters:
        return
    outcomes: list[ClusterOutcome[Plan]] = [ClusterOutcome(name, error=error) for name in clusters]
    try:
        OutputFiles(console, "plan", out, clusters).write(outcomes, **ci.options)
        ci.report(console, "plan", outcomes)
    except QuotaformError as problem:
        # What failed first is what matters.
        console.report_failure(f"Warning: the failure is not in the files of --out: {problem}")


_MOST_FILES: Final = 10


def report_saved(
    console: Console,
    request: PlanRequest,
    files: Sequence[Mapping[str, Path]],
    outcomes: Sequence[ClusterOutcome[PlanDigest]],
) -> None:
    """Print to stderr where plans were saved, and the command that applies those that can be applied.

    The plan of a pull request is not applied but made again after the merge, so there is no command for it.

    `files`: cluster to plan file, for each time that plans were saved. `outcomes`: the plans; those of failed clusters
    were not saved.
    """
    plans = {outcome.cluster: outcome.require() for outcome in outcomes if outcome.error is None}
    saved = [paths[name] for paths in files for name in plans]
    if not saved:
        return
    report_saved_files(console, "plan" if len(saved) == 1 else "plans", saved)
    if request.base is not None and request.base.is_proposed:
        return
    clusters = [each for each in request.clusters if each.name in plans and _can_apply(request, each, plans[each.name])]
    if clusters:
        paths = [str(files[0][each.name]) for each in clusters]
        words = ("quotaform", "apply", *paths[:_MOST_FILES], *_target(request, clusters[0]))
        more = f" (and {len(paths) - _MOST_FILES:,} more plans with changes)" if len(paths) > _MOST_FILES else ""
        console.warn(f"To apply: {inert(' '.join(map(quote, words)))}{more}")


def _can_apply(request: PlanRequest, cluster: Cluster, plan: PlanDigest) -> bool:
    """Whether a plan has something to apply and a running cluster; one that was read from `--snapshot` may have one."""
    known = request.config.clusters.get(cluster.name)
    is_running = cluster.snapshot is None or (known is not None and known.snapshot is None)
    return bool(plan.changes) and plan.is_applyable and is_running


def _target(request: PlanRequest, cluster: Cluster) -> Iterator[str]:
    """Yield the options without which `apply` would not find the cluster."""
    from quotaform.repository.revision import CONFIG_NAME

    known = request.config.clusters.get(cluster.name)
    if known is not None and request.repository.config_path != Path(CONFIG_NAME):
        yield from ("--config", str(request.repository.config_path))
    if cluster.bootstrap_servers and (known is None or known.bootstrap_servers != cluster.bootstrap_servers):
        yield from ("--bootstrap-server", ",".join(cluster.bootstrap_servers))
        if cluster.command_config is not None:
            yield from ("--command-config", str(cluster.command_config))


@dataclass(frozen=True, slots=True)
class PlanBacktest:
    """The value of `--backtest`, and where Spark runs that replays the usage; the plan is made in this process."""

    usage: str | None  # The usage table; `None` if no backtest is asked for
    place: SparkPlace

    @classmethod
    def read(cls, usage: str | None, engine: Engine) -> PlanBacktest:
        """Return the backtest that the options ask for."""
        place = SparkPlace(master=engine.master, remote=engine.remote, spark_conf=engine.spark_conf)
        if usage is not None:
            if engine.engine in (SPARK, AUTO):
                raise UsageError(
                    "--backtest is for plans that this process makes; leave --engine out "
                    "(--master and --remote say where usage is replayed)"
                )
            session = place.session()
            from quotaform.usage.table.table import require_usage

            require_usage(usage, session)
        return cls(usage, place)

    def engine(self, engine: Engine) -> Engine:
        """Return where the plan is made."""
        return engine if self.usage is None else Engine(engine=LOCAL)

    def request(self, request: PlanRequest) -> PlanRequest:
        """Return what is to be planned."""
        return request if self.usage is None else replace(request, keeps_actual=True)

    def beside(self, gathered: Gathered[Any], console: Console) -> Gathered[Any]:
        """Return plans with their backtests; those of clusters that failed stay as they are.

        Raises `InvalidFilesError` if the usage cannot be read, and `EngineError` if Spark does not start, or failed.
        """
        plans = [outcome.value for outcome in gathered.outcomes if outcome.value is not None]
        if self.usage is None or not plans or gathered.interrupt is not None:
            return gathered
        from quotaform.plan.backtest import MOST_IN_PLAN
        from quotaform.usage.replay.run import BacktestRequest

        has_others = len(plans) < len(gathered.outcomes)
        request = BacktestRequest(usage=self.usage, most=MOST_IN_PLAN, has_others=has_others)
        found = self._found(request, plans, console)
        outcomes = tuple(
            outcome if outcome.value is None else _with_backtest(outcome, found[outcome.cluster])
            for outcome in gathered.outcomes
        )
        return replace(gathered, outcomes=outcomes)

    def _found(self, request: BacktestRequest, plans: list[Plan], console: Console) -> Mapping[str, ClusterBacktest]:
        session = self.place.session()
        from quotaform.cli.option.engine import JobProgress
        from quotaform.fleet.session import spark_session
        from quotaform.usage.replay.run import backtested

        progress = JobProgress(console, "Replaying usage", session)
        with spark_session(session, progress) as spark:
            progress("Replaying usage", 0, 0)
            with backtested(spark, request, plans, warn=lambda text: console.warn(f"Warning: {text}")) as (found, _):
                return {each.cluster: each for each in found.clusters}


def _with_backtest(outcome: ClusterOutcome[Plan], found: ClusterBacktest) -> ClusterOutcome[Plan]:
    return replace(outcome, value=replace(outcome.require(), backtest=found))
