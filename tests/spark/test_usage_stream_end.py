"""How a stream ends that is stopped while a batch runs, and what becomes of records without a value."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, cast

import pytest

from quotaform.cluster.client.config import ClientConfig
from quotaform.model.errors import StreamError
from quotaform.usage.ingest.ingest import Streamed
from quotaform.usage.metric_name import Origin
from quotaform.usage.stream.batch import BatchWriter
from quotaform.usage.stream.message import messages
from quotaform.usage.stream.run import StreamRequest, _run
from quotaform.usage.stream.topic import Topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

AT = datetime(2026, 11, 20, tzinfo=UTC)


@pytest.mark.parametrize(
    "error", [None, OSError(28, "No space left on device"), StreamError("c", "the topic was recreated", "give another")]
)
def test_a_batch_that_fails_while_the_stream_is_stopped_is_reported(
    spark: SparkSession, tmp_path: Path, error: Exception | None
) -> None:
    """The run ended with its counts, as if the batch had been written."""
    request = StreamRequest(
        topic=Topic(name="t", topic_id=None, partitions=1, cluster_id=None),
        servers=(),
        client=ClientConfig(),
        input_format="otlp",
        origin=Origin(),
        usage=str(tmp_path),
        quarantine=str(tmp_path),
        checkpoint=str(tmp_path / "checkpoint"),
    )
    has_begun, is_stopped = Event(), Event()

    class EndingWriter:
        """Fails, or not, when the stream is told to end."""

        def __init__(self) -> None:
            self.counts = Counter[str]()
            self.problem: Exception | None = None

        def __call__(self, rows: DataFrame, batch: int) -> None:
            rows.count()
            has_begun.set()
            assert is_stopped.wait(60)
            self.counts["written"] += 1
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
        return _run(known, request, cast("BatchWriter", EndingWriter()), lambda _: None, stop)

    if error is None:
        assert run().summary.written == 1
    else:
        with pytest.raises(type(error)) as raised:
            run()
        assert raised.value is error


def test_each_record_without_a_value_is_quarantined(spark: SparkSession) -> None:
    """All but the first were duplicates."""
    places = [(0, 1), (0, 2), (1, 1)]
    rows: list[Any] = [(None, partition, offset, AT) for partition, offset in places]
    schema = "value binary, partition int, offset long, timestamp timestamp"
    found = messages(spark.createDataFrame(rows, schema), "otlp", Origin()).collect()
    assert len({bytes(row.id) for row in found}) == 3
    assert [[each.reason for each in row.rejected] for row in found] == [["the record has no value"]] * 3
