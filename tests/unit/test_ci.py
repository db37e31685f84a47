"""What a run in GitHub Actions adds, and where it cannot; `story-ci.txt` has annotations, summaries and outputs."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from quotaform.cli.ci import SUMMARY_BYTES, Ci, end_step, note_outcomes
from quotaform.cli.main import run
from quotaform.cluster.snapshot import dump_snapshot
from quotaform.model.entity import Entity
from quotaform.model.outcome import ClusterOutcome
from quotaform.model.quotas import Snapshot
from quotaform.plan.receipt import Receipt, Result
from tests.builder import PRODUCER, plan_of, result_of


@pytest.fixture
def step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A step of GitHub Actions in the folder `infra` of a repository."""
    folder = tmp_path / "infra"
    (folder / "quotas.d").mkdir(parents=True)
    monkeypatch.chdir(folder)
    write("1MiB/s")
    (folder / "quotaform.yaml").write_text("clusters: {eu: {snapshot: eu.json}}\n")
    taken = Snapshot(cluster_name="eu", cluster_id="eu", captured_at="2026-11-20T09:12:44Z", quotas={})
    (folder / "eu.json").write_text("".join(dump_snapshot(taken)))
    for name in ("output", "summary"):
        (tmp_path / name).touch()
    environment = {
        "GITHUB_ACTIONS": "true",
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
        "GITHUB_WORKSPACE": str(tmp_path),
        "GITHUB_SERVER_URL": "https://github.com",
        "GITHUB_REPOSITORY": "o/r",
        "GITHUB_RUN_ID": "7",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return tmp_path


def write(rate: str) -> None:
    entry = {"match": {"user": "a"}, "values": {PRODUCER: rate}}
    Path("quotas.d/a.yaml").write_text(json.dumps({"quotas": [entry]}))


def outputs(step: Path) -> dict[str, str]:
    """The outputs as the runner reads them."""
    found = re.finditer(r"^(\w+)<<(.+)\n((?:.*\n)*?)\2\n", (step / "output").read_text(), re.MULTILINE)
    return {each[1]: each[3].rstrip("\n") for each in found}


def test_an_apply_counts_what_it_changed_or_may_have_changed(step: Path) -> None:
    """It counted entities that the broker refused, and those that it was never asked to change."""
    plan = plan_of({Entity(user=result.value): {PRODUCER: 1.0} for result in Result}, {})
    results = tuple(result_of(change, result) for change, result in zip(plan.changes, Result, strict=True))
    moment = "2026-11-20T09:12:44Z"
    receipt = Receipt(plan=plan, results=results, applied_by="ada", started_at=moment, finished_at=moment)
    note_outcomes([ClusterOutcome("eu", receipt)])
    assert end_step(6) is None
    found = outputs(step)
    assert (found["changes"], found["create"]) == ("4", "1")


@pytest.mark.parametrize("variable", ["GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT"])
@pytest.mark.parametrize("kind", ["missing", "pipe", "folder"])
def test_a_file_that_cannot_be_written_changes_no_exit_code(
    variable: str, kind: str, step: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = step / "other"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    monkeypatch.setenv(variable, str(path))
    assert run(["plan", "--cluster", "eu"]) == 0
    assert "cannot be written" in capsys.readouterr().err


@pytest.mark.exhaustive
def test_a_summary_stays_within_what_github_takes(step: Path) -> None:
    entries = [
        {"match": {"user": f"svc-{number}-{'x' * 60}"}, "values": {PRODUCER: number}} for number in range(1, 4_000)
    ]
    Path("quotas.d/a.yaml").write_text(json.dumps({"quotas": entries}))
    for _ in range(3):
        assert run(["plan", "--cluster", "eu"]) == 0
    assert SUMMARY_BYTES // 2 < (step / "summary").stat().st_size <= SUMMARY_BYTES


def test_a_path_is_that_from_the_top_of_the_repository(step: Path) -> None:
    place = Ci(Path("quotas.d")).options["place"]
    assert place("quotas.d/a.yaml") == "infra/quotas.d/a.yaml"
    assert place("../other/a.yaml") == "other/a.yaml"
    assert place(str(step / "infra/x.yaml")) == "infra/x.yaml"
    assert place("../../a.yaml") is None
    assert place("/etc/passwd") is None
    assert Ci(Path("quotas.d"), variables={}).options["place"]("quotas.d/a.yaml") == "quotas.d/a.yaml"


def test_an_interrupted_or_failed_step_has_a_reason_too(step: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("quotaform.plan.run.read_source", interrupt)
    assert run(["plan", "--cluster", "eu"]) == 130
    assert (outputs(step)["exitcode"], outputs(step)["reason"]) == ("130", "interrupted")
