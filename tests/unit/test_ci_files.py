"""The files for CI systems are what their schemas say, and run nothing that a stranger can change."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.actions import ROOT, load

pytestmark = pytest.mark.slow

EXAMPLES = ROOT / "examples"
WORKFLOWS = sorted((EXAMPLES / "github" / ".github" / "workflows").iterdir())
TEMPLATES = ROOT / "src" / "quotaform" / "review" / "template"
SHELLCHECK = str(Path(sys.executable).with_name("shellcheck"))

ATLANTIS_REPO = {"version", "parallel_plan", "parallel_apply", "projects"}
ATLANTIS_PROJECT = {"name", "dir", "workflow", "autoplan"}
ATLANTIS_SERVER = {"repos", "workflows"}
ATLANTIS_SERVER_REPO = {"id", "allowed_overrides", "plan_requirements", "apply_requirements"}
ATLANTIS_REQUIREMENTS = {"approved", "mergeable", "undiverged"}
"""Keys and words of https://www.runatlantis.io/docs/repo-level-atlantis-yaml and .../server-side-repo-config."""


@pytest.mark.parametrize(
    ("schema", "paths"),
    [
        ("github-actions", [ROOT / "action.yml"]),
        ("gitlab-ci", [EXAMPLES / "gitlab" / "quotaform.gitlab-ci.yml"]),
        ("github-workflows", [*WORKFLOWS, *(ROOT / ".github" / "workflows").iterdir()]),
    ],
    ids=["action", "gitlab", "workflows"],
)
def test_files_are_what_their_schema_says(schema: str, paths: list[Path]) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_workflows_to_copy_are_those_that_init_writes() -> None:
    assert [path.name for path in WORKFLOWS] == ["quotas-apply.yml", "quotas-drift.yml", "quotas-plan.yml"]
    for path in [*WORKFLOWS, EXAMPLES / "gitlab" / "quotaform.gitlab-ci.yml"]:
        template = TEMPLATES / ("gitlab" if path.parent.name == "gitlab" else "github") / path.name
        assert path.read_text() == template.read_text(), f"copy it from {TEMPLATES}"


def uncommented(name: str, folder: Path) -> dict[str, Any]:
    """Return the job that plans on a pull request, with the lines and the step of one alternative."""
    (path,) = (path for path in WORKFLOWS if path.name == "quotas-plan.yml")
    head, body = path.read_text().split("\njobs:\n")
    step = re.compile(rf"^ *# - name: .*{name}.*\n(?: *#   .*\n)+", re.MULTILINE | re.IGNORECASE)
    line = re.compile(rf"^( *)# (?=.*\({name}\))", re.MULTILINE)
    body = step.sub(lambda found: re.sub(r"^( *)# ", r"\1", found[0], flags=re.MULTILINE), body)
    copy = folder / path.name
    copy.write_text(head + "\njobs:\n" + line.sub(r"\1", body))
    test_files_are_what_their_schema_says("github-workflows", [copy])
    return dict(load(copy)["jobs"]["plan"])


def test_the_step_for_code_scanning_is_whole_once_it_is_uncommented(tmp_path: Path) -> None:
    job = uncommented("code scanning", tmp_path)
    assert job["permissions"]["security-events"] == "write"
    (upload,) = (step for step in job["steps"] if step.get("name") == "Code scanning")
    written = next(step["run"] for step in job["steps"] if step.get("name") == "Plan")
    assert re.fullmatch(r"github/codeql-action/upload-sarif@[0-9a-f]{40}", upload["uses"])
    assert upload["with"]["sarif_file"].replace("${{ matrix.cluster }}", "$CLUSTER") in written.split('"sarif=')[1]


def test_a_pull_request_gets_no_credentials_unless_the_repository_chooses_so(tmp_path: Path) -> None:
    """Every branch was given the credentials of the clusters, while docs/security.md said that plans run without."""
    plan = load(TEMPLATES / "github" / "quotas-plan.yml")["jobs"]["plan"]
    assert "environment" not in plan
    assert "secrets." not in str(plan)
    live = uncommented("live cluster", tmp_path)
    assert live["environment"] == "quotas-plan-${{ matrix.cluster }}"
    assert live["env"]["QUOTAFORM_ENV"] == "QUOTAFORM_COMMAND_CONFIG"
    (credentials,) = (step for step in live["steps"] if "Credentials" in step.get("name", ""))
    assert credentials["env"] == {"KAFKA_CLIENT_PROPERTIES": "${{ secrets.KAFKA_CLIENT_PROPERTIES }}"}
    assert "environment" not in load(TEMPLATES / "gitlab" / "quotaform.gitlab-ci.yml")["quotas-plan"]
    stages = load(EXAMPLES / "atlantis" / "repos.yaml")["workflows"]["quotaform"]
    assert "--snapshot" in str(stages["plan"])
    assert "QUOTAFORM_ENV" not in str(stages["plan"])


def test_snapshots_are_written_under_the_key_that_pull_requests_read() -> None:
    key = "quotas-snapshot/${{ matrix.cluster }}/"
    kept = {path.name: [step["with"] for step in steps_of(path) if key in str(step)] for path in WORKFLOWS}
    assert {name: len(found) for name, found in kept.items()} == {
        "quotas-apply.yml": 1,
        "quotas-drift.yml": 1,
        "quotas-plan.yml": 1,
    }
    assert {each["path"] for found in kept.values() for each in found} == {"live"}
    assert kept["quotas-plan.yml"][0]["restore-keys"] == key


def steps_of(path: Path) -> list[dict[str, Any]]:
    document = load(path)
    if "runs" in document:
        return list(document["runs"]["steps"])
    return [step for job in document["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize(
    "path",
    [ROOT / "action.yml", EXAMPLES / "gitlab" / "quotaform.gitlab-ci.yml", *WORKFLOWS],
    ids=lambda path: path.name,
)
def test_scripts_pass_shellcheck_and_have_no_expression_and_no_strangers_action(path: Path) -> None:
    """The generated workflow failed actionlint: a variable of the step had a namesake in lower case (SC2153).

    What an expression stands for is put into the script before bash reads it: a branch name could be a command.
    """
    if path.parent.name == "gitlab":
        jobs = [job for name, job in load(path).items() if name.startswith("quotas-")]
        scripts = ["\n".join(job["script"]) for job in jobs]
    else:
        scripts = [step["run"] for step in steps_of(path) if "run" in step]
        used = [step["uses"] for step in steps_of(path) if "uses" in step]
        assert [each for each in used if not re.fullmatch(r"(actions|quotaform)/[a-z/-]+@\S+", each)] == []
    for script in scripts:
        assert "${{" not in script
        command = [SHELLCHECK, "--norc", "--shell=bash", "-"]
        done = subprocess.run(command, input=script, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", [*WORKFLOWS, ROOT / "action.yml", ROOT / ".github" / "workflows" / "ci.yml"])
def test_actions_of_others_are_pinned_by_commit(path: Path) -> None:
    """A tag can be moved to other code; the version beside the commit is for whoever updates it."""
    for used in re.findall(r"uses: (.*)", path.read_text()):
        assert re.fullmatch(r"[a-z/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+|quotaform/quotaform@v\d+\.\d+\.\d+", used), used


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_may_do_no_more_than_it_needs(path: Path) -> None:
    workflow = load(path)
    assert workflow["permissions"] == {"contents": "read"}
    assert "pull_request_target" not in workflow["on"]
    for name, job in workflow["jobs"].items():
        more = {scope for scope, level in job.get("permissions", {}).items() if level == "write"}
        assert more == ({"pull-requests"} if (path.name, name) == ("quotas-plan.yml", "plan") else set())
        assert int(job["timeout-minutes"]) <= 30
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] == "false"
            secret = "secrets." in str(step)
            assert not secret or "matrix.cluster" in job["environment"], "each cluster has secrets of its own"


def test_forks_get_no_secrets_and_one_apply_runs_at_a_time() -> None:
    plan = load(TEMPLATES / "github" / "quotas-plan.yml")["jobs"]
    assert "environment" not in plan["validate"]
    own = "github.event.pull_request.head.repo.full_name == github.repository"
    assert plan["plan"]["if"] == f"${{{{ !cancelled() && {own} }}}}", "invalid files are shown in the comment, too"
    apply = load(TEMPLATES / "github" / "quotas-apply.yml")["jobs"]["apply"]
    assert apply["concurrency"] == {"group": "quotas-${{ matrix.cluster }}", "cancel-in-progress": "false"}
    assert apply["environment"] == "quotas-apply-${{ matrix.cluster }}"


def test_drift_has_the_history_and_never_the_receipt_of_a_revert() -> None:
    """Each run failed after a revert; without the history, what was merged and not applied counted as drift."""
    (checkout,) = (each for each in steps_of(TEMPLATES / "github" / "quotas-drift.yml") if "checkout" in str(each))
    assert checkout["with"]["fetch-depth"] == "0"
    saved = [each for each in steps_of(TEMPLATES / "github" / "quotas-apply.yml") if "cache/save" in str(each)]
    assert [each["if"] for each in saved if each["with"]["path"] == "receipts"] == ["inputs.revert-run == ''"]


def test_the_action_installs_the_pinned_versions_of_its_own_checkout() -> None:
    (install,) = (step for step in steps_of(ROOT / "action.yml") if step.get("name") == "Install quotaform")
    assert "PIP_CONSTRAINT=$GITHUB_ACTION_PATH/constraints.txt" in install["run"]
    assert (ROOT / "constraints.txt").is_file()
    inputs = load(ROOT / "action.yml")["inputs"]
    assert all("description" in each and "default" in each for each in inputs.values())


def test_the_atlantis_files_have_documented_keys() -> None:
    server, repository = load(EXAMPLES / "atlantis" / "repos.yaml"), load(EXAMPLES / "atlantis" / "atlantis.yaml")
    assert server.keys() == ATLANTIS_SERVER
    for repo in server["repos"]:
        assert repo.keys() <= ATLANTIS_SERVER_REPO
        assert {*repo["plan_requirements"], *repo["apply_requirements"]} <= ATLANTIS_REQUIREMENTS
        assert "allow_custom_workflows" not in repo, "a pull request would decide what the server runs"
    for workflow in server["workflows"].values():
        assert workflow.keys() == {"plan", "apply"}
        for stage in workflow.values():
            for step in stage["steps"]:
                if "env" in step:
                    assert step["env"].keys() == {"name", "value"}
                    continue
                run = step["run"]
                assert isinstance(run, str) or (run.keys() == {"command", "output"} and run["output"] == "show")
    assert repository.keys() <= ATLANTIS_REPO
    assert repository["version"] == "3"
    for project in repository["projects"]:
        assert project.keys() == ATLANTIS_PROJECT
        assert project["workflow"] in server["workflows"]
