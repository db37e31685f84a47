"""What the files declared before and do not declare any more.

Deleting an entry from a file did nothing and the plan said "No changes": nothing told that the entity stays on the
cluster.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from types import ModuleType

import pytest

from quotaform.cluster.snapshot import dump_snapshot
from quotaform.git import object_store as git
from quotaform.git import process as git_process
from quotaform.model.entity import Entity
from quotaform.model.quotas import Quotas, Snapshot
from quotaform.plan import source as history
from quotaform.plan import source as removal
from quotaform.plan.check.facts import NotSearched, Removal, RemovalSearch
from quotaform.plan.source import read_source
from quotaform.repository.repository import Repository
from tests.builder import PRODUCER
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


def searched(files: GitRepository, *entities: Entity, cluster: str = "lab") -> RemovalSearch:
    repository = Repository.at(files.path, None)
    config = repository.config()
    source = read_source(repository, config, repository.layout(config).tree, TODAY)
    assert source.problem is None
    found = source.removed(cluster, entities or (ALICE, BOB, CAROL))
    folder = f"{files.path}/"
    return RemovalSearch(
        {entity: Removal(where.file.removeprefix(folder), where.commit) for entity, where in found.removals.items()},
        tuple(replace(part, file=part.file and part.file.removeprefix(folder)) for part in found.not_searched),
    )


def removed(files: GitRepository, *entities: Entity, cluster: str = "lab") -> Mapping[Entity, Removal]:
    return searched(files, *entities, cluster=cluster).removals


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
    monkeypatch.setattr("quotaform.desired.quotas_file.load_file", lambda *_: pytest.fail("a file was parsed"))
    assert removed(files, Entity(user="stranger"), ALICE) == {}


@pytest.mark.parametrize(
    ("module", "name", "value", "reason"),
    [
        (history, "MAX_COMMITS", 1, "at most 1 commits are searched"),
        (removal, "MAX_PARSED_BYTES", 0, "at most 0 MiB of earlier files are parsed"),
        (git_process, "_MAX_BYTES_READ", 450, "at most 0 MiB of the repository are read"),
    ],
)
def test_the_search_is_limited_and_says_where_it_ended(
    module: ModuleType, name: str, value: int, reason: str, files: GitRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search that was cut short ended without a word, as if nothing had been removed."""
    files.declare("all.yaml", "alice")
    head = files.commit()
    assert searched(files, BOB) == RemovalSearch({BOB: Removal("quotas.d/all.yaml", head)})
    monkeypatch.setattr(module, name, value)
    assert searched(files, BOB) == RemovalSearch({}, (NotSearched(reason, head),))


def test_the_time_is_limited_for_all_clusters_together(files: GitRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    files.declare("all.yaml", "alice")
    files.commit()
    repository = Repository.at(files.path, None)
    config = repository.config()
    source = read_source(repository, config, repository.layout(config).tree, TODAY)
    assert source.removed("lab", [BOB]).removals
    assert source.history is not None
    monkeypatch.setattr(source.history._left, "seconds", 0)
    reason = "the repository is read for at most 3 seconds"
    assert source.removed("prod", [BOB]) == RemovalSearch({}, (NotSearched(reason),))


def test_a_file_that_was_large_once_hides_nothing(files: GitRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a large file had been committed and made small again nothing was found any more, without a word."""
    monkeypatch.setattr(removal, "MAX_FILE_BYTES", 1000)
    files.declare("all.yaml", "alice")
    commit = files.commit()
    files.declare("large.yaml", *(f"user-{number}" for number in range(100)))
    size = (files.path / "quotas.d" / "large.yaml").stat().st_size
    large = files.commit()
    files.declare("large.yaml", "bob")
    files.commit()
    files.declare("large.yaml")
    second = files.commit()
    found = {BOB: Removal("quotas.d/large.yaml", second), CAROL: Removal("quotas.d/all.yaml", commit)}
    assert searched(files, BOB, CAROL) == RemovalSearch(found)
    reason = f"it has {size:,} bytes, at most 1,000 are searched"
    assert searched(files, BOB, CAROL, Entity(user="eve")) == RemovalSearch(
        found, (NotSearched(reason, large, "quotas.d/large.yaml"),)
    )


def test_a_folder_that_is_too_large_ends_the_search_with_a_reason(
    files: GitRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        files.declare(f"{number}.yaml")
    files.commit()
    shutil.rmtree(files.path / "quotas.d")
    files.declare("all.yaml", "alice")
    head = files.commit()
    monkeypatch.setattr(git, "_MAX_OBJECT_BYTES", 500)
    (part,) = searched(files, BOB).not_searched
    assert (part.commit, part.reason.endswith(" bytes is larger than 500")) == (head, True)


def test_a_shallow_clone_knows_its_own_commit_only_and_says_so(files: GitRepository, tmp_path: Path) -> None:
    files.declare("all.yaml", "alice", "bob")
    head = files.commit()
    clone = files.clone(tmp_path / "clone", "--depth=1")
    clone.declare("all.yaml", "alice")
    assert searched(clone, BOB) == RemovalSearch({BOB: Removal("quotas.d/all.yaml")})
    assert searched(clone, BOB, CAROL) == RemovalSearch(
        {BOB: Removal("quotas.d/all.yaml")},
        (NotSearched("the commit before it is not in this clone; fetch the history", head),),
    )


def write_snapshot(files: GitRepository, *users: str) -> None:
    quotas: Quotas = {Entity(user=user): {PRODUCER: 1048576.0} for user in users}
    taken = Snapshot(cluster_name="lab", cluster_id="id", captured_at="2026-11-20T09:12:44Z", quotas=quotas)
    files.write("lab.json", dump_snapshot(taken))


def test_a_plan_says_which_earlier_files_were_not_searched(files: GitRepository, tmp_path: Path) -> None:
    """A search that was cut short left no trace in a plan: the author of a change could switch the check off."""
    write_snapshot(files, "bob", "eve")
    files.write("quotas.d/large.yaml", "# " + "x" * (3 << 20) + "\nquotas: []\n")
    large = files.commit()
    files.declare("all.yaml")
    files.declare("large.yaml")
    head = files.commit()
    plan = run("plan", "--cluster", "lab", cwd=files.path)
    size = f"{(3 << 20) + 14:,}"
    note = f"quotas.d/large.yaml at {large[:7]}: not searched for removed entities: it has {size} bytes, at most "
    assert f"    user=bob: removed from quotas.d/all.yaml in {head[:7]}; it stays on the cluster." in plan.out
    assert f"\n  history-not-searched  {note}2,097,152 are searched\n" in plan.out
    found = json.loads(run("plan", "--cluster", "lab", "--format", "json", cwd=files.path).out)["findings"]
    assert [(part["rule"], part["severity"], part["blocking"]) for part in found] == [
        ("empty", "error", True),
        ("no-longer-declared", "warning", False),
        ("history-not-searched", "note", False),
    ]
    clone = files.clone(tmp_path / "clone", "--depth=1")
    note = f"earlier files were searched for removed entities only up to {head[:7]}: the commit before it is not in "
    assert (
        f"  history-not-searched  {note}this clone; fetch the history\n"
        in run("plan", "--cluster", "lab", cwd=clone.path).out
    )
