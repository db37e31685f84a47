"""A git repository whose cluster is a snapshot, and what `quotaform` prints and writes when it is run there."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from quotaform.cli.main import run
from tests.git_repository import ENVIRONMENT, GitRepository

MIB = 1048576
CONFIG = "clusters: {lab: {snapshot: lab.json}}\n"


@dataclass(frozen=True)
class PlannedRepository(GitRepository):
    """A repository with a quotaform.yaml, and a snapshot that is not committed."""

    capsys: pytest.CaptureFixture[str]

    def live(self, **users: Mapping[str, float]) -> None:
        quotas = [{"entity": {"user": user}, "values": values} for user, values in users.items()]
        head = {"format_version": "1.0", "kind": "quotaform.snapshot", "captured_at": "2026-11-20T09:12:44Z"}
        self.write("lab.json", json.dumps({**head, "cluster": {"name": "lab", "id": "id"}, "quotas": quotas}))

    def quotas(self, name: str = "all.yaml", /, **users: str) -> None:
        """Write a file that declares users, each with what its entry says beside `match`."""
        items = "".join(f"  - {{match: {{user: {user}}}, {said}}}\n" for user, said in users.items())
        self.write(f"quotas.d/{name}", f"quotas:\n{items}" if items else "quotas: []\n")

    def commit(self) -> str:
        """Commit everything but the snapshot and return the id."""
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "change")
        return self.git("rev-parse", "HEAD")

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        """Run a command here; return its code, and what it printed on stdout and stderr."""
        here = Path.cwd()
        os.chdir(self.path)
        try:
            self.capsys.readouterr()
            code = run(list(arguments))
        except SystemExit as end:  # A shell that completes a command is answered so.
            code = int(end.code or 0)
        finally:
            os.chdir(here)
        printed = self.capsys.readouterr()
        return code, printed.out, printed.err

    def plan(self, *arguments: str) -> dict[str, Any]:
        _, out, err = self("plan", "--format", "json", *arguments)
        assert out, err
        document: dict[str, Any] = json.loads(out)
        return document


def rate(number: int) -> str:
    """What an entry says that declares this many MiB/s."""
    return f"values: {{producer_byte_rate: {number}MiB/s}}"


def live_rate(number: int) -> Mapping[str, float]:
    """The same as the cluster holds it."""
    return {"producer_byte_rate": number * MIB}


def changes(document: Mapping[str, Any]) -> dict[str, tuple[str, str | None]]:
    """Return the action and the origin of each change of a plan, by address."""
    return {change["address"]: (change["action"], change["origin"]) for change in document["changes"]}


def findings(document: Mapping[str, Any]) -> dict[str, str]:
    return {finding["rule"]: finding["message"] for finding in document["findings"]}


def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing of the tester's own git or CI system count."""
    for name in [name for name in os.environ if name.startswith(("GIT_", "CI_", "GITHUB_", "GITLAB_"))]:
        monkeypatch.delenv(name)
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM"):
        monkeypatch.setenv(name, ENVIRONMENT[name])
