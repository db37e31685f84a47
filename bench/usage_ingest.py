#!/usr/bin/env python3
"""Ingest recordings into a table of usage, against a bare read and write of the same files; in one Spark session.

Prints JSON: the medians of each (seconds of processors, seconds), the ratio of processor time, and the largest
resident set. The recordings are generated: rates and throttle times of buckets on three brokers, a value per minute.

| recording | bare |
| --- | --- |
| answers of Prometheus, a file per four hours | `spark.read.json` with the schema given, and `write.parquet` |
| Parquet, a row per sample with a map of labels, by time | `spark.read.parquet`, and `write.parquet` |
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f

sys.path.insert(0, str(Path(__file__).parents[1]))  # as a script it finds the modules beside it only

from bench.measure import Cost, medians
from bench.spark_work import cost_of, peak
from quotaform.fleet.options import SessionOptions
from quotaform.fleet.session import spark_session
from quotaform.usage.ingest.run import IngestRequest, ingest
from quotaform.usage.metric_name import Origin

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MINUTES = 240
"""The minutes of a file: Spark holds the one JSON document of a file in memory, with an object per value."""
START = 1_795_000_000
NAMES = ("kafka_server_quota_byte_rate", "kafka_server_quota_throttle_time")
ANSWER = """
    status string, data struct<resultType: string, result: array<struct<
        metric: struct<__name__: string, client_id: string, cluster: string, instance: string, job: string,
                       quota_type: string, user: string>,
        values: array<array<string>>>>>
"""


def labels(bucket: int) -> dict[str, str]:
    """Return the labels of a bucket."""
    return {
        "client_id": f"app-{bucket % 50}",
        "cluster": "prod",
        "instance": f"broker-{bucket % 3}:7071",
        "job": "kafka",
        "quota_type": "Produce",
        "user": f"svc-{bucket}",
    }


def write_answers(folder: Path, samples: int, series: int) -> None:
    """Write answers of Prometheus, a file per slice of time."""
    values = [repr(random.Random(number).random() * 1e6) for number in range(5000)]
    for place in range(max(1, round(samples / (series * MINUTES)))):
        times = [str(START + 60 * (place * MINUTES + minute)) for minute in range(MINUTES)]
        with (folder / f"slice-{place:04}.json").open("w", encoding="utf-8") as file:
            file.write('{"status":"success","data":{"resultType":"matrix","result":[')
            for number in range(series):
                metric = json.dumps({"__name__": NAMES[number % 2], **labels(number // 2)}, separators=(",", ":"))
                start = (number * 977 + place * 131) % (len(values) - MINUTES)
                pairs = ",".join(
                    [f'[{ts},"{value}"]' for ts, value in zip(times, values[start : start + MINUTES], strict=True)]
                )
                file.write(f'{"," if number else ""}{{"metric":{metric},"values":[{pairs}]}}')
            file.write("]}}")


def write_table(spark: SparkSession, folder: Path, samples: int, series: int) -> None:
    """Write rows of samples as Parquet, by time."""
    number = f.col("id") % series
    bucket = (number / 2).cast("long")
    spark.range(0, samples, 1, 8).select(
        ((START + 60 * (f.col("id") / series).cast("long")) * 1000).alias("timestamp"),
        f.element_at(f.array(*map(f.lit, NAMES)), (number % 2 + 1).cast("int")).alias("name"),
        f.create_map(
            *(f.lit(each) for each in ("client_id",)),
            f.concat(f.lit("app-"), bucket % 50),
            *(f.lit(each) for each in ("cluster", "prod", "instance")),
            f.concat(f.lit("broker-"), bucket % 3, f.lit(":7071")),
            *(f.lit(each) for each in ("job", "kafka", "quota_type", "Produce", "user")),
            f.concat(f.lit("svc-"), bucket),
        ).alias("labels"),
        (f.rand(1) * 1e6).alias("value"),
    ).write.parquet(str(folder))


def ingest_into(spark: SparkSession, source: Path, folder: Path, samples: int) -> None:
    """Ingest a recording into a new table, and check that nothing is missing."""
    shutil.rmtree(folder, ignore_errors=True)
    request = IngestRequest(
        sources=[str(source)],
        usage=str(folder / "usage"),
        quarantine=str(folder / "quarantine"),
        format_name=None,
        origin=Origin(),
        declared=None,
    )
    result = ingest(spark, request)
    if (result.summary.read, result.summary.written, result.summary.quarantined) != (samples, samples, 0):
        raise SystemExit(f"{samples} samples became {result}")


def compared(name: str, bare: Callable[[], object], own: Callable[[], object], rounds: int) -> dict[str, Any]:
    """Return the medians of both, which run in turn; the first round is a warm-up unless it is the only one."""
    costs: dict[str, list[Cost]] = {"bare": [], "ingest": []}
    for number in range(rounds + (rounds > 1)):
        costs["bare"].append(cost_of(bare))
        costs["ingest"].append(cost_of(own))
        print(name, number, {key: each[-1] for key, each in costs.items()}, file=sys.stderr, flush=True)
    found = {key: medians(each[rounds > 1 :]) for key, each in costs.items()}
    return {"recording": name, **found, "ratio": found["ingest"].cpu / found["bare"].cpu}


def main() -> None:
    """Read the command line, measure, and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--samples", type=int, default=50_000_000)
    parser.add_argument("--series", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", choices=("prometheus", "parquet"))
    options = parser.parse_args()
    answers, table, plain, own = (options.folder / each for each in ("answers", "table", "plain", "own"))
    settings = {"spark.driver.memory": "2g"}
    with spark_session(SessionOptions(master="local[2]", conf=settings, has_joins=True)) as spark:
        found = []
        if options.only != "parquet":
            if not answers.exists():
                answers.mkdir(parents=True)
                began = time.perf_counter()
                write_answers(answers, options.samples, options.series)
                print(f"generated in {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
            samples = len(list(answers.iterdir())) * options.series * MINUTES
            reader = spark.read.schema(ANSWER).option("multiLine", "true")
            found.append(
                compared(
                    "prometheus",
                    lambda: reader.json(str(answers)).write.mode("overwrite").parquet(str(plain)),
                    lambda: ingest_into(spark, answers, own, samples),
                    options.rounds,
                )
                | {"samples": samples, "bytes": sum(file.stat().st_size for file in answers.iterdir())}
            )
        if options.only != "prometheus":
            if not table.exists():
                write_table(spark, table, options.samples, options.series)
            found.append(
                compared(
                    "parquet",
                    lambda: spark.read.parquet(str(table)).write.mode("overwrite").parquet(str(plain)),
                    lambda: ingest_into(spark, table, own, options.samples),
                    options.rounds,
                )
                | {"samples": options.samples}
            )
        memory = peak(spark)
    print(json.dumps({"measured": found, "peak": memory}))


if __name__ == "__main__":
    main()
