"""Topics of a real broker, streamed into tables with the connector from Maven, and how a stream ends."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Any, cast

import pytest
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession

from quotaform.cluster.client.config import ClientConfig
from quotaform.model.errors import StreamError
from quotaform.sandbox import Sandbox
from quotaform.usage import stream
from quotaform.usage.ingest.ingest import Streamed
from quotaform.usage.metric_name import Origin
from quotaform.usage.stream import BatchWriter, StreamRequest, Topic, _run, with_record_id
from quotaform.usage.table.schema import USAGE
from quotaform.usage.table.table import read_usage
from tests.builder import PRODUCER

AT = datetime(2026, 11, 20, tzinfo=UTC)


def request_in(folder: Path) -> StreamRequest:
    return StreamRequest(
        topic=Topic(name="t", topic_id=None, cluster_id=None),
        servers=(),
        client=ClientConfig(),
        input_format="exposition",
        origin=Origin("prod", "b1"),
        usage=str(folder / "usage"),
        quarantine=str(folder / "bad"),
        checkpoint=str(folder / "checkpoint"),
    )


@pytest.mark.parametrize(
    "error", [None, OSError(28, "No space left on device"), StreamError("c", "the topic was recreated", "give another")]
)
def test_a_batch_that_fails_while_the_stream_is_stopped_is_reported(
    spark: SparkSession, tmp_path: Path, error: Exception | None
) -> None:
    """The run ended with its counts, as if the batch had been written."""
    has_begun, is_stopped = Event(), Event()

    class EndingWriter:
        """Fails, or not, when the stream is told to end."""

        def __init__(self) -> None:
            self.request = request_in(tmp_path)
            self.written = self.quarantined = 0
            self.dropped = Counter[str]()
            self.problem: Exception | None = None

        def __call__(self, rows: DataFrame, batch: int) -> None:
            rows.count()
            has_begun.set()
            assert is_stopped.wait(60)
            self.written += 1
            self.problem = error
            if error is not None:
                raise error

    def stop() -> bool:
        if has_begun.is_set():
            is_stopped.set()
        return is_stopped.is_set()

    records = spark.readStream.format("rate").load()
    known = records.withWatermark("timestamp", "1 minute").dropDuplicatesWithinWatermark(["value"])

    def run() -> Streamed:
        return _run(known, cast("BatchWriter", EndingWriter()), lambda _: None, stop)

    if error is None:
        assert run().summary.written == 1
    else:
        with pytest.raises(type(error)) as raised:
            run()
        assert raised.value is error


def test_records_of_one_time_and_value_are_one_but_each_without_a_value_is_another(spark: SparkSession) -> None:
    """Of those without a value, all but the first were duplicates."""
    later = AT + timedelta(milliseconds=1)
    records = [(b"a", AT), (b"a", AT), (b"a", later), (b"b", AT), (None, AT), (None, AT)]
    rows: list[Any] = [(value, 0, offset, at) for offset, (value, at) in enumerate(records)]
    schema = "value binary, partition int, offset long, timestamp timestamp"
    ids = [row.id for row in with_record_id(spark.createDataFrame(rows, schema)).orderBy("offset").collect()]
    assert ids[0] == ids[1]
    assert len(set(ids)) == 5


def test_a_batch_becomes_one_file_of_rows_and_one_of_what_cannot_be_read(spark: SparkSession, tmp_path: Path) -> None:
    """Of what is made again, nothing is there twice."""
    rate = b'kafka_server_quota_byte_rate{quota_type="Produce",user="a%3Db"} 5'
    throttle_time = b'kafka_server_quota_throttle_time{quota_type="Produce",user="a%3Db"} 7'
    values = (rate + b"\n" + throttle_time, None, b"{")
    rows: list[Any] = [("t", value, 1, offset, AT) for offset, value in enumerate(values)]
    schema = "topic string, value binary, partition int, offset long, timestamp timestamp"
    request, usage, bad = request_in(tmp_path), tmp_path / "usage", tmp_path / "bad"
    for folder in (request.progress, usage, bad):
        folder.mkdir(parents=True)
    (request.progress / "metadata").write_text('{"id": "q"}')
    writer = BatchWriter(request=request, require_topic=lambda: None)
    for _ in range(2):
        writer(spark.createDataFrame(rows, schema), 7)
    [file] = usage.rglob("*.parquet")
    assert file.name.startswith("stream-q-000000007-00000-")
    [row] = read_usage(spark, str(usage)).toArrow().to_pylist()
    assert row == dict(
        zip(USAGE.names, (AT, 11.5, "prod", "b1", PRODUCER, "a=b", None, None, 5.0, 7.0, None), strict=True)
    )
    rejected = [(row["file"], row["position"], row["reason"]) for row in parquet.read_table(bad).to_pylist()]
    assert sorted(rejected) == [
        ("kafka:t/1", 1, "offset 1: the record has no value"),
        ("kafka:t/1", 2, "offset 2: line 1: not a metric with a value, or cut"),
    ]
    assert (writer.written, writer.quarantined) == (4, 4)


def test_a_large_batch_is_several_files(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One task wrote all rows of a batch, however many there were."""
    monkeypatch.setattr(stream, "_ROWS_IN_FILE", 4)
    request = request_in(tmp_path)
    for folder in (request.progress, tmp_path / "usage"):
        folder.mkdir(parents=True)
    (request.progress / "metadata").write_text('{"id": "q"}')
    writer = BatchWriter(request=request, require_topic=lambda: None)
    writer._publish(spark.range(10).toDF("n"), request.usage, 7, 10)
    assert len([*(tmp_path / "usage").glob("*.parquet")]) == 3


ROOT = Path(__file__).parents[2]


def streamed(sandbox: Sandbox, folder: Path, what: str) -> Any:
    """Return what is seen in a process of its own: the session of the other tests has no connector."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.usage_in_stream", sandbox.bootstrap_servers, str(folder), what],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=590,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.timeout(600)
def test_a_topic_becomes_a_table_record_by_record(tmp_path: Path, sandbox: Sandbox) -> None:
    assert streamed(sandbox, tmp_path, "sample") == {}


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_the_command_is_killed_again_and_again_and_the_table_is_that_of_a_batch_ingest() -> None:
    """With a broker of its own; `python -m tests.faults.stream_kills` says what is killed, and takes other numbers."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.stream_kills", "12"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=890,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]


@pytest.mark.prove
@pytest.mark.timeout(600)
def test_topics_become_tables_record_by_record_whatever_happens(tmp_path: Path, sandbox: Sandbox) -> None:
    seen = streamed(sandbox, tmp_path, "all")
    begin = "the stream of the checkpoint FOLDER/checkpoint cannot go on: "
    assert "it is in a table; give a folder of its own" in seen["in-table"]
    assert seen["in-use"].startswith(f"{begin}another process streams with it")
    assert "is damaged, or of another version" in seen["version"]
    assert "v9" in seen["version"]
    assert seen["damaged"].startswith(f"{begin}what Spark has written into it is damaged")
    assert "records of the topic refused are gone that were not read yet" in seen["gone"]
    assert "give another --checkpoint, which begins with the oldest record that is there" in seen["gone"]
    assert 'the topic "refused" was deleted and recreated; records of it' in seen["recreated-running"]
