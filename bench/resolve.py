#!/usr/bin/env python3
"""Resolve pairs of users and client-ids on Spark, beside one broadcast join of the same pairs, in one session.

Both read the same Parquet and write nowhere (Spark's noop format), in turn, for growing numbers of pairs. The join
finds one value per pair by the user and writes a row per pair; resolving writes a row per pair and quota key.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # as a script it finds the modules beside it only

from bench.measure import PYTHON, Bench, Cost, Row, medians, tell
from bench.spark_work import cost_of, peak_of, processes
from quotaform.fleet.options import SessionOptions
from quotaform.model.quota_key import QUOTA_KEYS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

QUOTAS = 100_000
USERS, CLIENTS = 60_000, 5_000
SIZES = (10**5, 10**6, 10**7)
GOAL = 4.0
MOST_MEMORY = 4_000.0
MASTER = "local[2]"
SHARES = {
    ("user",): 0.6,
    ("user", "client-id"): 0.24,
    ("user", "client-id=<default>"): 0.1,
    ("user=<default>", "client-id"): 0.01,
    ("client-id",): 0.05,
}
"""What the quotas are of, as in `generate.py`; two further ones are defaults."""
KEYS = tuple(key for key in QUOTA_KEYS if "user" in QUOTA_KEYS[key].entity_types)


def resolve_pairs(bench: Bench) -> Iterator[Row]:
    """Yield a row per number of pairs: resolving against the join."""
    tell("Resolving on Spark")
    output = bench.directory / "resolve.json"
    rounds = ("--repetitions", str(bench.repetitions))
    bench.run((PYTHON, str(Path(__file__)), str(output), *rounds))
    for found in json.loads(output.read_text(encoding="utf-8")):
        yield Row(
            work=f"resolve {found['pairs']:,} pairs x {QUOTAS:,} quotas x {len(KEYS)} keys on {MASTER}",
            cost=Cost(*found["resolve"]),
            against="one broadcast join",
            floor=Cost(*found["join"]),
            goal=GOAL,
            peak_goal=MOST_MEMORY,
        )


def write_pairs(spark: SparkSession, pairs: int, path: str) -> None:
    """Write pairs of users and client-ids: names of which the quotas mention most."""
    number = "id"
    users, clients = _name("user", USERS, number, 1), _name("client-id", CLIENTS, number, 2)
    spark.range(pairs).select(users.alias("user"), clients.alias("client_id")).write.parquet(path)


def write_quotas(spark: SparkSession, path: str) -> None:
    """Write quotas of one cluster, all keys for each entity."""
    from pyspark.sql import functions as f

    tables = [
        spark.range(round(QUOTAS * share)).select(_entity(parts, place).alias("entity"))
        for place, (parts, share) in enumerate(
            {**SHARES, ("user=<default>",): 1e-5, ("client-id=<default>",): 1e-5}.items()
        )
    ]
    entities = tables[0]
    for table in tables[1:]:
        entities = entities.unionAll(table)
    named = f.transform(
        f.map_entries("entity"),
        lambda part: f.concat(part["key"], f.lit("="), f.coalesce(part["value"], f.lit("<default>"))),
    )
    (
        entities.withColumn("entity_key", f.array_join(named, ","))
        .dropDuplicates(["entity_key"])
        .select(
            f.lit("prod").alias("cluster"), "entity_key", "entity", f.explode(f.array(*map(f.lit, KEYS))).alias("key")
        )
        .withColumn("value", f.abs(f.hash("entity_key", "key")).cast("double"))
        .coalesce(1)
        .write.parquet(path)
    )


def _entity(parts: tuple[str, ...], seed: int) -> Column:
    from pyspark.sql import functions as f

    cells: list[Column] = []
    for part in parts:
        kind, default, _ = part.partition("=")
        size = USERS if kind == "user" else CLIENTS
        cells += [f.lit(kind), f.lit(None).cast("string") if default else _name(kind, size, "id", seed)]
    return f.create_map(*cells)


def _name(kind: str, size: int, number: str, seed: int) -> Column:
    from pyspark.sql import functions as f

    return f.format_string(f"{kind}-%05d", f.pmod(f.xxhash64(f.col(number), f.lit(seed)), f.lit(size)))


def join(pairs: DataFrame, quotas: DataFrame) -> DataFrame:
    """Return the pairs with the value of one key that their users have: one broadcast join."""
    from pyspark.sql import functions as f

    is_user = (f.size("entity") == 1) & f.col("entity")["user"].isNotNull() & (f.col("key") == KEYS[0])
    users = quotas.where(is_user).select(f.col("entity")["user"].alias("user"), "value", "entity_key")
    return pairs.join(f.broadcast(users), "user", "left")


def discard(work: Callable[[DataFrame, DataFrame], DataFrame], principals: DataFrame, quotas: DataFrame) -> None:
    """Compute all rows."""
    work(principals, quotas).write.format("noop").mode("overwrite").save()


def measure(spark: SparkSession, directory: str, pairs: int, repetitions: int) -> dict[str, Any]:
    """Return the medians of both works for a number of pairs."""
    from quotaform.resolve.spark import held_quotas, resolved

    quotas = spark.read.parquet(f"{directory}/quotas")
    principals = spark.read.parquet(f"{directory}/pairs-{pairs}")
    works: dict[str, Callable[[DataFrame, DataFrame], DataFrame]] = {
        "join": join,
        "resolve": lambda principals, quotas: resolved(principals, held_quotas(quotas)),
    }
    costs: dict[str, list[Cost]] = {name: [] for name in works}
    for repetition in range(repetitions + 1):
        for name, work in works.items():
            cost = cost_of(partial(discard, work, principals, quotas))
            note = "" if repetition else " (warming up)"
            tell(f"{name} of {pairs:,}: {cost.wall:.2f} s, {cost.cpu:.2f} s of processors{note}")
            if repetition:
                costs[name].append(cost)
    peak = sum(map(peak_of, processes())) / 1000
    return {"pairs": pairs, **{name: medians(each)._replace(peak=peak) for name, each in costs.items()}}


def main() -> None:
    """Make the data, measure, and write the numbers."""
    from quotaform.fleet.session import spark_session

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path, help="where the numbers are written as JSON")
    parser.add_argument("--repetitions", type=int, default=3, help="rounds that count (default: 3)")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="numbers of pairs")
    parser.add_argument("--conf", action="append", default=[], metavar="KEY=VALUE", help="setting of Spark")
    options = parser.parse_args()
    settings = dict(text.split("=", 1) for text in options.conf)
    with (
        tempfile.TemporaryDirectory(prefix="quotaform-bench-") as directory,
        spark_session(SessionOptions(master=MASTER, conf=settings, has_joins=True)) as spark,
    ):
        write_quotas(spark, f"{directory}/quotas")
        for pairs in options.sizes:
            write_pairs(spark, pairs, f"{directory}/pairs-{pairs}")
        found = [measure(spark, directory, pairs, options.repetitions) for pairs in options.sizes]
    options.output.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
