"""The files for CI systems are what their schemas say, and run nothing that a stranger can change.

`tests/golden/ci-said.txt` has what they say, and `tests/workflow/test_ci_files.py` runs them.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.actions import ROOT, load
from tests.golden.conftest import Golden, golden
from tests.golden.table import Lines, check_told

pytestmark = pytest.mark.slow
__all__ = ["golden"]

EXAMPLES = ROOT / "examples"
WORKFLOWS = sorted((EXAMPLES / "github" / ".github" / "workflows").iterdir())
TEMPLATES = ROOT / "src" / "quotaform" / "review" / "template"
SHELLCHECK = str(Path(sys.executable).with_name("shellcheck"))

FILES = [*WORKFLOWS, EXAMPLES / "gitlab" / "quotaform.gitlab-ci.yml", *(EXAMPLES / "atlantis").iterdir()]
FILES.append(ROOT / "action.yml")

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


def uncommented(name: str) -> str:
    """Return quotas-plan.yml with the lines and the step of one alternative."""
    head, body = (TEMPLATES / "github" / "quotas-plan.yml").read_text().split("\njobs:\n")
    step = re.compile(rf"^ *# - name: .*{name}.*\n(?: *#   .*\n)+", re.MULTILINE | re.IGNORECASE)
    line = re.compile(rf"^( *)# (?=.*\({name}\))", re.MULTILINE)
    body = step.sub(lambda found: re.sub(r"^( *)# ", r"\1", found[0], flags=re.MULTILINE), body)
    return head + "\njobs:\n" + line.sub(r"\1", body)


@pytest.mark.parametrize("name", ["code scanning", "live cluster"])
def test_an_alternative_is_whole_once_it_is_uncommented(name: str, tmp_path: Path) -> None:
    copy = tmp_path / "quotas-plan.yml"
    copy.write_text(uncommented(name))
    test_files_are_what_their_schema_says("github-workflows", [copy])


def of_said(text: str) -> Lines:
    """Return what is at a path of a file, or of an alternative of quotas-plan.yml; `~WORD` are items of a list."""
    name, *path = shlex.split(text)
    files = {each.name: each for each in FILES}
    found: Any = load(files[name]) if name in files else yaml.load(uncommented(name), yaml.BaseLoader)  # noqa: S506
    for word in path:
        if word.startswith("~"):
            found = [each for each in found if word[1:] in str(each)]
        else:
            found = [each.get(word) for each in found] if isinstance(found, list) else found.get(word)
    return [json.dumps(found)]


def test_the_files_say_this(golden: Golden) -> None:
    check_told(golden, "ci-said.txt", of_said)


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


def test_the_action_installs_the_pinned_versions_of_its_own_checkout() -> None:
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
