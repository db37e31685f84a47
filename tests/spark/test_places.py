"""What commands print and write on a standalone cluster and over Spark Connect is what they print and write here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow
import pytest
from pyarrow import parquet

from quotaform.model.entity import Entity
from quotaform.model.quotas import Quotas
from tests.builder import PRODUCER, REQUEST
from tests.spark.log import messages, without_progress
from tests.spark.test_history_command import write_receipt
from tests.spark.test_history_command import write_snapshot as write_snapshot_of
from tests.spark.test_plan import write_snapshot
from tests.spark.test_resolve_command import LIMIT, PRINCIPALS, local_limits
from tests.workflow.command import Repository, Result

if TYPE_CHECKING:
    from pathlib import Path

    from tests.spark.command_process import CommandProcess

pytestmark = [pytest.mark.workflow]

ALICE, BOB, APP = Entity(user="alice"), Entity(user="bob"), Entity(client_id="app")
ENV: Final = {"SOURCE_DATE_EPOCH": "1795000000"}
SPARK: Final = ("--engine", "spark")
ALLOWED: Final = ("--allow", "change-factor", "--allow", "default-entity", "--allow", "to-unlimited")


@pytest.fixture(params=["standalone", pytest.param("connect", marks=pytest.mark.prove)])
def place(request: pytest.FixtureRequest) -> Any:
    """What runs commands on a standalone cluster, or over Spark Connect."""
    return request.getfixturevalue(request.param)


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


def resolving(folder: Path) -> Repository:
    """A cluster with quotas, and principals who ask for theirs."""
    made = Repository(folder)
    made.config("clusters:\n  lab: {snapshot: lab.json}\n")
    quotas = {
        ALICE: {PRODUCER: 5.0, "future_rate": 2.0},
        Entity(user=None): {REQUEST: 1.0},
        APP: {REQUEST: 2.0, PRODUCER: 2.0**63},
        Entity(ip="::ffff:10.0.0.1"): {"connection_creation_rate": 7.0},
    }
    write_snapshot(folder / "lab.json", quotas)
    made.write("principals.csv", PRINCIPALS)
    return made


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


def test_a_history_is_kept_and_asked_as_in_a_local_session(
    tmp_path: Path, place: CommandProcess, kept_here: tuple[list[Result], Any]
) -> None:
    repository = days(tmp_path)
    found = kept(repository, (place.run(repository, *command, env=ENV) for command in COMMANDS))
    assert found == kept_here
    assert [done.code for done in found[0]] == [3, 0, 0, 0, 0, 2]
    assert "by ana at 2026-11-01T20:00:00Z" in found[0][4].out
