"""What the files declared before and do not declare any more.

Deleting an entry from a file did nothing and the plan said "No changes": nothing told that the entity stays on the
cluster.
"""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest

from quotaform.app import removal
from quotaform.app.repository import Repository
from quotaform.app.source import read_source
from quotaform.core.check.facts import Removal
from quotaform.model.entity import Entity
from tests.git_repository import GitRepository
from tests.workflow.command import run

ALICE, BOB, CAROL = (Entity(user=name) for name in ("alice", "bob", "carol"))
TODAY = date(2026, 11, 20)
CONFIG = "clusters: {lab: {snapshot: lab.json}, prod: {snapshot: lab.json}}\n"


@pytest.fixture
def files(tmp_path: Path) -> GitRepository:
    made = GitRepository.init(tmp_path / "files")
    made.write("quotaform.yaml", CONFIG)
    made.declare("all.yaml", "alice", "bob", "carol")
    made.commit()
    return made


def removed(files: GitRepository, *entities: Entity, cluster: str = "lab") -> dict[Entity, Removal]:
    repository = Repository.at(files.path, None)
    config = repository.config()
    source = read_source(repository, config, repository.layout(config).tree, TODAY)
    assert source.problem is None
    found = source.removed(cluster, entities or (ALICE, BOB, CAROL))
    folder = f"{files.path}/"
    return {entity: Removal(where.file.removeprefix(folder), where.commit) for entity, where in found.items()}


def test_what_is_not_committed_and_what_is_have_their_step(files: GitRepository) -> None:
    files.declare("all.yaml", "alice", "bob")
    first = files.commit()
    files.git("mv", "quotas.d/all.yaml", "quotas.d/new.yaml")
    files.commit()
    files.declare("new.yaml", "alice")
    assert removed(files, BOB, CAROL) == {
        BOB: Removal("quotas.d/new.yaml"),
        CAROL: Removal("quotas.d/all.yaml", first),
    }
    second = files.commit()
    assert removed(files, BOB) == {BOB: Removal("quotas.d/new.yaml", second)}


def test_a_file_that_is_gone_declared_what_it_held(files: GitRepository) -> None:
    files.declare("other.yaml")
    (files.path / "quotas.d" / "all.yaml").unlink()
    commit = files.commit()
    assert removed(files) == {entity: Removal("quotas.d/all.yaml", commit) for entity in (ALICE, BOB, CAROL)}


def test_other_layers_tombstones_and_expired_entries_left_nothing_behind(files: GitRepository) -> None:
    files.declare("prod/own.yaml", "dave")
    files.declare("all.yaml", "alice", more="state: absent")
    files.declare("old.yaml", "bob", more="values: {producer_byte_rate: 1}\n    expires: 2026-11-20")
    files.declare("lab/own.yaml", "carol", more="state: absent")
    files.declare("common.yaml", "carol")
    files.commit()
    for name in ("prod/own", "all", "old", "lab/own", "common"):
        files.declare(f"{name}.yaml")
    commit = files.commit()
    dave = Entity(user="dave")
    assert removed(files, ALICE, BOB, CAROL, dave) == {}
    assert removed(files, CAROL, dave, cluster="prod") == {
        CAROL: Removal("quotas.d/common.yaml", commit),
        dave: Removal("quotas.d/prod/own.yaml", commit),
    }


def test_a_branch_that_was_merged_is_one_step(files: GitRepository) -> None:
    files.git("checkout", "-q", "-b", "change")
    files.declare("all.yaml", "alice", "bob", "carol", "dave")
    files.commit()
    files.declare("all.yaml", "alice", "bob")
    files.commit()
    files.git("checkout", "-q", "main")
    files.git("merge", "-q", "--no-ff", "-m", "merge", "change")
    merge = files.git("rev-parse", "HEAD")
    assert removed(files, CAROL, Entity(user="dave")) == {CAROL: Removal("quotas.d/all.yaml", merge)}


@pytest.mark.parametrize(
    "text",
    [
        "quotas: [{match: {user: [x, {name: '<default>'}, <default>]}, values: {request_percentage: 1}}]\n",
        "quotas:\n  - match:\n      user:\n        - x\n        - {name: '<default>'}\n        - <default>\n    "
        "values: {request_percentage: 1}\n",
        'quotas: [{match: {user: ["\\u0078", {name: "<\\u0064efault>"}, <default>]}, values: {request_percentage: 1}}]',
    ],
)
def test_names_are_found_however_they_are_written(text: str, files: GitRepository) -> None:
    files.write("quotas.d/odd.yaml", text)
    files.commit()
    files.declare("odd.yaml")
    commit = files.commit()
    entities = (Entity(user="x"), Entity(user="<default>"), Entity(user=None))
    assert removed(files, *entities) == {entity: Removal("quotas.d/odd.yaml", commit) for entity in entities}


def test_a_name_that_never_was_in_the_files_costs_no_parsing(
    files: GitRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    for rate in range(3):
        files.declare("all.yaml", "alice", "bob", "carol", more=f"values: {{producer_byte_rate: {rate + 5}}}")
        files.commit()
    monkeypatch.setattr("quotaform.desired.loader.load_file", lambda *_: pytest.fail("a file was parsed"))
    assert removed(files, Entity(user="stranger"), ALICE) == {}


@pytest.mark.parametrize("bound", [("MAX_COMMITS", 1), ("MAX_READ_BYTES", 10), ("MAX_PARSED_BYTES", 10)])
def test_the_search_is_bounded(bound: tuple[str, int], files: GitRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    files.declare("all.yaml", "alice")
    files.commit()
    assert removed(files, BOB)
    monkeypatch.setattr(removal, *bound)
    assert removed(files, BOB) == {}


def test_a_shallow_clone_knows_its_own_commit_only(files: GitRepository, tmp_path: Path) -> None:
    files.declare("all.yaml", "alice", "bob")
    files.commit()
    clone = files.clone(tmp_path / "clone", "--depth=1")
    clone.declare("all.yaml", "alice")
    assert removed(clone, BOB, CAROL) == {BOB: Removal("quotas.d/all.yaml")}


def test_plan_and_drift_say_it(files: GitRepository) -> None:
    live = [{"entity": {"user": name}, "values": {"producer_byte_rate": 1048576}} for name in ("alice", "bob", "eve")]
    snapshot = {
        "format_version": "1.0",
        "kind": "quotaform.snapshot",
        "cluster": {"name": "lab", "id": "id"},
        "captured_at": "2026-11-20T09:12:44Z",
        "quotas": live,
    }
    files.write("lab.json", json.dumps(snapshot))
    files.declare("all.yaml", "alice")
    commit = files.commit()
    message = f"removed from quotas.d/all.yaml in {commit[:7]}; it stays on the cluster. To delete it, declare it with "
    said = f"1 entity was declared in the files before and is no longer:\n    user=bob: {message}state: absent\n\n"
    unmanaged = "Not managed and left alone: 2 in scope, 0 out of scope (list: --show-unmanaged).\n\nNo changes."
    assert f"\n{said}{unmanaged}" in run("plan", "--cluster", "lab", cwd=files.path).out
    assert f"\n{said}Drift: " in run("drift", "--cluster", "lab", cwd=files.path).out
    (found,) = json.loads(run("plan", "--cluster", "lab", "--format", "json", cwd=files.path).out)["findings"]
    assert (found["rule"], found["severity"], found["blocking"]) == ("no-longer-declared", "warning", False)
    assert (found["address"], found["message"]) == ("user=bob", f"{message}state: absent")
