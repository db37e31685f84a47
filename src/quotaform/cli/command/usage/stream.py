"""`quotaform usage ingest --topic`: its options, and a stream that goes on until it is interrupted, or has read all."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Final

import typer

from quotaform.cli.console import Console, write_file
from quotaform.cli.option.common import complete_cluster
from quotaform.cli.option.engine import spark_job
from quotaform.cli.option.value import complete_from, require_choice
from quotaform.cli.present import report_saved_files
from quotaform.model.errors import EngineError, ExitCode, UsageError
from quotaform.model.text import inert
from quotaform.report.format import render
from quotaform.report.text import counted
from quotaform.system.process import held_signals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quotaform.cluster.client.config import ClientConfig
    from quotaform.fleet.options import SessionOptions
    from quotaform.model.server import Server
    from quotaform.usage.ingest.ingest import StreamCounts
    from quotaform.usage.metric_name import Origin
    from quotaform.usage.stream.run import StreamRequest, StreamState
    from quotaform.usage.stream.topic import Topic


EARLIEST: Final = "earliest"
STARTS: Final = (EARLIEST, "latest")
_MOST_RECORDS: Final = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSource:
    """A topic, and how it is read."""

    topic: Annotated[
        str | None,
        typer.Option(
            "--topic", metavar="NAME", help="Kafka topic to read instead of SOURCE; each record is a document."
        ),
    ] = None
    bootstrap_server: Annotated[
        str | None,
        typer.Option("--bootstrap-server", metavar="HOST:PORT,...", help="Bootstrap servers of the topic's cluster."),
    ] = None
    command_config: Annotated[
        Path | None,
        typer.Option("--command-config", metavar="FILE", help="Java client properties file, with --bootstrap-server."),
    ] = None
    topic_cluster: Annotated[
        str | None,
        typer.Option(
            "--topic-cluster",
            metavar="NAME",
            help="Cluster in quotaform.yaml with the topic, instead of --bootstrap-server.",
            autocompletion=complete_cluster,
        ),
    ] = None
    checkpoint: Annotated[
        str | None,
        typer.Option(
            "--checkpoint", metavar="DIR", help="Directory for the progress of the stream; one per topic and table."
        ),
    ] = None
    watermark: Annotated[
        str,
        typer.Option(
            "--watermark",
            metavar="DURATION",
            help="Records older than the newest one by more than this are quarantined; duplicates are detected "
            "among the others.",
        ),
    ] = "10m"
    starting: Annotated[
        str,
        typer.Option(
            "--starting",
            metavar="|".join(STARTS),
            help="Where a new checkpoint begins: at the oldest record, or at new records.",
            autocompletion=complete_from(STARTS),
        ),
    ] = EARLIEST
    until_empty: Annotated[
        bool, typer.Option("--until-empty", help="End when all records that exist at the start are read.")
    ] = False
    duration: Annotated[
        str | None,
        typer.Option("--for", metavar="DURATION", help="End after this time. [default: until it is interrupted]"),
    ] = None
    every: Annotated[
        str,
        typer.Option(
            "--every",
            metavar="DURATION",
            help="Longest time until records are written; each batch writes a file.",
        ),
    ] = "10s"
    batch_records: Annotated[
        int, typer.Option("--batch-records", metavar="N", help="Largest number of records in a batch.")
    ] = 2000

    @property
    def is_given(self) -> bool:
        """Whether a topic is read."""
        return self.topic is not None

    def require_valid(self, sources: list[str] | None) -> None:
        """Make sure that the options fit each other."""
        if self.topic is None:
            given = {
                "--bootstrap-server": self.bootstrap_server,
                "--command-config": self.command_config,
                "--topic-cluster": self.topic_cluster,
                "--checkpoint": self.checkpoint,
                "--until-empty": self.until_empty or None,
                "--for": self.duration,
            }
            if used := [name for name, value in given.items() if value is not None]:
                raise UsageError(f"{used[0]} is for a topic; give --topic, or leave it out")
            return
        if sources:
            raise UsageError("--topic is read instead of files; leave SOURCE or --topic out")
        if (self.bootstrap_server is None) == (self.topic_cluster is None):
            raise UsageError("--topic requires --bootstrap-server HOST:PORT or --topic-cluster NAME; give one of them")
        if self.command_config is not None and self.bootstrap_server is None:
            raise UsageError("--command-config requires --bootstrap-server; in quotaform.yaml, use command_config")
        if self.checkpoint is None:
            raise UsageError("--topic requires --checkpoint DIR, in which the stream keeps its progress")
        require_choice("start", self.starting, STARTS)
        if self.until_empty and self.duration is not None:
            raise UsageError("--until-empty and --for exclude each other; give one of them")
        if not 1 <= self.batch_records <= _MOST_RECORDS:
            raise UsageError(f"--batch-records {self.batch_records}: give a number from 1 to {_MOST_RECORDS:,}")
        self.wait_s()
        self.every_s()
        self.for_s()

    def wait_s(self) -> int:
        """Return how many seconds the watermark is behind."""
        return _seconds("--watermark", self.watermark)

    def every_s(self) -> int:
        """Return after how many seconds records are written at the latest."""
        return _seconds("--every", self.every)

    def for_s(self) -> int | None:
        """Return after how many seconds the stream ends."""
        return None if self.duration is None else _seconds("--for", self.duration)

    def connect(self, config: Path | None) -> tuple[Topic, tuple[str | Server, ...], ClientConfig]:
        """Return the topic, the bootstrap servers of its cluster, and its client."""
        from quotaform.cli.option.cluster import OneCluster
        from quotaform.repository.gateway import connection_of
        from quotaform.usage.stream.topic import TopicGateway

        cluster = OneCluster(
            config=config,
            cluster=self.topic_cluster,
            bootstrap_server=self.bootstrap_server,
            command_config=self.command_config,
        ).choose()
        servers, client = connection_of(cluster)
        name = str(self.topic)
        with TopicGateway.connect(servers, client, name=cluster.label) as gateway:
            topic = gateway.topic(name)
        if topic is None:
            raise UsageError(
                f"--topic: {inert(cluster.label)} has no topic {inert(name)}; create it, or correct the name"
            )
        return topic, servers, client


def _seconds(option: str, text: str) -> int:
    from quotaform.model.moment import parse_duration

    try:
        return int(parse_duration(text).total_seconds())
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None


SUBJECT: Final = "usage-stream"
_LOG_S: Final = 30.0
"""The least number of seconds between two lines of a log."""


def stream_request(
    source: TopicSource,
    config: Path | None,
    session: SessionOptions,
    *,
    input_format: str,
    origin: Origin,
    usage: str,
    quarantine: str | None,
) -> StreamRequest:
    """Return what is read, and where to; the cluster of the topic is asked for it.

    `quarantine`: where records go that cannot be read; `None` for the folder beside the table.
    """
    from quotaform.fleet.table import is_url
    from quotaform.usage.stream.run import StreamRequest, require_no_server
    from quotaform.usage.table.append import require_free
    from quotaform.usage.table.schema import USAGE

    require_no_server(session, os.environ)
    folders = {
        "--usage": usage,
        "--quarantine": quarantine or f"{usage.rstrip('/')}-quarantine",
        "--checkpoint": str(source.checkpoint),
    }
    for option, folder in folders.items():
        if is_url(folder):
            raise UsageError(
                f"{option}: a topic is read into a directory of a file system that this machine sees; give its path"
            )
    require_free(usage, USAGE, session)
    topic, servers, client = source.connect(config)
    return StreamRequest(
        topic=topic,
        servers=servers,
        client=client,
        input_format=input_format,
        origin=origin,
        usage=usage,
        quarantine=folders["--quarantine"],
        checkpoint=folders["--checkpoint"],
        wait_s=source.wait_s(),
        every_s=source.every_s(),
        most_records=source.batch_records,
        is_from_start=source.starting == "earliest",
        until_empty=source.until_empty,
        for_s=source.for_s(),
    )


def stream_usage(
    request: StreamRequest,
    session: SessionOptions,
    console: Console,
    format_name: str,
    files: Sequence[tuple[str, Path]],
) -> ExitCode:
    """Read until the topic is empty, the time is over or a signal comes; print and write what was done."""
    from quotaform.usage.stream.run import run_stream, unresolved, with_connector

    log, stopped = _Log(console), Event()
    try:
        with (
            spark_job(console, f"Reading the topic {request.topic.name}", with_connector(session)) as (spark, _),
            held_signals(on_first=stopped.set),
        ):
            counts = run_stream(spark, request, log, stopped.is_set)
            return _end(request, counts, log.behind, console, format_name, files)
    except EngineError as error:
        raise unresolved(error) from error


def _end(
    request: StreamRequest,
    counts: StreamCounts,
    behind: int | None,
    console: Console,
    format_name: str,
    files: Sequence[tuple[str, Path]],
) -> ExitCode:
    """Print and write what was done, and return the exit code."""
    from quotaform.usage.ingest.ingest import Streamed

    result = Streamed(
        topic=request.topic.name, usage=request.usage, quarantine=request.quarantine, counts=counts, behind=behind
    )
    for name, file in files:
        write_file(file, render(SUBJECT, name, result))
    console.echo(render(SUBJECT, format_name, result, style=console.style()))
    report_saved_files(console, "result", [file for _, file in files])
    if result.has_quarantine:
        bad = counts.quarantined + counts.late_records
        console.report_failure(
            f"Warning: {counted(bad, 'record')} could not be read, or came late; see the quarantine table "
            f"{inert(request.quarantine)}"
        )
    if counts.quarantined and not counts.written:
        console.write_stderr(
            "Error: nothing was added: no record could be read; see whether --input-format is that of the topic.\n"
        )
        return ExitCode.ERROR
    if not counts.written:
        found = f"there are no samples for the table among the {counts.samples:,} that were read"
        none = f"the topic {inert(request.topic.name)} had no records that were not read before"
        console.warn(f"Warning: nothing was added: {found if counts.samples else none}")
    return ExitCode.DONE


class _Log:
    """Shows how far a stream is: on a terminal at once, elsewhere a line from time to time."""

    def __init__(self, console: Console) -> None:
        self.behind: int | None = None
        self._console = console
        self._written_at = monotonic()
        self._batches = 0

    def __call__(self, state: StreamState) -> None:
        from quotaform.usage.ingest.ingest import sum_text

        self.behind = state.behind
        behind = "" if state.behind is None else f"; {state.behind:,} records behind"
        text = f"Samples: {sum_text(state.counts)}{behind}"
        if state.counts.batches != self._batches and monotonic() - self._written_at >= _LOG_S:
            self._batches, self._written_at = state.counts.batches, monotonic()
            if not sys.stderr.isatty():
                self._console.warn(text)
        self._console.progress(text, 0, 0)
