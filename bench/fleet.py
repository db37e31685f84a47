#!/usr/bin/env python3
"""Measure planning on Spark against the local engine: whole processes, with the processor time of all they start.

    python bench/fleet.py                      # 100 clusters of 2,000 quotas, and a tenth of that
    python bench/fleet.py --clusters 1000      # 2 million entities: an hour on two cores

The clusters are snapshots; half of what a cluster declares is in common files. See bench/README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from shutil import rmtree
from statistics import median
from threading import Event, Thread

sys.path.insert(0, str(Path(__file__).parents[1]))  # as a script it finds the modules beside it only

from bench.measure import PYTHON, QUOTAFORM, tell

_EMPTY = (
    "from quotaform.fleet.session import spark_session\n"
    "from quotaform.fleet.options import SessionOptions\n"
    "with spark_session(SessionOptions(master='local[2]')) as spark:\n"
    "    print(spark.range(1000).selectExpr('sum(id)').collect()[0][0])\n"
)
"""A session with one query."""
_BLOCKED = 4


@dataclass(frozen=True, slots=True)
class Cost:
    """What a run took.

    Attributes:
        wall: Seconds from start to exit.
        cpu: Seconds of processor time, of the process and all that it started.
        peak: The largest resident set of the process itself, in MB (10^6 bytes).
        java: That of its Java process.
    """

    wall: float
    cpu: float
    peak: float
    java: float


def run(command: Sequence[str], folder: Path) -> Cost:
    """Run a command, and wait until nothing that it started is left."""
    start = time.perf_counter()
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True
        )
        over, seen = Event(), _Seen()
        watcher = Thread(target=_watch, args=(process.pid, over, seen))
        watcher.start()
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        over.set()
        watcher.join()
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in (0, _BLOCKED):
            errors.seek(0)
            raise SystemExit(f"{' '.join(command)} exited with {process.returncode}:\n{errors.read().decode()[-2000:]}")
    return Cost(wall, sum(seen.seconds.values()), usage.ru_maxrss * 1024 / 1e6, seen.java)


@dataclass(slots=True)
class _Seen:
    """What was seen of the processes of a run: the seconds of processor time of each, and the peak of Java in MB."""

    seconds: dict[int, float] = field(default_factory=dict)
    java: float = 0.0


def _watch(session: int, over: Event, seen: _Seen) -> None:
    """Look at the processes of a session until the run is over and they are gone.

    What a process took is asked while it runs: the workers of Spark's Python are killed by nobody who waits for them,
    so that no total of theirs comes from `wait4`.
    """
    while _look(session, seen) or not over.is_set():
        time.sleep(0.1)


def _look(session: int, seen: _Seen) -> bool:
    alive = False
    for place in Path("/proc").glob("[0-9]*"):
        try:
            name, _, rest = (place / "stat").read_text().rpartition(")")
            fields = rest.split()
            if int(fields[3]) != session or fields[0] == "Z":
                continue
            alive = True
            seen.seconds[int(place.name)] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            if name.endswith("(java"):
                lines = (place / "status").read_text().splitlines()
                peak = next((int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0)
                seen.java = max(seen.java, peak * 1024 / 1e6)
        except OSError:
            continue
    return alive


def generate(folder: Path, clusters: int, quotas: int) -> None:
    """Write a repository of clusters with so many entities each, and their snapshots: one of a hundred differs."""
    rmtree(folder, ignore_errors=True)
    (folder / "snapshots").mkdir(parents=True)
    (folder / "quotas.d").mkdir()
    names = [f"c{number:05}" for number in range(clusters)]
    common = [({"user": f"svc-{number:06}"}, number) for number in range(quotas // 2)]
    own = [({"user": f"own-{number:06}", "client-id": "app"}, number) for number in range(quotas - len(common))]
    _write_quotas(folder / "quotas.d" / "common.yaml", common)
    for place, name in enumerate(names):
        (folder / "quotas.d" / name).mkdir()
        _write_quotas(folder / "quotas.d" / name / "own.yaml", own)
        _write_snapshot(folder / "snapshots" / f"{name}.json", name, [*common, *own], Random(place))
    lines = [f"  {name}: {{snapshot: snapshots/{name}.json}}" for name in names]
    (folder / "quotaform.yaml").write_text("\n".join(["clusters:", *lines, ""]), encoding="utf-8")


_Entry = tuple[dict[str, str], int]


def _write_quotas(path: Path, entries: list[_Entry]) -> None:
    lines = ["quotas:"]
    for names, number in entries:
        match = ", ".join(f"{kind}: {name}" for kind, name in names.items())
        lines += [
            f"  - match: {{{match}}}",
            "    values:",
            f"      producer_byte_rate: {number % 50 + 1}KiB/s",
            f"      consumer_byte_rate: {number % 50 + 2}KiB/s",
        ]
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")


def _write_snapshot(path: Path, name: str, entries: list[_Entry], random: Random) -> None:
    from quotaform.cluster.gateway import dump_snapshot
    from quotaform.model.entity import Entity
    from quotaform.model.quotas import Snapshot

    quotas = {
        Entity.of(names.items()): {
            "producer_byte_rate": 1024.0 * (number % 50 + 1 + (random.random() < 0.01)),
            "consumer_byte_rate": 1024.0 * (number % 50 + 2),
        }
        for names, number in entries
    }
    taken = Snapshot(cluster_name=name, cluster_id=f"id-{name}", captured_at="2026-11-20T00:00:00Z", quotas=quotas)
    path.write_text(dump_snapshot(taken), encoding="utf-8")


def plan(engine: str) -> list[str]:
    """Return the command that plans all clusters and writes their plan files."""
    where = ["--engine", "local"] if engine == "local" else ["--master", "local[2]"]
    return [QUOTAFORM, "plan", "--all", *where, "--summary", "--out", f"plans-{engine}/{{cluster}}.json"]


def side_by_side(folder: Path, commands: dict[str, list[str]], rounds: int) -> dict[str, Cost]:
    """Run commands in turn, and return the medians."""
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    for number in range(rounds):
        for name, command in commands.items():
            costs[name].append(run(command, folder))
            tell(f"round {number + 1}: {name} {costs[name][-1]}")
    return {
        name: Cost(
            median(cost.wall for cost in each),
            median(cost.cpu for cost in each),
            max(cost.peak for cost in each),
            max(cost.java for cost in each),
        )
        for name, each in costs.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clusters", type=int, default=100, help="how many; a tenth of them is measured, too")
    parser.add_argument("--quotas", type=int, default=2_000, help="how many each has")
    parser.add_argument("--large-quotas", type=int, default=100_000, help="how many the one large cluster has")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    lines = ["| work | local wall s | Spark wall s | wall | local CPU s | Spark CPU s | CPU | driver MB | Java MB |"]
    lines.append("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory(prefix="quotaform-bench-") as name:
        folder = Path(name)
        sizes = ((1, 50), (options.clusters // 10, options.quotas), (options.clusters, options.quotas))
        for clusters, quotas in (*sizes, (1, options.large_quotas)):
            work = f"{clusters:,} x {quotas:,}"
            tell(work)
            # Not here: the peak of a process counts for the programs that it starts.
            generating = f"from bench.fleet import *; generate(Path({json.dumps(str(folder))}), {clusters}, {quotas})"
            subprocess.run([PYTHON, "-c", generating], check=True, cwd=Path(__file__).parents[1])
            commands = {engine: plan(engine) for engine in ("local", "spark")}
            if clusters == 1:
                commands["an empty session"] = [PYTHON, "-c", _EMPTY]
            found = side_by_side(folder, commands, options.rounds)
            local, spark = found["local"], found["spark"]
            lines.append(
                f"| {work} | {local.wall:.1f} | {spark.wall:.1f} | {spark.wall / local.wall:.2f}x | {local.cpu:.1f} | "
                f"{spark.cpu:.1f} | {spark.cpu / local.cpu:.2f}x | {spark.peak:.0f} | {spark.java:.0f} |"
            )
            if (empty := found.get("an empty session")) is not None:
                lines[-1] += f" (an empty session: {empty.wall:.1f} s, so {spark.wall / empty.wall:.2f}x)"
    print(f"{os.cpu_count()} cores, local[2], medians of {options.rounds} rounds.", "", *lines, sep="\n")


if __name__ == "__main__":
    main()
