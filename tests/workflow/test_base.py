"""A change of the files from the pull request to the cluster: compared with its base, applied, and pruned."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from quotaform.model.entity import Entity
from tests.git_repository import ENVIRONMENT, GitRepository
from tests.workflow.command import Cluster, Repository, Result

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


def test_a_saved_plan_with_a_base_is_applied_as_it_was_reviewed(team: Repository, cluster: Cluster) -> None:
    assert team("plan", "--base", "HEAD~1", "--out", "plan.json", *ALLOWED).code == 0
    shown = team("show", "plan.json").out
    assert "Base HEAD~1 @ " in shown.splitlines()[0]
    assert team("apply", "plan.json").code == 0
    assert cluster.values(user="old") == {}
    assert team("apply", "plan.json", "--base", "main").code == 64


def test_without_a_base_the_last_receipt_says_what_was_declared(team: Repository, cluster: Cluster) -> None:
    assert planned(team)["user=old"] == ("delete", None)
    applied = team("apply", "--auto-approve", *ALLOWED)
    assert applied.code == 0, applied.said
    assert cluster.values(user="old") == {}
    assert cluster.values(user="stranger") == {"producer_byte_rate": 80 * MIB}


def test_without_a_base_and_without_receipts_nothing_is_applied(team: Repository, cluster: Cluster) -> None:
    for path in team.receipts:
        path.unlink()
    before = cluster.read()
    refused = team("apply", "--auto-approve", *ALLOWED)
    assert (refused.code, "prune-unknown" in refused.said) == (4, True)
    assert cluster.read() == before
    assert team("plan").code == 4


def test_a_receipt_of_this_cluster_is_a_base(team: Repository) -> None:
    (receipt,) = team.receipts
    found = planned(team, "--base", str(receipt.relative_to(team.path)))
    assert found == {
        "user=old": ("delete", "config"),
        "user=app": ("update", "config"),
        "user=audit": ("update", "drift"),
        "user=new": ("create", "config"),
    }
    edited = receipt.read_text().replace('"user=old"', '"user=odd"')
    team.write("edited.json", edited)
    assert_error(team("plan", "--base", "edited.json"), 5, "Error: edited.json was changed after it was written")


def test_everything_undeclared_in_scope_is_deleted_only_with_a_scope(team: Repository, cluster: Cluster) -> None:
    refused = team("plan", "--prune", "scope")
    assert (refused.code, "[prune-scope]" in refused.err) == (3, True)
    config = team.read("quotaform.yaml").replace("prune: removed", "prune: scope")
    team.config(config + "scope: {include: [{user: '*'}]}\n")
    assert set(planned(team)) == {"user=old", "user=app", "user=audit", "user=new", "user=stranger"}
    partial = team("plan", "--select", "user=app")
    assert (partial.code, partial.last) == (0, "Plan: 0 to add, 1 to change, 0 to destroy.")
    assert "not-pruned" in partial.out


def test_a_base_that_is_not_there_is_an_error_with_what_to_do(team: Repository, tmp_path: Path) -> None:
    assert_error(team("plan", "--base", "mian"), 1, "git knows no commit of this name; did you mean main?")
    GitRepository(team.path).clone(tmp_path / "shallow", "--depth=1")
    shallow = Repository(tmp_path / "shallow")
    assert_error(shallow("plan", "--base", "HEAD~1"), 1, "this is a shallow clone; fetch it")
    warned = shallow("plan", "--prune", "report", env={"GITHUB_ACTIONS": "true", "GITHUB_BASE_REF": "release"})
    assert (warned.code, "base-unreadable" in warned.out, "guards-loosened" in warned.out) == (4, True, True)
    assert warned.err.startswith("Base origin/release, from GITHUB_BASE_REF")


def test_a_dirty_tree_is_compared_as_it_is(team: Repository) -> None:
    team.quotas(FIRST)
    text = team("plan", "--base", "HEAD~1").out
    assert "(dirty)   Base HEAD~1 @ " in text.splitlines()[0]
    assert planned(team, "--base", "HEAD~1") == {"user=audit": ("update", "drift")}


def test_one_cluster_that_is_down_does_not_hide_the_other_ones_comparison(team: Repository) -> None:
    servers = team.read("quotaform.yaml").partition("bootstrap_servers: ")[2].partition("\n")[0]
    clusters = f'lab: {{bootstrap_servers: {servers}}}, down: {{bootstrap_servers: ["127.0.0.1:1"]}}'
    team.config(f"clusters: {{{clusters}}}\nprune: removed\n")
    shown = team("plan", "--all", "--base", "HEAD~1")
    assert shown.code == 1
    assert "user=app will be updated in-place" in shown.out
    assert "origin: config" in shown.out


def test_another_repository_on_the_same_cluster_is_respected(team: Repository, cluster: Cluster) -> None:
    other = team.path.parent / "other"
    (other / "quotas.d").mkdir(parents=True)
    (other / "quotaform.yaml").write_text(team.read("quotaform.yaml"))
    (other / "quotas.d" / "all.yaml").write_text(
        "quotas: [{match: {user: old}, values: {producer_byte_rate: 5MiB/s}}]\n"
    )
    team.config(team.read("quotaform.yaml") + "roots: [../other]\n")
    assert "user=old" not in planned(team, "--base", "HEAD~1")
    team.quotas(FIRST)
    refused = team("plan")
    assert (refused.code, "[claimed-twice]" in refused.err) == (3, True)
    together = team("validate", "quotas.d", "../other")
    assert (together.code, "[claimed-twice]" in together.out) == (3, True)


def assert_error(result: Result, code: int, said: str) -> None:
    assert (result.code, result.out) == (code, "")
    assert said in result.err
