"""`quotaform resolve --engine spark`: the same answers as in one process, printed or as a table."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from io import StringIO
from typing import TYPE_CHECKING, Any, Final

import pytest

from quotaform.model.entity import Entity
from quotaform.model.quotas import Quotas
from tests.builder import PRODUCER, REQUEST
from tests.spark.files import write_snapshot
from tests.spark.log import messages
from tests.workflow.command import Repository

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.workflow, pytest.mark.usefixtures("spark")]

PRINCIPALS = 'user,client_id,ip\nalice,app,\nbob,,\nbob,"""""",\n,app,\n,,10.0.0.1\n,,::FFFF:10.0.0.1\nalice,app,\n'
SPELLED: Final = {'""': "", "": None, '"::FFFF:10.0.0.1"': "::FFFF:10.0.0.1"}
LIMIT: Final = ("user", "client_id", "ip", "key", "value", "source", "level", "entity_key", "bucket")
WAS: Final = ("before_value", "before_source", "before_entity_key")
Row = tuple[Any, ...]
ALICE, APP, ADDRESS = Entity(user="alice"), Entity(client_id="app"), Entity(ip="::ffff:10.0.0.1")
CONNECTIONS: Final = "connection_creation_rate"
ALLOWED = ("--allow", "change-factor", "--allow", "default-entity", "--allow", "to-unlimited", "--allow", "delete=9")


def resolving(folder: Path) -> Repository:
    """A cluster with quotas, one that is down, and principals who ask for theirs."""
    made = Repository(folder)
    made.config("clusters:\n  lab: {snapshot: lab.json}\n  down: {bootstrap_servers: ['127.0.0.1:1']}\n")
    made.quotas("  - match: {user: [alice, <default>]}\n    values: {producer_byte_rate: 1MiB/s}\n")
    quotas = {
        ALICE: {PRODUCER: 5.0, "future_rate": 2.0},
        Entity(user=None): {REQUEST: 1.0},
        APP: {REQUEST: 2.0, PRODUCER: 2.0**63},
        ADDRESS: {CONNECTIONS: 7.0},
    }
    write_snapshot(folder / "lab.json", quotas)
    made.write("principals.csv", PRINCIPALS)
    lines = '{"user": "bob", "client_id": ""}\n{"ip": "10.0.0.1"}\n{"client-id": "app"}\n{"user": "alice"}\n'
    made.write("principals.jsonl", lines)
    return made


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return resolving(tmp_path)


def local_limits(repository: Repository, *options: str) -> Iterator[tuple[Row, Row]]:
    """Yield what one process finds: `LIMIT` and `WAS` of each row."""
    done = repository("resolve", "--cluster", "lab", "--from", "principals.csv", "--format", "csv", *options)
    assert done.code == 0
    for row in csv.DictReader(StringIO(done.out)):
        names = [SPELLED.get(row[name], row[name]) for name in ("user", "client_id", "ip")]
        limit = number(row["value"]), row["source_name"] or None, int(row["level"]) if row["level"] else None
        was = number(row["before_value"]), row["before_source_name"] or None, row["before_source"] or None
        yield (*names, row["key"], *limit, row["source"] or None, row["bucket"] or None), was


def timeless(text: str) -> str:
    """Return a text without the times at which the cluster was read, and how long ago its snapshot was taken."""
    return "\n".join(line for line in text.splitlines() if "read_at" not in line and not line.startswith("Cluster "))


def number(cell: str) -> float | None:
    return float(cell) if cell else None


def on_spark(repository: Repository, *options: str) -> Any:
    return repository("resolve", "--cluster", "lab", "--from", "principals.csv", "--engine", "spark", *options)


@pytest.mark.parametrize(("file", "format_name"), [("principals.csv", "csv"), ("principals.jsonl", "json")])
def test_what_is_printed_is_what_one_process_prints(repository: Repository, file: str, format_name: str) -> None:
    """In the same order; from CSV, names in quotes came last."""
    arguments = ("resolve", "--cluster", "lab", "--format", format_name, "--from", file)
    local = repository(*arguments)
    spark = repository(*arguments, "--engine", "spark")
    assert (spark.code, timeless(spark.out), messages(spark)) == (0, timeless(local.out), local.err)


def test_of_a_table_of_all_clusters_those_of_the_cluster_are_resolved(
    repository: Repository, spark: SparkSession
) -> None:
    """Those of all clusters were printed, and resolved against this one."""
    rows = [("lab", "alice"), ("down", "bob"), (None, "carol"), ("lab", "dave")]
    spark.createDataFrame(rows, "cluster string, user string").write.parquet(str(repository.path / "all.parquet"))
    arguments = ("resolve", "--cluster", "lab", "--from", "all.parquet", "--engine", "spark")
    assert repository(*arguments, "--out", "parquet=resolved").code == 0
    written = spark.read.parquet(str(repository.path / "resolved")).select("user").distinct().collect()
    assert {row.user for row in written} == {"alice", "dave"}


def test_the_table_has_the_rows_of_the_csv_of_one_process(repository: Repository, spark: SparkSession) -> None:
    detail = ("--key", "future_rate", "--key", PRODUCER, "--omit-inherited")
    done = on_spark(repository, "--out", "parquet=resolved", *detail)
    assert (done.code, messages(done)) == (0, "")
    found = spark.read.parquet(str(repository.path / "resolved")).select(*LIMIT).collect()
    expected = [row for row, _ in local_limits(repository, *detail)]
    assert sorted(map(tuple, found), key=repr) == sorted(expected, key=repr)


@pytest.mark.parametrize(
    ("held", "files"),
    [
        pytest.param(
            {ALICE: {PRODUCER: 5.0, REQUEST: 2.0}, APP: {PRODUCER: 3.0}, ADDRESS: {CONNECTIONS: 7.0}},
            "values: {producer_byte_rate: 1MiB/s, consumer_byte_rate: 2MiB/s}",
            id="changes something",
        ),
        pytest.param({ALICE: {PRODUCER: 5.0, REQUEST: 2.0}}, "state: absent", id="removes everything"),
    ],
)
def test_a_plan_is_assumed_as_in_one_process(
    repository: Repository, spark: SparkSession, held: Quotas, files: str
) -> None:
    """Also a plan that leaves nothing knows the cluster."""
    write_snapshot(repository.path / "lab.json", held)
    repository.quotas(f"  - match: {{user: alice}}\n    {files}\n")
    assert repository("plan", "--cluster", "lab", "--out", "plan.json", *ALLOWED).code == 0
    done = on_spark(repository, "--plan", "plan.json", "--out", "parquet=resolved")
    assert (done.code, messages(done)) == (0, "")
    assert "As if plan sha256:" in done.out
    found = spark.read.parquet(str(repository.path / "resolved"))
    expected = [(*row, *was) for row, was in local_limits(repository, "--plan", "plan.json")]
    assert sorted(map(tuple, found.select(*LIMIT, *WAS).collect()), key=repr) == sorted(expected, key=repr)
    assert {row.cluster for row in found.collect()} == {"lab"}


def test_counts_are_printed_and_nothing_is_overwritten(repository: Repository) -> None:
    done = on_spark(repository, "--out", "csv=resolved")
    assert done.out.splitlines()[1:] == [
        "Resolved 5 clients and 2 addresses: 24 rows in resolved",
        "",
        "  key                       limited  unlimited",
        "  producer_byte_rate              2          3",
        "  consumer_byte_rate              0          5",
        "  request_percentage              5          0",
        "  controller_mutation_rate        0          5",
        "  connection_creation_rate        2          0",
        "  future_rate                     2          0",
    ]
    again = on_spark(repository, "--out", "csv=resolved")
    assert (again.code, again.out) == (64, "")
    assert "--out csv=resolved: this exists; remove it, or name another folder" in again.err
    (repository.path / "resolved" / "_SUCCESS").unlink()
    assert "is not a finished table" in on_spark(repository, "--out", "csv=resolved").err


def test_a_key_that_no_cluster_holds_is_wrong_usage(repository: Repository) -> None:
    done = on_spark(repository, "--out", "x", "--key", "no_rate")
    assert (done.code, done.out) == (64, "")
    assert "is not a known quota key" in done.err
    assert not (repository.path / "x").exists()


def test_a_cluster_that_is_down_is_the_error_of_one_process(repository: Repository) -> None:
    local = repository("resolve", "--cluster", "down", "--from", "principals.csv")
    spark = repository("resolve", "--cluster", "down", "--from", "principals.csv", "--engine", "spark", "--out", "x")
    assert (spark.code, spark.out, messages(spark)) == (local.code, local.out, local.err)
    assert spark.code == 1
