"""How two commits are related."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from quotaform.git import object_store
from quotaform.git.object_store import merge_base, open_objects
from quotaform.git.process import TimeLeft
from tests.git_repository import GitRepository

_NUMBERS = count()


@pytest.fixture
def git(tmp_path: Path) -> GitRepository:
    made = GitRepository(tmp_path)
    made.git("init", "-q", "-b", "main")
    return made


def commit(git: GitRepository, *parents: str) -> str:
    """Make a commit with these parents, and return its id."""
    tree = git.git("write-tree")
    arguments = [word for parent in parents for word in ("-p", parent)]
    return git.git("commit-tree", tree, *arguments, "-m", f"commit {next(_NUMBERS)}")


def common(git: GitRepository, head: str, base: str) -> str | None:
    with open_objects(git.path, TimeLeft()) as objects:
        first, second = objects.commit(head), objects.commit(base)
        assert first is not None
        assert second is not None
        found = merge_base(objects, first, second)
    return None if found is None else found.id


def test_a_head_contains_itself_its_ancestors_and_what_was_merged(git: GitRepository) -> None:
    root = commit(git)
    early = commit(git, root)
    side = commit(git, early)
    base = early
    for _ in range(5):
        base = commit(git, base)
    head = commit(git, base, side)
    assert [common(git, head, each) for each in (head, base, side, early, root)] == [head, base, side, early, root]


def test_of_two_branches_it_is_where_they_parted(git: GitRepository) -> None:
    root = commit(git)
    fork = commit(git, root)
    head = commit(git, commit(git, fork))
    base = commit(git, commit(git, commit(git, fork)))
    assert common(git, head, base) == fork
    assert common(git, fork, base) == fork
    assert common(git, commit(git, head, base), base) == base


def test_unrelated_histories_and_too_long_ones_have_nothing_in_common(
    git: GitRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = commit(git)
    assert common(git, root, git.git("commit-tree", git.git("write-tree"), "-m", "another")) is None
    head = base = root
    for _ in range(6):
        head, base = commit(git, head), commit(git, base, root)
    monkeypatch.setattr(object_store, "MAX_COMMITS", 4)
    assert common(git, head, base) is None
