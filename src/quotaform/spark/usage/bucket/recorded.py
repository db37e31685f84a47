"""What was recorded: the series of a table of usage, and how much there is of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from quotaform.spark.usage.schemas import RECORDED, SERIES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def recorded(usage: DataFrame) -> DataFrame:
    """Return `schemas.RECORDED`."""
    found = usage.groupBy(*SERIES).agg(
        f.min("ts").alias("first"), f.max("ts").alias("last"), f.count("*").alias("samples")
    )
    return found.select(*RECORDED.names)


def recorded_size(series: DataFrame) -> tuple[int, int]:
    """Return how many series there are, and how many samples of them.

    Args:
        series: `recorded`, persisted.
    """
    [row] = series.agg(f.count("*").alias("series"), f.sum("samples").alias("samples")).toArrow().to_pylist()
    return row["series"], row["samples"] or 0
