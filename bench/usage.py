#!/usr/bin/env python3
"""Measure `usage headroom` and `usage backtest` against plain queries of the same rows, in one Spark session.

Prints JSON: the rows, the seconds, those of processors and the bytes shuffled of each, and the largest resident set of
the JVM. There are samples of 1,000 buckets, each minute; every bucket is over its limit now and then.

| floor | content |
| --- | --- |
| group_by | a group-by of the series: the rows, the first and the last time, the least, the mean and the highest rate |
| percentiles | the same with the three percentiles of headroom, by `percentile_approx` |
| sort | a sort by series and time |
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f

sys.path.insert(0, str(Path(__file__).parents[1]))  # as a script it finds the modules beside it only

from bench.spark_work import measured, peak
from quotaform.fleet.data_source import quota_rows
from quotaform.fleet.options import SessionOptions
from quotaform.fleet.session import spark_session
from quotaform.fleet.table import make_table, read_table
from quotaform.model.entity import Entity
from quotaform.model.records.record import ClusterRecord
from quotaform.plan.plan import Plan, PlanHeader, PlanSource
from quotaform.resolve.spark import QUOTAS
from quotaform.usage.headroom.run import measured_headroom
from quotaform.usage.replay.run import backtested
from quotaform.usage.table.schema import SERIES, USAGE
from quotaform.usage.table.table import as_quotas, read_usage

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

BUCKETS = 1000
KEY = "producer_byte_rate"
LIMIT = 1e6
START = 1_760_000_000


def generate(spark: SparkSession, rows: int, path: Path) -> None:
    """Write usage, in the order of time, as it is recorded."""
    number = f.col("id") % BUCKETS
    usage = spark.range(0, rows, 1, 16).select(
        f.timestamp_seconds(f.lit(START) + (f.col("id") / BUCKETS).cast("long") * 60).alias("ts"),
        f.lit(10.5).alias("window_s"),
        f.lit("prod").alias("cluster"),
        (number % 3).cast("string").alias("broker"),
        f.lit(KEY).alias("key"),
        f.format_string("svc-%04d", number).alias("user"),
        *(f.lit(None).cast("string").alias(name) for name in ("client_id", "ip", "instance")),
        (LIMIT * (0.2 + f.pow(f.rand(1), 6) * 1.4)).alias("rate"),
        f.when(f.rand(2) < 0.02, f.rand(3) * 800).alias("throttle_ms"),
    )
    usage.select(*USAGE.names).write.parquet(str(path))


def write_quotas(spark: SparkSession, path: Path) -> None:
    """Write the quotas of the cluster: one for all users, one for each tenth, and one that nobody uses."""
    held = {
        Entity(user=name): {KEY: LIMIT} for name in (None, "nobody", *(f"svc-{n:04}" for n in range(0, BUCKETS, 10)))
    }
    make_table(spark, QUOTAS, quota_rows("prod", "id", held)).write.parquet(str(path))


def plan() -> Plan:
    """Return a plan that changes nothing: all buckets are replayed in any case."""
    header = PlanHeader(
        cluster=ClusterRecord(name="prod", id="id"), created_at="", source=PlanSource(directory="quotas.d")
    )
    return Plan(header=header, changes=(), actual={Entity(user=None): {KEY: LIMIT}})


def discard(rows: DataFrame) -> None:
    """Compute all rows."""
    rows.write.format("noop").mode("overwrite").save()


def main() -> None:
    """Read the command line, measure, and print the numbers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the usage is generated, unless it is there")
    parser.add_argument("--days", type=float, default=3.0, help="of 1.44 million rows each (default: 3)")
    parser.add_argument("--only", action="append", help="what to measure, in this order (default: all)")
    parser.add_argument("--rounds", type=int, default=1, help="in turn, of which the last is told (default: 1)")
    parser.add_argument("--memory", default="2g", help="of the driver (default: 2g)")
    options = parser.parse_args()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    rows = int(options.days * 1440) * BUCKETS
    path, quotas = options.folder / f"usage-{rows}", options.folder / "quotas"
    conf = {"spark.driver.memory": options.memory, "spark.local.dir": str(options.folder)}
    found: dict[str, Any] = {"rows": rows}
    with spark_session(SessionOptions(master="local[2]", conf=conf, has_joins=True)) as spark:
        if not path.exists():
            generate(spark, rows, path)
        if not quotas.exists():
            write_quotas(spark, quotas)
        usage = read_usage(spark, str(path))
        discard(usage)
        values = (f.count("*"), f.min("ts"), f.max("ts"), f.min("rate"), f.avg("rate"), f.max("rate"))
        ranks = f.percentile_approx("rate", [0.5, 0.95, 0.99], 10_000)

        def headroom() -> None:
            held = as_quotas(str(quotas), read_table(spark, str(quotas)))
            with measured_headroom(spark, str(path), held, print) as (result, _, _):
                found["buckets"], found["samples"] = result.summary.total, result.samples

        def backtest() -> None:
            with backtested(spark, str(path), [plan()], 20) as (result, table, _):
                discard(table)
            found["throttled"] = result.clusters[0].unchanged.throttled

        works: dict[str, Callable[[], None]] = {
            "group_by": lambda: discard(usage.groupBy(*SERIES).agg(*values)),
            "headroom": headroom,
            "percentiles": lambda: discard(usage.groupBy(*SERIES).agg(*values, ranks)),
            "sort": lambda: discard(usage.repartition(*SERIES).sortWithinPartitions(*SERIES, "ts")),
            "backtest": backtest,
        }
        for name in (options.only or [*works]) * options.rounds:
            found[name] = measured(spark, works[name])
        found["peak_mb"] = peak(spark)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
