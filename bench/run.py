#!/usr/bin/env python3
"""Measure quotaform against its floors and print one table.

Every number is a whole process from start to exit, on a real broker of the sandbox. What is compared runs interleaved,
in the same run; times are medians, ratios those of processor time, memory is the largest resident set (`os.wait4`). See
bench/README.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # as a script it finds the modules beside it only

from bench.guarded import checks, comment, fmt, plan_with_base, watch
from bench.measure import HERE, PYTHON, QUOTAFORM, Bench, Cost, Row, Work, caption, table, tell
from bench.resolve import resolve_pairs
from quotaform.sandbox import Sandbox

CLIENT_QUOTAS = str(Path(sys.executable).with_name("kafka-client-quotas"))
LARGE = 10
SHOWN = 5
"""How many times the entities a plan has that is shown."""
CLUSTERS = 20
"""How many clusters one plan is made of, each a broker of its own."""
MB_PER_THOUSAND = 4.0
"""The memory that a thousand entities of a plan may take."""
PAIRS = 100_000
"""As many as `admin.py` makes."""
PAIRS_PER_SECOND = 200_000
"""What a process is to resolve at least."""


def start_up(bench: Bench) -> Iterator[Row]:
    """Measure what every command costs before it does anything."""
    tell("Starting up")
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
            cost=found,
            against=floor,
            floor=measured[floor],
            cpu_goal=0.15,
        )


def direct(bench: Bench) -> Iterator[Row]:
    """Measure `kafka-client-quotas` beside Kafka's own script, both reading all users of a small cluster."""
    tell("Direct commands")
    bench.generate("small", 50)
    with Sandbox() as kafka:
        bench.cluster("direct", kafka)
        bench.load("small", "direct")
        where = ("--bootstrap-server", kafka.bootstrap_servers, "--describe")
        # As bin/kafka-configs.sh and bin/kafka-run-class.sh of Apache Kafka 4 start it.
        java = (
            *(str(kafka.runtime.java.command), "-Xmx256M", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
            *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true"),
            *(f"-Dlog4j2.configurationFile={kafka.data_dir / 'log4j2.properties'}", "-cp"),
            ":".join(map(str, kafka.runtime.jars)),
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
        cost=found,
        against="kafka-configs --describe",
        floor=measured["kafka-configs"],
        goal=0.25,
    )


def plans(bench: Bench, entities: int) -> Iterator[Row]:
    """Measure plans of few and many changes; one broker holds everything, the other nothing."""
    tell(f"Plans of {entities:,} entities")
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
    floor, no_op = measured["floor"], measured["no-op"]
    sized = f"{entities:,} entities"
    for name, work, against, held, goal, peak in (
        (
            "no-op",
            f"plan without changes, {sized}",
            "the read floor",
            floor,
            0.6,
            80.0 if entities <= 10_000 else None,
        ),
        ("drift", f"plan with 1 % drift, {sized}", "the no-op plan", no_op, 1.1, None),
        ("creates", f"plan of {entities:,} creates as text and JSON", "the no-op plan", no_op, 1.4, None),
    ):
        found = measured[name]
        yield Row(work=work, cost=found, against=against, floor=held, goal=goal, peak_goal=peak)


def large_plan(bench: Bench, entities: int) -> Iterator[Row]:
    """Measure whether ten times the entities take ten times as long; `plans` has written the smaller repository."""
    many = entities * LARGE
    tell(f"Plans of {many:,} entities")
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
        cost=found,
        against=f"{entities:,} entities",
        floor=measured["small"],
        goal=10.0,
        peak_goal=350.0,
    )
    yield Row(work=work, cost=found, against="the read floor", floor=measured["floor"])


def large_creates(bench: Bench, entities: int) -> Iterator[Row]:
    """Measure the memory of a plan that creates very many entities, and of showing it; `large_plan` wrote the files."""
    many = entities * LARGE
    tell(f"Plans of {many:,} creates")
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
        yield Row(
            work=work,
            cost=measured[name],
            against=f"the plan of {entities:,} creates",
            floor=measured["small"],
            peak_goal=many / 1_000 * MB_PER_THOUSAND,
        )


def show(bench: Bench, entities: int) -> Iterator[Row]:
    """Measure showing a plan of very many creates, against Python's decoder of JSON alone."""
    tell(f"Show of {entities:,} creates")
    bench.generate("shown", entities)
    with Sandbox() as empty:
        bench.cluster("shown", empty)
        bench.run(bench.plan("shown", "shown", "--out", "shown.json"))
    loads = "import json; print(len(json.load(open('shown.json'))['changes']), 'changes')"
    measured = bench.measure(
        [
            Work(name="loads", command=(PYTHON, "-c", loads), expect=f"{entities} changes"),
            Work(name="show", command=(QUOTAFORM, "show", "shown.json"), expect=f"Plan: {entities} to add"),
        ],
        repetitions=min(bench.repetitions, 3),
    )
    yield Row(
        work=f"show of {entities:,} creates",
        cost=measured["show"],
        against="json.loads of the file",
        floor=measured["loads"],
        goal=1.0,
    )


def fleet(bench: Bench, entities: int) -> Iterator[Row]:
    """Measure one plan of many clusters against one cluster that holds as many entities as all of them."""
    tell(f"Plans of {CLUSTERS} clusters of {entities:,} entities")
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
        cost=found,
        against=f"one cluster of {entities * CLUSTERS:,}",
        floor=measured["one"],
        goal=1.3,
    )


def apply(
    bench: Bench, name: str, entities: int, *, goal: float, repetitions: int, peak_goal: float | None = None
) -> Iterator[Row]:
    """Measure a saved plan from empty, against sending the same alterations; the broker is emptied after each."""
    tell(f"Apply of {entities:,} entities")
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
        cost=found,
        against="the write floor",
        floor=measured["floor"],
        goal=goal,
        peak_goal=peak_goal,
    )


def resolve(bench: Bench, entities: int) -> Iterator[Row]:
    """Measure resolving many pairs of users and client-ids, without what reading and making them takes."""
    tell("Resolving")
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
        cost=found.without(measured["load"]),
        against=f"the time at {PAIRS_PER_SECOND:,} pairs/s",
        floor=Cost(PAIRS / PAIRS_PER_SECOND, PAIRS / PAIRS_PER_SECOND),
        goal=1.0,
    )


def describe(bench: Bench, name: str, entities: int) -> Iterator[Row]:
    """Measure reading everything through the API, against kafka-python's bare decoding of the same answer."""
    tell(f"Describe of {entities:,} entities")
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
        cost=found,
        against="kafka-python's bare decode",
        floor=measured["decode"],
        goal=1.3,
    )


def history(bench: Bench, values: int) -> Iterator[Row]:
    """Measure appending the 30th snapshot of a fleet to a history, without starting Spark."""
    tell(f"History of {values:,} values")
    with tempfile.TemporaryDirectory(dir=bench.directory) as folder:
        command = (PYTHON, str(HERE / "history.py"), folder, "--values", str(values))
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=bench.environment)
    found = json.loads(done.stdout)
    yield Row(
        work=f"history append: the 30th snapshot, of {values:,} values",
        cost=Cost(*found["append"]),
        against="the same as plain Parquet",
        floor=Cost(*found["plain"]),
        goal=3.0,
        peak_goal=3000.0,
    )


def usage(bench: Bench, days: float) -> Iterator[Row]:
    """Measure headroom and the backtest of minute samples of 1,000 buckets, without starting Spark."""
    tell(f"Usage of {days:g} days")
    with tempfile.TemporaryDirectory(dir=bench.directory) as folder:
        command = (PYTHON, str(HERE / "usage.py"), folder, "--days", str(days))
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=bench.environment)
    found = json.loads(done.stdout)
    floors = {
        ("headroom", "group_by"): "a group-by of the same rows",
        ("headroom", "percentiles"): "a group-by with percentiles",
        ("backtest", "sort"): "a sort of the same rows by bucket and time",
    }
    for (work, floor), against in floors.items():
        yield Row(
            work=f"usage {work}: {found['rows']:,} rows of 1,000 buckets",
            cost=Cost(found[work]["processors"], found[work]["seconds"], found["peak_mb"]),
            against=against,
            floor=Cost(found[floor]["processors"], found[floor]["seconds"]),
            goal=2.0,
        )


def main() -> None:
    """Read the command line, measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entities", type=int, default=10_000, help="how many (default: 10000)")
    parser.add_argument("--large", action="store_true", help=f"also {LARGE} times as many (minutes, some GB of memory)")
    parser.add_argument("--repetitions", type=int, default=5, help="rounds that count (default: 5)")
    parser.add_argument(
        "--only",
        choices=("start", "plan", "guarded", "fleet", "apply", "direct", "resolve", "history", "usage"),
        help="only these rows; history and usage are measured only if named",
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
            rows += resolve_pairs(bench)
        if options.only in (None, "plan"):
            rows += plans(bench, options.entities)
            if options.large:
                rows += large_plan(bench, options.entities)
                rows += large_creates(bench, options.entities)
            rows += show(bench, options.entities * SHOWN)
        if options.only in (None, "guarded"):
            rows += plan_with_base(bench, options.entities)
            rows += checks(bench, options.entities)
            rows += comment(bench, options.entities)
            rows += watch(bench, options.entities)
            rows += fmt(bench, options.entities)
        if options.only in (None, "fleet"):
            rows += fleet(bench, options.entities // 10)
        if options.only in (None, "apply"):
            bench.generate("base", options.entities)
            rows += apply(bench, "base", options.entities, goal=1.35, repetitions=writes)
            if options.large:
                many = options.entities * LARGE
                bench.generate("large", many)
                rows += apply(bench, "large", many, goal=1.35, repetitions=1, peak_goal=400.0)
        if options.only == "history":
            rows += history(bench, 200_000)
            rows += history(bench, 2_000_000)
        if options.only == "usage":
            rows += usage(bench, 3.0)
            rows += usage(bench, 30.0)
    print(caption(options.repetitions), "", table(rows), sep="\n")
    if options.json:
        shown = [asdict(row) | {"ratio": row.ratio, "passes": row.passes} for row in rows]
        options.json.write_text(json.dumps(shown, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
