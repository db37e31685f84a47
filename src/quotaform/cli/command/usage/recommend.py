"""`quotaform usage recommend`: quotas that fit what is used."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

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
from quotaform.cli.table_output import TableOutput
from quotaform.core.outcome import ClusterOutcome

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

    \b
    Examples:
      quotaform usage recommend --usage /srv/usage
      quotaform usage recommend --usage /srv/usage --percentile p99.9 --headroom 2 --cap producer_byte_rate=50MiB/s
    """
    console = output.console()
    require_format(_SUBJECT, format_name)
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
            files.write(found.report, found.rows)
    console.echo(render(_SUBJECT, format_name, found.report, style=console.style()))
    report_failures(console, [ClusterOutcome[None](name, error=error) for name, error in found.failures])
    return gravest(error.exit_code for _, error in found.failures)
