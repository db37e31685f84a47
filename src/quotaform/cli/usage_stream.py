"""`quotaform usage ingest --topic`: a stream that goes on until it is interrupted, or has read all."""

from __future__ import annotations

import os
import sys
from threading import Event
from time import monotonic
from typing import TYPE_CHECKING, Final

from quotaform.app.rendering import render
from quotaform.cli.console import Console, write_file
from quotaform.cli.saved_file import report_saved_files
from quotaform.errors import EngineError, UsageError
from quotaform.exit_code import ExitCode
from quotaform.interrupt import held_signals
from quotaform.model.text import inert
from quotaform.views.style import counted

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from quotaform.cli.option.topic import TopicSource
    from quotaform.core.usage.metric.origin import Origin
    from quotaform.core.usage.stream import StreamCounts
    from quotaform.spark.session.options import SessionOptions
    from quotaform.spark.usage.stream.run import StreamRequest, StreamState

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

    Args:
        quarantine: Where records go that cannot be read; `None` for the folder beside the table.

    Raises:
        UsageError: A table is no directory, there is no such topic or cluster, or Spark cannot run there.
        ClusterError: The cluster cannot be read.
        InvalidFilesError: The client properties or quotaform.yaml are invalid, or there is a table of something else.
    """
    from quotaform.spark.table.path import is_url
    from quotaform.spark.usage.schemas import USAGE
    from quotaform.spark.usage.stream.connector import require_no_server
    from quotaform.spark.usage.stream.run import StreamRequest
    from quotaform.spark.usage.table.usage_folder import require_free

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
    """Read until the topic is empty, the time is over or a signal comes; print and write what was done.

    Raises:
        StreamError: The checkpoint cannot be used, or records are gone.
        EngineError: Spark cannot be used, or failed.
        KeyboardInterrupt: A signal came; what was done is printed.
    """
    from quotaform.cli.job_progress import JobProgress
    from quotaform.spark.session.session import spark_session
    from quotaform.spark.usage.stream.connector import unresolved, with_connector
    from quotaform.spark.usage.stream.run import run_stream

    progress = JobProgress(console, f"Reading the topic {request.topic.name}", session)
    log, stopped = _Log(console), Event()
    try:
        with spark_session(with_connector(session), progress) as spark:
            progress("Reading the topic", 0, 0)
            with held_signals(on_first=stopped.set):
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
    from quotaform.core.usage.stream import Streamed

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
        from quotaform.views.usage.stream_text import sum_text

        self.behind = state.behind
        behind = "" if state.behind is None else f"; {state.behind:,} records behind"
        text = f"Samples: {sum_text(state.counts)}{behind}"
        if state.counts.batches != self._batches and monotonic() - self._written_at >= _LOG_S:
            self._batches, self._written_at = state.counts.batches, monotonic()
            if not sys.stderr.isatty():
                self._console.warn(text)
        self._console.progress(text, 0, 0)
