"""Reads a topic into the usage table until it is told to stop, or has read all that is there.

Spark's checkpoint has the offsets, the ids of the records that were read, and their watermark; there is no other
state. Records that come again after their id is forgotten, or because a checkpoint is new, are in the table twice:
readers of the table count each series once per time.
"""

from __future__ import annotations

import json
import os
from base64 import urlsafe_b64encode
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from hashlib import blake2b
from math import ceil
from pathlib import Path
from re import DOTALL, MULTILINE
from re import compile as regex
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field
from msgspec.structs import replace
from py4j.protocol import Py4JJavaError, Py4JNetworkError
from pyspark import __version__ as spark_version
from pyspark.errors import PySparkException
from pyspark.sql import functions as f

from quotaform.cluster.kafka import BrokerGateway
from quotaform.cluster.wire.message import Metadata
from quotaform.fleet.launch import TABLE_CONFIG, cause, engine_error
from quotaform.fleet.session import is_connect, starts_java
from quotaform.fleet.table import is_url, located, staged_rows
from quotaform.model.errors import (
    ArgumentError,
    AuthenticationError,
    AuthorizationError,
    ClusterError,
    ConnectError,
    EngineError,
    FileReadError,
    QuotaformError,
    StreamError,
    UsageError,
    as_usage_error,
)
from quotaform.model.server import Server, parse_servers
from quotaform.model.text import MIB, inert, option_of, quote
from quotaform.repository.gateway import connection_of
from quotaform.resolve.spark import completed
from quotaform.system.files import sync_folder, take_lock
from quotaform.usage.ingest.ingest import SampleCounts, Streamed
from quotaform.usage.ingest.rows import RECORDINGS, parsed
from quotaform.usage.ingest.run import ingested
from quotaform.usage.sample import by_reason
from quotaform.usage.table.files import has_files, take_places
from quotaform.usage.table.schema import PARTITIONS
from quotaform.usage.table.table import read_usage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from quotaform.cluster.client.config import ClientConfig
    from quotaform.cluster.client.tls import Tls
    from quotaform.desired.config import Cluster
    from quotaform.fleet.options import SessionOptions
    from quotaform.usage.metric_name import Origin


class Topic(Struct, frozen=True, kw_only=True):
    """A topic."""

    name: str  # Its name
    topic_id: str | None  # What tells it from a topic of the same name that was there before; `None` before Kafka 2.8
    cluster_id: str | None  # The id of its cluster, if that has one


class TopicGateway(BrokerGateway):
    """The topics of one cluster."""

    def topic(self, name: str) -> Topic | None:
        """Return a topic; `None` if there is none of that name.

        Raises `UsageError` if no topic can have such a name, `AuthorizationError` if the principal lacks DESCRIBE on
        the topic, and `ClusterError` if the cluster cannot be read. Raises `ConnectError` if a broker is not in
        `QUOTAFORM_ALLOWED_HOSTS`: Spark connects to all of them by itself.
        """
        _require_listed(self.connection.brokers.values())
        subject = f"the topic {quote(name)} of {self.name}"
        with as_usage_error(f"{quote(name)} is not the name of a topic: "):
            # For so many seconds with all retries: a topic that was made just now may take a moment.
            code, topic_id = self._read(Metadata([name]), 15.0, subject=subject).topics[0]
        if code == 3:  # UNKNOWN_TOPIC_OR_PARTITION
            return None
        if code == 17:  # INVALID_TOPIC_EXCEPTION
            raise UsageError(
                f"{quote(name)} is not the name of a topic; a name has up to 249 of the characters a-z, A-Z, 0-9, "
                "dot, underscore and hyphen"
            )
        if code == 29:  # TOPIC_AUTHORIZATION_FAILED
            raise AuthorizationError(
                f"The principal is not authorised to read {subject}",
                remedy="grant it READ and DESCRIBE on the topic.",
                code=code,
            )
        if code:
            raise ClusterError(f"Cannot read {subject}; the broker responded with error code {code}", code=code)
        # Uuid.ZERO_UUID stands for none.
        shown_id = urlsafe_b64encode(topic_id).decode().rstrip("=") if any(topic_id) else None
        return Topic(name=name, topic_id=shown_id, cluster_id=self.connection.cluster_id)


def _require_listed(servers: Iterable[Server]) -> None:
    for server in servers:
        if problem := server.problem(os.environ):
            raise ConnectError(f"{server} {problem}")


def find_topic(cluster: Cluster, name: str) -> tuple[Topic, tuple[str | Server, ...], ClientConfig]:
    """Return a topic of a cluster, the bootstrap servers, and their client. Raises `UsageError` if there is none."""
    servers, client = connection_of(cluster)
    with TopicGateway.connect(servers, client, name=cluster.label) as gateway:
        topic = gateway.topic(name)
    if topic is None:
        raise ArgumentError(
            "{topic}: {} has no topic {}; create it, or correct the name", inert(cluster.label), inert(name)
        )
    return topic, servers, client


# How Spark's connector reads a topic.

_ARTIFACT: Final = "spark-sql-kafka-0-10"
PACKAGE: Final = f"org.apache.spark:{_ARTIFACT}_2.13:{spark_version}"
"""The Maven coordinates of the connector for the Spark that is installed here."""
_PACKAGES: Final = "spark.jars.packages"
_PEM: Final = regex(r"-----BEGIN ([A-Z0-9 ]+)-----.+?-----END \1-----", DOTALL)


def with_connector(session: SessionOptions) -> SessionOptions:
    """Return the options of a session that has the connector, unless a setting brings it already.

    Maven coordinates are resolved when a session starts that this process starts; a session that exists, one of
    spark-submit or of a server has what it was started with.
    """
    places = (_PACKAGES, "spark.jars", "spark.driver.extraClassPath")
    if not starts_java(session) or any(_ARTIFACT in session.conf.get(place, "") for place in places):
        return session
    # The connector needs these, and Spark has them: 80 MB, which would be copied whenever a session starts.
    excluded = "org.apache.hadoop:hadoop-client-api,org.apache.hadoop:hadoop-client-runtime"
    added = {_PACKAGES: PACKAGE, "spark.jars.excludes": excluded}
    conf = {name: ",".join(filter(None, (session.conf.get(name), value))) for name, value in added.items()}
    return replace(session, conf={**session.conf, **conf})


def require_connector(spark: SparkSession) -> None:
    """Raise `EngineError` if a session has no connector, or is one of Spark Connect."""
    if is_connect(spark):
        raise EngineError(
            "The Spark session is one of Spark Connect, and a topic is read by a driver of its own; end the session, "
            "or run the command elsewhere."
        )
    try:
        # Nothing is connected to yet.
        options = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "usage"}
        spark.readStream.format("kafka").options(**options).load()
    except PySparkException as error:
        if "kafka" not in str(error).lower():
            raise
        raise EngineError(
            f"The Spark session cannot read topics; start it with --packages {PACKAGE} or {_PACKAGES}={PACKAGE}."
        ) from None


def unresolved(error: EngineError) -> EngineError:
    """Return the error of a session that did not start because Maven has no answer, or the error itself."""
    text = str(error)
    if _ARTIFACT not in text and "unresolved dependency" not in text.lower():
        return error
    return EngineError(
        f"Spark cannot get the package {PACKAGE}, by which it reads topics; allow this machine to connect to a Maven "
        f"repository, name one in spark.jars.repositories, or give the files: {option_of('spark_conf')} "
        "spark.jars=PATH,..."
    )


def client_options(servers: Sequence[str | Server], config: ClientConfig) -> dict[str, str]:
    """Return the options of the connector for a client; passwords and keys are among the values.

    Raises `ConnectError` if a server is not in `QUOTAFORM_ALLOWED_HOSTS`; Spark would send it the login.
    """
    given = parse_servers(servers)
    _require_listed(given)
    options = {
        "bootstrap.servers": ",".join(server.address for server in given),
        "security.protocol": config.security_protocol,
        # What a transaction has not committed is not recorded.
        "isolation.level": "read_committed",
    }
    if config.client_id is not None:
        options["client.id"] = config.client_id
    if config.canonical_names:
        options["client.dns.lookup"] = "resolve_canonical_bootstrap_servers_only"
    if config.credentials is not None:
        options |= config.credentials.java_properties()
    if config.tls is not None:
        options |= _tls_options(config.tls)
    return {f"kafka.{key}": value for key, value in options.items()}


def _tls_options(tls: Tls) -> dict[str, str]:
    def pem(text: str, *, of_key: bool = False) -> str:
        return "\n".join(each[0] for each in _PEM.finditer(text) if each[1].endswith("PRIVATE KEY") is of_key)

    options = {"ssl.enabled.protocols": ",".join(tls.versions)}
    if tls.ciphers:
        options["ssl.cipher.suites"] = ",".join(tls.ciphers)
    if tls.ca is not None:
        options |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": pem(tls.ca)}
    if tls.key_store is not None:
        store = tls.key_store.reveal()
        options |= {"ssl.keystore.type": "PEM", "ssl.keystore.key": pem(store, of_key=True)}
        options["ssl.keystore.certificate.chain"] = pem(store)
        if tls.key_password is not None:
            options["ssl.key.password"] = tls.key_password.reveal()
    if not tls.check_host:
        options["ssl.endpoint.identification.algorithm"] = ""
    return options


_POLL_S: Final = 0.25
_ROWS_IN_FILE: Final = 2_000_000
_SETTINGS: Final = {
    # Records of some megabytes are parsed in little memory.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(16 * MIB),
    **TABLE_CONFIG,
    "spark.sql.session.timeZone": "UTC",
    # Plans show the options of a source; by default they show private keys as well.
    "spark.sql.redaction.options.regex": "(?i)url|secret|password|token|jaas|keystore|[.]key",
    # A checkpoint keeps the number that it began with; each of these has files of the ids that were read.
    "spark.sql.shuffle.partitions": "4",
    # No batch without records, only to forget what was read.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    # A stream that does not stop at once is stopped with its session.
    "spark.sql.streaming.stopTimeout": "20s",
}


def require_folders(**folders: str) -> None:
    """Make sure that what a stream writes goes to folders of a file system; they are given by argument."""
    for argument, folder in folders.items():
        if is_url(folder):
            problem = "a topic is read into a directory of a file system that this machine sees; give its path"
            raise ArgumentError(f"{{{argument}}}: {problem}")


class StreamRequest(Struct, frozen=True, kw_only=True):
    """What is read, and where to."""

    topic: Topic
    servers: tuple[str | Server, ...]
    client: ClientConfig
    input_format: str  # How its records are written
    origin: Origin
    usage: str  # The folder of the table
    quarantine: str  # The folder of what could not be read
    checkpoint: str  # The folder in which Spark keeps the progress of this and other streams
    wait_s: int = 600  # For how many seconds after it was read a record is known that comes again
    every_s: int = 10  # After how many seconds a batch begins for which few records have come
    most_records: int = 2_000  # How many records a batch has at most
    is_from_start: bool = True
    """Whether a new stream begins with the oldest record, and not with those that come from now on."""
    until_empty: bool = False  # Whether it ends when it has read what is there
    for_s: float | None = None  # After how many seconds it ends; `None` if it goes on

    @property
    def progress(self) -> Path:
        """The folder of Spark's checkpoint for this stream.

        Another table, another format and a topic that was recreated are another stream, which begins anew.
        """
        topic = self.topic
        places = (str(Path(path).absolute()) for path in (self.usage, self.quarantine))
        identity = (topic.cluster_id, topic.topic_id, topic.name, self.input_format, *places)
        name = blake2b(repr(identity).encode(), digest_size=8).hexdigest()
        return Path(self.checkpoint).absolute() / f"{topic.name}-{name}"


class BatchWriter(Struct, kw_only=True):
    """Writes batches, one at a time.

    | moment of a kill | what the next run does |
    | --- | --- |
    | before the offsets of the batch are written | nothing was done; a batch begins at the same offset |
    | while its rows are made | makes them again, from the same offsets; the folder `_staged-…` is not read |
    | while files take their places | makes them again, and removes those that have their places already |
    | before Spark notes the end of the batch | the same |
    | after that | begins with the next batch |
    """

    request: StreamRequest
    require_topic: Callable[[], None]  # Raises if the topic is not the one that was there
    written: int = 0  # How many samples were written in all batches
    dropped: Counter[str] = field(default_factory=Counter)  # How many were left out, as `by_reason` has them
    quarantined: int = 0  # How many records were quarantined
    problem: Exception | None = None  # What a batch raised; Spark ends the stream and gives a text of it only

    def __call__(self, records: DataFrame, batch: int) -> None:
        """Write records as the connector gives them, whether or not the batch was written before."""
        recordings = records.select(
            f.concat(f.lit("kafka:"), "topic", f.lit("/"), "partition").alias("file"),
            (f.unix_micros("timestamp") / 1e6).alias("at"),
            f.col("value").alias("content"),
            "offset",
        )
        read = parsed(completed(recordings, RECORDINGS), self.request.input_format, self.request.origin)
        try:
            with ingested(read) as (counts, rows, rejected):
                # Not before: what was read by now is of the topic that is there now.
                self.require_topic()
                self._publish(rows, self.request.usage, batch, counts.rows, PARTITIONS)
                self._publish(rejected, self.request.quarantine, batch, counts.rejected)
        except Exception as error:
            self.problem = error
            raise
        self.written += counts.samples
        self.dropped.update(by_reason(counts.dropped))
        self.quarantined += counts.rejected

    def _publish(self, rows: DataFrame, table: str, batch: int, expected: int, by: Sequence[str] = ()) -> None:
        """Replace the files of a batch in the folder of a table by files with its rows, of which there are so many."""
        # The id of the query: made once for a checkpoint, and before its first batch.
        name = f"stream-{json.loads((self.request.progress / 'metadata').read_text())['id']}-{batch:09d}"
        folder = Path(table).absolute()
        before = set(folder.rglob(f"{name}-*.parquet"))
        if expected:
            tasks = ceil(expected / _ROWS_IN_FILE)
            parts = rows.coalesce(1) if tasks == 1 else rows.repartition(tasks)
            with staged_rows(parts, folder, expected, by) as staged:
                before -= {*take_places(staged, folder, name)}
        # A batch that was made before.
        for place in before:
            place.unlink()
        sync_folder(folder)


def run_stream(
    spark: SparkSession, request: StreamRequest, report: Callable[[Streamed], None], is_stopped: Callable[[], bool]
) -> Streamed:
    """Read until the topic is empty, the time is over or somebody stops it, and return what this run has done.

    `spark`: a session with the connector; its settings are left alone. `report`: called with the progress several
    times a second. `is_stopped`: whether to end after the batch that runs. Raises `StreamError` if the checkpoint
    cannot be used, or records are gone before they were read, `EngineError` if the session has no connector or Spark
    failed, `InvalidFilesError` if it is no usage table, and `OSError` if a folder cannot be written.
    """
    require_connector(spark)
    own = spark.newSession()
    for name, value in _SETTINGS.items():
        own.conf.set(name, value)
    usage, quarantine = (Path(path).absolute() for path in (request.usage, request.quarantine))
    with ExitStack() as stack:
        stack.enter_context(_locked(request))
        topics = stack.enter_context(TopicGateway.connect(request.servers, request.client))
        for folder in (usage, quarantine):
            if folder.exists() and not folder.is_dir():
                raise FileReadError(str(folder), "it is not a directory")
        if has_files(usage):
            read_usage(own, str(usage))
        for folder in (usage, quarantine):
            folder.mkdir(parents=True, exist_ok=True)
        writer = BatchWriter(request=request, require_topic=lambda: _require_topic(topics, request))
        try:
            return _run(_new_records(own, request), writer, report, is_stopped)
        except (Py4JNetworkError, ConnectionError) as error:
            raise engine_error("its Java process has ended", again=AGAIN) from error


@contextmanager
def _locked(request: StreamRequest) -> Iterator[None]:
    """Hold the folder of a stream's progress, which no other process may use."""
    folder = Path(request.checkpoint).absolute()
    if any(Path(path).absolute() in (folder, *folder.parents) for path in (request.usage, request.quarantine)):
        raise StreamError(request.checkpoint, "it is in a table", "give a folder of its own")
    request.progress.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(request.progress, os.O_RDONLY)
    try:
        if not take_lock(descriptor):
            problem = "another process streams with it"
            remedy = f"wait for its end, or give another {option_of('checkpoint')}"
            raise StreamError(request.checkpoint, problem, remedy)
        yield
    finally:
        os.close(descriptor)


def _require_topic(topics: TopicGateway, request: StreamRequest) -> None:
    """Make sure that the topic was neither deleted nor recreated while it was read."""
    try:
        found = topics.topic(request.topic.name)
    except (AuthenticationError, AuthorizationError):
        raise
    except ClusterError:
        return  # Brokers may be away for a moment: the next batch asks again.
    if found is None or found.topic_id != request.topic.topic_id:
        was = "deleted" if found is None else "deleted and recreated"
        raise StreamError(
            request.checkpoint,
            f"the topic {quote(request.topic.name)} was {was}; records of it that were not read are lost",
            "run the command again when the topic is there, which reads it from its beginning",
        )


def _new_records(spark: SparkSession, request: StreamRequest) -> DataFrame:
    """Return the records of the topic without those that were read before: of the same time, with the same value.

    Their watermark is that of the time at which a batch begins, and not of samples: partitions may have different times
    and producers wrong clocks, and no record is too late for the table.
    """
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
    known = with_record_id(records).withColumn("read_at", f.current_timestamp())
    return known.withWatermark("read_at", f"{request.wait_s} seconds").dropDuplicatesWithinWatermark(["id"])


def with_record_id(records: DataFrame) -> DataFrame:
    """Return records with an `id`; one without a value says nothing that another one could repeat."""
    said = f.coalesce("value", f.concat_ws("/", "partition", "offset").cast("binary"))
    return records.withColumn(
        "id", f.sha2(f.concat(said, f.unix_micros("timestamp").cast("string").cast("binary")), 256)
    )


def _run(
    records: DataFrame, writer: BatchWriter, report: Callable[[Streamed], None], is_stopped: Callable[[], bool]
) -> Streamed:
    request = writer.request
    stream = records.writeStream.foreachBatch(writer).option("checkpointLocation", located(str(request.progress)))
    triggered = stream.trigger(availableNow=True) if request.until_empty else stream.trigger(processingTime="1 second")
    end = None if request.for_s is None else monotonic() + request.for_s
    read: dict[int, Counter[str]] = {}  # What Spark says of each batch
    query: Any = None

    def done() -> Streamed:
        for batch in query.recentProgress:
            # Without those of a topic that had nothing new.
            if batch["numInputRows"]:
                [state] = batch["stateOperators"]
                read[batch["batchId"]] = Counter(
                    batches=1,
                    records=batch["numInputRows"],
                    duplicate_records=state["customMetrics"]["numDroppedDuplicateRows"],
                    late_records=state["numRowsDroppedByWatermark"],
                )
        counts = sum(read.values(), Counter[str]())
        return Streamed(
            topic=request.topic.name,
            usage=request.usage,
            **{name: counts[name] for name in ("batches", "records", "duplicate_records", "late_records")},
            behind=_behind(query.lastProgress, request.topic.name),
            summary=SampleCounts(
                written=writer.written, dropped=writer.dropped.total(), quarantined=writer.quarantined
            ),
            dropped=dict(writer.dropped),
            quarantine=request.quarantine if writer.quarantined else None,
        )

    try:
        query = triggered.start()
        while not query.awaitTermination(_POLL_S):
            report(done())
            if is_stopped() or (end is not None and monotonic() >= end):
                break
        # The batch that runs is waited for, but not long: what is cut off is made again by the next run.
        last, deadline = query.lastProgress, monotonic() + 15.0
        while query.isActive and query.status["isTriggerActive"] and query.lastProgress == last:
            if monotonic() >= deadline:
                break
            sleep(_POLL_S / 10)
        if not query.isActive:
            query.awaitTermination()  # Raises what it has failed with.
    except (PySparkException, Py4JJavaError) as error:
        if isinstance(writer.problem, (QuotaformError, OSError)):
            raise writer.problem from error
        raise stream_failure(request.checkpoint, request.topic.name, str(error)) from error
    finally:
        if query is not None:
            query.stop()
    return done()


def _behind(progress: Any, topic: str) -> int | None:
    """Return how many records the topic has that were not read when the last batch ended."""
    if not progress:
        return None
    [source] = progress["sources"]
    ends, latest = (
        found.get(topic, {}) if isinstance(found, dict) else {}
        for found in (source["endOffset"], source["latestOffset"])
    )
    behind: int = sum(max(0, offset - ends.get(part, offset)) for part, offset in latest.items())
    return behind


AGAIN: Final = "run the command again, which resumes where it stopped"
_CAUSES: Final = regex(r"^(?:Caused by)?: (?:[a-z]\w*\.)*([A-Z][\w$]*: .*)$", MULTILINE).findall
_LOST: Final = regex(r"Some data may have been lost.*?Reason: ([^\n]*)|\[KAFKA_DATA_LOSS[^]]*\] ([^\n]*)", DOTALL)
_DAMAGED: Final = regex(
    r"supported log version is (v\d+), but encountered|MALFORMED_LOG_FILE|Incomplete log file|ChecksumException"
    r"|Json\w*Exception: |STATE_STORE_\w+SCHEMA"
)
_AROUND: Final = regex(r"^\[STREAM_FAILED\].*?terminated with exception: |( SQLSTATE: \w+)+$", MULTILINE)


def stream_failure(checkpoint: str, topic: str, text: str) -> QuotaformError:
    """Return the error for one that ended a query.

    `text`: what Spark says, with the stack traces of Java and Python.
    """
    anew = (
        f"give another {option_of('checkpoint')}, which begins with the oldest record that is there; records that are "
        "in the table already are then read again, and count once"
    )
    if lost := _LOST.search(text):
        return StreamError(
            checkpoint,
            f"records of the topic {topic} are gone that were not read yet, because they were older than the topic "
            "keeps them, were deleted, or the topic was recreated "
            f"({inert((lost[1] or lost[2]).removesuffix('.'))})",
            anew,
        )
    causes = _CAUSES(text)
    why = causes[-1] if causes else _AROUND.sub("", cause(text))
    if _DAMAGED.search(text):
        problem = f"what Spark has written into it is damaged, or of another version ({inert(why)})"
        return StreamError(checkpoint, problem, f"restore it, or {anew}")
    return engine_error(text, why=why, again=AGAIN)
