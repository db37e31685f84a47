"""Kills a process that streams, or its Java process, again and again at random moments, and compares the table.

Run it by hand: `python -m tests.spark.usage_stream_kills 20`. It takes about half a minute a kill.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from time import sleep
from typing import Final

from quotaform.cluster.client.config import ClientConfig
from quotaform.core.usage.origin import Origin
from quotaform.sandbox import Sandbox
from quotaform.spark.session.options import SessionOptions
from quotaform.spark.session.session import spark_session
from quotaform.spark.usage.stream.connector import with_connector
from quotaform.spark.usage.stream.run import StreamRequest, run_stream
from tests.spark.usage_topic import BUCKETS, UsageTopic

TOPIC: Final = "killed"
PARTITIONS: Final = 2
WAIT_S: Final = 7200
"""So much that no page is late, however long its batch was not made."""
LONGEST_S: Final = 20.0
"""Up to how long after its session has started a process is killed."""
READY: Final = "ready"


def stream(servers: str, folder: Path, *, until_empty: bool) -> None:
    """Be the process that streams."""
    topic = UsageTopic(servers, TOPIC).described()
    assert topic is not None
    request = StreamRequest(
        topic=topic,
        servers=(servers,),
        client=ClientConfig(),
        input_format="exposition",
        origin=Origin("prod", "b1"),
        usage=str(folder / "usage"),
        quarantine=str(folder / "bad"),
        checkpoint=str(folder / "checkpoint"),
        wait_s=WAIT_S,
        every_s=1,
        most_records=20,
        until_empty=until_empty,
    )
    with spark_session(with_connector(SessionOptions(master="local[2]"))) as spark:
        print(READY, flush=True)
        print(run_stream(spark, request, lambda _: None, lambda: False), file=sys.stderr)


def java_of(pid: int) -> int:
    """Return the Java process of a process."""
    listed = subprocess.run(
        ["pgrep", "-P", str(pid), "java"], capture_output=True, text=True, check=False
    ).stdout.split()
    return int(listed[0]) if listed else pid


def kill_one(arguments: list[str], moments: random.Random) -> str:
    """Start a process, kill it or its Java process, and return which one."""
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == READY
        sleep(moments.uniform(0, LONGEST_S))
        is_java = moments.random() < 0.3
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(os.pidfd_open(java_of(process.pid) if is_java else process.pid), signal.SIGKILL)
        process.wait(60)
    return "java" if is_java else "python"


def produce(topic: UsageTopic, over: Event, sent: list[int]) -> None:
    """Send pages, and every seventh one again."""
    while not over.wait(0.5):
        pages = list(range(len(sent), len(sent) + 5))
        topic.send(pages, PARTITIONS)
        sent += pages
        topic.send([page for page in pages if page % 7 == 0], PARTITIONS)


def main() -> None:
    """Kill as often as asked, and compare."""
    if "--stream" in sys.argv:
        stream(sys.argv[2], Path(sys.argv[3]), until_empty="--until-empty" in sys.argv)
        return
    kills, moments = int(sys.argv[1]), random.Random()
    with Sandbox() as broker, TemporaryDirectory() as name:
        topic = UsageTopic(broker.bootstrap_servers, TOPIC)
        topic.start_ms -= 24 * 3600 * 1000
        topic.create(PARTITIONS)
        over, sent = Event(), list[int]()
        producer = Thread(target=produce, args=(topic, over, sent))
        producer.start()
        arguments = [sys.executable, "-m", __spec__.name, "--stream", topic.servers, name]
        try:
            for number in range(kills):
                print(number + 1, kill_one(arguments, moments), len(sent), batches(Path(name)), flush=True)
        finally:
            over.set()
            producer.join()
        subprocess.run([*arguments, "--until-empty"], check=True, stdout=subprocess.DEVNULL)
        compare(topic, sent, Path(name))


def batches(folder: Path) -> str:
    """Return which batch was begun, and which one ended, last."""
    last = [
        max((int(path.name) for path in (folder / "checkpoint" / "spark" / kind).glob("[0-9]*")), default=-1)
        for kind in ("offsets", "commits")
    ]
    return f"batch {last[0]} begun, {last[1]} ended"


def compare(topic: UsageTopic, sent: list[int], folder: Path) -> None:
    """Compare the table with what was sent, row by row, by another reader of Parquet than Spark."""
    from pyarrow import parquet

    found = Counter(
        (round(row["ts"].timestamp() * 1000), row["user"], row["client_id"], row["rate"], row["throttle_ms"])
        for file in (folder / "usage").glob("*.parquet")
        for row in parquet.read_table(file).to_pylist()
    )
    expected = Counter(topic.rows(sent))
    missing, more = expected - found, found - expected
    print(f"{len(sent)} pages, {len(sent) * BUCKETS} rows; {len(missing)} missing, {len(more)} too many")
    assert not missing, list(missing)[:5]
    assert not more, list(more)[:5]


if __name__ == "__main__":
    main()
