"""`quotaform usage ingest`: recordings of other programs into a table of usage; on Spark."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec import structs

from quotaform.cli.option.cluster import COMMAND_CONFIG, CONFIG, Clusters, complete_cluster
from quotaform.cli.option.common import REQUIRED, argument, choice, flag, one_of, option, read_moment, read_seconds
from quotaform.cli.option.run import ON_SPARK, Engine, Output, out_option, printed, spark_job
from quotaform.cli.present import TableOutput
from quotaform.desired.tree import SourceFile, shown_path
from quotaform.model.errors import EngineError, ExitCode, UsageError
from quotaform.model.moment import parse_duration
from quotaform.model.text import MIB
from quotaform.system.files import read_bytes
from quotaform.system.process import held_signals
from quotaform.usage.format import FORMATS
from quotaform.usage.format.text import TABLE
from quotaform.usage.metric_name import LABELS, Origin, fold

if TYPE_CHECKING:
    from quotaform.cli.console import Console
    from quotaform.fleet.options import SessionOptions
    from quotaform.usage.ingest.ingest import Ingested, Streamed
    from quotaform.usage.stream import StreamRequest

_SUBJECT: Final = "usage-ingest"
_AUTO: Final = "auto"
_INPUT_FORMATS: Final = (_AUTO, *FORMATS, TABLE)


Labels: TypeAlias = list[str] | None


def _label(kind: str, what: str, first: str | None = None) -> Any:
    """Return the option that names the labels of one kind; `first` is the first one that is known without it."""
    return option(f"--{kind}-label LABEL", f"Label with {what} [default: {first or kind}, ...]")


@dataclass(frozen=True, kw_only=True)
class RecordedOrigin:
    """What counts for metrics that do not say where they are from, and how labels are called."""

    cluster: str | None = option("--cluster NAME", "Cluster of metrics without a cluster label.")
    broker: str | None = option("--broker NAME", "Broker of metrics without a broker label.")
    cluster_label: Labels = _label("cluster", "the cluster name. Repeatable; the first match counts.")
    broker_label: Labels = _label("broker", "the broker name. Repeatable; the first match counts.")
    type_label: Labels = _label("type", "the quota type, such as Produce. Repeatable.", "quota_type")
    user_label: Labels = _label("user", "the user. Repeatable.")
    client_id_label: Labels = _label("client-id", "the client-id. Repeatable.", "client_id")
    ip_label: Labels = _label("ip", "the IP address. Repeatable.")

    def origin(self) -> Origin:
        given = {kind: getattr(self, f"{kind}_label", None) or names for kind, names in LABELS.items()}
        return Origin(self.cluster, self.broker, {kind: tuple(map(fold, names)) for kind, names in given.items()})


@dataclass(frozen=True, kw_only=True)
class PrometheusRange:
    """A Prometheus, and what is asked of it."""

    prometheus: str | None = option(
        "--prometheus URL", "Prometheus to query instead of SOURCE; QUOTAFORM_PROMETHEUS_TOKEN holds its bearer token."
    )
    since: datetime | None = option(
        "--since TIME", "With --prometheus: start time: ISO 8601, a date, or an age such as 7d.", read=read_moment
    )
    until: datetime = option("--until TIME", "With --prometheus: end time.", "now", read=read_moment)
    step: float = option("--step DURATION", "With --prometheus: time between two samples.", "60s", read=read_seconds)
    query: list[str] | None = option(
        "--query PROMQL", "With --prometheus: series to query. Repeatable. [default: all metrics of client quotas]"
    )


@dataclass(frozen=True, kw_only=True)
class TopicSource:
    """A topic, and how it is read."""

    topic: str | None = option("--topic NAME", "Kafka topic to read instead of SOURCE; each record is a document.")
    bootstrap_server: str | None = option(
        "--bootstrap-server HOST:PORT,...", "Bootstrap servers of the topic's cluster."
    )
    command_config: Path | None = COMMAND_CONFIG
    topic_cluster: str | None = option(
        "--topic-cluster NAME",
        "Cluster in quotaform.yaml with the topic, instead of --bootstrap-server.",
        complete=complete_cluster,
    )
    checkpoint: str | None = option("--checkpoint DIR", "Directory in which Spark keeps the progress of streams.")
    watermark: timedelta = option(
        "--watermark DURATION", "How long a repeated record is recognised and left out.", "10m", read=parse_duration
    )
    starting: str = choice(
        "--starting",
        ("earliest", "latest"),
        "Where a new checkpoint begins: at the oldest record, or at new records.",
        "earliest",
    )
    until_empty: bool = flag("--until-empty", "End when all records that exist at the start are read.")
    duration: timedelta | None = option(
        "--for DURATION", "End after this time. [default: until it is interrupted]", read=parse_duration
    )
    every: timedelta = option(
        "--every DURATION",
        "Longest time until records are written; each batch writes a file.",
        "10s",
        read=parse_duration,
    )
    batch_records: int = option("--batch-records N", "Largest number of records in a batch.", 2000, min=1, max=100_000)

    def request(self, config: Path | None, session: SessionOptions, **more: Any) -> StreamRequest:
        """Return what is read, and where to (`more`); the cluster of the topic is asked for it."""
        from quotaform.usage.stream import StreamRequest, find_topic, require_folders
        from quotaform.usage.table.files import require_free

        checkpoint = str(self.checkpoint)
        require_folders(usage=more["usage"], quarantine=more["quarantine"], checkpoint=checkpoint)
        require_free(more["usage"], session)
        cluster = Clusters(
            config=config,
            cluster=[self.topic_cluster] if self.topic_cluster else None,
            bootstrap_server=self.bootstrap_server,
            command_config=self.command_config,
        ).choose_one()
        topic, servers, client = find_topic(cluster, str(self.topic))
        return StreamRequest(
            topic=topic,
            servers=servers,
            client=client,
            checkpoint=checkpoint,
            wait_s=int(self.watermark.total_seconds()),
            every_s=int(self.every.total_seconds()),
            most_records=self.batch_records,
            is_from_start=self.starting == "earliest",
            until_empty=self.until_empty,
            for_s=None if self.duration is None else int(self.duration.total_seconds()),
            **more,
        )


def ingest(
    *,
    sources: list[str] | None = argument(
        "[SOURCE]...", "Recordings: files, directories, globs, or URLs that Spark reads."
    ),
    usage: str = option(
        "--usage DIR|TABLE", "Usage table to add to: a directory, created if missing, or a table.", REQUIRED
    ),
    input_format: str = choice(
        "--input-format", _INPUT_FORMATS, "Format of the recordings. auto: detected per file.", _AUTO
    ),
    mapping: Path | None = option(
        "--mapping FILE", "YAML or JSON file that maps the columns of a table. [default: by their names]"
    ),
    recorded: RecordedOrigin,
    quarantine: str | None = option(
        "--quarantine DIR|TABLE",
        "Table of the records that cannot be read. [default: the usage table's name with -quarantine]",
    ),
    config: Path | None = CONFIG,
    prometheus: PrometheusRange,
    topic: TopicSource,
    engine: Engine = ON_SPARK,
    out: list[str] | None = out_option(_SUBJECT),
    output: Output = printed(_SUBJECT),
) -> int:
    """Add recordings (Prometheus, exporters, JmxTool, OpenTelemetry, tables) to a usage table.

    Each sample is either written, or counted as dropped with the reason; records that cannot be read are written to the
    quarantine table. With --topic, the records of a Kafka topic are read, exactly once, until the command is
    interrupted.

    \b
    Examples:
      quotaform usage ingest recordings/ --usage /srv/usage --cluster prod
      quotaform usage ingest 'quota-*.json.gz' --usage /srv/usage --cluster-label strimzi_io_cluster
      quotaform usage ingest --prometheus https://prometheus.example.com --since 30d --cluster prod --usage /srv/usage
      quotaform usage ingest --topic usage --bootstrap-server b1:9092 --input-format otlp --usage usage --checkpoint ck
    """
    console = output.console
    has_topic = topic.topic is not None
    files = TableOutput(replace(output, subject="usage-stream") if has_topic else output, out, has_rows=False)
    server, since = None, prometheus.since
    if prometheus.prometheus is not None and since is not None:
        from quotaform.usage.prometheus import Prometheus, save_answers

        if since >= prometheus.until:
            raise UsageError("--since must be before --until")
        server = Prometheus.at(prometheus.prometheus, os.environ)
    quarantine = quarantine or f"{usage.rstrip('/')}-quarantine"
    origin = recorded.origin()
    if has_topic:
        if input_format in (_AUTO, TABLE):
            raise UsageError(f"--topic requires --input-format {one_of(list(FORMATS))}")
        session = engine.installed()
        request = topic.request(
            config, session, input_format=input_format, origin=origin, usage=usage, quarantine=quarantine
        )
        return _stream(request, session, console, files)
    if not sources and server is None:
        raise UsageError("nothing is given to ingest: give files as SOURCE, a --topic, or a --prometheus")
    if mapping is not None and input_format not in (_AUTO, TABLE):
        raise UsageError(f"--mapping is for tables; leave --input-format {input_format} out")
    from quotaform.repository.repository import Repository

    repository = Repository.at(None, config)
    names = repository.config().clusters
    session = engine.installed()
    from quotaform.usage.ingest.run import IngestRequest, read_usage_mapping, require_ingestible
    from quotaform.usage.ingest.run import ingest as ingest_recordings

    ingest_request = IngestRequest(
        sources=sources or (),
        usage=usage,
        quarantine=quarantine,
        format_name=None if input_format == _AUTO else input_format,
        mapping=None
        if mapping is None
        else read_usage_mapping(SourceFile(shown_path(mapping), read_bytes(mapping, MIB))),
        origin=origin,
        declared=frozenset(names) if repository.has_config() else None,
    )
    require_ingestible(ingest_request, session)
    with ExitStack() as stack:
        if server is not None and since is not None:
            folder = stack.enter_context(TemporaryDirectory(prefix="quotaform-"))
            save_answers(
                server,
                prometheus.query or (),
                Path(folder),
                partial(console.progress, f"Asking {server.shown}"),
                since=since.timestamp(),
                until=prometheus.until.timestamp(),
                step=prometheus.step,
            )
            ingest_request = structs.replace(ingest_request, sources=[folder], shown=server.url.origin)
        spark, progress = stack.enter_context(spark_job(console, "Ingesting", session))
        result = ingest_recordings(spark, ingest_request, progress=progress)
    return _end(console, files, result)


def _stream(request: StreamRequest, session: SessionOptions, console: Console, files: TableOutput) -> ExitCode:
    """Read until the topic is empty, the time is over or a signal comes; print and write what was done."""
    from quotaform.usage.stream import run_stream, unresolved, with_connector

    stopped = Event()
    work = f"Reading the topic {request.topic.name}"
    try:
        with spark_job(console, work, with_connector(session)) as (spark, progress), held_signals(on_first=stopped.set):

            def log(done: Streamed) -> None:
                behind = "" if done.behind is None else f"; {done.behind:,} records behind"
                progress(f"Samples: {done.summary.text}{behind}", done.batches, 0)

            return _end(console, files, run_stream(spark, request, log, stopped.is_set))
    except EngineError as error:
        raise unresolved(error) from error


def _end(console: Console, files: TableOutput, result: Ingested | Streamed) -> ExitCode:
    files.present(result)
    for text, is_failure in result.warnings():
        (console.warn_of_failure if is_failure else console.warn_of)(text)
    if (failure := result.failure()) is not None:
        console.write_stderr(f"Error: nothing was added: {failure}.\n")
    return ExitCode.DONE if failure is None else ExitCode.ERROR
