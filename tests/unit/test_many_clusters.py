"""`plan`, `drift` and `apply` of several clusters: a section, a file and an outcome for each, and one exit code."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from socket import create_server
from time import monotonic

import pytest
from jsonschema import Draft7Validator

from quotaform.cli.console import Console
from quotaform.cli.main import run
from quotaform.cluster.snapshot import dump_snapshot
from quotaform.model.entity import Entity
from quotaform.model.quotas import Quotas, Snapshot
from quotaform.system.process import TerminatedError
from tests.builder import PRODUCER
from tests.git_repository import GitRepository
from tests.loading import load_schema

ALICE = Entity(user="alice")
DOWN = "127.0.0.1:1"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with three clusters: eu differs from the files, us does not, and nothing listens where lab should be."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quotaform.yaml").write_text(
        f"clusters: {{eu: {{snapshot: eu.json}}, lab: {{bootstrap_servers: ['{DOWN}']}}, us: {{snapshot: us.json}}}}\n"
    )
    (tmp_path / "quotas.d").mkdir()
    (tmp_path / "quotas.d/all.yaml").write_text(
        f"quotas: [{{match: {{user: alice}}, values: {{{PRODUCER}: 2MiB/s}}}}]\n"
    )
    snapshot(tmp_path, "eu", {ALICE: {PRODUCER: 2.0**20}})
    snapshot(tmp_path, "us", {ALICE: {PRODUCER: 2.0**21}})
    return tmp_path


def snapshot(folder: Path, name: str, quotas: Quotas) -> None:
    taken = Snapshot(cluster_name=name, cluster_id=f"id-{name}", captured_at="2026-11-20T09:12:44Z", quotas=quotas)
    (folder / f"{name}.json").write_text(dump_snapshot(taken))


def test_each_cluster_has_a_section_and_the_last_lines_sum_them_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "--cluster", "eu", "--cluster", "us", "--detailed-exitcode"]) == 2
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("   ")[0] for line in lines if line.startswith("Cluster ")] == [
        "Cluster  eu (id id-eu)",
        "Cluster  us (id id-us)",
    ]
    assert "  # user=alice will be updated in-place" in lines
    assert "No changes. Your infrastructure matches the configuration." in lines
    assert lines[-2:] == ["2 clusters: 1 with changes.", "Plan: 0 to add, 1 to change, 0 to destroy."]


def test_a_cluster_that_is_down_hides_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "--all", "--detailed-exitcode"]) == 1
    printed = capsys.readouterr()
    assert "Cluster  lab\nError: Cannot connect to lab: nothing listens at 127.0.0.1:1" in printed.out
    assert printed.out.splitlines()[-2:] == [
        "3 clusters: 1 with changes, 1 failed: lab.",
        "Plan: 0 to add, 1 to change, 0 to destroy.",
    ]


def test_no_changes_is_said_of_all_only_when_all_were_compared(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "--cluster", "us", "--cluster", "lab"]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "2 clusters: 0 with changes, 1 failed: lab."
    snapshot(Path(), "eu", {ALICE: {PRODUCER: 2.0**21}})
    assert run(["plan", "--cluster", "?[us]"]) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "2 clusters: 0 with changes.",
        "No changes. Your infrastructure matches the configuration.",
    ]


def test_each_cluster_has_a_plan_file_and_one_that_failed_has_none(folder: Path) -> None:
    assert run(["plan", "--all", "--out", "plans/{cluster}.json", "--out", "text=plans/{cluster}.txt"]) == 1
    assert sorted(path.name for path in (folder / "plans").iterdir()) == ["eu.json", "eu.txt", "us.json", "us.txt"]
    plan = json.loads((folder / "plans/eu.json").read_text())
    assert (plan["cluster"], plan["summary"]["update"]) == ({"name": "eu", "id": "id-eu"}, 1)
    assert run(["show", "plans/eu.json"]) == 0


def test_json_is_one_document_that_holds_those_of_the_clusters(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "--all", "--format", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    Draft7Validator(load_schema("outcomes")).validate(document)
    assert [outcome["cluster"] for outcome in document["outcomes"]] == ["eu", "lab", "us"]
    assert document["outcomes"][1]["result"] is None
    assert document["outcomes"][1]["error"]["exit_code"] == 1
    plan = document["outcomes"][0]["result"]
    Draft7Validator(load_schema("plan")).validate(plan)


@pytest.mark.parametrize("arguments", [["plan", "--all", "--out", "plan.json"], ["drift", "--all", "--out", "x.json"]])
def test_several_clusters_do_not_share_a_file(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 64
    assert "several clusters (eu, lab, us) need one file each; write {cluster} in --out" in capsys.readouterr().err


def test_drift_has_a_section_for_each_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["drift", "--cluster", "eu", "--cluster", "us"]) == 2
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "2 clusters: 1 with drift.",
        "Drift: 1 modified, 0 missing, 0 unexpected; 1 in sync.",
    ]
    assert run(["drift", "--all", "--exit-zero"]) == 1
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "3 clusters: 1 with drift, 1 failed: lab.",
        "Drift: 1 modified, 0 missing, 0 unexpected; 1 in sync.",
    ]


@pytest.mark.parametrize("command", ["plan", "drift"])
@pytest.mark.parametrize("options", [["--cluster", "eu"], ["--cluster", "eu", "--cluster", "us"]])
@pytest.mark.parametrize("selection", [["--select", "user=alise"], ["--exclude", "*"]])
def test_a_selection_that_leaves_nothing_is_no_all_clear(
    command: str, options: list[str], selection: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A misspelt --select ended in: No changes. Your infrastructure matches the configuration. It was a success."""
    Path("plan-eu.json").write_text("an earlier result")
    assert run([command, *options, *selection, "--out", "plan-{cluster}.json"]) == 64
    printed = capsys.readouterr()
    assert printed.out == ""
    assert not Path("plan-eu.json").exists(), "it would be taken for the result of this run"
    assert printed.err.startswith(
        "Removed the earlier plan-eu.json, so that it is not taken for the result of this run\n"
    )
    assert printed.err.count("Removed") == 1, "nothing was there of the other cluster"
    assert "no entity of the files or of the cluster" in printed.err
    assert "patterns begin with an entity type, as in --select 'user=svc-*'" in printed.err


def test_a_plan_that_fails_says_that_the_earlier_file_is_removed(capsys: pytest.CaptureFixture[str]) -> None:
    """`plan --out plan.json` deleted the earlier plan.json without a word."""
    Path("plan.json").write_text("an earlier result")
    for removed in (1, 0):
        assert run(["plan", "--cluster", "lab", "--out", "plan.json"]) == 1
        assert capsys.readouterr().err.count("Removed the earlier plan.json, so that ") == removed
    assert not Path("plan.json").exists()


@pytest.mark.parametrize(("command", "code"), [("plan", 0), ("drift", 2)])
def test_a_selection_that_leaves_something_on_one_cluster_is_none_of_nothing(
    command: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whether --select matches is a question to all chosen clusters together, and to what is declared or live."""
    snapshot(Path(), "us", {Entity(user="by-hand"): {PRODUCER: 1.0}})
    assert run([command, "--cluster", "eu", "--cluster", "us", "--select", "user=by-hand"]) == code
    assert "by-hand" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["apply", "eu-plan.json", "eu-plan.json"], "another plan is also for cluster eu; give one of them"),
        (["apply", "quotas.d", "other.d"], "give one quotas directory, or saved plans"),
        (
            ["apply", "eu-plan.json", "us-plan.json", "--bootstrap-server", "b:1"],
            "each saved plan names its cluster; leave out the options that choose one",
        ),
        (
            ["apply", "eu-plan.json", "us-plan.json", "--expect-plan-id", f"sha256:{0:064}"],
            "--expect-plan-id: it is the id of one plan; apply the clusters one by one",
        ),
        (["apply", "--cluster", "eu", "--auto-approve"], "cluster eu is a snapshot file, which can be planned but not"),
    ],
)
def test_plans_that_cannot_be_applied_together_are_refused(
    folder: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["plan", "--cluster", "eu", "--cluster", "us", "--out", "{cluster}-plan.json"]) == 0
    (folder / "quotaform.yaml").write_text(
        f"clusters: {{eu: {{bootstrap_servers: ['{DOWN}']}}, us: {{bootstrap_servers: ['{DOWN}']}}}}\n"
        if "--cluster" not in arguments
        else (folder / "quotaform.yaml").read_text()
    )
    capsys.readouterr()
    assert run(arguments) == 64
    assert message in capsys.readouterr().err


@pytest.fixture
def hanging(folder: Path) -> Iterator[None]:
    """Lab accepts a connection and never answers."""
    with create_server(("127.0.0.1", 0)) as silent:
        address = "{}:{}".format(*silent.getsockname())
        config = folder / "quotaform.yaml"
        config.write_text(config.read_text().replace(DOWN, address))
        yield


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "interrupt", "code", "message", "total"),
    [
        ("plan", KeyboardInterrupt(), 130, "interrupted", "3 clusters: 1 with changes, 1 not read: lab."),
        ("drift", TerminatedError("SIGTERM"), 143, "terminated", "3 clusters: 1 with drift, 1 not read: lab."),
    ],
)
@pytest.mark.usefixtures("hanging")
def test_what_was_read_before_an_interrupt_is_printed_and_written(
    command: str,
    interrupt: KeyboardInterrupt,
    code: int,
    message: str,
    total: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """While one cluster hung, Ctrl-C printed only `quotaform: interrupted`: no section and no file of the others."""
    interrupted: list[float] = []

    def stop(self: Console, what: str, done: int, total: int) -> None:
        if what == "Waiting for lab":
            interrupted.append(monotonic())
            raise interrupt

    monkeypatch.setattr(Console, "progress", stop)
    assert run([command, "--all", "--out", "made/{cluster}.json"]) == code
    assert monotonic() - interrupted[0] < 9, "the connection is given up after 10 seconds"
    printed = capsys.readouterr()
    saved = ["Saved the plans to: made/eu.json, made/us.json"] if command == "plan" else []
    assert printed.err.splitlines() == [*saved, f"Error: {message}"]
    lines = printed.out.splitlines()
    assert [line.split()[1] for line in lines if line.startswith("Cluster ")] == ["eu", "us"]
    assert total in lines
    assert sorted(path.name for path in (folder / "made").iterdir()) == ["eu.json", "us.json"]


def test_the_saved_plan_is_named_with_the_command_that_applies_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing told that a plan file was written, nor how to go on."""
    (folder / "quotaform.yaml").write_text(f"clusters: {{eu: {{bootstrap_servers: ['{DOWN}']}}}}\n")
    plan = ["plan", "--snapshot", "eu.json"]
    assert run([*plan, "--out", "my plan.json", "--out", "text=plan.txt"]) == 0
    printed = capsys.readouterr()
    assert printed.err.splitlines() == [
        "Saved the plan to: my plan.json",
        "To apply: quotaform apply 'my plan.json'",
    ]
    assert printed.out.splitlines()[-1].startswith("Plan: ")
    for quiet in (["--out", "plan.json", "--quiet"], ["--out", "text=plan.txt"], []):
        assert run([*plan, *quiet]) == 0
        assert capsys.readouterr().err == ""
    (folder / "quotaform.yaml").rename(folder / "other.yaml")
    assert run([*plan, "--config", "other.yaml", "--out", "plan.json"]) == 0
    assert capsys.readouterr().err.splitlines()[-1] == "To apply: quotaform apply plan.json --config other.yaml"


def test_the_plan_of_a_pull_request_is_saved_without_the_command_that_applies_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each pull request told how to apply a change that nobody had merged."""
    git = GitRepository(folder)
    git.write("quotaform.yaml", f"clusters: {{eu: {{bootstrap_servers: ['{DOWN}']}}}}\n")
    git.git("init", "-q", "-b", "main")
    before = git.commit()
    git.git("update-ref", "refs/remotes/origin/main", before)
    git.write("event.json", json.dumps({"before": before}))
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_EVENT_PATH", str(folder / "event.json"))
    for variable, value, is_told in (("GITHUB_EVENT_NAME", "push", True), ("GITHUB_BASE_REF", "main", False)):
        monkeypatch.setenv(variable, value)
        assert run(["plan", "--snapshot", "eu.json", "--out", "plan.json"]) == 0
        printed = capsys.readouterr().err
        assert "Saved the plan to: plan.json" in printed
        assert ("To apply: " in printed) is is_told


def test_of_several_saved_plans_those_that_can_be_applied_are_in_the_command(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--cluster", "eu", "--cluster", "us", "--out", "{cluster}-plan.json"]
    assert run(["plan", *arguments]) == 0
    assert capsys.readouterr().err == "Saved the plans to: eu-plan.json, us-plan.json\n"
