"""On a standalone cluster and over Spark Connect, commands print and write what they print and write here.

The executors of the cluster are other processes, which have their own files and may be killed; over Spark Connect there
is no Java process here, and the server knows nothing of this machine.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pyarrow
import pyspark
import pytest
from pyarrow import parquet

from quotaform.cluster.kafka import KafkaGateway
from quotaform.model.entity import Entity
from quotaform.model.quotas import Quotas
from quotaform.sandbox import Sandbox
from tests.builder import CONSUMER, PRODUCER, REQUEST
from tests.spark.cluster import CONF
from tests.spark.files import write_snapshot
from tests.spark.log import messages, without_progress
from tests.spark.test_history_command import write_receipt
from tests.spark.test_history_command import write_snapshot as write_snapshot_of
from tests.spark.test_resolve_command import LIMIT, local_limits, resolving
from tests.waiting import once, wait_until
from tests.workflow.command import Cluster, Repository, Result, run_process

if TYPE_CHECKING:
    from tests.spark.cluster import Standalone
    from tests.spark.command_process import CommandProcess

pytestmark = [pytest.mark.workflow]

ALICE, BOB = Entity(user="alice"), Entity(user="bob")
ENV: Final = {"SOURCE_DATE_EPOCH": "1795000000"}
START: Final = 1_795_000_000
SPARK: Final = ("--engine", "spark")
ALLOWED: Final = ("--allow", "change-factor", "--allow", "default-entity", "--allow", "to-unlimited")
ANSWER: Final = {"partitions": "3", "sum": 20, "texts": ["seen"], "is_copied": True}


@pytest.fixture(params=["connect", "standalone"])
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


def write_table(path: Path, **columns: list[Any]) -> None:
    parquet.write_table(pyarrow.table(columns), path)


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """The rows of a table, in any order."""
    return sorted(parquet.read_table(folder).to_pylist(), key=repr)


def files_of(folder: Path, *patterns: str) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text(encoding="utf-8")
        for pattern in patterns
        for path in sorted(folder.glob(pattern))
    }


@pytest.mark.prove
def test_principals_are_resolved_as_in_one_process(tmp_path: Path, place: CommandProcess) -> None:
    repository = resolving(tmp_path)
    asked = ("resolve", "--cluster", "lab", "--from", "principals.csv")
    local = repository(*asked, "--format", "csv", env=ENV)
    printed = place.run(repository, *asked, "--format", "csv", *SPARK, env=ENV)
    assert (printed.code, printed.out, messages(printed)) == (0, local.out, local.err)
    written = place.run(repository, *asked, *SPARK, "--out", "parquet=resolved")
    assert (written.code, messages(written)) == (0, "")
    assert "Resolved 5 clients and 2 addresses: 24 rows in resolved" in written.out
    found = [tuple(row[name] for name in LIMIT) for row in rows_of(tmp_path / "resolved")]
    assert sorted(found, key=repr) == sorted((row for row, _ in local_limits(repository)), key=repr)


def inventory(folder: Path) -> Repository:
    """Three clusters with a list of principals in a table."""
    made = Repository(folder)
    made.config("clusters: {eu: {snapshot: eu.json}, us: {snapshot: us.json}, down: {snapshot: no.json}}\n")
    made.quotas("  - match: {user: [alice, <default>]}\n    values: {producer_byte_rate: 1MiB/s}\n")
    for name, held in (("eu", {ALICE: {PRODUCER: 5.0}, BOB: {REQUEST: 1.0}}), ("us", {ALICE: {PRODUCER: 9.0}})):
        write_snapshot(folder / f"{name}.json", held)
    write_table(folder / "clients.parquet", user=["alice", "bob", "carol", "bob"], client_id=["app", None, "", None])
    return made


CLUSTERS: Final = ("plan", "--all", *ALLOWED, *SPARK)
PLANS: Final = (
    (*CLUSTERS, "--out", "{cluster}-plan.json"),
    (
        *(*CLUSTERS, "--out", "markdown={cluster}.md", "--format", "json"),
        *("--principals", "clients.parquet", "--principals-out", "parquet=changed"),
    ),
)


Planned = tuple[list[Result], dict[str, str], list[dict[str, Any]]]


@pytest.fixture(scope="module")
def planned_here(tmp_path_factory: pytest.TempPathFactory, spark: object) -> Planned:
    """How plans end in a local session, and what they write."""
    repository = inventory(tmp_path_factory.mktemp("inventory"))
    return planned(repository, (repository(*words, env=ENV) for words in PLANS))


def plain(done: Iterator[Result]) -> list[Result]:
    """Return results without the lines that say what Spark begins, and where."""
    return [replace(each, err=without_progress(each.err)) for each in done]


def planned(repository: Repository, done: Iterator[Result]) -> Planned:
    return plain(done), files_of(repository.path, "*-plan.json", "*.md"), rows_of(repository.path / "changed")


@pytest.mark.parametrize("place", ["connect", pytest.param("standalone", marks=pytest.mark.prove)], indirect=True)
def test_plans_with_a_table_of_principals_are_those_of_a_local_session(
    tmp_path: Path, place: CommandProcess, planned_here: Planned
) -> None:
    repository = inventory(tmp_path)
    found = planned(repository, (place.run(repository, *words, env=ENV) for words in PLANS))
    assert found == planned_here
    _, files, rows = found
    assert sorted(files) == ["down.md", "eu-plan.json", "eu.md", "us-plan.json", "us.md"]
    assert rows


HISTORY: Final = ("--history", "kept")
COMMANDS: Final = (
    ("history", "append", "taken/lab-1.json", "taken/cut.json", *HISTORY, "--receipts", "receipts"),
    ("history", "append", "--all", *HISTORY, "--receipts", "receipts", "--format", "json"),
    ("history", "append", "taken/lab-*.json", *HISTORY, "--receipts", "receipts"),
    ("history", "show", "--entity", "user=alice", *HISTORY, "--format", "json", "--out", "parquet=rows"),
    ("history", "diff", "--at", "2026-11-01T12:00:00Z", "--at", "2026-11-03", *HISTORY),
    ("drift", "--all", "--against", "2026-11-01T12:00:00Z", *HISTORY, *SPARK),
)


def days(folder: Path) -> Repository:
    """Two days of a cluster, the first of them in a file."""
    made = Repository(folder)
    made.config("clusters:\n  lab: {snapshot: taken/lab-2.json}\n")
    held: tuple[Quotas, ...] = ({ALICE: {PRODUCER: 1048576.0, REQUEST: 50.0}}, {ALICE: {PRODUCER: 2097152.0}})
    for day, quotas in enumerate(held, 1):
        write_snapshot_of(folder / f"taken/lab-{day}.json", day, quotas)
    made.write("taken/cut.json", '{"kind": ')
    write_receipt(folder / "receipts", "2026-11-01T20:00:00Z")
    return made


def kept(repository: Repository, done: Iterator[Result]) -> tuple[list[Result], Any]:
    return plain(done), rows_of(repository.path / "rows")


@pytest.fixture(scope="module")
def kept_here(tmp_path_factory: pytest.TempPathFactory, spark: object) -> tuple[list[Result], Any]:
    """How the commands about a history end in a local session, and what they write."""
    repository = days(tmp_path_factory.mktemp("days"))
    return kept(repository, (repository(*command, env=ENV) for command in COMMANDS))


@pytest.mark.prove
def test_a_history_is_kept_and_asked_as_in_a_local_session(
    tmp_path: Path, place: CommandProcess, kept_here: tuple[list[Result], Any]
) -> None:
    repository = days(tmp_path)
    found = kept(repository, (place.run(repository, *command, env=ENV) for command in COMMANDS))
    assert found == kept_here
    assert [done.code for done in found[0]] == [3, 0, 0, 0, 0, 2]
    assert "by ana at 2026-11-01T20:00:00Z" in found[0][4].out


def recorded(folder: Path) -> Repository:
    """A repository with recordings, a snapshot of quotas, and a file that halves one."""
    made = Repository(folder)
    made.config("clusters: {lab: {snapshot: lab.json}}\n")
    write_snapshot(folder / "lab.json", {ALICE: {PRODUCER: 100.0}})
    made.write("quotas.d/a.yaml", "quotas: [{match: {user: alice}, values: {producer_byte_rate: 50}}]\n")
    labels = {"__name__": "kafka_server_produce_byte_rate", "user": "alice", "cluster": "lab", "instance": "1"}
    values = [[START + 10 * number, "60"] for number in range(100)]
    made.write("in/a.json", json.dumps([{"metric": labels, "values": values}]))
    made.write("in/cut.json", json.dumps([{"metric": labels, "values": values}])[:200])
    return made


@pytest.mark.prove
def test_recordings_are_ingested_measured_and_replayed(tmp_path: Path, place: CommandProcess) -> None:
    repository = recorded(tmp_path)

    def run(*arguments: str) -> Any:
        return place.run(repository, "usage", *arguments)

    done = run("ingest", "in", "--usage", "usage")
    assert (done.code, done.last) == (0, "Samples: 101 read = 100 written (100 rows) + 0 dropped + 1 quarantined."), (
        done.said
    )
    assert parquet.read_table(repository.path / "usage").num_rows == 100
    assert parquet.read_table(repository.path / "usage-quarantine").num_rows == 1
    headroom = run("headroom", "--usage", "usage", "--snapshot", "lab.json", "--format", "json")
    assert headroom.code == 0, headroom.said
    assert json.loads(headroom.out)["summary"]["below"] == 1
    backtest = run("backtest", "--usage", "usage", "--format", "json", "--out", "parquet=rows")
    assert backtest.code == 0, backtest.said
    [row] = json.loads(backtest.out)["clusters"][0]["changed"]["rows"]
    assert row["bucket"] == "user=alice"
    assert parquet.read_table(repository.path / "rows").num_rows >= 1
    recommended = run("recommend", "--usage", "usage", "--min-history", "1m", "--min-samples", "20")
    assert recommended.code == 0, recommended.said
    assert recommended.last.startswith("Recommended: ")
    for result in (done, headroom, backtest, recommended):
        assert "site-packages" not in result.err


class BrokerFleet:
    """Clusters `open`, `secured` and `paused`, in a folder that executors do not share: paths are absolute."""

    env: ClassVar[Mapping[str, str]] = {"SOURCE_DATE_EPOCH": "1795000000"}

    def __init__(self, folder: Path, open_one: Sandbox, secured: Sandbox, paused: Sandbox) -> None:
        self.repository = Repository(folder)
        self.paused = paused
        properties = self.repository.write("admin.properties", secured.client_properties("SASL_SSL"))
        self.repository.config(
            "clusters:\n"
            f"  open: {{bootstrap_servers: ['{open_one.bootstrap_servers}']}}\n"
            f"  secured: {{bootstrap_servers: ['{secured.listeners['SASL_SSL']}'], command_config: {properties}}}\n"
            f"  paused: {{bootstrap_servers: ['{paused.bootstrap_servers}']}}\n"
        )
        self.repository.quotas(
            "  - match: {user: [alice, <default>]}\n    values: {producer_byte_rate: 1MiB/s}\n"
            "  - match: {user: bob, client-id: etl}\n    values: {consumer_byte_rate: 2MiB/s}\n"
        )
        self.repository.quotas("  - match: {user: carol}\n    values: {request_percentage: 50}\n", "secured/more.yaml")
        for sandbox in (open_one, paused):
            with KafkaGateway.connect(sandbox.bootstrap_servers) as gateway:
                cluster = Cluster(gateway)
                cluster.wipe()
                cluster.alter(
                    {
                        Entity(user="alice"): {PRODUCER: 4096.0, REQUEST: 20.0},
                        Entity({"user": "bob", "client-id": "etl"}): {CONSUMER: 2097152.0},
                    }
                )

    def plan_by(self, process: CommandProcess, folder: str) -> Result:
        """Plan all clusters on Spark, where a process has it; plan files go to a folder."""
        return process.run(self.repository, *self.arguments(folder), "--engine", "spark", env=self.env)

    def arguments(self, folder: str) -> tuple[str, ...]:
        """Return the arguments of `quotaform` by which all clusters are planned."""
        return ("plan", "--all", "--out", f"{folder}/{{cluster}}.json", "--detailed-exitcode", *ALLOWED)

    def require_same(self, result: Result, folder: str) -> None:
        """Make sure that a run ended, and wrote, what the local engine does.

        Args:
            result: The run.
            folder: Where its plan files are.
        """
        local = self.require_same_files(folder)
        assert (result.code, result.out) == (local.code, local.out)
        assert messages(result).replace(f" {folder}/", " local/") == local.err
        assert local.code == 2

    def require_same_files(self, folder: str) -> Result:
        """Make sure that the plan files of a folder are what the local engine writes, and return how that ends."""
        local = self.repository(*self.arguments("local"), env=self.env)
        names = sorted(path.name for path in (self.repository.path / "local").iterdir())
        assert names == ["open.json", "paused.json", "secured.json"]
        for name in names:
            assert self.repository.read(f"{folder}/{name}") == self.repository.read(f"local/{name}")
        return local


@pytest.fixture
def broker_fleet(tmp_path: Path, sandbox: Sandbox, secured_sandbox: Sandbox, third_sandbox: Sandbox) -> BrokerFleet:
    """A repository of three brokers."""
    return BrokerFleet(tmp_path, sandbox, secured_sandbox, third_sandbox)


@pytest.mark.kafka
@pytest.mark.prove
def test_plans_are_those_of_the_local_engine(connect: CommandProcess, broker_fleet: BrokerFleet) -> None:
    broker_fleet.require_same(broker_fleet.plan_by(connect, "spark"), "spark")


@pytest.mark.kafka
@pytest.mark.prove
def test_an_executor_that_is_killed_changes_nothing_of_a_plan(
    standalone_cluster: Standalone, standalone: CommandProcess, broker_fleet: BrokerFleet
) -> None:
    # It sends a file that is gone before any executor has fetched it.
    assert standalone.ask().code == 0
    started = standalone_cluster.started_executors()

    def kill() -> None:
        try:
            standalone_cluster.kill_busy_executor()
        finally:
            broker_fleet.paused.resume(1)

    # One task waits for its broker, so that the job is not over when the executor is killed.
    broker_fleet.paused.pause(1)
    killing = once(lambda: True, kill)
    try:
        result = broker_fleet.plan_by(standalone, "spark")
    finally:
        killing.join()
    broker_fleet.require_same(result, "spark")
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
def test_spark_submit_chooses_the_master(standalone_cluster: Standalone, broker_fleet: BrokerFleet) -> None:
    started = standalone_cluster.started_executors()
    program = broker_fleet.repository.write("job.py", SUBMITTED)
    conf = {**CONF, "spark.cores.max": "1", "spark.log.level": "WARN"}
    settings = [text for name, value in conf.items() for text in ("--conf", f"{name}={value}")]
    submit = str(Path(pyspark.__file__).parent / "bin/spark-submit")
    result = run_process(
        *("--master", standalone_cluster.url, *settings),
        *(str(program), *broker_fleet.arguments("spark"), "--engine", "spark"),
        cwd=broker_fleet.repository.path,
        env={**broker_fleet.env, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        command=submit,
    )
    # Java says more than the command does.
    assert result.code == 2
    broker_fleet.require_same_files("spark")
    assert standalone_cluster.started_executors() - started == 1
