"""`quotaform usage record`: keep what brokers offer about usage, where nothing else stores it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from quotaform.cli.option.common import (
    ClusterOption,
    ConfigOption,
    SourceOption,
    read_seconds,
    read_sources,
)
from quotaform.cli.option.output import Output, format_option, with_option_groups
from quotaform.model.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from quotaform.model.settings import MetricsSource

_LONGEST: Final = 366 * 86_400.0


@with_option_groups
def record(
    *,
    usage: Annotated[
        Path,
        typer.Option("--usage", metavar="DIR", help="Usage table: a directory to which files are added."),
    ],
    source: SourceOption = None,
    interval: Annotated[
        str, typer.Option("--interval", metavar="DURATION", help="Time between two measurements of a broker.")
    ] = "10s",
    duration: Annotated[
        str | None,
        typer.Option("--for", metavar="DURATION", help="How long to record. [default: until Ctrl-C or SIGTERM]"),
    ] = None,
    config: ConfigOption = None,
    cluster: ClusterOption = None,
    format_name: Annotated[str, format_option("usage-record")] = "text",
    output: Output,
) -> int:
    """Record the usage metrics of brokers into a usage table, without Spark and without stored monitoring.

    All brokers are measured in parallel, each with one request at a time. A file is written every minute, and when the
    recording ends, also by Ctrl-C or SIGTERM (exit 0). A broker that does not respond is a gap in the table and in the
    summary. Needs the extra usage, for Parquet.

    \b
    Examples:
      quotaform usage record --cluster prod-eu --usage usage --for 24h
      quotaform usage record --cluster lab --source 1=http://localhost:7071/metrics --usage usage --for 10m
      quotaform usage record --cluster lab --source 1=jmx:localhost:9999 --usage usage --interval 30s
    """
    console = output.console("usage-record", format_name)
    seconds = read_seconds("--interval", interval)
    total = None if duration is None else read_seconds("--for", duration, longest=_LONGEST)
    name, sources = _sources(source, cluster, config)
    from quotaform.model.moment import duration_text
    from quotaform.model.text import inert
    from quotaform.report.format import render
    from quotaform.usage.record.reader import open_readers
    from quotaform.usage.record.run import RecordRequest, UsageDirectory
    from quotaform.usage.record.run import record as record_usage

    readers = open_readers(sources, name, console.progress)
    table = UsageDirectory(usage)
    limit = "" if total is None else f" of {duration_text(timedelta(seconds=total))}"

    def progress(passed: float, rows: int) -> None:
        console.progress(
            f"Recording {inert(name)}: {duration_text(timedelta(seconds=passed))}{limit}, {rows:,} rows", 0, 0
        )

    console.warn(
        f"Recording {inert(name)} from {len(sources):,} source{'s' * (len(sources) != 1)} every {seconds:g} s; "
        "Ctrl-C ends it and keeps what was recorded"
    )
    result = record_usage(
        RecordRequest(
            cluster=name,
            usage=str(usage),
            readers=readers,
            interval=seconds,
            seconds=total,
            write=table.write,
            warn=lambda text: console.report_failure(f"Warning: {inert(text)}"),
            progress=progress,
        )
    )
    console.echo(render("usage-record", format_name, result, style=console.style()))
    result.require_written()
    return ExitCode.DONE


def _sources(
    texts: list[str] | None, cluster: str | None, config: Path | None
) -> tuple[str, tuple[MetricsSource, ...]]:
    """Return the name of the cluster and its sources; with both options no quotaform.yaml is needed."""
    from quotaform.cli.option.cluster import OneCluster
    from quotaform.repository.gateway import require_allowed_metrics

    given = read_sources(texts or ())
    if given and cluster:
        return cluster, given
    chosen = OneCluster(config=config, cluster=cluster).choose()
    sources = given or chosen.metrics.sources
    if not sources:
        raise UsageError(
            f"cluster {chosen.name} has no metrics.brokers in quotaform.yaml; add them, or give --source "
            "BROKER=http://HOST:PORT/metrics"
        )
    if not given:
        require_allowed_metrics(chosen.metrics)
    return chosen.name, sources
