#!/usr/bin/env python3
"""Measure quotaform against its floors and print one table.

Every number is a whole process from start to exit, on a real broker of the sandbox. What is compared runs interleaved,
in the same run; times are medians, memory is the largest resident set (`os.wait4`). See bench/README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path

from quotaform.sandbox import Sandbox

HERE = Path(__file__).parent
QUOTAFORM = str(Path(sys.executable).with_name("quotaform"))
CLIENT_QUOTAS = str(Path(sys.executable).with_name("kafka-client-quotas"))
PYTHON = sys.executable
LARGE = 10
CLUSTERS = 20
"""How many clusters one plan is made of, each a broker of its own."""
MB_PER_THOUSAND = 5.0
"""The memory that a thousand entities of a plan may take."""
PAIRS = 100_000
"""As many as `admin.py` makes."""
PAIRS_PER_SECOND = 200_000
"""What a process is to resolve at least."""


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
        self.environment = os.environ | {"NO_COLOR": "1", "PYTHONDONTWRITEBYTECODE": ""}
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
                _tell(f"{'warming up' if repetition == 0 else f'round {repetition}'}: {work.name}")
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
        return QUOTAFORM, "plan", f"{name}/quotas.d", *where, *options


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


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def start_up(bench: Bench) -> Iterator[Row]:
    """Measure what every command costs before it does anything."""
    _tell("Starting up")
    floor = "python -c pass"
    commands = {option: (QUOTAFORM, option) for option in ("--version", "--help")}
    measured = bench.measure(
        [
            Work(name=floor, command=(PYTHON, "-c", "pass")),
            *(Work(name=option, command=command) for option, command in commands.items()),
        ],
        repetitions=max(bench.repetitions, 10),
    )
    for option in commands:
        found = measured[option]
        yield Row(
            work=f"quotaform {option}",
            wall=found.wall,
            peak=found.peak,
            against=floor,
            floor=measured[floor].wall,
            wall_goal=0.15,
        )


def direct(bench: Bench) -> Iterator[Row]:
    """Measure `kafka-client-quotas` beside Kafka's own script, both reading all users of a small cluster."""
    _tell("Direct commands")
    bench.generate("small", 50)
    with Sandbox() as kafka:
        bench.cluster("direct", kafka)
        bench.load("small", "direct")
        where = ("--bootstrap-server", kafka.bootstrap_servers, "--describe")
        # As bin/kafka-configs.sh and bin/kafka-run-class.sh of Apache Kafka 4 start it.
        java = (
            *(str(kafka.java), "-Xmx256M", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
            *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true"),
            *(f"-Dlog4j2.configurationFile={kafka.data_dir / 'log4j2.properties'}", "-cp", kafka.classpath),
        )
        configs = (*java, "kafka.admin.ConfigCommand", *where, "--entity-type", "users")
        measured = bench.measure(
            [
                Work(name="kafka-configs", command=configs, expect="Quota configs for user-principal"),
                Work(name="ours", command=(CLIENT_QUOTAS, *where), expect="{user="),
            ]
        )
    found = measured["ours"]
    yield Row(
        work="kafka-client-quotas --describe, 50 entities",
        wall=found.wall,
        peak=found.peak,
        against="kafka-configs --describe",
        floor=measured["kafka-configs"].wall,
        goal=0.25,
    )


def plans(bench: Bench, entities: int) -> Iterator[Row]:
    """Measure plans of few and many changes; one broker holds everything, the other nothing."""
    _tell(f"Plans of {entities:,} entities")
    bench.generate("base", entities)
    bench.generate("drift", entities, drift_percent=1)
    with Sandbox() as full, Sandbox() as empty:
        bench.cluster("full", full)
        bench.cluster("empty", empty)
        bench.load("base", "full")
        drift = f"Plan: 0 to add, {entities // 100} to change, 0 to destroy."
        creates = f"Plan: {entities} to add, 0 to change, 0 to destroy."
        measured = bench.measure(
            [
                Work(name="floor", command=bench.floor_read("base", "full"), expect="different 0"),
                Work(name="no-op", command=bench.plan("base", "full"), expect="No changes."),
                Work(name="drift", command=bench.plan("drift", "full"), expect=drift),
                Work(name="creates", command=bench.plan("base", "empty", "--out", "json=creates.json"), expect=creates),
            ]
        )
    floor, no_op = measured["floor"].wall, measured["no-op"].wall
    sized = f"{entities:,} entities"
    for name, work, against, held, goal, peak in (
        (
            "no-op",
            f"plan without changes, {sized}",
            "the read floor",
            floor,
            0.75,
            80.0 if entities <= 10_000 else None,
        ),
        ("drift", f"plan with 1 % drift, {sized}", "the no-op plan", no_op, 1.1, None),
        ("creates", f"plan of {entities:,} creates as text and JSON", "the no-op plan", no_op, 1.6, None),
    ):
        found = measured[name]
        yield Row(work=work, wall=found.wall, peak=found.peak, against=against, floor=held, goal=goal, peak_goal=peak)


def large_plan(bench: Bench, entities: int) -> Iterator[Row]:
    """Measure whether ten times the entities take ten times as long; `plans` has written the smaller repository."""
    many = entities * LARGE
    _tell(f"Plans of {many:,} entities")
    bench.generate("large", many)
    with Sandbox() as small, Sandbox() as large:
        bench.cluster("small", small)
        bench.cluster("large", large)
        bench.load("base", "small")
        bench.load("large", "large")
        measured = bench.measure(
            [
                Work(name="floor", command=bench.floor_read("large", "large"), expect="different 0"),
                Work(name="small", command=bench.plan("base", "small"), expect="No changes."),
                Work(name="large", command=bench.plan("large", "large"), expect="No changes."),
            ],
            repetitions=min(bench.repetitions, 3),
        )
    work, found = f"plan without changes, {many:,} entities", measured["large"]
    yield Row(
        work=work,
        wall=found.wall,
        peak=found.peak,
        against=f"{entities:,} entities",
        floor=measured["small"].wall,
        goal=10.0,
        peak_goal=350.0,
    )
    yield Row(work=work, wall=found.wall, peak=found.peak, against="the read floor", floor=measured["floor"].wall)


def large_creates(bench: Bench, entities: int) -> Iterator[Row]:
    """Measure the memory of a plan that creates very many entities, and of showing it; `large_plan` wrote the files."""
    many = entities * LARGE
    _tell(f"Plans of {many:,} creates")
    with Sandbox() as empty:
        bench.cluster("nothing", empty)
        creates = f"Plan: {many} to add, 0 to change, 0 to destroy."
        measured = bench.measure(
            [
                Work(name="small", command=bench.plan("base", "nothing", "--out", "small.json"), expect="to add"),
                Work(name="plan", command=bench.plan("large", "nothing", "--out", "many.json"), expect=creates),
                Work(name="show", command=(QUOTAFORM, "show", "many.json"), expect=creates),
            ],
            repetitions=1,
        )
    for name, work in (("plan", f"plan of {many:,} creates with its plan file"), ("show", f"show of {many:,} creates")):
        found = measured[name]
        yield Row(
            work=work,
            wall=found.wall,
            peak=found.peak,
            against=f"the plan of {entities:,} creates",
            floor=measured["small"].wall,
            peak_goal=many / 1_000 * MB_PER_THOUSAND,
        )


def fleet(bench: Bench, entities: int) -> Iterator[Row]:
    """Measure one plan of many clusters against one cluster that holds as many entities as all of them."""
    _tell(f"Plans of {CLUSTERS} clusters of {entities:,} entities")
    names = [f"c{number:02d}" for number in range(CLUSTERS)]
    bench.generate("each", entities)
    bench.generate("whole", entities * CLUSTERS)
    with ExitStack() as stack:
        for name in ("one", *names):
            bench.cluster(name, stack.enter_context(Sandbox()))
        bench.load("whole", "one")
        for name in names:
            bench.load("each", name)
        every = (QUOTAFORM, "plan", "each/quotas.d", "--config", "quotaform.yaml", "--cluster", "c[0-9]*")
        measured = bench.measure(
            [
                Work(name="one", command=bench.plan("whole", "one"), expect="No changes."),
                Work(name="all", command=every, expect=f"{CLUSTERS} clusters: 0 with changes."),
            ]
        )
    found = measured["all"]
    yield Row(
        work=f"plan of {CLUSTERS} clusters of {entities:,} entities",
        wall=found.wall,
        peak=found.peak,
        against=f"one cluster of {entities * CLUSTERS:,}",
        floor=measured["one"].wall,
        goal=1.3,
    )


def apply(
    bench: Bench, name: str, entities: int, *, goal: float, repetitions: int, peak_goal: float | None = None
) -> Iterator[Row]:
    """Measure a saved plan from empty, against sending the same alterations; the broker is emptied after each."""
    _tell(f"Apply of {entities:,} entities")
    with Sandbox() as kafka:
        bench.cluster("target", kafka)
        bench.run(bench.plan(name, "target", "--out", "json=target.json"))

        def wipe() -> None:
            bench.wipe(name, "target")

        complete = f"Apply complete! Resources: {entities} added, 0 changed, 0 destroyed."
        command = (QUOTAFORM, "apply", "target.json", "--config", "quotaform.yaml")
        measured = bench.measure(
            [
                Work(name="floor", command=bench.floor_write(name, "target"), afterwards=wipe),
                Work(name="apply", command=command, expect=complete, afterwards=wipe),
            ],
            repetitions=repetitions,
        )
    found = measured["apply"]
    yield Row(
        work=f"apply of a saved plan from empty, {entities:,} entities",
        wall=found.wall,
        peak=found.peak,
        against="the write floor",
        floor=measured["floor"].wall,
        goal=goal,
        peak_goal=peak_goal,
    )


def resolve(bench: Bench, entities: int) -> Iterator[Row]:
    """Measure resolving many pairs of users and client-ids, without what reading and making them takes."""
    _tell("Resolving")
    bench.generate("base", entities)
    script = (PYTHON, str(HERE / "admin.py"))
    measured = bench.measure(
        [
            Work(name="load", command=(*script, "load", "base/quotas.json"), expect="pairs"),
            Work(name="resolve", command=(*script, "resolve", "base/quotas.json"), expect="limited"),
        ]
    )
    found = measured["resolve"]
    yield Row(
        work=f"resolve_all of {PAIRS:,} pairs against {entities:,} quotas",
        wall=found.wall - measured["load"].wall,
        peak=found.peak,
        against=f"the time at {PAIRS_PER_SECOND:,} pairs/s",
        floor=PAIRS / PAIRS_PER_SECOND,
        goal=1.0,
    )


def describe(bench: Bench, name: str, entities: int) -> Iterator[Row]:
    """Measure reading everything through the API, against kafka-python's bare decoding of the same answer."""
    _tell(f"Describe of {entities:,} entities")
    script = (PYTHON, str(HERE / "admin.py"))
    with Sandbox() as kafka:
        bench.cluster("described", kafka)
        bench.load(name, "described")
        measured = bench.measure(
            [
                Work(name=work, command=(*script, work, kafka.bootstrap_servers), expect=f"{entities} entities")
                for work in ("decode", "describe")
            ]
        )
    found = measured["describe"]
    yield Row(
        work=f"QuotaAdmin.describe of {entities:,} entities",
        wall=found.wall,
        peak=found.peak,
        against="kafka-python's bare decode",
        floor=measured["decode"].wall,
        goal=1.3,
    )


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


def main() -> None:
    """Read the command line, measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entities", type=int, default=10_000, help="how many (default: 10000)")
    parser.add_argument("--large", action="store_true", help=f"also {LARGE} times as many (minutes, some GB of memory)")
    parser.add_argument("--repetitions", type=int, default=5, help="rounds that count (default: 5)")
    parser.add_argument(
        "--only", choices=("start", "plan", "fleet", "apply", "direct", "resolve"), help="only these rows"
    )
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write the rows as JSON")
    options = parser.parse_args()
    rows: list[Row] = []
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="quotaform-bench-")))
        bench = Bench(directory, options.repetitions)
        writes = min(options.repetitions, 3)
        if options.only in (None, "start"):
            rows += start_up(bench)
        if options.only in (None, "direct"):
            rows += direct(bench)
        if options.only in (None, "resolve"):
            rows += resolve(bench, options.entities)
            many = options.entities * (LARGE if options.large else 1)
            bench.generate("described", many)
            rows += describe(bench, "described", many)
        if options.only in (None, "plan"):
            rows += plans(bench, options.entities)
            if options.large:
                rows += large_plan(bench, options.entities)
                rows += large_creates(bench, options.entities)
        if options.only in (None, "fleet"):
            rows += fleet(bench, options.entities // 10)
        if options.only in (None, "apply"):
            bench.generate("base", options.entities)
            rows += apply(bench, "base", options.entities, goal=1.4, repetitions=writes)
            if options.large:
                many = options.entities * LARGE
                bench.generate("large", many)
                rows += apply(bench, "large", many, goal=1.6, repetitions=1, peak_goal=400.0)
    print(caption(options.repetitions), "", table(rows), sep="\n")
    if options.json:
        shown = [asdict(row) | {"ratio": row.ratio, "passes": row.passes} for row in rows]
        options.json.write_text(json.dumps(shown, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
