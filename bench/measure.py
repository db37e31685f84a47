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
from dataclasses import dataclass, field
from pathlib import Path

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


@dataclass(slots=True)
class Measured:
    """The samples of one work."""

    walls: list[float] = field(default_factory=list)
    peaks: list[float] = field(default_factory=list)

    @property
    def wall(self) -> float:
        """The median wall time in seconds."""
        return statistics.median(self.walls)

    @property
    def peak(self) -> float:
        """The largest resident set in MB (10^6 bytes)."""
        return max(self.peaks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of the table: a work, what it is held against, and its goal.

    Attributes:
        work: What was done.
        wall: Seconds.
        peak: MB.
        against: What it is held against.
        floor: Its seconds.
        goal: How many times the floor's seconds it may take.
        wall_goal: How many seconds it may take, whatever the floor.
        peak_goal: How many MB it may take.
    """

    work: str
    wall: float
    peak: float
    against: str
    floor: float
    goal: float | None = None
    wall_goal: float | None = None
    peak_goal: float | None = None

    @property
    def ratio(self) -> float:
        """How many times the floor's time it took."""
        return self.wall / self.floor

    @property
    def passes(self) -> bool:
        """Whether all goals are met."""
        pairs = ((self.ratio, self.goal), (self.wall, self.wall_goal), (self.peak, self.peak_goal))
        return all(goal is None or value <= goal for value, goal in pairs)

    def cells(self) -> tuple[str, ...]:
        """Return the row as the table shows it."""
        goals = []
        if self.goal is not None:
            goals.append(f"≤ {self.goal:g}x")
        if self.wall_goal is not None:
            goals.append(f"≤ {self.wall_goal:g} s")
        if self.peak_goal is not None:
            goals.append(f"≤ {self.peak_goal:g} MB")
        return (
            self.work,
            ", ".join(goals) or "–",
            f"{self.ratio:.2f}x {self.against}",
            f"{self.wall:.3f}",
            f"{self.floor:.3f}",
            f"{self.peak:.0f}",
            "pass" if self.passes else "over",
        )


HEADINGS = ("work", "goal", "measured", "wall s", "the other s", "peak MB", "")


class Bench:
    """A directory to work in, and how to run things there."""

    def __init__(self, directory: Path, repetitions: int) -> None:
        self.directory = directory
        self.repetitions = repetitions
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_CI)}
        self.environment = kept | {"NO_COLOR": "1", "PYTHONDONTWRITEBYTECODE": ""}
        self.clusters: dict[str, str] = {}

    def run(self, command: Sequence[str], expect: str = "") -> tuple[float, float]:
        """Run a command to its end and return its seconds and its peak in MB.

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
        return wall, usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e6

    def measure(self, works: Sequence[Work], repetitions: int | None = None) -> dict[str, Measured]:
        """Run all works in turn, again and again; a first round warms the caches and is not counted."""
        measured = {work.name: Measured() for work in works}
        for repetition in range((repetitions or self.repetitions) + 1):
            for work in works:
                tell(f"{'warming up' if repetition == 0 else f'round {repetition}'}: {work.name}")
                wall, peak = self.run(work.command, work.expect)
                if work.afterwards:
                    work.afterwards()
                if repetition:
                    measured[work.name].walls.append(wall)
                    measured[work.name].peaks.append(peak)
        return measured

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
