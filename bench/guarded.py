"""The work around pull requests: plans with a base, checks, comments, watching, formatting."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from re import sub
from socket import socket

from bench.measure import HERE, PYTHON, QUOTAFORM, Bench, Cost, Row, Work, tell
from quotaform.sandbox import Sandbox

ROUNDS = 11
"""How many rounds of watching are held against one."""
FMT_SECONDS = 10.0
"""What formatting 10,000 entries may take."""
PACK = HERE.parent / "examples" / "policies"


def plan_with_base(bench: Bench, entities: int) -> Iterator[Row]:
    """Measure a plan of files of which 1 % changed since the base."""
    tell("Plans with a base")
    bench.generate("base", entities)
    repository = bench.directory / "base"
    commit = ("-c", "user.name=bench", "-c", "user.email=bench@example.org", "commit", "-q", "-m", "base")
    for arguments in (("init", "-q"), ("add", "."), commit):
        subprocess.run(["git", *arguments], cwd=repository, check=True)
    bench.generate("base", entities, drift_percent=1)
    drift = f"Plan: 0 to add, {entities // 100} to change, 0 to destroy."
    with Sandbox() as kafka:
        bench.cluster("based", kafka)
        bench.generate("held", entities)
        bench.load("held", "based")
        found = bench.measure(
            [
                Work(name="plan", command=bench.plan("base", "based", "--no-base"), expect=drift),
                Work(name="base", command=bench.plan("base", "based", "--base", "HEAD"), expect=drift),
            ]
        )
    yield _row(f"plan --base of {entities:,} entities, 1 % changed", found["base"], "plan", found["plan"], 1.5)


def checks(bench: Bench, entities: int) -> Iterator[Row]:
    """Measure guards, lints and the example policies: a plan with them, without the time of one without them."""
    tell("Checks")
    bench.generate("drift", entities, drift_percent=1)
    bench.generate("held", entities)
    with Sandbox() as kafka:
        config = (
            f"clusters: {{checked: {{bootstrap_servers: [{kafka.bootstrap_servers!r}], capacity: "
            "{producer_byte_rate: 100GiB/s, consumer_byte_rate: 100GiB/s}}}\n"
        )
        policies = f"policies: [{', '.join(f'policies/{path.name}' for path in sorted(PACK.glob('*.json')))}]\n"
        for name, text in (("checked.yaml", config + policies), ("unchecked.yaml", config)):
            (bench.directory / name).write_text(text, encoding="utf-8")
        (bench.directory / "policies").mkdir(exist_ok=True)
        for path in PACK.glob("*.json"):
            # Higher caps, and one more default: every quota of the bench satisfies them.
            text = sub(r'"maximum": [0-9]+', f'"maximum": {10**15}', path.read_text(encoding="utf-8"))
            text = text.replace('["user=<default>"]', '["user=<default>", "client-id=<default>"]')
            (bench.directory / "policies" / path.name).write_text(text, encoding="utf-8")
        bench.cluster("checked", kafka)
        bench.load("held", "checked")
        drift = f"Plan: 0 to add, {entities // 100} to change, 0 to destroy."
        arguments = ("plan", "drift/quotas.d", "--allow", "update=1000000", "--config")
        script = (PYTHON, str(HERE / "in_process.py"), "unchecked", *arguments, "unchecked.yaml")
        found = bench.measure(
            [
                Work(name="checked", command=(QUOTAFORM, *arguments, "checked.yaml"), expect=drift),
                Work(name="unchecked", command=script, expect=drift),
            ]
        )
    whole, work = found["checked"], f"guards, lints and policies on {entities:,} entities"
    yield _row(work, whole.without(found["unchecked"]), "the plan", whole, 0.15)


def comment(bench: Bench, entities: int) -> Iterator[Row]:
    """Measure the Markdown of a plan of creates: a plan that writes it, without the time of one that does not."""
    tell("Markdown")
    bench.generate("held", entities)
    with Sandbox() as kafka:
        bench.cluster("commented", kafka)
        creates = f"Plan: {entities} to add, 0 to change, 0 to destroy."
        plan = bench.plan("held", "commented")
        found = bench.measure(
            [
                Work(name="plan", command=plan, expect=creates),
                Work(name="markdown", command=(*plan, "--out", "markdown=plan.md"), expect=creates),
            ]
        )
    cost = found["markdown"].without(found["plan"])
    yield _row(f"Markdown of {entities:,} changes", cost, "the plan", found["plan"], 0.2)


def watch(bench: Bench, entities: int) -> Iterator[Row]:
    """Measure a round of `drift --watch` in which nothing changed, and whether memory grows with the rounds."""
    tell("Watching")
    bench.generate("held", entities)
    with Sandbox() as kafka:
        bench.cluster("watched", kafka)
        bench.load("held", "watched")
        where = ("drift", "held/quotas.d", "--config", "quotaform.yaml", "--cluster", "watched")
        script = (PYTHON, str(HERE / "in_process.py"), "rounds")
        with socket() as free:
            free.bind(("127.0.0.1", 0))
            listen = f"127.0.0.1:{free.getsockname()[1]}"
        found = bench.measure(
            [
                Work(name="plan", command=bench.plan("held", "watched"), expect="No changes."),
                *(
                    Work(
                        name=str(rounds),
                        command=(*script, str(rounds), *where, "--watch", "1h", "--listen", listen),
                        expect=f"{rounds} rounds, 1 in sync",
                    )
                    for rounds in (1, ROUNDS)
                ),
            ]
        )
    one, many = found["1"], found[str(ROUNDS)]
    more = many.without(one)
    yield Row(
        work=f"drift --watch, a round of {entities:,} entities in sync",
        cost=Cost(more.cpu / (ROUNDS - 1), more.wall / (ROUNDS - 1), many.peak),
        against="plan",
        floor=found["plan"],
        goal=0.5,
        peak_goal=round(one.peak * 1.1),
    )


def fmt(bench: Bench, entities: int) -> Iterator[Row]:
    """Measure formatting files that are not formatted, and whether ten times as many take ten times as long."""
    tell("Formatting")
    sizes = {"few": entities // 10, "many": entities}

    def restore() -> None:
        for name, count in sizes.items():
            bench.generate(name, count)

    restore()
    found = bench.measure(
        [
            Work(
                name=name,
                command=(QUOTAFORM, "fmt", f"{name}/quotas.d"),
                expect=f"{name}/quotas.d/{_last(bench.directory / name / 'quotas.d')}",
                afterwards=restore,
            )
            for name in sizes
        ]
    )
    yield Row(
        work=f"fmt of {entities:,} entries in {entities // 50:,} files",
        cost=found["many"],
        against=f"fmt of {entities // 10:,}",
        floor=found["few"],
        goal=10.0,
        cpu_goal=FMT_SECONDS * max(1.0, entities / 10_000),
    )


def _last(folder: Path) -> str:
    return max(path.name for path in folder.iterdir())


def _row(work: str, cost: Cost, against: str, other: Cost, goal: float) -> Row:
    return Row(work=work, cost=cost, against=against, floor=other, goal=goal)
