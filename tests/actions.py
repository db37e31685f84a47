"""What a runner of GitHub Actions does with the steps of a job, as far as workflows of this repository need it.

Scripts run in bash as on a runner. Steps that use another action are played by a function, or do nothing. An expression
must be one that the test gives a value for, so that a workflow cannot use one unnoticed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.workflow.command import QUOTAFORM

ROOT = Path(__file__).resolve().parents[1]
_EXPRESSION = re.compile(r"\$\{\{ *(.*?) *\}\}")
_HASH_FILES = re.compile(r"hashFiles\('([^']*)'\) != ''")
_SHELLS = {None: ("bash", "-e"), "bash": ("bash", "--noprofile", "--norc", "-eo", "pipefail")}


def load(path: Path) -> dict[str, Any]:
    """Return a workflow or an action; `on` is not true here, as it is in YAML 1.1."""
    return dict(yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.BaseLoader))  # noqa: S506


@dataclass(kw_only=True)
class Runner:
    """A machine on which jobs run one after the other, with the artifacts of one run.

    `artifacts`: where artifacts are kept, a folder for each.
    """

    workspace: Path  # the checkout
    temp: Path  # for files of the runner
    environ: dict[str, str]  # the variables that GitHub sets
    expressions: dict[str, str]  # the values of expressions
    caches: list[tuple[str, Path]] = field(default_factory=list)  # what was kept, with its key, the oldest first

    @property
    def artifacts(self) -> Path:
        return self.temp / "artifacts"

    def run(self, steps: list[dict[str, Any]], environ: Mapping[str, str] | None = None) -> JobResult:
        """Run the steps of a job; after a failure only those that ask for it.

        `environ`: the `env` of the job.
        """
        for name in [name for name in self.expressions if name.startswith("steps.")]:
            del self.expressions[name]
        job = JobResult(env=self.environ | {name: self._filled(value) for name, value in (environ or {}).items()})
        for name in ("ENV", "OUTPUT", "PATH", "STEP_SUMMARY"):
            path = self.temp / f"github-{name.lower()}"
            path.write_text("")
            job.env[f"GITHUB_{name}"] = str(path)
        job.env["RUNNER_TEMP"] = str(self.temp)
        for step in steps:
            if self._is_due(step, job):
                self._step(step, job)
        job.summary = (self.temp / "github-step_summary").read_text()
        return job

    def _step(self, step: dict[str, Any], job: JobResult) -> None:
        if "uses" in step:
            self._use(step, job)
            return
        for name in ("ENV", "OUTPUT"):
            (self.temp / f"github-{name.lower()}").write_text("")
        assert "${{" not in step["run"], "an expression in a script is an injection"
        done = subprocess.run(
            [*_SHELLS[step.get("shell")], "-c", step["run"]],
            cwd=self.workspace,
            env=job.env | {name: self._filled(value) for name, value in step.get("env", {}).items()},
            capture_output=True,
            text=True,
            check=False,
        )
        job.printed += done.stdout + done.stderr
        job.codes[step.get("name", step["run"])] = done.returncode
        job.env |= _assignments(self.temp / "github-env")
        outputs = _assignments(self.temp / "github-output")
        job.outputs |= outputs
        if "id" in step:
            self.expressions |= {f"steps.{step['id']}.outputs.{name}": value for name, value in outputs.items()}

    def _use(self, step: dict[str, Any], job: JobResult) -> None:
        given = {name: self._filled(value) for name, value in step.get("with", {}).items()}
        action = step["uses"].partition("@")[0]
        if action == "actions/upload-artifact":
            shutil.copytree(self.workspace / given["path"], self.artifacts / given["name"], dirs_exist_ok=True)
        elif action == "actions/cache/save":
            kept = self.temp / "cache" / str(len(self.caches)) / given["path"]
            shutil.copytree(self.workspace / given["path"], kept)
            self.caches.append((given["key"], kept))
        elif action == "actions/cache/restore":
            keys = [given["key"], *given["restore-keys"].splitlines()]
            matching = (kept for key in keys for name, kept in reversed(self.caches) if name.startswith(key))
            if (newest := next(matching, None)) is not None and newest.name == given["path"]:
                shutil.copytree(newest, self.workspace / given["path"], dirs_exist_ok=True)
        elif action == "actions/download-artifact":
            pattern = given.get("name") or given["pattern"]
            found = sorted(self.artifacts.glob(pattern))
            if not found and "name" in given:
                job.codes[action] = 1
            for folder in found:
                shutil.copytree(folder, self.workspace / given["path"], dirs_exist_ok=True)
        else:
            assert action in ("actions/checkout", "quotaform/quotaform", "actions/setup-python"), action

    def _is_due(self, step: dict[str, Any], job: JobResult) -> bool:
        condition = step.get("if", "")
        if "always()" not in condition and job.code:
            return False
        return all(self._holds(part.strip()) for part in condition.replace("always()", "").split("&&"))

    def _holds(self, condition: str) -> bool:
        if not condition:
            return True
        found = _HASH_FILES.fullmatch(condition)
        if found is not None:
            return any(path.is_file() for path in self.workspace.glob(found[1]))
        name, operator, value = re.split(r" (==|!=) ", condition)
        return (self.expressions.get(name, "") == value.strip("'")) is (operator == "==")

    def _filled(self, text: str) -> str:
        return _EXPRESSION.sub(lambda found: self.expressions[found[1]], text)


@dataclass
class JobResult:
    env: dict[str, str]  # the variables of its steps
    codes: dict[str, int] = field(default_factory=dict)  # the exit code of each step, by name
    outputs: dict[str, str] = field(default_factory=dict)  # what steps wrote to GITHUB_OUTPUT
    printed: str = ""  # what all steps printed
    summary: str = ""  # what the job summary shows

    @property
    def code(self) -> int:
        return next((code for code in self.codes.values() if code), 0)


def environment(**more: str) -> dict[str, str]:
    """Return the variables of a runner: the command is on the PATH, and nothing of the tester's own CI is there."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "GITLAB_", "CI_"))}
    path = f"{Path(QUOTAFORM).parent}{os.pathsep}{kept['PATH']}"
    return kept | {"PATH": path, "CI": "true"} | more


def _assignments(path: Path) -> dict[str, str]:
    """Read NAME=value lines, and values of several lines between delimiters, as a runner reads them."""
    found: dict[str, str] = {}
    lines = iter(path.read_text().splitlines() if path.exists() else ())
    for line in lines:
        name, delimiter = line.partition("<<")[::2]
        if delimiter and "=" not in name:
            value = []
            for inner in lines:
                if inner == delimiter:
                    break
                value.append(inner)
            found[name] = "\n".join(value)
        else:
            name, _, text = line.partition("=")
            found[name] = text
    return found
