"""What work of a Spark session costs: seconds, bytes that are shuffled, and the memory of the JVM."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def measured(spark: SparkSession, work: Callable[[], object]) -> dict[str, Any]:
    """Return the seconds that something takes, and the bytes that it shuffles."""
    before = shuffled(spark)
    start = time.perf_counter()
    work()
    return {"seconds": round(time.perf_counter() - start, 1), "shuffled": shuffled(spark) - before}


def shuffled(spark: SparkSession) -> int:
    """Return how many bytes all stages have written for shuffles so far."""
    gateway: Any = spark.sparkContext._gateway
    nothing = gateway.jvm.java.util.ArrayList()
    store = spark.sparkContext._jsc.sc().statusStore()
    stages: Any = store.stageList(None, False, False, gateway.new_array(gateway.jvm.double, 0), nothing)
    return sum(int(stages.apply(place).shuffleWriteBytes()) for place in range(stages.size()))


def peak(spark: SparkSession) -> float:
    """Return the largest resident set of the JVM, in MB."""
    process = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]
    status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    [line] = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return round(int(line.split()[1]) / 1024, 1)
