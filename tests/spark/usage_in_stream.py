"""Streams topics into tables, in a process whose Spark session has the connector; prints what it saw as JSON.

Each scenario is a function: it has a topic of its own, and compares the table with the pages in the topic.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from quotaform.cluster.client.config import ClientConfig
from quotaform.fleet.options import SessionOptions
from quotaform.fleet.session import spark_session
from quotaform.model.errors import QuotaformError
from quotaform.system.files import take_lock
from quotaform.usage.ingest.ingest import Streamed
from quotaform.usage.metric_name import Origin
from quotaform.usage.stream import StreamRequest, run_stream, with_connector
from quotaform.usage.table.schema import QUARANTINE
from quotaform.usage.table.table import read_usage
from tests.spark.shared_classes import CONF
from tests.spark.usage_topic import BUCKETS, STEP_S, UsageTopic
from tests.waiting import once
from tests.workflow.command import run

WAIT_S: Final = 10 * STEP_S
"""How far the watermark is behind: ten pages."""
SAMPLES: Final = 2 * BUCKETS
"""How many samples a page has."""


class Stream:
    """A topic, and the folders that it is read into."""

    def __init__(self, spark: SparkSession, servers: str, folder: Path, name: str, partitions: int = 1) -> None:
        """Create the topic."""
        self.spark = spark
        self.topic = UsageTopic(servers, name)
        self.described = self.topic.create(partitions)
        self.folder = folder / name
        self.folder.mkdir()

    def request(self, **changes: Any) -> StreamRequest:
        """Return what is read, and where to."""
        settings: dict[str, Any] = {
            "topic": self.described,
            "servers": (self.topic.servers,),
            "client": ClientConfig(),
            "input_format": "exposition",
            "origin": Origin("prod", "b1"),
            "usage": str(self.folder / "usage"),
            "quarantine": str(self.folder / "bad"),
            "checkpoint": str(self.folder / "checkpoint"),
            "wait_s": WAIT_S,
            "until_empty": True,
        }
        return StreamRequest(**settings | changes)

    def run(self, **changes: Any) -> Streamed:
        """Read until the topic is empty."""
        return run_stream(self.spark, self.request(**changes), lambda _: None, lambda: False)

    def refused(self, **changes: Any) -> str:
        """Return why it is not read."""
        try:
            self.run(**changes)
        except QuotaformError as error:
            return str(error).replace(str(self.folder), "FOLDER")
        raise AssertionError("it was read")

    def require(self, pages: Iterable[int]) -> None:
        """Compare the table with pages, row by row."""
        found = read_usage(self.spark, str(self.folder / "usage"))
        same = {(row.cluster, row.broker, row.key, row.ip, row.window_s) for row in found.collect()}
        assert same == {("prod", "b1", "producer_byte_rate", None, 11.5)}, same
        rows = [
            (round(row.ts.timestamp() * 1000), row.user, row.client_id, row.rate, row.throttle_ms)
            for row in found.collect()
        ]
        expected = self.topic.rows(pages)
        assert sorted(rows, key=str) == expected, (len(rows), len(expected))

    def bad(self) -> list[tuple[str, int, str]]:
        """Return what is in the quarantine."""
        found = self.spark.read.parquet(str(self.folder / "bad"))
        assert found.schema == QUARANTINE, found.schema
        return sorted((row.file, row.position, row.reason) for row in found.collect())


def counted(stream: Stream) -> None:
    """Duplicates, also in a later batch, late records and such that cannot be read, each with its count."""
    stream.topic.send(range(20), 2)
    stream.topic.send([3, 19], 2)
    stream.topic.send([20], 2, other=[None, b"kafka_server_quota_byte_rate{user= 1"])
    counts = stream.run()
    stream.require(range(21))
    # What was read before is known, and what comes late is not lost.
    stream.topic.send([21, 12, 20, 22, 8], 2)
    more = stream.run()
    stream.require(range(23))
    [empty, cut] = stream.bad()
    assert empty[2].endswith(": the record has no value"), empty
    assert cut[2].startswith(f"offset {cut[1]}: line 1: "), cut
    assert (counts.records, counts.summary.quarantined, counts.duplicate_records) == (25, 2, 2), counts
    assert (counts.summary.read, counts.summary.written) == (21 * SAMPLES + 2, 21 * (SAMPLES - 3)), counts
    assert (more.records, more.duplicate_records, more.late_records, more.batches) == (5, 3, 0, 1), more
    nothing = stream.run()
    assert (nothing.records, nothing.batches, nothing.summary.read) == (0, 0, 0), nothing


def any_time(stream: Stream) -> None:
    """A backlog whose partitions are days apart, and a producer whose clock is ahead: nothing is too late."""
    pages = [0, 1, 20_000, 3, 29_101, 5, 4, 240]
    stream.topic.start_ms -= 5 * 24 * 3600 * 1000
    stream.topic.send(pages, 2)
    counts = stream.run(wait_s=1, most_records=2)
    assert (counts.records, counts.late_records, counts.duplicate_records) == (8, 0, 0), counts
    stream.require(pages)


def stopped(stream: Stream) -> None:
    """The command goes on until Ctrl-C, says what it has done, and another one goes on from there."""
    stream.topic.send(range(3))
    request = stream.request()
    options = {
        "--topic": stream.topic.name,
        "--bootstrap-server": stream.topic.servers,
        "--input-format": request.input_format,
        "--cluster": "prod",
        "--broker": "b1",
        "--usage": request.usage,
        "--quarantine": request.quarantine,
        "--checkpoint": request.checkpoint,
        "--watermark": f"{WAIT_S}s",
        "--batch-records": "1",
        "--every": "1s",
        "--format": "json",
    }
    usage = Path(request.usage)
    thread = once(lambda: list(usage.rglob("*.parquet")), lambda: os.kill(os.getpid(), signal.SIGINT))
    result = run("usage", "ingest", *chain(*options.items()), cwd=stream.folder)
    thread.join()
    assert (result.code, result.err.splitlines()[-1]) == (130, "Error: interrupted"), result
    done = json.loads(result.out)
    assert (done["kind"], done["topic"]) == ("quotaform.usage-stream", stream.topic.name), done
    assert done["summary"]["read"] == done["records"] * SAMPLES, done
    rest = stream.run()
    assert done["records"] + rest.records == 3, (done, rest)
    stream.require(range(3))
    nothing = run("usage", "ingest", *chain(*options.items()), "--until-empty", cwd=stream.folder)
    said = f"Warning: nothing was added: the topic {stream.topic.name} had no records that were not read before"
    assert (nothing.code, nothing.err.splitlines()[-1]) == (0, said), nothing
    stream.topic.send([], other=[b"other_metric 1"])
    other = run("usage", "ingest", *chain(*options.items()), "--until-empty", cwd=stream.folder)
    said = "Warning: nothing was added: there are no samples for the table among the 1 that were read"
    assert (other.code, other.err.splitlines()[-1]) == (0, said), other


def refused(stream: Stream) -> dict[str, str]:
    """Checkpoints that cannot be used, and records that are gone."""
    assert stream.run().records == 0
    stream.topic.send(range(2))
    stream.run()
    progress = stream.request().progress
    seen = {"in-table": stream.refused(checkpoint=str(stream.folder / "usage" / "checkpoint"))}
    with held(progress):
        seen["in-use"] = stream.refused()
    for name, note, change in (("version", "offsets/0", ("v1", "v9")), ("damaged", "metadata", ("}", ""))):
        file = progress / note
        file.with_name(f".{file.name}.crc").unlink()
        written = file.read_text()
        file.write_text(written.replace(*change))
        seen[name] = stream.refused()
        file.write_text(written)
    stream.topic.send(range(2, 6))
    stream.topic.delete_records(0, 4)
    seen["gone"] = stream.refused()
    stream.require(range(2))
    # It is recreated, and has more records than before, while it is read.
    before, stream.described = stream.described, stream.topic.recreate(stream.described)
    stream.topic.send(range(2, 10))
    seen["recreated-running"] = stream.refused(topic=before, checkpoint=str(stream.folder / "running"))
    stream.require(range(2))
    # With the checkpoint of before, it is read from its beginning.
    assert stream.run().records == 8
    stream.require(range(10))
    return seen


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, as another process does."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        assert take_lock(descriptor)
        yield
    finally:
        os.close(descriptor)


def main() -> None:
    """Do all of it, in a folder, with a broker."""
    servers, folder, what = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    options = with_connector(SessionOptions(master="local[2]", conf=CONF))
    with spark_session(options) as spark:
        # Another run may have the same broker.
        counted(Stream(spark, servers, folder, f"counted-{what}", 2))
        if what == "sample":
            print(json.dumps({}))
            return
        any_time(Stream(spark, servers, folder, "times", 2))
        stopped(Stream(spark, servers, folder, "stopped"))
        seen = refused(Stream(spark, servers, folder, "refused"))
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
