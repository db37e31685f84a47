"""`quotaform apply`: apply plans to clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import Annotated

import typer

from quotaform.cli.apply.expected import read_plan_id
from quotaform.cli.apply.settings import ApplySettings
from quotaform.cli.fleet_report import FleetReports
from quotaform.cli.format import format_option, report_option, require_format
from quotaform.cli.option.cluster import ManyClusters
from quotaform.cli.option.common import AllowOption, ExcludeOption, SelectOption
from quotaform.cli.option.comparison import Comparison
from quotaform.cli.option.engine import Engine
from quotaform.cli.option.group import with_option_groups
from quotaform.cli.option.output import ReportOutput
from quotaform.cli.plan_request import make_request
from quotaform.errors import UsageError
from quotaform.files import is_folder


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
    from quotaform.app.apply.audit_file import AuditFile

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
    expected_id, longest = read_plan_id(expect_plan_id), _read_max_age(max_age)
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
            from quotaform.cli.apply.saved import apply_saved

            return apply_saved(settings, given, target)
        from quotaform.cli.apply.directory import apply_directory

        base = comparison.choose_base(console)
        mode = comparison.prune_mode()
        directory = given[0] if given else None
        request = make_request(target, directory, select, exclude, base=base, prune=mode, allow=allow)
        return apply_directory(settings, request, takes_all=target.all_clusters)


def _read_max_age(text: str | None) -> timedelta | None:
    from quotaform.model.duration import parse_duration

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
