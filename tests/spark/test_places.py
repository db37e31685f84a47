"""On a standalone cluster and over Spark Connect, commands print and write what they print and write here.

The executors of the cluster are other processes, which have their own files and may be killed; over Spark Connect there
is no Java process here, and the server knows nothing of this machine.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import pyarrow
import pyspark
import pytest
from pyarrow import parquet

from quotaform.model.entity import Entity
from quotaform.model.quotas import Quotas
from tests.builder import PRODUCER, REQUEST
from tests.faulty_sandbox import FaultySandbox
from tests.spark.cluster import CONF, Standalone
from tests.spark.command_process import CommandProcess, without_progress
from tests.spark.files import write_receipt, write_snapshot
from tests.waiting import once, wait_until
from tests.workflow.command import Repository, Result, run_process

pytestmark = [pytest.mark.workflow]

ALICE, BOB = Entity(user="alice"), Entity(user="bob")
ENV: Final = {"SOURCE_DATE_EPOCH": "1795000000"}
SPARK: Final = ("--engine", "spark")
ALLOWED: Final = ("--allow", "change-factor", "--allow", "default-entity", "--allow", "to-unlimited")
ANSWER: Final = {"partitions": "3", "sum": 20, "texts": ["seen"], "is_copied": True}


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Any:
    """What runs commands on a standalone cluster, or over Spark Connect."""
    return request.getfixturevalue(request.param)


def test_a_session_computes_on_the_executors_and_ships_files_to_them(
    standalone_cluster: Standalone, standalone: CommandProcess
) -> None:
    answer = standalone.ask()
    assert (answer.code, answer.err) == (0, "")
    assert json.loads(answer.out) == {**ANSWER, "is_connect": False, "master": standalone_cluster.url}


def test_a_session_computes_on_the_server_and_ships_files_to_it(connect_url: str, connect: CommandProcess) -> None:
    answer = connect.ask(remote=connect_url, conf={"spark.sql.shuffle.partitions": "3"})
    assert (answer.code, answer.err) == (0, "")
    assert json.loads(answer.out) == {**ANSWER, "is_connect": True, "master": "local[2]"}


def test_a_setting_of_the_server_is_refused(connect_url: str, connect: CommandProcess) -> None:
    done = connect.ask(env={"SPARK_REMOTE": connect_url}, conf={"spark.executor.memory": "1g"})
    assert (done.code, done.out) == (1, "")
    assert done.err == (
        "The Spark Connect server does not change spark.executor.memory for a session; set it where the server is "
        "started, or leave --spark-conf out.\n"
    )


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """The rows of a table, in any order, without what differs from run to run."""
    names = {"ingested_at", "source", "file"}
    rows = parquet.read_table(folder).to_pylist()
    return sorted(({name: cell for name, cell in row.items() if name not in names} for row in rows), key=repr)


def work(folder: Path) -> Repository:
    """Clusters with a table and a list of principals, two days of one of them, and recordings of its usage."""
    made = Repository(folder)
    made.config(
        "clusters:\n  eu: {snapshot: eu.json}\n  us: {snapshot: us.json}\n  down: {snapshot: no.json}\n"
        "  lab: {snapshot: taken/lab-2.json}\n"
    )
    made.quotas("  - match: {user: [alice, <default>]}\n    values: {producer_byte_rate: 1MiB/s}\n")
    for name, held in (("eu", {ALICE: {PRODUCER: 5.0}, BOB: {REQUEST: 1.0}}), ("us", {ALICE: {PRODUCER: 9.0}})):
        write_snapshot(folder / f"{name}.json", held, name, f"id-{name}")
    people = {"user": ["alice", "bob", "carol", "bob"], "client_id": ["app", None, "", None]}
    parquet.write_table(pyarrow.table(people), folder / "clients.parquet")
    made.write("clients.csv", 'user,client_id,ip\nalice,app,\nbob,"""""",\n,,10.0.0.1\n')
    days: tuple[Quotas, ...] = ({ALICE: {PRODUCER: 1048576.0, REQUEST: 50.0}}, {ALICE: {PRODUCER: 2097152.0}})
    for day, quotas in enumerate(days, 1):
        write_snapshot(folder / f"taken/lab-{day}.json", quotas, "lab", "id-lab", f"2026-11-{day:02}T09:00:00Z")
    made.write("taken/cut.json", '{"kind": ')
    write_receipt(folder / "receipts", "2026-11-01T20:00:00Z")
    labels = {"__name__": "kafka_server_produce_byte_rate", "user": "alice", "cluster": "eu", "instance": "1"}
    values = [[1_795_000_000 + 10 * number, "60"] for number in range(100)]
    made.write("in/a.json", json.dumps([{"metric": labels, "values": values}]))
    made.write("in/cut.json", json.dumps([{"metric": labels, "values": values}])[:200])
    return made


CLUSTERS: Final = ("plan", "--cluster", "*[us]", "--cluster", "down", *ALLOWED, *SPARK)
PLANS: Final = (
    (*CLUSTERS, "--out", "{cluster}-plan.json"),
    (
        *(*CLUSTERS, "--out", "markdown={cluster}.md", "--format", "json"),
        *("--principals", "clients.parquet", "--principals-out", "parquet=changed"),
    ),
)
HISTORY: Final = ("--history", "kept")
USAGE: Final = ("--usage", "usage", "--format", "json")
OTHERS: Final = (
    ("resolve", "--cluster", "eu", "--from", "clients.csv", "--format", "csv", *SPARK),
    ("resolve", "--cluster", "eu", "--from", "clients.csv", "--out", "parquet=resolved", *SPARK),
    ("history", "append", "taken/lab-1.json", "taken/cut.json", *HISTORY, "--receipts", "receipts"),
    ("history", "append", "--cluster", "lab", *HISTORY, "--receipts", "receipts", "--format", "json"),
    ("history", "append", "taken/lab-*.json", *HISTORY, "--receipts", "receipts"),
    ("history", "show", "user=alice", *HISTORY, "--format", "json", "--out", "parquet=shown"),
    ("history", "diff", "--at", "2026-11-01T12:00:00Z", "--at", "2026-11-03", *HISTORY),
    ("drift", "--cluster", "lab", "--against", "2026-11-01T12:00:00Z", *HISTORY, *SPARK),
    ("usage", "ingest", "in", "--usage", "usage"),
    ("usage", "headroom", "--cluster", "eu", *USAGE),
    ("usage", "backtest", "--cluster", "eu", *USAGE, "--out", "parquet=tested"),
    ("usage", "recommend", "--cluster", "eu", *USAGE, "--min-history", "1m", "--min-samples", "20"),
)
TABLES: Final = ("changed", "resolved", "shown", "usage", "usage-quarantine", "tested")
Found = tuple[list[Result], dict[str, Any]]


def found(repository: Repository, done: Iterator[Result]) -> Found:
    """How commands end, without the lines that say what Spark begins, and where; and what they write."""
    results = [replace(each, err=without_progress(each.err)) for each in done]
    files = [path for pattern in ("*-plan.json", "*.md") for path in sorted(repository.path.glob(pattern))]
    written: dict[str, Any] = {path.name: path.read_text(encoding="utf-8") for path in files}
    return results, written | {
        name: rows_of(repository.path / name) for name in TABLES if (repository.path / name).exists()
    }


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory, spark: object) -> Callable[[Any], Found]:
    """Returns how commands end in a local session, and what they write."""

    @cache
    def run(commands: tuple[tuple[str, ...], ...]) -> Found:
        repository = work(tmp_path_factory.mktemp("here"))
        return found(repository, (repository(*words, env=ENV) for words in commands))

    return run


@pytest.mark.parametrize(
    ("place", "commands", "codes"),
    [
        ("connect", PLANS, [3, 3]),
        pytest.param("standalone", PLANS, [3, 3], marks=pytest.mark.prove),
        pytest.param("connect", OTHERS, [0, 0, 3, *[0] * 4, 2, *[0] * 4], marks=pytest.mark.prove),
        pytest.param("standalone", OTHERS, [0, 0, 3, *[0] * 4, 2, *[0] * 4], marks=pytest.mark.prove),
    ],
    indirect=["place"],
)
def test_commands_end_and_write_as_in_a_local_session(
    tmp_path: Path, place: CommandProcess, commands: Any, codes: list[int], here: Callable[[Any], Found]
) -> None:
    repository = work(tmp_path)
    results, written = found(repository, (place.run(repository, *words, env=ENV) for words in commands))
    assert (results, written) == here(commands)
    assert [done.code for done in results] == codes
    assert all(written.values())
    if commands is PLANS:
        assert sorted(written) == ["changed", "down.md", "eu-plan.json", "eu.md", "us-plan.json", "us.md"]


@pytest.fixture
def paused(tmp_path: Path, third_sandbox: FaultySandbox) -> Repository:
    """A broker that may be paused, and a snapshot; the local engine has planned both."""
    repository = Repository(tmp_path)
    write_snapshot(tmp_path / "lab.json", {ALICE: {PRODUCER: 5.0}})
    address = third_sandbox.bootstrap_servers
    repository.config(f"clusters: {{paused: {{bootstrap_servers: ['{address}']}}, lab: {{snapshot: lab.json}}}}\n")
    repository.quotas("  - match: {user: [alice, <default>]}\n    values: {producer_byte_rate: 1MiB/s}\n")
    assert repository(*planning("local"), env=ENV).code == 2
    return repository


def planning(folder: str) -> tuple[str, ...]:
    return ("plan", "--all", "--out", f"{folder}/{{cluster}}.json", "--detailed-exitcode", *ALLOWED)


def require_same_files(repository: Repository, folder: str) -> None:
    """Make sure that the plan files of a folder are those of the local engine."""
    for name in ("paused.json", "lab.json"):
        assert repository.read(f"{folder}/{name}") == repository.read(f"local/{name}")


@pytest.mark.kafka
@pytest.mark.prove
def test_an_executor_that_is_killed_changes_nothing_of_a_plan(
    standalone_cluster: Standalone, standalone: CommandProcess, paused: Repository, third_sandbox: FaultySandbox
) -> None:
    # It sends a file that is gone before any executor has fetched it.
    assert standalone.ask().code == 0
    started = standalone_cluster.started_executors()

    def kill() -> None:
        try:
            standalone_cluster.kill_busy_executor()
        finally:
            third_sandbox.resume(1)

    # One task waits for its broker, so that the job is not over when the executor is killed.
    third_sandbox.pause(1)
    killing = once(lambda: True, kill)
    try:
        result = standalone.run(paused, *planning("spark"), *SPARK, env=ENV)
    finally:
        killing.join()
    assert result.code == 2, result.said
    require_same_files(paused, "spark")
    # Another one takes its place. It fetched what had been sent before, which was gone, and failed every task.
    wait_until(lambda: standalone_cluster.started_executors() > started)
    later = standalone.ask()
    assert later.code == 0, later.err


SUBMITTED = """\
from quotaform.cli.main import main

main()
"""


@pytest.mark.kafka
@pytest.mark.prove
def test_spark_submit_chooses_the_master(standalone_cluster: Standalone, paused: Repository) -> None:
    started = standalone_cluster.started_executors()
    program = paused.write("job.py", SUBMITTED)
    conf = {**CONF, "spark.cores.max": "1", "spark.log.level": "WARN"}
    settings = [text for name, value in conf.items() for text in ("--conf", f"{name}={value}")]
    result = run_process(
        *("--master", standalone_cluster.url, *settings, str(program), *planning("spark"), *SPARK),
        cwd=paused.path,
        env={**ENV, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        command=str(Path(pyspark.__file__).parent / "bin/spark-submit"),
    )
    # Java says more than the command does.
    assert result.code == 2
    require_same_files(paused, "spark")
    assert standalone_cluster.started_executors() - started == 1
