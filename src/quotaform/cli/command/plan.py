"""`quotaform plan`: show what an apply would do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from quotaform.cli.documents import STDOUT, documents_of
from quotaform.cli.exit_code import decide, judge_plan
from quotaform.cli.failed_plan import write_failed_plan
from quotaform.cli.fleet_report import FleetReports
from quotaform.cli.format import REPORT, format_option, out_option, report_option, require_format
from quotaform.cli.limit_changes import LimitChangeFiles
from quotaform.cli.option.cluster import ManyClusters
from quotaform.cli.option.common import AllowOption, DirectoryArgument, ExcludeOption, SelectOption, SnapshotOption
from quotaform.cli.option.comparison import Comparison
from quotaform.cli.option.engine import Engine
from quotaform.cli.option.group import with_option_groups
from quotaform.cli.option.output import ReportOutput
from quotaform.cli.option.principals import PrincipalOptions
from quotaform.cli.outcomes import (
    OutputFiles,
    digests,
    echo_outcomes,
    require_one,
    warn_of_started_receipts,
)
from quotaform.cli.plan_backtest import PlanBacktest
from quotaform.cli.plan_engine import plan_engine
from quotaform.cli.plan_request import make_request
from quotaform.cli.saved_plan import report_saved
from quotaform.cli.selection import require_selected
from quotaform.errors import QuotaformError, UsageError


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
    from quotaform.views.plan.outcome_text import render_plan_total

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
    """Return the format of `--summary`.

    Raises:
        UsageError: Another one is asked for.
    """
    if format_name not in ("text", "summary"):
        raise UsageError(f"--summary is a format of its own; leave out --format {format_name}, or write it with --out")
    return "summary"
