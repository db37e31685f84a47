"""What a run in GitHub Actions adds: a job summary, annotations, outputs, and paths from the top of the repository."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from shutil import copytree

import pytest

from quotaform.cli.ci import SUMMARY_BYTES, Ci, end_step, note_outcomes
from quotaform.cli.main import run
from quotaform.cluster.snapshot import dump_snapshot
from quotaform.model.entity import Entity
from quotaform.model.outcome import ClusterOutcome
from quotaform.model.quotas import Snapshot
from quotaform.plan.receipt import EntityResult, Receipt, Result
from quotaform.report.comment import read_marker
from tests.builder import PRODUCER, plan_of

URL = "https://github.com/o/r/actions/runs/7"


@pytest.fixture
def step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A step of GitHub Actions in the folder `infra` of a repository with two clusters."""
    folder = tmp_path / "infra"
    (folder / "quotas.d").mkdir(parents=True)
    monkeypatch.chdir(folder)
    write("1MiB/s")
    clusters = {name: {"snapshot": f"{name}.json"} for name in ("eu", "us")}
    (folder / "quotaform.yaml").write_text(json.dumps({"clusters": clusters}))
    for name in clusters:
        quotas = {Entity(user="gone"): {PRODUCER: 5.0}}
        taken = Snapshot(cluster_name=name, cluster_id=name, captured_at="2026-11-20T09:12:44Z", quotas=quotas)
        (folder / f"{name}.json").write_text("".join(dump_snapshot(taken)))
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


def test_validate_annotates_beside_its_result(step: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write("1XiB/s")
    assert run(["validate"]) == 3
    printed = capsys.readouterr()
    assert printed.out.startswith("quotas.d/a.yaml:1:")
    assert printed.err.startswith("::error file=infra/quotas.d/a.yaml,line=1,col=")
    assert (outputs(step)["exitcode"], outputs(step)["reason"], outputs(step)["problems"]) == (
        "3",
        "invalid-files",
        "1",
    )
    assert "### Kafka quota files in `quotas.d`: 1 problem" in (step / "summary").read_text()


def test_a_blocked_plan_annotates_the_entries_that_block_it(step: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Only the text of the step said what blocked a plan."""
    write("1MiB/s")
    assert run(["plan", "--all"]) == 0
    assert "::" not in capsys.readouterr().err
    entry = {"match": {"user": "gone"}, "values": {PRODUCER: "1MiB/s"}}
    Path("quotas.d/a.yaml").write_text(json.dumps({"quotas": [entry]}))
    assert run(["plan", "--all"]) == 4
    annotation = "::error file=infra/quotas.d/a.yaml,line=1,col=13,title=quotaform%3A change-factor::user=gone: "
    assert capsys.readouterr().err.count(annotation) == 2
    assert run(["plan", "--all", "--no-github"]) == 4
    assert "::error" not in capsys.readouterr().err


def test_nothing_is_added_when_it_is_not_wanted_or_elsewhere(
    step: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write("1XiB/s")
    assert run(["validate", "--no-github"]) == 3
    assert capsys.readouterr().err == ""
    monkeypatch.delenv("GITHUB_ACTIONS")
    assert run(["validate", "--no-github"]) == 3
    assert (step / "output").read_text() == (step / "summary").read_text() == ""


def test_annotations_on_stdout_are_commands(step: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is printed is made harmless, so that commands that are meant had to be told from all others."""
    write("1XiB/s")
    assert run(["validate", "--format", "github"]) == 3
    printed = capsys.readouterr()
    assert printed.out.startswith("::error file=infra/quotas.d/a.yaml,")
    assert printed.err == ""


def test_a_plan_of_two_clusters_has_a_comment_a_summary_and_numbers_for_both(
    step: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        run(
            ["plan", "--all", "--detailed-exitcode", "--out", "markdown={cluster}.md", "--out", "sarif={cluster}.sarif"]
        )
        == 2
    )
    for name in ("eu", "us"):
        text = Path(f"{name}.md").read_text()
        marker = f'<!-- quotaform:plan {{"v":1,"cluster":"{name}","root":"infra/quotas.d","changes":1}} -->\n'
        assert text.startswith(marker)
        assert f"[run]({URL})" in text
        assert text in (step / "summary").read_text()
    found = outputs(step)
    assert {name: found[name] for name in ("exitcode", "reason", "changes", "create")} == {
        "exitcode": "2",
        "reason": "differences",
        "changes": "2",
        "create": "2",
    }
    assert len(found["plan_id"].splitlines()) == 2
    assert run(["plan", "--all", "--format", "markdown"]) == 0
    assert capsys.readouterr().out.count("### Kafka quota plan for ") == 2


def test_teams_with_directories_of_one_name_have_comments_of_their_own(
    step: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The marker held the directory as given, so that the plan of one team took the place of another's."""
    copytree(step / "infra", step / "other")

    def marked(folder: str) -> set[tuple[str, str]]:
        monkeypatch.chdir(step / folder)
        assert run(["plan", "--cluster", "eu", "--out", "markdown=plan.md"]) == 0
        assert run(["drift", "--cluster", "eu", "--exit-zero", "--out", "markdown=drift.md"]) == 0
        assert run(["validate", "--out", "markdown=files.md"]) == 0
        found = [read_marker(Path(f"{name}.md").read_text()) for name in ("plan", "drift", "files")]
        return {(marker.kind, marker.root) for marker in found if marker is not None}

    assert marked("infra") == {(kind, "infra/quotas.d") for kind in ("plan", "drift", "validate")}
    assert marked("other") == {(kind, "other/quotas.d") for kind in ("plan", "drift", "validate")}
    monkeypatch.chdir(step)
    assert (
        run(
            [
                "plan",
                "other/quotas.d",
                "--config",
                "other/quotaform.yaml",
                "--cluster",
                "eu",
                "--out",
                "markdown=plan.md",
            ]
        )
        == 0
    )
    marker = read_marker(Path("plan.md").read_text())
    assert marker is not None
    assert marker.root == "other/quotas.d"


def test_a_cluster_that_is_down_has_a_comment_that_says_so(step: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The comment of an earlier run stayed, and showed a plan that nobody had made again."""
    Path("us.json").unlink()
    assert run(["plan", "--all", "--out", "markdown={cluster}.md", "--format", "markdown"]) != 0
    text = Path("us.md").read_text()
    assert text.startswith('<!-- quotaform:plan {"v":1,"cluster":"us","root":"infra/quotas.d"} -->\n')
    assert "### Kafka quota plan for `us`: failed" in text
    assert "### Kafka quota plan for `us`: failed" in capsys.readouterr().out
    assert outputs(step)["reason"] in ("error", "invalid-files")


@pytest.mark.parametrize(("name", "content"), [("quotaform.yaml", "bogus: 1\n"), ("approvals.yaml", "approvals: 5\n")])
def test_a_run_that_plans_nothing_at_all_has_a_comment_that_says_so(
    name: str, content: str, step: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No comment was written, so that the plan of an earlier commit stayed."""
    arguments = ["plan", "--cluster", "eu", "--out", "markdown=eu.md", "--out", "eu-plan.json"]
    assert run(arguments) == 0
    assert Path("eu-plan.json").exists()
    Path(name).write_text(content)
    assert run(arguments) == 3
    text = Path("eu.md").read_text()
    assert text.startswith('<!-- quotaform:plan {"v":1,"cluster":"eu","root":"infra/quotas.d"} -->\n')
    assert "### Kafka quota plan for `eu`: failed" in text
    assert name in text
    assert text in (step / "summary").read_text()
    assert not Path("eu-plan.json").exists(), "it would be applied"
    assert outputs(step)["reason"] == "invalid-files"
    monkeypatch.chdir(step)
    assert run([*arguments, "infra/quotas.d", "--config", "infra/quotaform.yaml"]) == 3
    assert Path("eu.md").read_text().splitlines()[0] == text.splitlines()[0]


def test_a_base_that_cannot_be_read_has_a_comment_that_says_so(step: Path) -> None:
    assert run(["plan", "--cluster", "eu", "--base", "nosuch", "--out", "markdown=eu.md"]) == 1
    assert "### Kafka quota plan for `eu`: failed" in Path("eu.md").read_text()
    assert "nosuch" in Path("eu.md").read_text()


@pytest.mark.parametrize("name", ["sarif", "gitlab"])
def test_documents_of_several_clusters_are_not_printed_one_after_the_other(
    name: str, step: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["plan", "--all", "--format", name]) == 64
    assert "write a file for each" in capsys.readouterr().err
    assert outputs(step)["reason"] == "usage"


def test_drift_gives_its_fingerprint(step: Path) -> None:
    assert run(["drift", "--cluster", "eu"]) == 2
    found = outputs(step)
    assert (found["reason"], found["missing"], found["unexpected"]) == ("differences", "1", "1")
    assert found["fingerprint"].startswith("sha256:")


def test_drift_of_several_clusters_gives_a_fingerprint_for_each(step: Path) -> None:
    """It was that of the last one alone."""
    assert run(["drift", "--all"]) == 2
    every = outputs(step)["fingerprint"].splitlines()
    (step / "output").write_text("")
    assert run(["drift", "--cluster", "eu"]) == 2
    assert len(every) == 2
    assert every[0] == outputs(step)["fingerprint"]


def test_an_apply_counts_what_it_changed_or_may_have_changed(step: Path) -> None:
    """It counted entities that the broker refused, and those that it was never asked to change."""
    plan = plan_of({Entity(user=result.value): {PRODUCER: 1.0} for result in Result}, {})
    results = tuple(
        EntityResult(change.entity, change.action, result) for change, result in zip(plan.changes, Result, strict=True)
    )
    moment = "2026-11-20T09:12:44Z"
    receipt = Receipt(plan=plan, results=results, applied_by="ada", started_at=moment, finished_at=moment)
    note_outcomes([ClusterOutcome("eu", receipt)])
    assert end_step(6) is None
    found = outputs(step)
    assert (found["changes"], found["create"]) == ("4", "1")


def test_an_apply_that_nobody_approved_says_so(step: Path) -> None:
    assert run(["apply", "--cluster", "eu"]) == 64
    assert outputs(step)["reason"] == "usage"


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
    ci = Ci(Path("quotas.d"))
    assert ci.place("quotas.d/a.yaml") == "infra/quotas.d/a.yaml"
    assert ci.place("../other/a.yaml") == "other/a.yaml"
    assert ci.place(str(step / "infra/x.yaml")) == "infra/x.yaml"
    assert ci.place("../../a.yaml") is None
    assert ci.place("/etc/passwd") is None
    assert Ci(Path("quotas.d"), variables={}).place("quotas.d/a.yaml") == "quotas.d/a.yaml"


def test_the_reason_of_a_blocked_plan_names_the_rules(step: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Actions knows only that a step failed, so that a workflow could not tell a guard from a broken file."""
    entries = [
        {"match": {"user": "gone"}, "state": "absent"},
        {"match": {"user": "<default>"}, "values": {PRODUCER: 9}},
    ]
    Path("quotas.d/a.yaml").write_text(json.dumps({"quotas": entries}))
    assert run(["plan", "--cluster", "eu"]) == 4
    reason = outputs(step)["reason"]
    assert reason.startswith("blocked:")
    assert "default-entity" in reason
    assert outputs(step)["blocked"] != "0"
    assert "**" in (step / "summary").read_text()
    assert "> [!CAUTION]" in (step / "summary").read_text()


def test_an_interrupted_or_failed_step_has_a_reason_too(step: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("quotaform.plan.run.read_source", interrupt)
    assert run(["plan", "--cluster", "eu"]) == 130
    assert (outputs(step)["exitcode"], outputs(step)["reason"]) == ("130", "interrupted")
