"""`quotaform usage recommend`: quotas that fit what is used."""

from __future__ import annotations

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
from quotaform.cli.outcomes import failed_outcomes, report_failures
from quotaform.cli.selection import selection_text
from quotaform.cli.table_output import TableOutput
from quotaform.errors import UsageError

if TYPE_CHECKING:
    from quotaform.cli.console import Console
    from quotaform.core.usage.sizing.recommendation import RecommendReport

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
        bool, typer.Option("--write", help="Write the proposals into the files: all of them, or none.")
    ] = False,
    diff: Annotated[
        bool, typer.Option("--diff", help="Print the changes of --write as a unified diff, and write nothing.")
    ] = False,
    no_backtest: Annotated[
        bool,
        typer.Option("--no-backtest", help="Skip the backtest of the proposals, which takes most of the time."),
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
    """Propose quotas that fit the recorded usage.

    The basis of a value is the highest daily percentile of all buckets that it limits. Values that differ too much
    from the basis times a headroom are changed, unused values are removed, and nothing is proposed where too little is
    recorded. The output includes a backtest of the proposals: what a plan of the changed files would have throttled of
    the same usage.

    With --write, values are changed in place, comments are kept, and each changed entry gets a reason. A value from a
    profile, an anchor, or a file for several clusters is overridden by an entry in the cluster's directory. An unused
    value is removed, or the entry becomes state: absent.

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
    from quotaform.cli.job_progress import JobProgress
    from quotaform.spark.session.session import spark_session
    from quotaform.spark.usage.recommend.recommend_change import (
        FileChange,
        RecommendRequest,
        recommended_change,
        require_files,
    )
    from quotaform.spark.usage.table.usage_table import require_usage

    request = RecommendRequest(
        usage=usage,
        repository=repository,
        config=config,
        clusters=clusters,
        settings=settings,
        change=FileChange.WRITTEN if write else FileChange.SHOWN if diff else FileChange.NOT_ASKED,
        is_tested=not no_backtest,
    )
    require_files(request)
    require_usage(usage, session)
    progress = JobProgress(console, "Sizing quotas", session)
    with (
        spark_session(session, progress) as spark,
        recommended_change(
            spark, request, lambda text: console.report_failure(f"Warning: {text}"), progress=progress
        ) as found,
    ):
        report = found.report
        if settings.selection.is_partial and not sum(report.counts.values()):
            raise UsageError(f"{selection_text(settings.selection)}: no entity of the clusters is left")
        files.write(report, found.rows)
    if diff:
        _print_diff(console, report)
    else:
        console.echo(render(_SUBJECT, format_name, report, style=console.style()))
    files.report(console)
    report_failures(console, failed_outcomes(found.failures))
    return gravest(error.exit_code for _, error in found.failures)


def _print_diff(console: Console, report: RecommendReport) -> None:
    """Print what would change to stdout, and what would not to stderr."""
    from quotaform.views.format_text import render_diff
    from quotaform.views.usage.recommend_text import backtest_lines, total_text, unwritten_lines

    edit = report.edit
    for file in () if edit is None else edit.files:
        console.echo(render_diff(file.name, file.before, file.after, console.style(), is_new=not file.before))
    console.report_failure(*unwritten_lines(report))
    console.warn(*backtest_lines(report), total_text(report))
