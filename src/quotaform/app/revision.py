"""The files of a repository: read from the work tree, or from another `Revision` of them.

Every use case starts with two values: the `SourceFile` of quotaform.yaml and the `Tree` of the quotas directory. A
reader of a git ref is another `Revision`; no other module needs to know where files come from. It must

* take paths as the user gives them, relative to the current folder, and keep them as the names in messages;
* leave out hidden files and folders, and list folders also when no file in them counts;
* return bytes as they are committed, of the files that `quotaform.desired.tree.is_read` asks for;
* put what cannot be read (a submodule, a link that leads out of the commit) among what is unreadable, with a reason;
* return an absent quotas directory as `Root.MISSING` and an absent quotaform.yaml as `None`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from quotaform.errors import FileReadError
from quotaform.files import read_bytes

if TYPE_CHECKING:
    from quotaform.desired.tree import SourceFile, Tree


class Revision(Protocol):
    """A state of the files of a repository."""

    def read_config(self, path: Path) -> SourceFile | None:
        """Read quotaform.yaml; `None` when there is none.

        Raises:
            FileReadError: It is there and cannot be read.
        """

    def read_tree(self, directory: Path) -> Tree:
        """Read a quotas directory; what cannot be read is part of the answer."""


class WorkTree:
    """The files as they are on disk."""

    def read_config(self, path: Path) -> SourceFile | None:
        """Read quotaform.yaml; `None` when there is none.

        Raises:
            FileReadError: It is there and cannot be read.
        """
        from quotaform.desired.tree import SourceFile, shown_path

        try:
            return SourceFile(shown_path(path), read_bytes(path))
        except FileReadError as error:
            if error.is_missing:
                return None
            raise

    def read_tree(self, directory: Path) -> Tree:
        """Read a quotas directory; what cannot be read is part of the answer."""
        return read_work_tree(directory)


WORK_TREE: Final = WorkTree()


def read_work_tree(directory: Path) -> Tree:
    """Read the files of a quotas directory as they are on disk, and of the folders in it.

    Never raises for what is there: what cannot be read is part of the answer.
    """
    from quotaform.desired.tree import Root, Tree

    name = directory.as_posix()
    if not directory.is_dir():
        return Tree(name=name, root=Root.FILE if directory.exists() else Root.MISSING)
    reading = _Reading()
    for path in reading.entries(directory, ""):
        if path.is_dir():
            reading.folders.append(path.name)
            for inner in reading.entries(path, path.name):
                reading.add(inner, f"{path.name}/{inner.name}")
        else:
            reading.add(path, path.name)
    return Tree(
        name=name,
        files=reading.files,
        others=reading.others,
        folders=reading.folders,
        unreadable=reading.unreadable,
    )


class _Reading:
    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.others: list[str] = []
        self.folders: list[str] = []
        self.unreadable: dict[str, str] = {}

    def entries(self, directory: Path, name: str) -> list[Path]:
        """List what is in a folder, hidden things left out."""
        try:
            return sorted(path for path in directory.iterdir() if not path.name.startswith("."))
        except OSError as error:
            self.unreadable[name] = error.strerror or str(error)
            return []

    def add(self, path: Path, name: str) -> None:
        """Read a file if it is one that counts."""
        from quotaform.desired.tree import is_read

        if path.is_dir():
            self.folders.append(name)
        elif not is_read(name):
            self.others.append(name)
        else:
            try:
                self.files[name] = read_bytes(path)
            except FileReadError as error:
                self.unreadable[name] = error.reason
