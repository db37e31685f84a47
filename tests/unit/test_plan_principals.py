"""`plan --principals`: the blast radius in every output, the file with all changes, and lists that cannot be used."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from quotaform.cli.command.plan import read_changes_path
from quotaform.cli.main import run
from quotaform.cluster.snapshot import dump_snapshot
from quotaform.model.entity import Entity
from quotaform.model.errors import InvalidFilesError, UsageError
from quotaform.model.quotas import Quotas, Snapshot
from quotaform.plan import principals
from quotaform.plan.blast_radius import CHANGE_COLUMNS, LimitDirection
from quotaform.plan.principals import read_principals
from quotaform.plan.records import load_plan
from tests.builder import CONNECTION, PRODUCER
from tests.markdown import ROOT

MIB = 2.0**20
ALLOWED = ("--allow", "default-entity")
LIST = 'user,client_id\nalice,\nalice,app\nbob,app\nbob,app\ncarol,""""""\n'


def snapshot(name: str, quotas: Quotas) -> None:
    taken = Snapshot(cluster_name=name, cluster_id=f"id-{name}", captured_at="2026-11-20T09:12:44Z", quotas=quotas)
    Path(f"{name}.json").write_text(dump_snapshot(taken))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that lower the default and give alice a limit of her own, and two clusters."""
    monkeypatch.chdir(tmp_path)
    Path("quotaform.yaml").write_text("clusters: {eu: {snapshot: eu.json}, us: {snapshot: us.json}}\n")
    Path("quotas.d").mkdir()
    Path("quotas.d/all.yaml").write_text(
        f"quotas:\n  - match: {{user: <default>}}\n    values: {{{PRODUCER}: 5MiB/s}}\n"
        f"  - match: {{user: alice}}\n    values: {{{PRODUCER}: 40MiB/s}}\n"
    )
    snapshot("eu", {Entity(user=None): {PRODUCER: 20 * MIB}})
    snapshot("us", {})
    Path("clients.csv").write_text(LIST)


def planned(*arguments: str) -> dict[str, Any]:
    assert run(["plan", *ALLOWED, "--cluster", "eu", "--out", "plan.json", "--quiet", *arguments]) == 0
    document: dict[str, Any] = json.loads(Path("plan.json").read_text())
    return document


def test_all_changes_are_text_for_a_list_and_parquet_for_a_table() -> None:
    with pytest.raises(UsageError, match="give --principals-out parquet=DIR"):
        read_principals("people.parquet", {"eu": "eu.csv"}, on_spark=True)
    with pytest.raises(UsageError, match="parquet=DIR is for a table of principals"):
        read_principals("clients.csv", folder="changed", on_spark=True)


def test_the_plan_counts_and_lists_whose_limits_change(capsys: pytest.CaptureFixture[str]) -> None:
    radius = planned("--principals", "clients.csv")["blast_radius"]
    assert (radius["source"], radius["principals"], radius["affected"], radius["file"]) == ("clients.csv", 4, 4, None)
    assert {name: count["limits"] for name, count in radius["counts"].items() if count["limits"]} == {
        "lower": 2,
        "higher": 2,
    }
    assert [(row["address"], row["direction"], row["factor"]) for row in radius["largest"]] == [
        ("user=bob,client-id=app", "lower", 0.25),
        ('user=carol,client-id=""', "lower", 0.25),
        ("user=alice", "higher", 2),
        ("user=alice,client-id=app", "higher", 2),
    ]
    out = capsys.readouterr().out
    assert "Blast radius: 4 of 4 principals (clients.csv) get other limits: 2 lower, 2 higher.\n" in out
    assert (
        "    user=bob,client-id=app producer_byte_rate = 20 MiB/s from user=<default> -> 5 MiB/s from user=<default>"
        "   (-75%, lower)\n"
    ) in out


def test_the_plan_id_does_not_depend_on_who_connects() -> None:
    with_radius, without = planned("--principals", "clients.csv"), planned()
    assert "blast_radius" not in without
    assert with_radius["plan_id"] == without["plan_id"]


def test_a_saved_plan_still_shows_it(capsys: pytest.CaptureFixture[str]) -> None:
    planned("--principals", "clients.csv")
    printed = capsys.readouterr().out
    assert run(["show", "plan.json"]) == 0
    assert capsys.readouterr().out == printed


def test_an_edited_blast_radius_is_refused() -> None:
    planned("--principals", "clients.csv")
    text = Path("plan.json").read_text()
    Path("plan.json").write_text(text.replace('"affected": 4', '"affected": 0'))
    assert run(["show", "plan.json"]) == 5


@pytest.mark.parametrize("name", ["changed.csv", "changed.jsonl", "csv=changed.txt"])
def test_all_changes_are_in_the_file_that_the_plan_names(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    document = planned("--principals", "clients.csv", "--principals-out", name)
    path = Path(name.rpartition("=")[2])
    assert document["blast_radius"]["file"] == path.as_posix()
    assert f"all changes of limits (4): {path}\n" in capsys.readouterr().out
    text = path.read_text()
    rows = (
        list(map(json.loads, text.splitlines()))
        if path.suffix == ".jsonl"
        else list(csv.DictReader([*text.splitlines()]))
    )
    assert [row["user"] for row in rows] == ["alice", "alice", "bob", "carol"]
    assert [row["direction"] for row in rows] == ["higher", "higher", "lower", "lower"]
    assert [float(row["factor"]) for row in rows] == [2.0, 2.0, 0.25, 0.25]
    assert load_plan(Path("plan.json").read_text(), "plan.json").blast_radius is not None


def test_several_clusters_have_a_file_each() -> None:
    listed = ["--principals", "clients.csv", "--principals-out", "{cluster}.csv", "--quiet"]
    assert run(["plan", *ALLOWED, "--all", *listed]) == 0
    assert Path("eu.csv").read_text().count("lower") == 2
    assert Path("us.csv").read_text().count("newly_limited") == 4
    assert run(["plan", *ALLOWED, "--all", *listed[:2], "--principals-out", "all.csv"]) == 64


def test_the_file_of_a_cluster_that_failed_is_removed() -> None:
    Path("eu.csv").write_text("of an earlier run")
    Path("eu.json").unlink()
    listed = ["--principals", "clients.csv", "--principals-out", "{cluster}.csv"]
    assert run(["plan", *ALLOWED, "--all", *listed]) == 3
    assert {path.name for path in Path().glob("*.csv")} == {"clients.csv", "us.csv"}


def test_the_file_of_a_plan_that_failed_is_removed() -> None:
    Path("changed.csv").write_text("of an earlier run")
    Path("quotas.d/all.yaml").write_text("quotas: 7\n")
    assert run(["plan", "--cluster", "eu", "--principals", "clients.csv", "--principals-out", "changed.csv"]) == 3
    assert not Path("changed.csv").exists()


def test_a_comment_and_a_summary_show_it(capsys: pytest.CaptureFixture[str]) -> None:
    for form in ("markdown", "summary"):
        assert run(["plan", *ALLOWED, "--cluster", "eu", "--principals", "clients.csv", "--format", form]) == 0
        assert "2 lower, 2 higher" in capsys.readouterr().out


def test_nobody_is_affected_by_a_plan_for_others(capsys: pytest.CaptureFixture[str]) -> None:
    Path("clients.csv").write_text("ip\n10.0.0.1\n")
    assert planned("--principals", "clients.csv")["blast_radius"]["affected"] == 0
    assert "Blast radius: none of 1 principal (clients.csv) gets another limit.\n" in capsys.readouterr().out


def test_rows_that_name_nobody_are_left_out_with_one_warning(capsys: pytest.CaptureFixture[str]) -> None:
    Path("clients.csv").write_text("user,client_id\nalice,\n,\n,\n")
    assert run(["plan", *ALLOWED, "--cluster", "eu", "--principals", "clients.csv"]) == 0
    printed = capsys.readouterr()
    assert "of 1 principal (clients.csv)" in printed.out
    assert printed.err == "Warning: clients.csv: 2 rows name no user, client-id or ip; left out\n"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "clients.csv: error: the file is empty; its first line must name one or more of the columns"),
        ("user\n", "clients.csv: error: it lists no principals; write one per line after the names of the columns"),
        (
            "principal,host\nalice,a\n",
            'clients.csv:1: error: unknown column "principal", "host"; the columns are user, client_id',
        ),
        ('{"user": null}\n', "clients.csv:1: error: user must be a string; leave out a field without a value"),
        ("user,client_id\n,\n", "clients.csv: error: it lists no principals; write one per line"),
        ("user\n\udcff\n", "clients.csv:2: error: this is not UTF-8 text"),
    ],
)
def test_a_list_that_cannot_be_used_says_why(content: str, problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("clients.csv").write_bytes(content.encode(errors="surrogateescape"))
    assert run(["plan", *ALLOWED, "--cluster", "eu", "--principals", "clients.csv"]) == 3
    assert problem in capsys.readouterr().err


def test_a_list_that_is_too_long_for_one_process_says_what_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(principals, "MOST_PRINCIPALS", 3)
    with pytest.raises(
        InvalidFilesError, match="lists more than 3 principals, too many for one process; add --engine spark"
    ):
        read_principals("clients.csv")


@pytest.mark.parametrize("table", ["people.parquet", "quotas.d", "prod.usage.principals"])
def test_a_table_needs_spark(table: str) -> None:
    with pytest.raises(UsageError, match="is a table, which is read on Spark only; add --engine spark"):
        read_principals(table)


def test_a_file_that_is_there_is_no_table() -> None:
    Path("my.principals").write_text("user\nalice\n")
    listed = read_principals("my.principals").known
    assert listed is not None
    assert listed.entities == (Entity(user="alice"),)


def test_a_snapshot_has_no_scram_users(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", *ALLOWED, "--cluster", "eu", "--principals", "scram"]) == 64
    assert "cluster eu is a snapshot file, which contains no SCRAM credentials" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["changed.txt", "csv=", "-", "xml=changed.xml"])
def test_a_file_of_changes_has_a_known_format(text: str) -> None:
    with pytest.raises(UsageError, match=r"^--principals-out "):
        read_changes_path(text)


def test_a_file_of_changes_needs_a_list() -> None:
    assert run(["plan", *ALLOWED, "--cluster", "eu", "--principals-out", "changed.csv"]) == 64


def test_the_example_of_the_page_is_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    snapshot("eu", {Entity(user=None): {PRODUCER: 20 * MIB}, Entity(user="svc-audit"): {PRODUCER: MIB}})
    Path("clients.csv").write_text(
        "user,client_id,ip\nsvc-orders,checkout,\nsvc-orders,reports,\nsvc-audit,audit-1,\n"
        "svc-mobile,ios,\nsvc-mobile,android,\n,,10.0.0.7\n"
    )
    Path("quotas.d/all.yaml").write_text(
        f"quotas:\n  - {{match: {{user: <default>}}, values: {{{PRODUCER}: 5MiB/s}}}}\n"
        f"  - {{match: {{user: svc-audit}}, state: absent}}\n"
        f"  - {{match: {{user: svc-orders, client-id: <default>}}, values: {{{PRODUCER}: 20MiB/s}}}}\n"
        f"  - {{match: {{ip: <default>}}, values: {{{CONNECTION}: 50/s}}}}\n"
    )
    planned("--principals", "clients.csv", "--principals-out", "changed.csv")
    page = (ROOT / "docs" / "blast-radius.md").read_text(encoding="utf-8")
    shown = page[page.index("Blast radius: ") : page.index("\n...\nPlan: ")]
    assert shown in capsys.readouterr().out
    assert all(f"`{column}`" in page for column in CHANGE_COLUMNS)
    assert all(f"| `{direction}` |" in page for direction in LimitDirection)
