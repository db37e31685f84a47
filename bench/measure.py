"""What a measurement is made of: whole processes that run in turn, and the rows of a table."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from quotaform.sandbox import Sandbox

HERE = Path(__file__).parent
QUOTAFORM = str(Path(sys.executable).with_name("quotaform"))
PYTHON = sys.executable
ALLOWED = ("--allow", "update=1000000", "--allow", "default-entity")
"""What guards block in a plan of so many changes."""
_CI = ("CI", "GITHUB_", "GITLAB_")
"""How the names of variables begin from which a plan finds a base."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One command to measure.

    Attributes:
        name: What it is called in the table's rows.
        command: Program and arguments.
        expect: A text without which its output would mean that something else was measured.
        afterwards: Puts everything back to what it was; not measured.
    """

    name: str
    command: Sequence[str]
    expect: str = ""
    afterwards: Callable[[], None] | None = None


class Cost(NamedTuple):
    """What a work takes."""

    cpu: float
    """Seconds of processors, by the process and those that it waits for."""
    wall: float
    """Seconds from start to exit."""
    peak: float = 0.0
    """The largest resident set in MB (10^6 bytes)."""

    def without(self, rest: Cost) -> Cost:
        """Return what a part takes, given what the whole takes without it."""
        return Cost(max(0.0, self.cpu - rest.cpu), max(0.0, self.wall - rest.wall), self.peak)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of the table: a work, what it is held against, and its goal.

    Attributes:
        work: What was done.
        cost: What it took.
        against: What it is held against.
        floor: What that took.
        goal: How many times the floor's processor time it may take.
        cpu_goal: How many seconds of processors it may take, whatever the floor.
        peak_goal: How many MB it may take.
    """

    work: str
    cost: Cost
    against: str
    floor: Cost
    goal: float | None = None
    cpu_goal: float | None = None
    peak_goal: float | None = None

    @property
    def ratio(self) -> float:
        """How many times the floor's processor time it took."""
        return self.cost.cpu / self.floor.cpu

    @property
    def passes(self) -> bool:
        """Whether all goals are met."""
        pairs = ((self.ratio, self.goal), (self.cost.cpu, self.cpu_goal), (self.cost.peak, self.peak_goal))
        return all(goal is None or value <= goal for value, goal in pairs)

    def cells(self) -> tuple[str, ...]:
        """Return the row as the table shows it."""
        goals = []
        if self.goal is not None:
            goals.append(f"≤ {self.goal:g}x")
        if self.cpu_goal is not None:
            goals.append(f"≤ {self.cpu_goal:g} s")
        if self.peak_goal is not None:
            goals.append(f"≤ {self.peak_goal:g} MB")
        return (
            self.work,
            ", ".join(goals) or "–",
            f"{self.ratio:.2f}x {self.against}",
            f"{self.cost.cpu:.2f}",
            f"{self.floor.cpu:.2f}",
            f"{self.cost.wall:.2f}",
            f"{self.floor.wall:.2f}",
            f"{self.cost.peak:.0f}",
            "pass" if self.passes else "over",
        )


HEADINGS = ("work", "goal", "measured", "CPU s", "the other's", "wall s", "the other's", "peak MB", "")


class Bench:
    """A directory to work in, and how to run things there."""

    def __init__(self, directory: Path, repetitions: int) -> None:
        self.directory = directory
        self.repetitions = repetitions
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_CI)}
        self.environment = kept | {"NO_COLOR": "1", "PYTHONDONTWRITEBYTECODE": ""}
        self.clusters: dict[str, str] = {}

    def run(self, command: Sequence[str], expect: str = "") -> Cost:
        """Run a command to its end and return what it took.

        Linux counts the peak of the process that starts a program as the program's own, hence this process stays small:
        it leaves generating and loading to others.
        """
        with tempfile.TemporaryFile(dir=self.directory) as output, tempfile.TemporaryFile(dir=self.directory) as errors:
            start = time.perf_counter()
            process = subprocess.Popen(
                command,
                cwd=self.directory,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
            )
            _, status, usage = os.wait4(process.pid, 0)
            wall = time.perf_counter() - start
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode or not _contains(output.fileno(), expect):
                raise SystemExit(
                    f"{' '.join(command)} exited with {process.returncode}"
                    f"{f' and did not say {expect!r}' if expect else ''}:\n"
                    f"{_end(output.fileno())}\n{_end(errors.fileno())}"
                )
        peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e6
        return Cost(usage.ru_utime + usage.ru_stime, wall, peak)

    def measure(self, works: Sequence[Work], repetitions: int | None = None) -> dict[str, Cost]:
        """Run all works in turn, again and again, and return the medians; a first round is not counted."""
        costs: dict[str, list[Cost]] = {work.name: [] for work in works}
        for repetition in range((repetitions or self.repetitions) + 1):
            for work in works:
                tell(f"{'warming up' if repetition == 0 else f'round {repetition}'}: {work.name}")
                cost = self.run(work.command, work.expect)
                if work.afterwards:
                    work.afterwards()
                if repetition:
                    costs[work.name].append(cost)
        return {name: medians(each) for name, each in costs.items()}

    def generate(self, name: str, entities: int, *, drift_percent: int = 0) -> None:
        """Write a repository of quotas below the working directory."""
        drift = ("--drift-percent", str(drift_percent))
        self.run((PYTHON, str(HERE / "generate.py"), name, str(entities), *drift))

    def cluster(self, name: str, kafka: Sandbox) -> None:
        """Let quotaform.yaml know a cluster by a name."""
        self.clusters[name] = kafka.bootstrap_servers
        lines = [f"  {name}: {{bootstrap_servers: [{json.dumps(at)}]}}" for name, at in self.clusters.items()]
        (self.directory / "quotaform.yaml").write_text("\n".join(["clusters:", *lines, ""]), encoding="utf-8")

    def load(self, name: str, cluster: str) -> None:
        """Write the quotas of a repository into a cluster and wait until it shows them."""
        self.run(self.floor_write(name, cluster, "--settle", "--chunk", "4000"))

    def wipe(self, name: str, cluster: str) -> None:
        """Remove the quotas of a repository from a cluster and wait until it is empty."""
        self.run(self.floor_write(name, cluster, "--remove", "--chunk", "4000"))

    def floor_read(self, name: str, cluster: str) -> tuple[str, ...]:
        """Return the command of the read floor."""
        return PYTHON, str(HERE / "floor_read.py"), f"{name}/quotas.d", self.clusters[cluster]

    def floor_write(self, name: str, cluster: str, *options: str) -> tuple[str, ...]:
        """Return the command of the write floor."""
        return PYTHON, str(HERE / "floor_write.py"), f"{name}/quotas.json", self.clusters[cluster], *options

    def plan(self, name: str, cluster: str, *options: str) -> tuple[str, ...]:
        """Return the command of a plan."""
        where = ("--config", "quotaform.yaml", "--cluster", cluster)
        return QUOTAFORM, "plan", f"{name}/quotas.d", *where, *ALLOWED, *options


def medians(costs: Sequence[Cost]) -> Cost:
    """Return the medians of times, and the largest memory."""
    cpus, walls, peaks = zip(*costs, strict=True)
    return Cost(statistics.median(cpus), statistics.median(walls), max(peaks))


def _contains(file: int, text: str) -> bool:
    """Whether a file, read in pieces to stay small, has the text."""
    wanted, rest, position = text.encode(), b"", 0
    while piece := os.pread(file, 2**16, position):
        if wanted in rest + piece:
            return True
        rest, position = piece[-len(wanted) :], position + len(piece)
    return not wanted


def _end(file: int) -> str:
    size = os.fstat(file).st_size
    return os.pread(file, 2000, max(0, size - 2000)).decode(errors="replace")


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def table(rows: Sequence[Row]) -> str:
    """Return the rows as a Markdown table that also reads well as text."""
    cells = [HEADINGS, *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(HEADINGS))]
    lines = [
        "| " + " | ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)) + " |" for line in cells
    ]
    return "\n".join([lines[0], "| " + " | ".join("-" * max(3, width) for width in widths) + " |", *lines[1:]])


def caption(repetitions: int) -> str:
    """Return one line on what the numbers hang on."""
    return f"{os.cpu_count()} cores, Python {platform.python_version()}, medians of {repetitions} rounds."
