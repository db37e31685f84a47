#!/usr/bin/env python3
"""Append a snapshot to a history, against writing the same snapshot as plain Parquet; in one Spark session.

Prints JSON: the medians of the seconds of processors and of the seconds of both, and the largest resident set of the
JVM. The snapshots of 1,000 clusters are
generated; from each to the next one value of a hundred changes.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f

sys.path.insert(0, str(Path(__file__).parents[1]))  # as a script it finds the modules beside it only

from bench.measure import medians
from bench.spark_work import cost_of, peak
from quotaform.fleet.options import SessionOptions
from quotaform.fleet.session import spark_session
from quotaform.history.spark import history_of
from quotaform.history.table import ParquetHistory, append
from quotaform.resolve.spark import QUOTAS, completed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CLUSTERS = 1000
KEYS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
START = datetime(2026, 11, 1, tzinfo=UTC)


def snapshot(spark: SparkSession, values: int, number: int) -> DataFrame:
    """Return `schemas.QUOTAS` of all clusters at a time."""
    name = f.format_string("svc-%07d", "id")
    cluster = f.format_string("cluster-%04d", f.col("id") % CLUSTERS)
    # How often a value has changed by then: every hundredth snapshot, not all at once.
    age = f.floor((f.lit(number) + f.col("id") * 4 + f.col("place")) / 100)
    rows = spark.range(0, values // len(KEYS), 1, 8).select(
        "id",
        cluster.alias("cluster"),
        name.alias("name"),
        f.posexplode(f.array(*map(f.lit, KEYS))).alias("place", "key"),
    )
    found = rows.select(
        "cluster",
        f.concat(f.lit("id-"), "cluster").alias("cluster_id"),
        f.concat(f.lit("user="), "name").alias("entity_key"),
        f.create_map(f.lit("user"), "name").alias("entity"),
        "key",
        (1024.0 * (1 + age)).alias("value"),
        f.lit(START + timedelta(days=number)).alias("read_at"),
    )
    return completed(found, QUOTAS)


def append_from(spark: SparkSession, source: Path, history: Path) -> None:
    """Append snapshots that are in Parquet."""
    append(lambda: ParquetHistory(spark, str(history)), spark.read.parquet(str(source)))


def measure(spark: SparkSession, folder: Path, values: int, snapshots: int, repetitions: int) -> dict[str, Any]:
    """Append all snapshots but the last, then measure the last one, in turn with writing it."""
    kept, source, copy, plain = (folder / name for name in ("kept", "source", "copy", "plain"))
    for number in range(snapshots):
        snapshot(spark, values, number).write.mode("overwrite").parquet(str(source))
        if number < snapshots - 1:
            append_from(spark, source, kept)
            print(f"appended {number + 1}", file=sys.stderr, flush=True)
    plains, appends = [], []
    for _ in range(repetitions + 1):  # the first one is a warm-up
        plains.append(cost_of(lambda: spark.read.parquet(str(source)).write.mode("overwrite").parquet(str(plain))))
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(kept, copy)
        appends.append(cost_of(lambda: append_from(spark, source, copy)))
    held = history_of(ParquetHistory(spark, str(copy)).readings()).where("valid_to IS NULL").count()
    if held != values:
        raise SystemExit(f"the history holds {held} values, not {values}")
    return {
        "plain": medians(plains[1:]),
        "append": medians(appends[1:])._replace(peak=peak(spark)),
    }


def main() -> None:
    """Read the command line, measure, and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--values", type=int, default=2_000_000)
    parser.add_argument("--snapshots", type=int, default=30)
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args()
    settings = {"spark.driver.memory": "2g", "spark.sql.shuffle.partitions": "4"}
    with spark_session(SessionOptions(master="local[2]", conf=settings, has_joins=True)) as spark:
        found = measure(spark, options.folder, options.values, options.snapshots, options.repetitions)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
