"""The options of reading a topic of Kafka instead of files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from quotaform.cli.option.common import complete_cluster
from quotaform.cli.option.completion import complete_from
from quotaform.cli.usage import require_choice
from quotaform.errors import UsageError
from quotaform.model.text import inert

if TYPE_CHECKING:
    from quotaform.cluster.client.config import ClientConfig
    from quotaform.cluster.topic import Topic
    from quotaform.model.server import Server

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
        """Return the topic, the bootstrap servers of its cluster, and its client.

        Raises:
            UsageError: There is no such topic or cluster.
            ClusterError: The cluster cannot be read.
            InvalidFilesError: The client properties or quotaform.yaml are invalid.
        """
        from quotaform.app.repository.address import connection_of
        from quotaform.cli.option.cluster import OneCluster
        from quotaform.cluster.topic import TopicGateway

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
    from quotaform.model.duration import parse_duration

    try:
        return int(parse_duration(text).total_seconds())
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None
