"""`plan --principals`: the blast radius in every output, the file with all changes, and lists that cannot be used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from quotaform.cli.main import run
from quotaform.cluster.snapshot import dump_snapshot
from quotaform.model.entity import Entity
from quotaform.model.errors import UsageError
from quotaform.model.quotas import Quotas, Snapshot
from quotaform.plan.blast_radius import CHANGE_COLUMNS, LimitDirection
from quotaform.plan.principals import read_principals
from tests.builder import CONNECTION, PRODUCER
from tests.markdown import ROOT

MIB = 2.0**20


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("clients.csv").write_text(
        "user,client_id,ip\nsvc-orders,checkout,\nsvc-orders,reports,\nsvc-audit,audit-1,\n"
        "svc-mobile,ios,\nsvc-mobile,android,\n,,10.0.0.7\n"
    )


@pytest.mark.parametrize(
    ("text", "more", "problem"),
    [
        ("people.parquet", {"files": {"eu": "eu.csv"}}, "give --principals-out parquet=DIR"),
        ("clients.csv", {"folder": "changed"}, "parquet=DIR is for a table of principals"),
    ],
)
def test_all_changes_are_text_for_a_list_and_parquet_for_a_table(text: str, more: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        read_principals(text, **more, on_spark=True)


def test_the_example_of_the_page_is_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    quotas: Quotas = {Entity(user=None): {PRODUCER: 20 * MIB}, Entity(user="svc-audit"): {PRODUCER: MIB}}
    taken = Snapshot(cluster_name="eu", cluster_id="id", captured_at="2026-11-20T09:12:44Z", quotas=quotas)
    Path("eu.json").write_text(dump_snapshot(taken))
    Path("quotaform.yaml").write_text("clusters: {eu: {snapshot: eu.json}}\n")
    Path("quotas.d").mkdir()
    Path("quotas.d/all.yaml").write_text(
        f"quotas:\n  - {{match: {{user: <default>}}, values: {{{PRODUCER}: 5MiB/s}}}}\n"
        f"  - {{match: {{user: svc-audit}}, state: absent}}\n"
        f"  - {{match: {{user: svc-orders, client-id: <default>}}, values: {{{PRODUCER}: 20MiB/s}}}}\n"
        f"  - {{match: {{ip: <default>}}, values: {{{CONNECTION}: 50/s}}}}\n"
    )
    asked = ("--principals", "clients.csv", "--principals-out", "changed.csv", "--quiet")
    assert run(["plan", "--allow", "default-entity", *asked]) == 0
    page = (ROOT / "docs" / "blast-radius.md").read_text(encoding="utf-8")
    shown = page[page.index("Blast radius: ") : page.index("\n...\nPlan: ")]
    assert shown in capsys.readouterr().out
    assert all(f"`{column}`" in page for column in CHANGE_COLUMNS)
    assert all(f"| `{direction}` |" in page for direction in LimitDirection)
