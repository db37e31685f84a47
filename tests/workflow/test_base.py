"""A change of the files from the pull request to the cluster: compared with its base, applied, and pruned."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from quotaform.model.entity import Entity
from tests.git_repository import ENVIRONMENT, GitRepository
from tests.workflow.command import Cluster, Repository

pytestmark = pytest.mark.workflow

MIB = 1048576.0
FIRST = """\
  - match: {user: app}
    values: {producer_byte_rate: 10MiB/s, consumer_byte_rate: 20MiB/s}
  - match: {user: old}
    values: {producer_byte_rate: 5MiB/s}
    owner: team-old
  - match: {user: audit}
    values: {producer_byte_rate: 16MiB/s}
"""
SECOND = """\
  - match: {user: app}
    values: {producer_byte_rate: 20MiB/s, consumer_byte_rate: 20MiB/s}
  - match: {user: audit}
    values: {producer_byte_rate: 16MiB/s}
  - match: {user: new}
    values: {producer_byte_rate: 1MiB/s}
"""
GUARDS = ("delete=9", "to-unlimited", "change-factor")
ALLOWED = tuple(word for guard in GUARDS for word in ("--allow", guard))
"""What allows the changes of these tests."""


@pytest.fixture
def team(repository: Repository, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """A git repository whose first commit was applied, and whose second one is not; somebody edited the cluster."""
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM"):
        monkeypatch.setenv(name, ENVIRONMENT[name])
    git = GitRepository(repository.path)
    git.git("init", "-q", "-b", "main")
    repository.write(".gitignore", ".quotaform/\n*.json\n")
    repository.config(repository.read("quotaform.yaml") + "prune: removed\n")
    repository.quotas(FIRST)
    commit(git)
    applied = repository("apply", "--auto-approve")
    assert applied.code == 0, applied.said
    repository.quotas(SECOND)
    commit(git)
    cluster.alter({Entity(user=name): {"producer_byte_rate": 80 * MIB} for name in ("audit", "stranger")})
    return repository


def commit(git: GitRepository) -> str:
    git.git("add", "-A")
    git.git("commit", "-q", "-m", "change")
    return git.git("rev-parse", "HEAD")


def planned(repository: Repository, *arguments: str) -> dict[str, tuple[str, str | None]]:
    """The action and the origin of each change, by address."""
    shown = repository("plan", "--format", "json", *arguments)
    assert shown.out, shown.err
    changes: list[Mapping[str, str]] = json.loads(shown.out)["changes"]
    return {change["address"]: (change["action"], change["origin"]) for change in changes}


def test_a_pull_request_shows_what_it_changes_apart_from_what_was_edited_live(team: Repository) -> None:
    assert planned(team, "--base", "HEAD~1") == {
        "user=old": ("delete", "config"),
        "user=app": ("update", "config"),
        "user=audit": ("update", "drift"),
        "user=new": ("create", "config"),
    }
    text = team("plan", "--base", "HEAD~1").out
    assert "(removed from quotas.d/quotas.yaml in this change; was line 4; owner team-old)" in text
    assert "Drift: the cluster differs from the base in 1 entity (not applied yet, or edited by hand)" in text
    assert "this apply would change it.\n    ~ user=audit\n" in text
    assert "Not managed, left unchanged: 1 in scope, 0 out of scope" in text


def test_applying_with_the_base_removes_what_the_change_removed_and_nothing_else(
    team: Repository, cluster: Cluster
) -> None:
    applied = team("apply", "--base", "HEAD~1", "--auto-approve", *ALLOWED)
    assert applied.code == 0, applied.said
    assert applied.last == "Apply complete! Resources: 1 added, 2 changed, 1 destroyed."
    assert cluster.read() == {
        Entity(user="app"): {"producer_byte_rate": 20 * MIB, "consumer_byte_rate": 20 * MIB},
        Entity(user="audit"): {"producer_byte_rate": 16 * MIB},
        Entity(user="new"): {"producer_byte_rate": MIB},
        Entity(user="stranger"): {"producer_byte_rate": 80 * MIB},
    }
    again = team("apply", "--base", "HEAD~1", "--auto-approve")
    assert (again.code, "No changes." in again.out) == (0, True)


def test_without_a_base_the_last_receipt_says_what_was_declared(team: Repository, cluster: Cluster) -> None:
    assert planned(team)["user=old"] == ("delete", None)
    applied = team("apply", "--auto-approve", *ALLOWED)
    assert applied.code == 0, applied.said
    assert cluster.values(user="old") == {}
    assert cluster.values(user="stranger") == {"producer_byte_rate": 80 * MIB}
