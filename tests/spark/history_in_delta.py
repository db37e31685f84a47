"""Keeps a history and usage in Delta Lake, in a process whose Spark session has it; prints what it saw as JSON."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from quotaform.fleet.options import SessionOptions
from quotaform.fleet.session import spark_session
from quotaform.history.spark import history_of
from quotaform.history.table import DeltaHistory, append, open_history
from quotaform.model.errors import HistoryError
from quotaform.usage.table.files import add_rows, with_date
from quotaform.usage.table.schema import PARTITIONS, USAGE
from quotaform.usage.table.table import read_usage
from tests.spark.shared_classes import CONF
from tests.spark.test_history_append import hour, quotas_of, require_same
from tests.spark.test_history_table import DOWN, FIRST, LATE, SECOND

SETTINGS = {
    "spark.jars.packages": "io.delta:delta-spark_4.2_2.13:4.4.0",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # Delta computes the state of a table in 50 tasks, however small it is.
    "spark.databricks.delta.snapshotPartitions": "1",
}


def main() -> None:
    """Append in every order, with another append in between, to a path and to a table of the catalog."""
    folder = Path(sys.argv[1])
    seen: dict[str, object] = {}
    settings = {**SETTINGS, **CONF, "spark.sql.warehouse.dir": str(folder / "warehouse")}
    with spark_session(SessionOptions(master="local[2]", conf=settings)) as spark:
        for location, rounds in (
            ("table:history", ([FIRST], [SECOND, DOWN])),
            (f"delta:{folder}/kept", ([FIRST],)),
        ):
            for taken in rounds:
                result, _ = append(partial(open_history, spark, location), quotas_of(spark, taken))
                seen[location.partition(":")[0]] = [each.status for each in result.snapshots]
        rows = history_of(open_history(spark, "table:history").readings())
        require_same(rows, [FIRST, SECOND], [hour(n) for n in range(-1, 4)])
        seen["usage"] = usage(spark)
        seen["slower"] = slower(f"delta:{folder}/kept", spark)
        spark.range(1).write.format("delta").save(str(folder / "foreign"))
        try:
            append(lambda: open_history(spark, f"delta:{folder}/foreign"), quotas_of(spark, [FIRST]))
        except HistoryError as error:
            seen["foreign"] = error.problem
    print(json.dumps(seen))


def usage(spark: SparkSession) -> list[object]:
    """Rows that are added to a table by day and cluster, which has one more column, and read again."""
    columns = "region string, ts timestamp, window_s double, broker string, key string, user string, client_id string"
    more = "ip string, rate double, throttle_ms double, instance string, date date, cluster string"
    spark.sql(f"CREATE TABLE used ({columns}, {more}) USING delta PARTITIONED BY (date, cluster)")
    row = [datetime(2026, 11, 1, 23, tzinfo=UTC), 11.5, "eu", "1", "producer_byte_rate", "alice", *[None] * 5]
    add_rows(with_date(spark.createDataFrame([row], USAGE)), "used", 1, prefix="usage", by=PARTITIONS)
    [found] = read_usage(spark, "used").toArrow().to_pylist()
    return [list(found.values()) == row, str(spark.table("used").toArrow().column("date")[0])]


def slower(location: str, spark: SparkSession) -> list[object]:
    """An append that another one overtakes after it has read the history."""
    others = [SECOND]

    class Overtaken(DeltaHistory):
        def add(self, rows: DataFrame) -> bool:
            if others:
                append(lambda: open_history(spark, location), quotas_of(spark, [others.pop()]))
            return super().add(rows)

    result, _ = append(lambda: Overtaken(spark, location), quotas_of(spark, [LATE]))
    require_same(
        history_of(open_history(spark, location).readings()), [FIRST, SECOND, LATE], [hour(n) for n in range(4)]
    )
    return [each.status for each in result.snapshots]


if __name__ == "__main__":
    main()
