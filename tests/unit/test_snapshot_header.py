"""What a header says of values that come from a snapshot: which file, and how old they are."""

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

CAPTURED = "2026-11-20T09:12:44Z"
LINE = f"Snapshot snapshots/a.json, captured {CAPTURED}"
PLAN = ["plan", "--cluster", "snap"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "snapshots").mkdir()
    taken = Snapshot(
        cluster_name="lab", cluster_id="id-lab", captured_at=CAPTURED, quotas={Entity(user="alice"): {PRODUCER: 1.0}}
    )
    (tmp_path / "snapshots/a.json").write_text(dump_snapshot(taken))
    (tmp_path / "quotaform.yaml").write_text("clusters: {snap: {snapshot: snapshots/a.json}}\n")
    (tmp_path / "quotas.d").mkdir()
    (tmp_path / "quotas.d/all.yaml").write_text(f"quotas: [{{match: {{user: alice}}, values: {{{PRODUCER}: 2}}}}]\n")
    return tmp_path


@pytest.mark.parametrize(
    "arguments",
    [
        PLAN,
        ["plan", "--snapshot", "snapshots/a.json"],
        ["drift", "--exit-zero"],
        ["show", "saved.json"],
        ["resolve", "--name", "user=alice"],
        ["resolve", "--name", "user=alice", "--snapshot", "snapshots/a.json", "--plan", "saved.json"],
        ["describe"],
    ],
)
def test_the_header_names_the_snapshot_and_when_it_was_captured(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """It was `Live state read` and the time of the command, although nothing live was read."""
    assert run([*PLAN, "--out", "saved.json"]) == 0
    capsys.readouterr()
    assert run(arguments) == 0
    printed = capsys.readouterr().out
    assert LINE in printed
    assert "live" not in printed.lower()


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        ("plan", PLAN),
        ("drift", ["drift", "--exit-zero"]),
        ("resolve", ["resolve", "--name", "user=alice"]),
        ("describe", ["describe"]),
    ],
)
def test_json_names_the_snapshot_and_when_it_was_captured(
    schema: str, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*arguments, "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    Draft7Validator(load_schema(schema)).validate(document)
    assert document["snapshot"] == {"path": "snapshots/a.json", "captured_at": CAPTURED}


def test_a_snapshot_of_a_snapshot_is_as_old_as_that_one(folder: Path) -> None:
    """It was stamped with the time of the command, so that old values looked new."""
    assert run(["snapshot", "--cluster", "snap", "--output", "again.json"]) == 0
    again = load_snapshot((folder / "again.json").read_text(), "again.json")
    assert (again.cluster_name, again.cluster_id, again.captured_at) == ("snap", "id-lab", CAPTURED)


def test_a_plan_file_keeps_its_snapshot() -> None:
    plan = plan_of({Entity(user="alice"): {PRODUCER: 1.0}}, {})
    plan = replace(plan, header=replace(HEADER, snapshot=SnapshotFile("a.json", CAPTURED)))
    text = dumped_plan(plan)
    assert load_plan(text, "plan.json").header == plan.header
    assert dumped_plan(load_plan(text, "plan.json")) == text
    assert "snapshot" not in json.loads(dumped_plan(replace(plan, header=HEADER)))


def test_what_a_snapshot_says_of_itself_cannot_forge_a_line() -> None:
    plan = plan_of({}, {})
    hostile = SnapshotFile("a\n::error::x.json", "now\x1b[31m")
    text = "".join(render_plan(replace(plan, header=replace(HEADER, snapshot=hostile))))
    assert 'Snapshot "a\\n::error::x.json", captured "now\\u001b[31m", 0 entities in scope' in text
    assert reading_text("", SnapshotFile("", "")) == "Snapshot captured at an unknown time"


def test_describe_names_the_cluster_as_quotaform_yaml_does_and_no_address(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Nothing said which of several clusters the values are of."""
    assert run(["describe"]) == 0
    assert capsys.readouterr().out.splitlines()[:3] == [f"Cluster  snap   {LINE}", "", "user=alice"]
