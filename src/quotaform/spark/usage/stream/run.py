"""Reads a topic into a table of usage until it is told to stop, or has read all that is there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from re import DOTALL, MULTILINE
from re import compile as regex
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JJavaError, Py4JNetworkError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import functions as f

from quotaform.cluster.topic import Topic, TopicGateway
from quotaform.core.usage.stream import StreamCounts
from quotaform.errors import (
    AuthenticationError,
    AuthorizationError,
    ClusterError,
    FileReadError,
    QuotaformError,
    StreamError,
)
from quotaform.model.text import inert
from quotaform.spark.session.cause import cause, engine_error
from quotaform.spark.table.path import located
from quotaform.spark.usage.stream.batch import BatchWriter, FinishedError, remove_staging
from quotaform.spark.usage.stream.checkpoint import Checkpoint, StreamIdentity, open_checkpoint
from quotaform.spark.usage.stream.connector import client_options, require_connector
from quotaform.spark.usage.stream.message import SETTINGS
from quotaform.spark.usage.table.usage_table import read_usage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from quotaform.cluster.client.config import ClientConfig
    from quotaform.core.usage.metric.origin import Origin
    from quotaform.model.server import Server

_POLL_S: Final = 0.25
_TRIGGER: Final = "1 second"
"""How often the topic is looked at."""
_LONGEST_END_S: Final = 15.0
"""For how many seconds the end of the running batch is waited for; what is cut off is made again by the next run."""
_LONGEST_AWAY_S: Final = 60.0
"""For how many seconds brokers need not answer: as long as Spark waits for them."""
_AGAIN_S: Final = 1.0
_SETTINGS: Final = {
    **SETTINGS,
    # Plain readers know no INT96.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.session.timeZone": "UTC",
    # Plans show the options of a source; by default they show private keys as well.
    "spark.sql.redaction.options.regex": "(?i)url|secret|password|token|jaas|keystore|[.]key",
    # A stream that does not stop at once is stopped with its session.
    "spark.sql.streaming.stopTimeout": "20s",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRequest:
    """What is read, and where to.

    Attributes:
        input_format: How its records are written.
        usage: The folder of the table.
        quarantine: The folder of what could not be read.
        checkpoint: The folder in which the stream keeps its progress.
        wait_s: How many seconds the watermark is behind the newest time.
        every_s: After how many seconds a batch begins for which few records have come.
        most_records: How many records a batch has at most.
        is_from_start: Whether a new stream begins with the oldest record, and not with those that come from now on.
        until_empty: Whether it ends when it has read what is there.
        for_s: After how many seconds it ends; `None` if it goes on.
    """

    topic: Topic
    servers: tuple[str | Server, ...]
    client: ClientConfig
    input_format: str
    origin: Origin
    usage: str
    quarantine: str
    checkpoint: str
    wait_s: int = 600
    every_s: int = 10
    most_records: int = 2_000
    is_from_start: bool = True
    until_empty: bool = False
    for_s: float | None = None

    @property
    def identity(self) -> StreamIdentity:
        """What its checkpoint is for."""
        return StreamIdentity(
            topic=self.topic.name,
            topic_id=self.topic.topic_id,
            cluster_id=self.topic.cluster_id,
            input_format=self.input_format,
            usage=str(Path(self.usage).absolute()),
            quarantine=str(Path(self.quarantine).absolute()),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamState:
    """How far a stream is.

    Attributes:
        counts: The sums of the batches of this run.
        behind: How many records of the topic it has not read yet; `None` before the first batch.
    """

    counts: StreamCounts
    behind: int | None


Report = Callable[[StreamState], None]
"""Called some times a second."""


def run_stream(
    spark: SparkSession, request: StreamRequest, report: Report, is_stopped: Callable[[], bool]
) -> StreamCounts:
    """Read until the topic is empty, the time is over or somebody stops it, and return what this run has done.

    Args:
        spark: A session with the connector; its settings are left alone.
        report: Told how far it is.
        is_stopped: Whether to end after the batch that runs.

    Raises:
        StreamError: The checkpoint is not for this stream or in use, or records are gone before they were read.
        EngineError: The session has no connector, or Spark failed.
        InvalidFilesError: The table is none of usage.
        OSError: A folder cannot be written.
    """
    require_connector(spark)
    own = spark.newSession()
    for name, value in _SETTINGS.items():
        own.conf.set(name, value)
    with ExitStack() as stack:
        checkpoint = stack.enter_context(open_checkpoint(request.checkpoint, request.identity))
        topics = stack.enter_context(TopicGateway.connect(request.servers, request.client))
        usage, quarantine = (Path(path).absolute() for path in (request.usage, request.quarantine))
        _require_usage(own, usage)
        for folder in (usage, quarantine):
            folder.mkdir(parents=True, exist_ok=True)
            remove_staging(folder, checkpoint)
        writer = BatchWriter(
            checkpoint=checkpoint,
            input_format=request.input_format,
            origin=request.origin,
            usage=usage,
            quarantine=quarantine,
            wait_s=request.wait_s,
            described=lambda: described(topics, request.topic.name),
        )
        try:
            with _query(_records(own, request), request, checkpoint, writer) as query:
                _wait(query, request, writer, report, is_stopped)
        except (Py4JNetworkError, ConnectionError) as error:
            raise engine_error("its Java process has ended", again=AGAIN) from error
        return writer.counts


def described(topics: TopicGateway, name: str) -> Topic | None:
    """Return what the cluster says of a topic, `None` if there is none; brokers may be away for a minute.

    Raises `ClusterError` if they do not answer, or do not let this client ask.
    """
    deadline = monotonic() + _LONGEST_AWAY_S
    while True:
        try:
            return topics.topic(name)
        except (AuthenticationError, AuthorizationError):
            raise
        except ClusterError:
            if monotonic() >= deadline:
                raise
            sleep(_AGAIN_S)


def _require_usage(spark: SparkSession, folder: Path) -> None:
    """Make sure that a folder has usage or nothing."""
    if folder.exists() and not folder.is_dir():
        raise FileReadError(str(folder), "it is not a directory")
    if folder.is_dir() and any(not path.name.startswith(("_", ".")) for path in folder.iterdir()):
        read_usage(spark, str(folder))


def _records(spark: SparkSession, request: StreamRequest) -> DataFrame:
    options: dict[str, str] = {
        **client_options(request.servers, request.client),
        "subscribe": request.topic.name,
        "startingOffsets": "earliest" if request.is_from_start else "latest",
        "failOnDataLoss": "true",
        "maxOffsetsPerTrigger": str(request.most_records),
        # So that all cores parse, however few partitions the topic has.
        "minPartitions": str(spark.sparkContext.defaultParallelism),
    }
    if not request.until_empty:
        options |= {
            "minOffsetsPerTrigger": str(max(1, request.most_records // 2)),
            "maxTriggerDelay": f"{request.every_s}s",
        }
    records = spark.readStream.format("kafka").options(**options).load()
    # Of the offsets of a batch, in the checkpoint: a batch that is made again has the same one.
    return records.withColumn("read_at", f.current_timestamp())


@contextmanager
def _query(records: DataFrame, request: StreamRequest, checkpoint: Checkpoint, writer: BatchWriter) -> Iterator[Any]:
    """Yield the query, and end it after the batch that runs."""
    stream = records.writeStream.foreachBatch(writer).option("checkpointLocation", located(str(checkpoint.spark)))
    triggered = stream.trigger(availableNow=True) if request.until_empty else stream.trigger(processingTime=_TRIGGER)
    try:
        query = triggered.start()
    except (PySparkException, Py4JJavaError) as error:
        # What it reads of its checkpoint before it begins.
        raise stream_failure(checkpoint.shown, checkpoint.topic, str(error)) from error
    try:
        yield query
    finally:
        problem = _end(query, checkpoint, writer)
    if problem is not None:
        raise _failure(problem, checkpoint.shown, checkpoint.topic, writer)


def _end(query: Any, checkpoint: Checkpoint, writer: BatchWriter) -> Exception | None:
    """End a query after the batch that runs, and return what it has failed with before it was stopped."""
    # Also if Java is gone: the batch that is written may still move files, under the lock of this process.
    deadline = monotonic() + _LONGEST_END_S
    writer.finish(_LONGEST_END_S)
    # Before the query is stopped: that cancels a batch that takes longer, which is no failure.
    problem = writer.problem
    if query.isActive:
        # Else the next run would make it again.
        while not checkpoint.has_ended(writer.last_batch) and query.isActive and monotonic() < deadline:
            sleep(_POLL_S / 10)
    if problem is None and not query.isActive:
        error: Exception | None = query.exception()
        problem = None if FinishedError.__name__ in str(error) else error
    query.stop()
    return problem


def _failure(error: Exception, shown: str, topic: str, writer: BatchWriter) -> Exception:
    """Return what to raise when a query has failed."""
    if isinstance(writer.problem, (QuotaformError, OSError)):
        return writer.problem
    return stream_failure(shown, topic, str(error))


def _wait(
    query: Any, request: StreamRequest, writer: BatchWriter, report: Report, is_stopped: Callable[[], bool]
) -> None:
    """Wait until the query ends, or is to end."""
    from pyspark.errors import StreamingQueryException

    end = None if request.for_s is None else monotonic() + request.for_s
    try:
        while not query.awaitTermination(_POLL_S):
            progress = query.lastProgress
            writer.ends = _ends(progress)
            report(StreamState(counts=writer.counts, behind=_behind(progress)))
            if is_stopped() or (end is not None and monotonic() >= end):
                return
    except StreamingQueryException as error:
        raise _failure(error, request.checkpoint, request.topic.name, writer) from error


def _ends(progress: Any) -> dict[int, int] | None:
    """Return the offset after the last record of each partition at the last batch; `None` if that is not known."""
    sources = progress["sources"] if progress else ()
    return {int(part): end for each in sources for (_, part), end in _offsets(each["latestOffset"]).items()} or None


def _behind(progress: Any) -> int | None:
    """Return how many records the topic has that were not read when the last batch ended."""
    if not progress:
        return None
    behind = 0
    for source in progress["sources"]:
        ends, latest = (_offsets(source[name]) for name in ("endOffset", "latestOffset"))
        behind += sum(max(0, offset - ends.get(place, offset)) for place, offset in latest.items())
    return behind


def _offsets(found: Any) -> dict[tuple[str, str], int]:
    if not isinstance(found, dict):
        return {}
    return {(topic, part): offset for topic, parts in found.items() for part, offset in parts.items()}


AGAIN: Final = "run the command again, which resumes where it stopped"
_CAUSES: Final = regex(r"^(?:Caused by)?: (?:[a-z]\w*\.)*([A-Z][\w$]*: .*)$", MULTILINE).findall
_LOST: Final = regex(r"Some data may have been lost.*?Reason: ([^\n]*)|\[KAFKA_DATA_LOSS[^]]*\] ([^\n]*)", DOTALL)
_VERSION: Final = regex(r"supported log version is (v\d+), but encountered (v\d+)")
_FILE: Final = regex(r"log file (?:file:)?(/\S+?)\.?(?:\s|$)")
_DAMAGED: Final = regex(r"MALFORMED_LOG_FILE|Incomplete log file|ChecksumException|Json\w*Exception: ")
_AROUND: Final = regex(r"^\[STREAM_FAILED\].*?terminated with exception: |( SQLSTATE: \w+)+$", MULTILINE)


def stream_failure(checkpoint: str, topic: str, text: str) -> QuotaformError:
    """Return the error for one that ended a query.

    Args:
        text: What Spark says, with the stack traces of Java and Python.
    """
    lost = _LOST.search(text)
    if lost is not None:
        return StreamError(
            checkpoint,
            f"records of the topic {topic} are gone that were not read yet, because they were older than the topic "
            "keeps them, were deleted, or the topic was recreated "
            f"({inert((lost[1] or lost[2]).removesuffix('.'))})",
            "give another --checkpoint, which begins with the oldest record that is there; records that are in the "
            "table already are then read again, and count once",
        )
    file = _FILE.search(text)
    where = f"{inert(file[1])}, which Spark has written," if file else "what Spark has written into it"
    if version := _VERSION.search(text):
        return StreamError(
            checkpoint,
            f"{where} is of the version {version[2]}, and this Spark knows {version[1]} at most",
            "use the version of Spark that made it, or give another --checkpoint",
        )
    if _DAMAGED.search(text):
        return StreamError(checkpoint, f"{where} is damaged", "restore it, or give another --checkpoint")
    causes = _CAUSES(text)
    return engine_error(text, why=causes[-1] if causes else _AROUND.sub("", cause(text)), again=AGAIN)
