"""What is read of a git repository, in the form of `table`: `git-*.txt`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from quotaform.git import GitError, TimeLeft, merge_base, open_objects, parse_commit, parse_tree
from quotaform.plan.base import choose_base
from tests.git_repository import GitRepository
from tests.golden.conftest import Golden
from tests.golden.table import Lines, Text, check_told, tables_of


def of_object(content: bytes) -> Lines:
    """Return what is read of a commit, or of a folder, whose ids have 20 bytes."""
    try:
        if content.startswith(b"folder "):
            entries = parse_tree(content.removeprefix(b"folder "), 20)
            return [f"{name}: {mode:o} {identity}" for name, (mode, identity) in entries.items()]
        return [f"{parse_commit('ID', content)}"]
    except GitError as error:
        return [error.reason]


def of_ref(text: Text) -> Lines:
    """Return that a text may name a revision, or why it cannot."""
    choose_base(str(text))
    return ["may be one"]


def of_merged(text: Text) -> Iterator[str]:
    """Yield what two commits (`?`) have in common, after commits were made, with the names of their parents."""
    with TemporaryDirectory() as folder:
        git = GitRepository.init(Path(folder, "made"))
        tree, ids = git.git("write-tree"), dict[str, str]()
        for line in str(text).splitlines():
            word, *names = line.split()
            if word != "?":
                parents = [each for name in names for each in ("-p", ids[name])]
                ids[word] = git.git("commit-tree", tree, *parents, "-m", word)
                continue
            with open_objects(git.path, TimeLeft()) as objects:
                head, base = (objects.commit(ids[name]) for name in names)
                assert head
                assert base
                found = merge_base(objects, head, base)
            shown = "nothing" if found is None else next(name for name, each in ids.items() if each == found.id)
            yield f"{names[0]} and {names[1]} have {shown} in common"


TABLES = tables_of(globals())


@pytest.mark.parametrize("name", TABLES)
def test_what_is_read_of_a_repository(golden: Golden, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr("quotaform.git.MAX_COMMITS", 12)
    check_told(golden, f"git-{name}.txt", TABLES[name])
