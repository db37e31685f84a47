"""`quotaform usage ingest`: recordings of other programs into a table of usage; on Spark."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Final

import typer

from quotaform.cli.command.usage.stream import TopicSource
from quotaform.cli.console import write_file
from quotaform.cli.option.common import ConfigOption
from quotaform.cli.option.engine import SparkPlace, spark_job
from quotaform.cli.option.output import (
    Output,
    format_option,
    out_option,
    read_output,
    with_option_groups,
)
from quotaform.cli.option.value import complete_from, one_of, require_choice
from quotaform.cli.present import report_saved_files
from quotaform.model.entity import spell_name
from quotaform.model.errors import ExitCode, UsageError
from quotaform.model.text import inert, listed
from quotaform.report.format import render
from quotaform.report.text import counted
from quotaform.system.files import require_writable
from quotaform.usage.format import FORMATS
from quotaform.usage.format.text import TABLE
from quotaform.usage.sample import DropReason

if TYPE_CHECKING:
    from quotaform.cli.console import Console
    from quotaform.usage.format.table import TableMapping
    from quotaform.usage.ingest.ingest import Ingested
    from quotaform.usage.ingest.input import RangeQuery
    from quotaform.usage.metric_name import Origin

_SUBJECT: Final = "usage-ingest"
_AUTO: Final = "auto"
_INPUT_FORMATS: Final = (_AUTO, *FORMATS, TABLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedOrigin:
    """What counts for metrics that do not say where they are from, and how labels are called."""

    cluster: Annotated[
        str | None, typer.Option("--cluster", metavar="NAME", help="Cluster of metrics without a cluster label.")
    ] = None
    broker: Annotated[
        str | None, typer.Option("--broker", metavar="NAME", help="Broker of metrics without a broker label.")
    ] = None
    cluster_label: Annotated[
        list[str] | None,
        typer.Option(
            "--cluster-label",
            metavar="LABEL",
            help="Label with the cluster name. Repeatable; the first match counts. [default: cluster, ...]",
        ),
    ] = None
    broker_label: Annotated[
        list[str] | None,
        typer.Option(
            "--broker-label",
            metavar="LABEL",
            help="Label with the broker name. Repeatable; the first match counts. [default: broker, ...]",
        ),
    ] = None
    type_label: Annotated[
        list[str] | None,
        typer.Option(
            "--type-label",
            metavar="LABEL",
            help="Label with the quota type, such as Produce. Repeatable. [default: quota_type, ...]",
        ),
    ] = None
    user_label: Annotated[
        list[str] | None,
        typer.Option("--user-label", metavar="LABEL", help="Label with the user. Repeatable. [default: user, ...]"),
    ] = None
    client_id_label: Annotated[
        list[str] | None,
        typer.Option(
            "--client-id-label",
            metavar="LABEL",
            help="Label with the client-id. Repeatable. [default: client_id, ...]",
        ),
    ] = None
    ip_label: Annotated[
        list[str] | None,
        typer.Option("--ip-label", metavar="LABEL", help="Label with the IP address. Repeatable. [default: ip, ...]"),
    ] = None

    def origin(self) -> Origin:
        """Return it as the parsers take it."""
        from quotaform.usage.metric_name import (
            BROKER_LABELS,
            CLIENT_ID_LABELS,
            CLUSTER_LABELS,
            IP_LABELS,
            TYPE_LABELS,
            USER_LABELS,
            Origin,
        )

        return Origin(
            cluster=self.cluster,
            broker=self.broker,
            cluster_labels=tuple(self.cluster_label or CLUSTER_LABELS),
            broker_labels=tuple(self.broker_label or BROKER_LABELS),
            type_labels=tuple(self.type_label or TYPE_LABELS),
            user_labels=tuple(self.user_label or USER_LABELS),
            client_id_labels=tuple(self.client_id_label or CLIENT_ID_LABELS),
            ip_labels=tuple(self.ip_label or IP_LABELS),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusRange:
    """A Prometheus, and what is asked of it."""

    prometheus: Annotated[
        str | None,
        typer.Option(
            "--prometheus",
            metavar="URL",
            help="Prometheus to query instead of SOURCE; QUOTAFORM_PROMETHEUS_TOKEN holds its bearer token.",
        ),
    ] = None
    since: Annotated[
        str | None,
        typer.Option(
            "--since", metavar="TIME", help="With --prometheus: start time: ISO 8601, a date, or an age such as 7d."
        ),
    ] = None
    until: Annotated[str, typer.Option("--until", metavar="TIME", help="With --prometheus: end time.")] = "now"
    step: Annotated[
        str, typer.Option("--step", metavar="DURATION", help="With --prometheus: time between two samples.")
    ] = "60s"
    query: Annotated[
        list[str] | None,
        typer.Option(
            "--query",
            metavar="PROMQL",
            help="With --prometheus: series to query. Repeatable. [default: all metrics of client quotas]",
        ),
    ] = None

    def range_query(self, *, has_others: bool) -> RangeQuery | None:
        """Return what is asked of a Prometheus; `None` if it is not meant."""
        if self.prometheus is None:
            if self.since is not None or self.query:
                raise UsageError("--since and --query are for a Prometheus; give --prometheus URL")
            return None
        if has_others:
            raise UsageError("--prometheus takes the place of SOURCE and --topic; leave them out")
        if self.since is None:
            raise UsageError("--prometheus requires --since, for example --since 7d")
        return self._read(self.prometheus, self.since)

    def _read(self, address: str, since: str) -> RangeQuery:
        from os import environ

        from quotaform.cli.option.common import read_seconds
        from quotaform.cli.option.value import read_moment_option
        from quotaform.http.message import Url
        from quotaform.usage.ingest.input import DEFAULT_QUERY, RangeQuery
        from quotaform.usage.record.reader import PrometheusLogin

        try:
            url = Url.parse(address)
        except ValueError as error:
            raise UsageError(f"--prometheus: invalid URL: {error}") from None
        first, last = read_moment_option("--since", since), read_moment_option("--until", self.until)
        if not first < last:
            raise UsageError("--since must be before --until")
        step = read_seconds("--step", self.step)
        if step < 1:
            raise UsageError("--step: it is 1s at least")
        # Multiples of the step, so that another ingest asks for the same times.
        begin = -(-first.timestamp() // step) * step
        return RangeQuery(
            url=url,
            queries=tuple(self.query or (DEFAULT_QUERY,)),
            since=begin,
            until=max(begin, last.timestamp()),
            step=step,
            login=PrometheusLogin.from_environment(environ),
        )


@with_option_groups
def ingest(
    *,
    sources: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SOURCE]...", help="Recordings: files, directories, globs, or URLs that Spark reads."),
    ] = None,
    usage: Annotated[
        str,
        typer.Option(
            "--usage", metavar="DIR|TABLE", help="Usage table to add to: a directory, created if missing, or a table."
        ),
    ],
    input_format: Annotated[
        str,
        typer.Option(
            "--input-format",
            metavar="|".join(_INPUT_FORMATS),
            help="Format of the recordings. auto: detected per file.",
            autocompletion=complete_from(_INPUT_FORMATS),
        ),
    ] = _AUTO,
    mapping: Annotated[
        Path | None,
        typer.Option(
            "--mapping",
            metavar="FILE",
            help="YAML or JSON file that maps the columns of a table. [default: by their names]",
        ),
    ] = None,
    recorded: RecordedOrigin,
    quarantine: Annotated[
        str | None,
        typer.Option(
            "--quarantine",
            metavar="DIR|TABLE",
            help="Table of the records that cannot be read. [default: the usage table's name with -quarantine]",
        ),
    ] = None,
    config: ConfigOption = None,
    prometheus: PrometheusRange,
    topic: TopicSource,
    place: SparkPlace,
    format_name: Annotated[str, format_option(_SUBJECT)] = "text",
    out: Annotated[list[str] | None, out_option(_SUBJECT)] = None,
    output: Output,
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
    console = output.console(_SUBJECT, format_name)
    require_choice("input format", input_format, _INPUT_FORMATS)
    files = [read_output(_SUBJECT, text) for text in out or ()]
    for _, file in files:
        require_writable(file)
    topic.require_valid(sources)
    range_query = prometheus.range_query(has_others=bool(sources) or topic.is_given)
    origin = recorded.origin()
    if topic.is_given:
        if input_format in (_AUTO, TABLE):
            raise UsageError(f"--topic requires --input-format {one_of(list(FORMATS))}")
        session = place.session()
        from quotaform.cli.command.usage.stream import stream_request, stream_usage

        request = stream_request(
            topic, config, session, input_format=input_format, origin=origin, usage=usage, quarantine=quarantine
        )
        return stream_usage(request, session, console, format_name, files)
    if not sources and range_query is None:
        raise UsageError("nothing is given to ingest: give files as SOURCE, a --topic, or a --prometheus")
    declared = _declared(config)
    session = place.session()
    from quotaform.usage.ingest.run import IngestRequest, require_ingestible
    from quotaform.usage.ingest.run import ingest as ingest_recordings

    ingest_request = IngestRequest(
        sources=sources or (),
        usage=usage,
        quarantine=quarantine or f"{usage.rstrip('/')}-quarantine",
        format_name=None if input_format == _AUTO else input_format,
        mapping=_mapping(mapping, input_format),
        origin=origin,
        declared=declared,
    )
    require_ingestible(ingest_request, session)
    with ExitStack() as stack:
        if range_query is not None:
            folder = stack.enter_context(TemporaryDirectory(prefix="quotaform-"))
            _save_answers(range_query, Path(folder), console)
            ingest_request = replace(ingest_request, sources=[folder], shown=range_query.url.origin)
        spark, progress = stack.enter_context(spark_job(console, "Ingesting", session))
        result = ingest_recordings(spark, ingest_request, progress=progress)
    for name, file in files:
        write_file(file, render(_SUBJECT, name, result))
    console.echo(render(_SUBJECT, format_name, result, style=console.style()))
    report_saved_files(console, "result", [file for _, file in files])
    return _end(console, result)


def _save_answers(query: RangeQuery, folder: Path, console: Console) -> None:
    from quotaform.usage.ingest.input import save_answers

    save_answers(query, folder, lambda done, total: console.progress(f"Asking {query.shown}", done, total))


def _declared(config: Path | None) -> frozenset[str] | None:
    """Return the clusters of quotaform.yaml; `None` if there is none."""
    from quotaform.repository.repository import Repository

    repository = Repository.at(None, config)
    names = repository.config().clusters
    return frozenset(names) if repository.has_config() else None


def _mapping(path: Path | None, input_format: str) -> TableMapping | None:
    if path is None:
        return None
    if input_format not in (_AUTO, TABLE):
        raise UsageError(f"--mapping is for tables; leave --input-format {input_format} out")
    from quotaform.usage.ingest.input import load_usage_mapping

    return load_usage_mapping(path)


def _end(console: Console, result: Ingested) -> ExitCode:
    """Say what needs attention, and return the exit code."""
    if result.undeclared:
        names = listed([spell_name(each.name) for each in result.undeclared])
        console.warn(f"Warning: quotaform.yaml declares no cluster {names}; the rows are in the table nevertheless")
    if result.quarantined:
        console.report_failure(
            f"Warning: {counted(result.quarantined, 'record')} could not be read; see the quarantine table "
            f"{inert(result.quarantine or '')}"
        )
    if result.rows:
        return ExitCode.DONE
    console.write_stderr(f"Error: nothing was added: {_nothing(result)}.\n")
    return ExitCode.ERROR


def _nothing(result: Ingested) -> str:
    """Return why there are no rows."""
    if not result.read:
        return "the recordings have no samples"
    if result.dropped.get(DropReason.OTHER_METRIC, 0) == result.read:
        return (
            f"none of the {counted(result.read, 'sample')} is of a metric of client quotas; "
            "docs/usage-recordings.md lists the names that are known"
        )
    found = f"the recordings have no samples for the table among the {result.read:,} that were read"
    if result.dropped.get(DropReason.BROKER_TOTAL):
        return f"{found}; if labels with other names say who it was, give --user-label, --client-id-label or --ip-label"
    if result.quarantined:
        return f"{found}; the quarantine table has the reasons"
    return found
