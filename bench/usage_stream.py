#!/usr/bin/env python3
"""Stream scrapes of a real broker's topic into a table of usage for some minutes, beside the broker and the producer.

Prints JSON: the samples per second that came and were written, the largest lag, and how the state and the memory of the
JVM have grown. A scrape is a page of 1,000 buckets with a rate and a throttle time each, of which nine in ten are NaN.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

from quotaform.cluster.client.config import ClientConfig
from quotaform.cluster.topic import TopicGateway
from quotaform.core.usage.origin import Origin
from quotaform.sandbox import Sandbox
from quotaform.spark.session.options import SessionOptions
from quotaform.spark.session.session import spark_session
from quotaform.spark.usage.stream.connector import with_connector
from quotaform.spark.usage.stream.run import StreamRequest, StreamState, run_stream

TOPIC = "usage"
BUCKETS = 1000
SAMPLES = 2 * BUCKETS
PAGES = 40
WAIT_S = 60
"""The watermark: so short that the state is full long before the end."""


def page(number: int) -> bytes:
    """Return one scrape."""
    values = random.Random(number)
    lines = []
    for bucket in range(BUCKETS):
        labels = f'{{client_id="app-{bucket}",quota_type="Produce",user="svc-{bucket % 100}"}}'
        lines.append(f"kafka_server_quota_byte_rate{labels} {values.random() * 1e7!r}")
        throttle = "NaN" if bucket % 10 else repr(values.random() * 1000)
        lines.append(f"kafka_server_quota_throttle_time{labels} {throttle}")
    return "\n".join(lines).encode()


def produce(servers: str, rate: float, seconds: float) -> None:
    """Send scrapes at a rate of samples per second."""
    pages = [page(number) for number in range(PAGES)]
    # Compressed, since kafka-python computes the checksum of each byte in Python.
    producer = KafkaProducer(bootstrap_servers=servers, linger_ms=20, compression_type="gzip")
    begin, sent = time.time(), 0
    while (now := time.time()) < begin + seconds:
        while sent < (now - begin) * rate / SAMPLES:
            producer.send(TOPIC, pages[sent % PAGES], partition=sent % 2)
            sent += 1
        time.sleep(0.02)
    producer.flush()
    producer.close()


@dataclass
class Seen:
    """What is seen of a stream while it runs."""

    checkpoint: Path
    begin: float = 0.0
    behind: list[int] = field(default_factory=list)
    state_bytes: list[int] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)
    samples: list[tuple[float, int]] = field(default_factory=list)

    def __call__(self, state: StreamState) -> None:
        """Take one more look, at each batch."""
        if self.samples and self.samples[-1][1] == state.counts.samples:
            return
        self.begin = self.begin or time.monotonic()
        self.samples.append((time.monotonic() - self.begin, state.counts.samples))
        self.behind.append(state.behind or 0)
        self.state_bytes.append(sum(file.stat().st_size for file in self.checkpoint.glob("seen/*/*.parquet")))
        self.memory.append(_java_memory())


def _java_memory() -> int:
    """Return the resident set of the largest Java process, in MiB: the broker has less than Spark."""
    listed = subprocess.run(["ps", "-C", "java", "-o", "rss="], capture_output=True, text=True, check=False)
    return max(map(int, listed.stdout.split()), default=0) // 1024


def measure(folder: Path, rate: float, seconds: float) -> dict[str, object]:
    """Stream for so long, and return what was seen."""
    with Sandbox() as broker:
        servers = broker.bootstrap_servers
        admin = KafkaAdminClient(bootstrap_servers=servers)
        admin.create_topics([NewTopic(TOPIC, num_partitions=2, replication_factor=1)])
        admin.close()
        with TopicGateway.connect(servers) as gateway:
            topic = gateway.topic(TOPIC)
        if topic is None:
            raise SystemExit("the topic was not created")
        checkpoint = folder / "checkpoint"
        seen = Seen(checkpoint)
        request = StreamRequest(
            topic=topic,
            servers=(servers,),
            client=ClientConfig(),
            input_format="exposition",
            origin=Origin("prod", "b1"),
            usage=str(folder / "usage"),
            quarantine=str(folder / "quarantine"),
            checkpoint=str(checkpoint),
            wait_s=WAIT_S,
            for_s=seconds,
        )
        with spark_session(with_connector(SessionOptions(master="local[2]", has_joins=True))) as spark:
            arguments = [sys.executable, __file__, "--produce", servers, "--rate", str(rate), "--seconds", str(seconds)]
            with subprocess.Popen(arguments) as producer:
                counts = run_stream(spark, request, seen, lambda: False)
                producer.wait()
            stored = spark.read.parquet(request.usage)
            rows, distinct = stored.count(), stored.select("ts", "client_id").distinct().count()
    if rows != distinct:
        raise SystemExit("a row is there twice")
    third = len(seen.samples) // 3
    since, until = seen.samples[third], seen.samples[-1]
    return {
        "samples": counts.samples,
        "rows": rows,
        "batches": counts.batches,
        "samples_per_second_of_last_two_thirds": round((until[1] - since[1]) / (until[0] - since[0])),
        "largest_lag_records": max(seen.behind[third:]),
        "state_bytes_at_third_and_end": [seen.state_bytes[third], seen.state_bytes[-1]],
        "java_mib_at_third_and_end": [seen.memory[third], seen.memory[-1]],
        "seconds_per_batch": round((until[0] - since[0]) / max(1, len(seen.samples) - third - 1), 1),
    }


def main() -> None:
    """Measure, or produce."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("usage-stream"))
    parser.add_argument("--rate", type=float, default=60_000, help="samples per second")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--produce", metavar="SERVERS", help="be the producer")
    options = parser.parse_args()
    if options.produce:
        produce(options.produce, options.rate, options.seconds)
        return
    shutil.rmtree(options.folder, ignore_errors=True)
    options.folder.mkdir(parents=True)
    print(json.dumps(measure(options.folder.absolute(), options.rate, options.seconds), indent=2))


if __name__ == "__main__":
    main()
