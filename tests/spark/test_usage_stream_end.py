"""How a stream ends that is stopped while a batch runs, and what becomes of records without a value."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest

from quotaform.model.errors import StreamError
from quotaform.usage.ingest.ingest import StreamCounts
from quotaform.usage.metric_name import Origin
from quotaform.usage.stream.batch import SEEN, BatchWriter, judged
from quotaform.usage.stream.checkpoint import StreamIdentity, open_checkpoint
from quotaform.usage.stream.message import messages
from quotaform.usage.stream.run import StreamRequest, _query
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

AT = datetime(2026, 11, 20, tzinfo=UTC)


@dataclass(slots=True)
class EndingWriter(BatchWriter):
    """Fails, or not, when the stream is told to end."""

    error: Exception | None = None
    has_begun: Event = field(default_factory=Event)

    def _write(self, records: DataFrame, batch: int) -> StreamCounts:
        self.has_begun.set()
        wait_until(lambda: self.is_finished)
        if self.error is not None:
            raise self.error
        return StreamCounts(batches=1)


@pytest.mark.parametrize(
    "error", [None, OSError(28, "No space left on device"), StreamError("c", "the topic was recreated", "give another")]
)
def test_a_batch_that_fails_while_the_stream_is_stopped_is_reported(
    spark: SparkSession, tmp_path: Path, error: Exception | None
) -> None:
    """The run ended with its counts, as if the batch had been written."""
    folder = str(tmp_path / "checkpoint")
    identity = StreamIdentity(
        topic="t", topic_id=None, cluster_id=None, input_format="otlp", usage=str(tmp_path), quarantine=str(tmp_path)
    )
    request: Any = StreamRequest.__new__(StreamRequest)
    object.__setattr__(request, "until_empty", False)
    with open_checkpoint(folder, identity) as checkpoint:
        writer = EndingWriter(
            checkpoint=checkpoint,
            input_format="otlp",
            origin=Origin(),
            usage=tmp_path,
            quarantine=tmp_path,
            wait_s=60,
            described=lambda: None,
            error=error,
        )
        records = spark.readStream.format("rate").load()

        def run() -> None:
            with _query(records, request, checkpoint, writer):
                assert writer.has_begun.wait(60)

        if error is None:
            run()
            assert writer.counts.batches == 1
        else:
            with pytest.raises(type(error)) as raised:
                run()
            assert raised.value is error


def test_each_record_without_a_value_is_quarantined(spark: SparkSession) -> None:
    """All but the first were duplicates."""
    rows = [(None, partition, offset, AT, AT) for partition, offset in ((0, 1), (0, 2), (1, 1))]
    schema = "value binary, partition int, offset long, timestamp timestamp, read_at timestamp"
    parsed = messages(spark.createDataFrame(rows, schema), "otlp", Origin())
    found = judged(parsed, spark.createDataFrame([], SEEN), 60).collect()
    assert [(row.status, row.rejected) for row in found] == [(None, 1)] * 3
