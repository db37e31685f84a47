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
from quotaform.errors import UsageError

if TYPE_CHECKING:
    from quotaform.app.repository.repository import Repository
    from quotaform.cli.console import Console
    from quotaform.core.usage.sizing.recommendation import RecommendReport
    from quotaform.desired.config import Config
    from quotaform.spark.usage.recommend_run import Recommended

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
    """Propose quotas that fit what is used: per value the highest daily percentile of its buckets, times a headroom.

    A value that is too far from what is used is to change, one that nobody used is to be removed, and nothing is
    proposed where too little is recorded.

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
        raise UsageError("--diff writes nothing; leave --write out")
    if diff and format_name != "text":
        raise UsageError(f"--diff prints a diff; leave --format {format_name} out, or add --out {format_name}=PATH")
    repository = target.repository(directory)
    config = repository.config()
    clusters = target.choose(repository, config)
    settings = sizing.settings(config, clusters)
    files = TableOutput(_SUBJECT, out or ())
    session = place.session()
    from quotaform.cli.job_progress import JobProgress
    from quotaform.spark.session.session import spark_session
    from quotaform.spark.usage.recommend_run import recommended

    progress = JobProgress(console, "Sizing quotas", session)
    with spark_session(session, progress) as spark:
        progress("Sizing quotas", 0, 0)
        with recommended(spark, usage, clusters, settings, lambda text: console.warn(f"Warning: {text}")) as found:
            if settings.selection.is_partial and not sum(found.report.counts.values()):
                raise UsageError(f"{selection_text(settings.selection)}: no entity of the clusters is left")
            report = _edited(found, repository, config, writes=write) if write or diff else found.report
            files.write(report, found.rows)
    if diff:
        _print_diff(console, report)
    else:
        console.echo(render(_SUBJECT, format_name, report, style=console.style()))
    failures: list[ClusterOutcome[None]] = [ClusterOutcome(name, error=error) for name, error in found.failures]
    report_failures(console, failures)
    return gravest(error.exit_code for _, error in found.failures)


def _edited(found: Recommended, repository: Repository, config: Config, *, writes: bool) -> RecommendReport:
    """Return the report with what becomes of the files, which are written if they are to be.

    Raises:
        InvalidFilesError: The files are invalid.
        QuotaformError: They cannot be written.
    """
    from quotaform.app.clock import SYSTEM_CLOCK, today
    from quotaform.app.quota_edit.quota_edit import edit_quotas, write_quotas
    from quotaform.core.usage.sizing.recommendation import PROPOSED

    total = sum(found.report.counts[action] for action in PROPOSED)
    if total > len(found.report.proposals):
        most = len(found.report.proposals)
        raise UsageError(f"{total:,} proposals are more than the {most:,} that are written; choose some with --select")
    edited = edit_quotas(repository, config, found.report.proposals, found.live, today(SYSTEM_CLOCK))
    return replace(found.report, edit=write_quotas(edited) if writes else edited.edit)


def _print_diff(console: Console, report: RecommendReport) -> None:
    """Print what would change to stdout, and what would not to stderr."""
    from quotaform.views.format_text import render_diff
    from quotaform.views.usage.recommend_text import total_text, unwritten_lines

    edit = report.edit
    for file in () if edit is None else edit.files:
        console.echo(render_diff(file.name, file.before, file.after, console.style(), is_new=not file.before))
    console.warn(*unwritten_lines(report), total_text(report))
