"""A snapshot that stands for a cluster: what headers say of it, its pinned id, and an import from it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from jsonschema import Draft7Validator

from quotaform.cli.main import run
from quotaform.cluster.snapshot import dump_snapshot, load_snapshot
from quotaform.model.entity import Entity
from quotaform.model.quotas import Snapshot, SnapshotFile
from quotaform.plan.records import load_plan
from quotaform.plan.report import render_plan
from quotaform.report.text import reading_text
from tests.builder import HEADER, PRODUCER, plan_of
from tests.dumped import dumped_plan
from tests.loading import load_schema

ALICE = Entity(user="alice")
CAPTURED = "2026-11-20T09:12:44Z"
LINE = f"Snapshot snapshots/a.json, captured {CAPTURED}"
ENTRY = f"quotas: [{{match: {{user: alice}}, values: {{{PRODUCER}: 2}}}}]\n"
PLAN = "plan --cluster snap"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("snapshots", "quotas.d"):
        (tmp_path / name).mkdir()
    taken = Snapshot(cluster_name="lab", cluster_id="id-lab", captured_at=CAPTURED, quotas={ALICE: {PRODUCER: 1.0}})
    (tmp_path / "snapshots/a.json").write_text(dump_snapshot(taken))
    (tmp_path / "quotaform.yaml").write_text("clusters: {snap: {snapshot: snapshots/a.json}}\n")
    (tmp_path / "quotas.d/all.yaml").write_text(ENTRY)
    return tmp_path


@pytest.mark.parametrize(
    ("command", "schema"),
    [
        (PLAN, "plan"),
        ("plan --snapshot snapshots/a.json", None),
        ("drift --exit-zero", "drift"),
        ("show saved.json", None),
        ("resolve --name user=alice", "resolve"),
        ("resolve --name user=alice --snapshot snapshots/a.json --plan saved.json", None),
        ("describe", "describe"),
    ],
)
def test_the_header_names_the_snapshot_and_when_it_was_captured(
    command: str, schema: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was `Live state read` and the time of the command, although nothing live was read."""
    assert run([*PLAN.split(), "--out", "saved.json"]) == 0
    capsys.readouterr()
    assert run(command.split()) == 0
    printed = capsys.readouterr().out
    assert LINE in printed
    assert "live" not in printed.lower()
    if schema:
        assert run([*command.split(), "--format", "json"]) == 0
        document = json.loads(capsys.readouterr().out)
        Draft7Validator(load_schema(schema)).validate(document)
        assert document["snapshot"] == {"path": "snapshots/a.json", "captured_at": CAPTURED}


def test_a_snapshot_of_a_snapshot_is_as_old_as_that_one(folder: Path) -> None:
    """It was stamped with the time of the command, so that old values looked new."""
    assert run(["snapshot", "--cluster", "snap", "--output", "again.json"]) == 0
    again = load_snapshot((folder / "again.json").read_text(), "again.json")
    assert (again.cluster_name, again.cluster_id, again.captured_at) == ("snap", "id-lab", CAPTURED)


def test_a_plan_file_keeps_its_snapshot() -> None:
    plan = plan_of({ALICE: {PRODUCER: 1.0}}, {})
    plan = replace(plan, header=replace(HEADER, snapshot=SnapshotFile("a.json", CAPTURED)))
    text = dumped_plan(plan)
    assert load_plan(text, "plan.json").header == plan.header
    assert dumped_plan(load_plan(text, "plan.json")) == text
    assert "snapshot" not in json.loads(dumped_plan(replace(plan, header=HEADER)))


def test_what_a_snapshot_says_of_itself_cannot_forge_a_line() -> None:
    hostile = SnapshotFile("a\n::error::x.json", "now\x1b[31m")
    text = "".join(render_plan(replace(plan_of({}, {}), header=replace(HEADER, snapshot=hostile))))
    assert 'Snapshot "a\\n::error::x.json", captured "now\\u001b[31m", 0 entities in scope' in text
    assert reading_text("", SnapshotFile("", "")) == "Snapshot captured at an unknown time"


def test_describe_names_the_cluster_as_quotaform_yaml_does_and_no_address(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing said which of several clusters the values are of."""
    assert run(["describe"]) == 0
    assert capsys.readouterr().out.splitlines()[:3] == [f"Cluster  snap   {LINE}", "", "user=alice"]


@pytest.mark.parametrize("command", ["describe", "import", "snapshot --output out.json", "resolve --name user=a"])
def test_another_cluster_than_the_pinned_one_is_not_read(
    command: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the address of another cluster, `import` wrote its quotas into the files of this one."""
    (folder / "quotaform.yaml").write_text("clusters: {lab: {snapshot: snapshots/a.json, cluster_id: pinned}}\n")
    before = sorted(folder.rglob("*"))
    assert run(command.split()) == 4
    out, err = capsys.readouterr()
    assert out == ""
    # The id of a snapshot was called live.
    assert (
        "cluster lab is pinned to id pinned, and the snapshot snapshots/a.json is of a cluster with id id-lab;" in err
    )
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize(
    ("place", "words"),
    [("all.yaml", "  It is in the common files, which apply to every cluster"), ("us/a.yaml", "")],
)
def test_entries_of_the_common_files_that_differ_from_a_second_cluster_are_named(
    place: str, words: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The quotas of a first cluster were in the common files; importing the second one only said that many differ."""
    (folder / "quotaform.yaml").write_text("clusters: {eu: {snapshot: eu.json}, us: {snapshot: snapshots/a.json}}\n")
    (folder / "quotas.d" / place).parent.mkdir(exist_ok=True)
    (folder / "quotas.d/all.yaml").rename(folder / "quotas.d" / place)
    assert run(["import", "--cluster", "us"]) == 0
    out = capsys.readouterr().out
    assert "Warning: 1 entity in the files is missing on the cluster or has other values there" in out
    assert words in out
    assert ("common files" in out) == bool(words)
