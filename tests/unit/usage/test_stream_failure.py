"""What is said of an error that ended a stream, of which Spark gives stack traces."""

from __future__ import annotations

import pytest

from quotaform.errors import EngineError, StreamError
from quotaform.spark.usage.stream.run import stream_failure

LOST = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [FOREACH_BATCH_USER_FUNCTION_ERROR]
Traceback (most recent call last):
  File "clientserver.py", line 644, in _call_proxy
py4j.protocol.Py4JJavaError: An error occurred while calling o380.collectToPython.
: org.apache.spark.sql.kafka010.KafkaIllegalStateException: Some data may have been lost because they are not \
available in Kafka any more;
If you don't want your streaming query to fail on such cases, set the source option failOnDataLoss to false.
Reason: Could not read records in offset [0, 10) for topic partition usage-0
\tat org.apache.spark.sql.kafka010.KafkaExceptions$.couldNotReadOffsetRange(KafkaExceptions.scala:94)
Caused by: org.apache.kafka.clients.consumer.OffsetOutOfRangeException: Fetch position is out of range"""
RESET = (
    "[STREAM_FAILED] Query terminated with exception: [KAFKA_DATA_LOSS.INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS] Some "
    "partitions are gone. SQLSTATE: 22000"
)
TIMED_OUT = """[STREAM_FAILED] Query terminated with exception: java.util.concurrent.ExecutionException
: java.util.concurrent.ExecutionException: org.apache.kafka.common.errors.TimeoutException: no answer
\tat java.base/java.lang.Thread.run(Thread.java:840)
Caused by: org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment"""
MEMORY = TIMED_OUT + "\nCaused by: java.lang.OutOfMemoryError: Java heap space"


def test_records_that_are_gone_are_named_with_the_remedy() -> None:
    error = stream_failure("ck", "usage", LOST)
    assert isinstance(error, StreamError)
    assert str(error) == (
        "the stream of the checkpoint ck cannot go on: records of the topic usage are gone that were not read yet, "
        "because they were older than the topic keeps them, were deleted, or the topic was recreated (Could not read "
        "records in offset [0, 10) "
        "for topic partition usage-0); give another --checkpoint, which begins with the oldest record that is there; "
        "records that are in the table already are then read again, and count once."
    )
    assert isinstance(stream_failure("ck", "usage", RESET), StreamError)


def test_another_error_is_said_by_its_last_cause() -> None:
    error = stream_failure("ck", "usage", TIMED_OUT)
    assert isinstance(error, EngineError)
    assert str(error) == (
        "Spark failed: TimeoutException: Timed out waiting for a node assignment; run the "
        "command again, which resumes where it stopped."
    )


def test_a_lack_of_memory_has_its_own_remedy() -> None:
    assert "--spark-conf spark.driver.memory=4g" in str(stream_failure("ck", "usage", MEMORY))


BEGIN = "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: "
FILE = "Failed to read log file file:/srv/ck/spark/offsets/0. "
WHOSE = "the stream of the checkpoint ck cannot go on: /srv/ck/spark/offsets/0, which Spark has written, is "


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            f"{BEGIN}{FILE}[INVALID_LOG_VERSION.MAX_SUPPORTED_VERSION] UnsupportedLogVersion. The maximum supported "
            "log version is v2, but encountered v9. The log file was produced by a newer version of Spark.",
            f"{WHOSE}of the version v9, and this Spark knows v2 at most; use the version of Spark that made it, or "
            "give another --checkpoint.",
        ),
        (
            f"{BEGIN}{FILE}[MALFORMED_LOG_FILE] Log file was malformed: failed to read correct log version from x. "
            "SQLSTATE: KD002 SQLSTATE: XXKST",
            f"{WHOSE}damaged; restore it, or give another --checkpoint.",
        ),
        (
            "An error occurred while calling o81.start.\n: com.fasterxml.jackson.core.io.JsonEOFException: Unexpected "
            "end-of-input\n\tat x",
            "the stream of the checkpoint ck cannot go on: what Spark has written into it is damaged; restore it, or "
            "give another --checkpoint.",
        ),
    ],
)
def test_a_checkpoint_of_spark_that_cannot_be_read_is_named_and_not_tried_again(text: str, said: str) -> None:
    # "Run the command again, which resumes where it stopped" was the remedy.
    error = stream_failure("ck", "usage", text)
    assert isinstance(error, StreamError)
    assert str(error) == said


def test_what_spark_writes_around_an_error_is_left_out() -> None:
    text = f"{BEGIN}The concurrent stream has ended. SQLSTATE: KD002 SQLSTATE: XXKST"
    assert str(stream_failure("ck", "usage", text)) == (
        "Spark failed: The concurrent stream has ended; run the command again, which resumes where it stopped."
    )
