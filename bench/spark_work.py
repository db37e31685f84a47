"""What work of a Spark session costs: seconds, bytes that are shuffled, and the memory of the JVM."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.measure import Cost

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def measured(spark: SparkSession, work: Callable[[], object]) -> dict[str, Any]:
    """Return the seconds that something takes, also those of processors, and the bytes that it shuffles."""
    before = shuffled(spark)
    cost = cost_of(work)
    return {
        "seconds": round(cost.wall, 1),
        "processors": round(cost.cpu, 1),
        "shuffled": shuffled(spark) - before,
    }


def cost_of(work: Callable[[], object]) -> Cost:
    """Return what something takes of this process, Java and Python workers, without its memory."""
    start, begun = time.perf_counter(), processor_seconds()
    work()
    return Cost(processor_seconds() - begun, time.perf_counter() - start)


def processes() -> list[int]:
    """Return this process, the Java process of Spark, and its Python workers."""
    listed = subprocess.run(["ps", "-e", "-o", "pid=,ppid="], capture_output=True, text=True, check=True)
    pairs = (line.split() for line in listed.stdout.splitlines())
    parents = {int(pid): int(parent) for pid, parent in pairs}
    found = [os.getpid()]
    for pid in found:
        found += [each for each, parent in parents.items() if parent == pid and Path(f"/proc/{each}/stat").exists()]
    return found


def processor_seconds() -> float:
    """Return the processor time of all processes of the session, and of those that have ended."""
    ticks = 0
    for pid in processes():
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def peak_of(pid: int) -> int:
    """Return the largest resident set of a process in kB."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), 0)


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
    return round(peak_of(process) / 1024, 1)
