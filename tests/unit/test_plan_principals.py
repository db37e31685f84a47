"""`plan --principals`: the blast radius in every output, the file with all changes, and lists that cannot be used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from quotaform.cli.main import run
from quotaform.cluster.snapshot import dump_snapshot
from quotaform.model.entity import Entity
from quotaform.model.errors import InvalidFilesError, UsageError
from quotaform.model.quotas import Quotas, Snapshot
from quotaform.plan import principals
from quotaform.plan.blast_radius import CHANGE_COLUMNS, LimitDirection
from quotaform.plan.principals import read_principals
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


def test_the_plan_id_does_not_depend_on_who_connects() -> None:
    with_radius, without = planned("--principals", "clients.csv"), planned()
    assert "blast_radius" not in without
    assert with_radius["plan_id"] == without["plan_id"]


def test_a_saved_plan_still_shows_it(capsys: pytest.CaptureFixture[str]) -> None:
    planned("--principals", "clients.csv")
    printed = capsys.readouterr().out
    assert run(["show", "plan.json"]) == 0
    assert capsys.readouterr().out == printed


def test_a_list_that_is_too_long_for_one_process_says_what_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(principals, "MOST_PRINCIPALS", 3)
    with pytest.raises(
        InvalidFilesError, match="lists more than 3 principals, too many for one process; add --engine spark"
    ):
        read_principals("clients.csv")


def test_a_file_that_is_there_is_no_table() -> None:
    Path("my.principals").write_text("user\nalice\n")
    listed = read_principals("my.principals").known
    assert listed is not None
    assert listed.entities == (Entity(user="alice"),)


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
