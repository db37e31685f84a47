"""`quotaform usage recommend`: quotas that fit what is used."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quotaform.app.rendering import render
from quotaform.cli.exit_code import gravest
from quotaform.cli.format import format_option, require_format
from quotaform.cli.option.cluster import ManyClusters
from quotaform.cli.option.engine import SparkPlace
from quotaform.cli.option.group import with_option_groups
from quotaform.cli.option.output import Output
from quotaform.cli.option.sizing import Sizing
from quotaform.cli.option.usage_table import UsageOption
from quotaform.cli.outcomes import report_failures
from quotaform.cli.selection import selection_text
from quotaform.cli.table_output import TableOutput
from quotaform.core.outcome import ClusterOutcome
from quotaform.errors import QuotaformError, UsageError

if TYPE_CHECKING:
    from quotaform.app.quota_edit.quota_edit import EditedFiles
    from quotaform.app.repository.repository import Repository
    from quotaform.cli.console import Console
    from quotaform.core.usage.sizing.recommendation import RecommendReport
    from quotaform.desired.config import Config
    from quotaform.spark.usage.recommend.recommend_run import Recommended

_SUBJECT = "usage-recommend"


@with_option_groups
def recommend(
    *,
    directory: Annotated[
        Path | None,
        typer.Argument(metavar="[DIR]", help="Quotas directory, or its parent directory. [default: quotas.d]"),
    ] = None,
    usage: UsageOption,
    target: ManyClusters,
    sizing: Sizing,
    write: Annotated[
        bool, typer.Option("--write", help="Change the files so that they say what is proposed: all of it, or nothing.")
    ] = False,
    diff: Annotated[
        bool, typer.Option("--diff", help="Write nothing; print what --write would change as a unified diff.")
    ] = False,
    no_backtest: Annotated[
        bool,
        typer.Option(
            "--no-backtest", help="Do not replay the usage against the proposals, which takes most of the time."
        ),
    ] = False,
    out: Annotated[
        list[str] | None,
        typer.Option(
            "--out",
            metavar="FORMAT=PATH|parquet=DIR",
            help="Also write the result to a file, or all of its rows as Parquet to a new directory. Repeatable.",
        ),
    ] = None,
    place: SparkPlace,
    format_name: Annotated[str, format_option(_SUBJECT)] = "text",
    output: Output,
) -> int:
    """Propose quotas that fit what is used: the daily percentile of the busiest weekday of each value's buckets, times
    a headroom.

    A value that is too far from what is used is to change, one that nobody used is to be removed, and nothing is
    proposed where too little is recorded. Beside the proposals stands their backtest: what a plan of the changed files
    would have throttled of the same usage.

    With --write, values are changed where they stand, comments stay, and each changed entry gets a reason. A value of a
    profile, of an anchor, or of a file that is common to several clusters is overridden by an entry in the folder of
    the cluster. What nobody used is removed, or becomes state: absent.

    \b
    Examples:
      quotaform usage recommend --usage /srv/usage
      quotaform usage recommend --usage /srv/usage --percentile p99.9 --headroom 2 --cap producer_byte_rate=50MiB/s
      quotaform usage recommend --usage /srv/usage --diff
    """
    console = output.console()
    require_format(_SUBJECT, format_name)
    if write and diff:
        raise UsageError("--diff shows the change and --write makes it; give one of them")
    if diff and format_name != "text":
        raise UsageError(f"--diff prints a diff; leave --format {format_name} out, or add --out {format_name}=PATH")
    repository = target.repository(directory)
    config = repository.config()
    clusters = target.choose(repository, config)
    settings = sizing.settings(config, clusters)
    files = TableOutput(_SUBJECT, out or ())
    session = place.session()
    from quotaform.app.clock import SYSTEM_CLOCK
    from quotaform.app.quota_edit.quota_edit import write_quotas
    from quotaform.cli.job_progress import JobProgress
    from quotaform.spark.session.session import spark_session
    from quotaform.spark.usage.recommend.recommend_backtest import backtest_proposals
    from quotaform.spark.usage.recommend.recommend_run import recommended

    def warn(text: str) -> None:
        console.warn(f"Warning: {text}")

    progress = JobProgress(console, "Sizing quotas", session)
    with spark_session(session, progress) as spark:
        progress("Sizing quotas", 0, 0)
        with recommended(spark, usage, clusters, settings, SYSTEM_CLOCK.now(), warn) as found:
            if settings.selection.is_partial and not sum(found.report.counts.values()):
                raise UsageError(f"{selection_text(settings.selection)}: no entity of the clusters is left")
            report = found.report
            edited = _edited(found, repository, config, console, is_needed=write or diff, is_tested=not no_backtest)
            if edited is not None and report.proposals and not no_backtest:
                progress("Replaying usage", 0, 0)
                tested = backtest_proposals(spark, report, edited, repository, config, clusters, warn)
                report = replace(report, backtest=tested)
            if edited is not None and (write or diff):
                report = replace(report, edit=write_quotas(edited) if write else edited.edit)
            files.write(report, found.rows)
    if diff:
        _print_diff(console, report)
    else:
        console.echo(render(_SUBJECT, format_name, report, style=console.style()))
    failures: list[ClusterOutcome[None]] = [ClusterOutcome(name, error=error) for name, error in found.failures]
    report_failures(console, failures)
    return gravest(error.exit_code for _, error in found.failures)


def _edited(
    found: Recommended, repository: Repository, config: Config, console: Console, *, is_needed: bool, is_tested: bool
) -> EditedFiles | None:
    """Return the files as they follow the proposals; `None` if they are not needed, or cannot be read for a backtest.

    Raises:
        InvalidFilesError: The files are needed and invalid.
        QuotaformError: They cannot be changed.
    """
    from quotaform.app.clock import SYSTEM_CLOCK, today
    from quotaform.app.quota_edit.quota_edit import edit_quotas
    from quotaform.core.usage.sizing.recommendation import PROPOSED

    report = found.report
    total = sum(report.counts[action] for action in PROPOSED)
    if not is_needed and not (is_tested and total):
        return None
    try:
        if total > (most := len(report.proposals)):
            raise UsageError(f"{total:,} proposals are more than the {most:,} of a change; choose some with --select")
        return edit_quotas(repository, config, report.proposals, found.live, today(SYSTEM_CLOCK))
    except QuotaformError as error:
        if is_needed:
            raise
        console.warn(f"Warning: no backtest of the proposals: {error}")
        return None


def _print_diff(console: Console, report: RecommendReport) -> None:
    """Print what would change to stdout, and what would not to stderr."""
    from quotaform.views.format_text import render_diff
    from quotaform.views.usage.recommend_text import backtest_lines, total_text, unwritten_lines

    edit = report.edit
    for file in () if edit is None else edit.files:
        console.echo(render_diff(file.name, file.before, file.after, console.style(), is_new=not file.before))
    console.warn(*unwritten_lines(report), *backtest_lines(report), total_text(report))
