"""A quotas directory and quotaform.yaml, on disk or elsewhere, whoever made them: what is read, what not, and why.

`reading-tree.txt` and `story-refused.txt` have links and pipes.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from quotaform.desired.tree import Layout, Tree
from quotaform.model.entity import Entity
from quotaform.model.errors import InvalidFilesError
from quotaform.model.scope import MAX_PATTERN, Selection
from quotaform.repository import revision as tree_reading
from quotaform.repository.repository import Repository
from quotaform.repository.revision import WORK_TREE
from quotaform.system.files import LEADS_OUT, QUOTAS_LIMIT

QUOTAS = b"quotas: []\n"
GONE = "it is a link to a file that does not exist"


@pytest.fixture
def quotas(tmp_path: Path) -> Path:
    """Return a quotas directory with one file."""
    directory = tmp_path / "repository" / "quotas.d"
    directory.mkdir(parents=True)
    (directory / "a.yaml").write_bytes(QUOTAS)
    return directory


def read(directory: Path) -> Tree:
    return WORK_TREE.read_tree(directory)


def make(folder: Path, /, **entries: str | bytes | None) -> None:
    """Make what a name says, in which `__` is a slash and `_` a dot: a file, a link to a text, or a named pipe."""
    for name, content in entries.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            os.mkfifo(path)
        elif isinstance(content, str):
            path.symlink_to(content)
        else:
            path.write_bytes(content)


def test_the_number_and_the_size_of_the_files_are_bounded(quotas: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (quotas / "big.yaml").touch()
    os.truncate(quotas / "big.yaml", QUOTAS_LIMIT + 1)
    assert read(quotas).unreadable == {"big.yaml": "it is larger than 64 MiB"}
    (quotas / "big.yaml").unlink()
    monkeypatch.setattr(tree_reading, "MOST_BYTES", 25)
    make(quotas, b_yaml=QUOTAS, c_yaml=QUOTAS)
    assert read(quotas).unreadable == {"": "its files are larger than 0 MiB together"}
    monkeypatch.setattr(tree_reading, "MOST_ENTRIES", 2)
    assert read(quotas).unreadable == {"": "it contains more than 2 files and directories"}
    [problem] = Layout(read(quotas)).problems(None)
    assert problem.message == "cannot be read: it contains more than 2 files and directories"


def test_a_directory_that_was_found_leads_nowhere_else_and_one_that_was_named_may(
    quotas: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pull request that makes quotas.d a link chooses what is read; an operator who names one means it."""
    make(tmp_path, checkout__quotas_d=str(quotas))
    link = tmp_path / "checkout" / "quotas.d"
    monkeypatch.chdir(link.parent)
    for found in (None, Path(), link.parent):
        repository = Repository.at(found, None)
        assert repository.revision.read_tree(repository.directory).unreadable == {"": LEADS_OUT}
    named = Repository.at(link, None)
    assert set(named.revision.read_tree(named.directory).files) == {"a.yaml"}


def test_a_pattern_is_limited_in_length(tmp_path: Path) -> None:
    """A pattern of 50,000 brackets took a quarter of a minute to read."""
    make(tmp_path, quotaform_yaml=f"scope: {{include: [{{user: '{'[' * 50_000}'}}]}}\n".encode())
    with pytest.raises(InvalidFilesError, match=f"at most {MAX_PATTERN:,} characters, and this one has 50,000"):
        Repository.at(tmp_path / "quotas.d", tmp_path / "quotaform.yaml").config()
    assert not Selection(select=("[" * 50_000,)).contains(Entity(user="a"))
    assert Selection(select=("user=[ab]*",)).contains(Entity(user="a"))
