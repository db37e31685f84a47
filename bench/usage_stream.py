#!/usr/bin/env python3
"""Stream scrapes of a real broker's topic into a table of usage for some minutes, beside the broker and the producer.

Prints JSON: the samples per second that came and were written, the lag, how the state and the memory of the JVM have
grown, and what each process took of the processors. A scrape is a page of 1,000 buckets with a rate and a throttle time
each, of which nine in ten are NaN. The producer is Kafka's own ProducerPerformance. At the end the rest of the topic is
read, and each bucket must have a row per record.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kafka import KafkaConsumer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic
from msgspec.structs import replace
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from quotaform.cluster.client.config import ClientConfig
from quotaform.fleet.options import SessionOptions
from quotaform.fleet.session import spark_session
from quotaform.sandbox import Sandbox
from quotaform.sandbox.release import find_tool_jars
from quotaform.usage.ingest.ingest import Streamed
from quotaform.usage.metric_name import Origin
from quotaform.usage.stream import StreamRequest, TopicGateway, run_stream, with_connector

TOPIC = "usage"
PARTITIONS = 2
BUCKETS = 1000
SAMPLES = 2 * BUCKETS
PAGES = 40
DELIMITER = "%%%%"
WAIT_S = 60
"""The watermark: so short that the state is full long before the end."""
WARM_S = 45
"""What is seen before is left out: the JVM compiles, and the producer starts."""
TICKS = os.sysconf("SC_CLK_TCK")


def page(number: int) -> str:
    """Return one scrape."""
    values = random.Random(number)
    lines = []
    for bucket in range(BUCKETS):
        labels = f'{{client_id="app-{bucket}",quota_type="Produce",user="svc-{bucket % 100}"}}'
        lines.append(f"kafka_server_quota_byte_rate{labels} {values.random() * 1e7!r}")
        throttle = "NaN" if bucket % 10 else repr(values.random() * 1000)
        lines.append(f"kafka_server_quota_throttle_time{labels} {throttle}")
    return "\n".join(lines)


def push(number: int) -> str:
    """Return the same as OpenTelemetry has it, without a time."""
    values = random.Random(number)
    rates, times = list[object](), list[object]()
    for bucket in range(BUCKETS):
        names = {"client_id": f"app-{bucket}", "quota_type": "Produce", "user": f"svc-{bucket % 100}"}
        attributes = [{"key": name, "value": {"stringValue": value}} for name, value in names.items()]
        rates.append({"attributes": attributes, "asDouble": values.random() * 1e7})
        times.append({"attributes": attributes, "asDouble": "NaN" if bucket % 10 else values.random() * 1000})
    metrics = [
        {"name": name, "gauge": {"dataPoints": points}}
        for name, points in (("kafka_server_quota_byte_rate", rates), ("kafka_server_quota_throttle_time", times))
    ]
    return json.dumps({"resourceMetrics": [{"scopeMetrics": [{"metrics": metrics}]}]}, separators=(",", ":"))


DOCUMENTS = {"exposition": page, "otlp": push}


@contextmanager
def producer(
    broker: Sandbox, folder: Path, input_format: str, rate: float, seconds: float
) -> Iterator[subprocess.Popen[str]]:
    """Send scrapes at a rate of samples per second, chosen at random among some."""
    payloads = folder / "payloads"
    payloads.write_text(DELIMITER.join(map(DOCUMENTS[input_format], range(PAGES))), encoding="utf-8")
    classes = os.pathsep.join(map(str, find_tool_jars()))
    command = [str(broker.runtime.java.command), "-Xmx256m", "-XX:+UseSerialGC", "-cp", classes]
    options = {
        "--bootstrap-server": broker.bootstrap_servers,
        "--topic": TOPIC,
        "--num-records": str(round(rate * seconds / SAMPLES)),
        "--throughput": str(rate / SAMPLES),
        "--payload-file": str(payloads),
        "--payload-delimiter": DELIMITER,
    }
    settings = ["compression.type=lz4", "batch.size=1000000", "linger.ms=100", "acks=1"]
    with subprocess.Popen(
        [
            *command,
            "org.apache.kafka.tools.ProducerPerformance",
            *(word for option in options.items() for word in option),
            "--command-property",
            *settings,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def processor_seconds() -> dict[int, tuple[int, str, float]]:
    """Return parent, name and processor time of each process, the time of its children that have ended included."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            head, _, rest = path.read_text(encoding="utf-8").rpartition(")")
        except OSError:
            continue
        fields = rest.split()
        number, _, name = head.partition(" (")
        found[int(number)] = (int(fields[1]), name, sum(map(int, fields[11:15])) / TICKS)
    return found


@dataclass
class Work:
    """Processor time since the last look, by what a process does."""

    broker: int
    producer: int
    before: dict[str, float] = field(default_factory=dict)

    def __call__(self) -> dict[str, float]:
        """Return the processor seconds since a process began."""
        processes = processor_seconds()
        done = {"driver": 0.0, "jvm": 0.0, "workers": 0.0, "broker": 0.0, "producer": 0.0, "others": 0.0}
        own = os.getpid()
        [jvm] = [pid for pid, (parent, name, _) in processes.items() if parent == own and is_spark(pid, name)]
        for pid, (_, _, seconds) in processes.items():
            if pid == jvm:
                done["jvm"] += seconds
            elif pid == own:
                done["driver"] += seconds
            elif pid == self.broker:
                done["broker"] += seconds
            elif pid == self.producer:
                done["producer"] += seconds
            elif is_below(pid, jvm, processes):
                done["workers"] += seconds
            else:
                done["others"] += seconds
        return done


def is_spark(pid: int, name: str) -> bool:
    """Whether a process is the Java process of Spark."""
    try:
        return name == "java" and b"org.apache.spark" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def is_below(pid: int, above: int, processes: dict[int, tuple[int, str, float]]) -> bool:
    """Whether a process is below another one."""
    while pid in processes:
        pid = processes[pid][0]
        if pid == above:
            return True
    return False


@dataclass
class Look:
    """What is seen when a batch has ended."""

    at: float
    done: Streamed
    behind: int
    state_bytes: int
    java_mib: int
    work: dict[str, float]


@dataclass
class Seen:
    """What is seen of a stream while it runs."""

    checkpoint: Path
    ends: KafkaConsumer
    work: Work
    looks: list[Look] = field(default_factory=list)

    def __call__(self, done: Streamed) -> None:
        """Take one more look, after each batch."""
        if not done.batches or (self.looks and self.looks[-1].done.batches == done.batches):
            return
        places = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        self.looks.append(
            Look(
                at=time.monotonic(),
                done=done,
                behind=sum(self.ends.end_offsets(places).values()) - done.records,
                state_bytes=sum(file.stat().st_size for file in self.checkpoint.glob("*/state/**/*") if file.is_file()),
                java_mib=java_memory(),
                work=self.work(),
            )
        )


def java_memory() -> int:
    """Return the resident set of the Java process of Spark, in MiB."""
    for path in Path("/proc").glob("[0-9]*/status"):
        if is_spark(int(path.parent.name), "java"):
            [line] = [line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("VmRSS")]
            return int(line.split()[1]) // 1024
    return 0


def measure(folder: Path, input_format: str, rate: float, seconds: float) -> dict[str, object]:
    """Stream for so long, and return what was seen."""
    with Sandbox() as broker:
        servers = broker.bootstrap_servers
        admin = KafkaAdminClient(bootstrap_servers=servers)
        admin.create_topics([NewTopic(TOPIC, num_partitions=PARTITIONS, replication_factor=1)])
        admin.close()
        with TopicGateway.connect(servers) as gateway:
            topic = gateway.topic(TOPIC)
        if topic is None:
            raise SystemExit("the topic was not created")
        request = StreamRequest(
            topic=topic,
            servers=(servers,),
            client=ClientConfig(),
            input_format=input_format,
            origin=Origin("prod", "b1"),
            usage=str(folder / "usage"),
            quarantine=str(folder / "quarantine"),
            checkpoint=str(folder / "checkpoint"),
            wait_s=WAIT_S,
            for_s=seconds,
        )
        ends = KafkaConsumer(bootstrap_servers=servers)
        with spark_session(with_connector(SessionOptions(master="local[2]", has_joins=True))) as spark:
            with producer(broker, folder, input_format, rate, seconds) as process:
                seen = Seen(folder / "checkpoint", ends, Work(broker.pids[1], process.pid))
                first = run_stream(spark, request, seen, lambda: False)
                said, _ = process.communicate(timeout=120)
            rest = run_stream(spark, replace(request, until_empty=True, for_s=None), lambda _: None, lambda: False)
            require_rows(spark, request.usage, (first, rest), round(rate * seconds / SAMPLES), said)
        ends.close()
    return summary(seen.looks, rate)


def require_rows(spark: SparkSession, usage: str, runs: Sequence[Streamed], sent: int, said: str) -> None:
    """Make sure that each bucket has a row per record of the topic, and none twice."""
    records = sum(done.records for done in runs)
    kept = records - sum(done.duplicate_records + done.late_records for done in runs)
    table = spark.read.parquet(usage)
    per_bucket = {row["count"] for row in table.groupBy("client_id").count().collect()}
    distinct = table.select("ts", "client_id", "rate").distinct().count()
    found = (records, per_bucket, distinct)
    if found != (sent, {kept}, kept * BUCKETS) or table.where(f.col("rate").isNull()).count():
        raise SystemExit(f"{sent} records were sent; read, rows per bucket and in all: {found}; {runs}\n{said}")


def summary(looks: list[Look], rate: float) -> dict[str, object]:
    """Return what was seen after the first part, in which the processes warm up."""
    start = next((look for look in looks if look.at >= looks[0].at + WARM_S), looks[0])
    measured = looks[looks.index(start) :]
    end = measured[-1]
    if end is start:
        raise SystemExit(f"no batch ended after {WARM_S} s of warming up; {start}")
    wall = end.at - start.at
    samples = end.done.summary.read - start.done.summary.read
    work = {name: end.work[name] - start.work[name] for name in end.work}
    stream = work["driver"] + work["jvm"] + work["workers"]
    return {
        "samples": end.done.summary.read,
        "measured_seconds": round(wall, 1),
        "samples_per_second": round(samples / wall),
        "batches": end.done.batches - start.done.batches,
        "seconds_per_batch": round(wall / max(1, len(measured) - 1), 1),
        "lag_in_seconds_at_start_middle_end_and_largest": [
            round(behind * SAMPLES / rate, 1)
            for behind in (
                start.behind,
                measured[len(measured) // 2].behind,
                end.behind,
                max(look.behind for look in measured),
            )
        ],
        "late_and_duplicate_records": [end.done.late_records, end.done.duplicate_records],
        "state_bytes_at_start_middle_and_end": [
            look.state_bytes for look in (start, measured[len(measured) // 2], end)
        ],
        "java_mib_at_start_middle_and_end": [look.java_mib for look in (start, measured[len(measured) // 2], end)],
        "cores_used": {name: round(seconds / wall, 2) for name, seconds in work.items()},
        "processor_microseconds_per_sample": round(stream / samples * 1e6, 1),
    }


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("usage-stream"))
    parser.add_argument("--format", choices=DOCUMENTS, default="exposition", help="how scrapes are written")
    parser.add_argument("--rate", type=float, default=60_000, help="samples per second")
    parser.add_argument("--seconds", type=float, default=300)
    options = parser.parse_args()
    shutil.rmtree(options.folder, ignore_errors=True)
    options.folder.mkdir(parents=True)
    print(json.dumps(measure(options.folder.absolute(), options.format, options.rate, options.seconds), indent=2))


if __name__ == "__main__":
    main()
