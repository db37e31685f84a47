"""The files of a repository: read from the work tree or another revision, and how much of them is read.

Every use case starts with two values: the `SourceFile` of quotaform.yaml and the `Tree` of the quotas directory. A
reader of a git ref is another `Revision`; no other module needs to know where files come from. It must

* take paths as the user gives them, relative to the current folder, and keep them as the names in messages;
* leave out hidden files and folders, and list folders also when no file in them counts;
* return bytes as they are committed, of the files that `quotaform.desired.tree.is_read` asks for;
* put what cannot be read (a submodule, a link that leads out of the commit) among what is unreadable, with a reason;
* return an absent quotas directory as `Root.MISSING` and an absent quotaform.yaml as `None`.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from pathlib import Path
from stat import S_ISDIR
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from quotaform.model.errors import FileReadError
from quotaform.model.text import MIB, inert
from quotaform.system.files import CONFIG_LIMIT, LEADS_OUT, QUOTAS_LIMIT, is_link, is_within, read_bytes, reason_of

if TYPE_CHECKING:
    from quotaform.desired.tree import SourceFile, Tree


MOST_ENTRIES: Final = 50_000
"""How many files and folders a quotas directory may have."""
MOST_BYTES: Final = 1024 * MIB
"""How many bytes the files of a quotas directory may have together."""

E = TypeVar("E")


class _TooMuchError(Exception):
    """A quotas directory has more than is read."""


class TreeReading(ABC, Generic[E]):
    """Reads the files of a quotas directory and of the folders in it; what cannot be read is part of the answer."""

    def __init__(self, files: MutableMapping[str, bytes] | None = None) -> None:
        """Start with nothing read. `files` is what keeps the content of files; in memory if left out."""
        self._files = {} if files is None else files
        self._others: list[str] = []
        self._folders: list[str] = []
        self._unreadable: dict[str, str] = {}
        self._entries = 0
        self._size = 0

    @abstractmethod
    def entries(self, folder: str) -> Iterable[tuple[str, E]]:
        """Return what is in a folder, each with its name there, in any order.

        `folder` is its path relative to the quotas directory; empty for that itself. Raises `FileReadError` if it
        cannot be listed.
        """

    @abstractmethod
    def reader(self, path: str, entry: E) -> Callable[[], bytes] | None:
        """Return what reads the content of an entry; `None` for a folder.

        `path` is its path relative to the quotas directory. Raises `FileReadError` if it leads nowhere, or out. What is
        returned raises it when the content cannot be read.
        """

    def read(self, name: str) -> Tree:
        """Read it. `name` is what messages call the quotas directory."""
        from quotaform.desired.tree import Tree

        try:
            for path, entry in self._listed(""):
                if self._add(path, entry):
                    for inner, below in self._listed(path):
                        self._add(inner, below)
        except _TooMuchError as error:
            return Tree(name=name, unreadable={"": str(error)})
        return Tree(
            name=name,
            files=self._files,
            others=self._others,
            folders=self._folders,
            unreadable=self._unreadable,
        )

    def _listed(self, folder: str) -> list[tuple[str, E]]:
        """Return what is in a folder by its path, hidden things left out."""
        try:
            return sorted(self._counted(folder), key=itemgetter(0))
        except FileReadError as error:
            self._unreadable[folder] = error.reason
            return []

    def _counted(self, folder: str) -> Iterator[tuple[str, E]]:
        from quotaform.desired.tree import is_hidden

        for name, entry in self.entries(folder):
            self._entries += 1
            if self._entries > MOST_ENTRIES:
                raise _TooMuchError(f"it contains more than {MOST_ENTRIES:,} files and directories")
            if not is_hidden(name):
                yield (f"{folder}/{name}" if folder else name), entry

    def _add(self, path: str, entry: E) -> bool:
        """Take up an entry, and return whether it is a folder that can be listed."""
        from quotaform.desired.tree import is_read

        try:
            read = self.reader(path, entry)
            if read is None:
                self._folders.append(path)
                return True
            if not is_read(path):
                self._others.append(path)
                return False
            content = self._files[path] = read()
        except FileReadError as error:
            self._unreadable[path] = error.reason
            return False
        self._size += len(content)
        if self._size > MOST_BYTES:
            raise _TooMuchError(f"its files are larger than {MOST_BYTES // MIB} MiB together")
        return False


CONFIG_NAME: Final = "quotaform.yaml"
QUOTAS_NAME: Final = "quotas.d"


class Revision(Protocol):
    """A state of the files of a repository."""

    def read_config(self, path: Path) -> SourceFile | None:
        """Read quotaform.yaml; `None` when there is none. Raises `FileReadError` if it is there and cannot be read."""

    def read_tree(self, directory: Path, files: MutableMapping[str, bytes] | None = None) -> Tree:
        """Read a quotas directory; what cannot be read is part of the answer.

        `files` is what keeps the content of its files by their paths; in memory if left out.
        """


@dataclass(frozen=True, slots=True)
class WorkTree:
    """The files as they are on disk. Links are followed within the folder that a file is in, and not out of it.

    `named` is what the operator named on the command line, which may be anywhere.
    """

    named: frozenset[Path] = frozenset()

    def read_config(self, path: Path) -> SourceFile | None:
        from quotaform.desired.tree import SourceFile, shown_path

        within = None if path in self.named else path.parent
        try:
            return SourceFile(shown_path(path), read_bytes(path, CONFIG_LIMIT, within=within))
        except FileReadError as error:
            if error.is_missing:
                return None
            raise

    def read_tree(self, directory: Path, files: MutableMapping[str, bytes] | None = None) -> Tree:
        from quotaform.desired.tree import Tree

        if directory not in self.named and is_link(directory) and not is_within(directory, directory.parent):
            return Tree(name=directory.as_posix(), unreadable={"": LEADS_OUT})
        return read_work_tree(directory, files)


WORK_TREE: Final = WorkTree()


def find_above(path: Path) -> tuple[str, str | None]:
    """Return the absolute path of what does not exist, and the next directory above with quotaform.yaml or `quotas.d`.

    The directory is the words of a message: it, and which of them is there.
    """
    looked_at = Path(os.path.normpath(Path.cwd() / path))
    for name in (CONFIG_NAME, QUOTAS_NAME):
        if above := next((each for each in looked_at.parent.parents if os.path.lexists(each / name)), None):
            return inert(str(looked_at)), f"{inert(str(above))}, where {name} is"
    return inert(str(looked_at)), None


def read_work_tree(directory: Path, files: MutableMapping[str, bytes] | None = None) -> Tree:
    """Read the files of a quotas directory as they are on disk, and of the folders in it.

    Never raises for what is there: what cannot be read is part of the answer. `files` is what keeps the content of its
    files by their paths; in memory if left out.
    """
    from quotaform.desired.tree import Root, Tree

    name = directory.as_posix()
    try:
        is_folder = S_ISDIR(directory.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        looked_at, above = find_above(directory)
        return Tree(name=name, root=Root.MISSING, looked_at=looked_at, above=above)
    except (OSError, ValueError) as error:
        return Tree(name=name, unreadable={"": reason_of(error)})
    if not is_folder:
        return Tree(name=name, root=Root.FILE)
    return _FolderReading(directory, files).read(name)


class _FolderReading(TreeReading["os.DirEntry[str]"]):
    """Reads a quotas directory on disk."""

    def __init__(self, root: Path, files: MutableMapping[str, bytes] | None = None) -> None:
        super().__init__(files)
        self._root = root

    def entries(self, folder: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
        try:
            with os.scandir(self._root / folder) as entries:
                for entry in entries:
                    yield entry.name, entry
        except OSError as error:
            raise FileReadError(folder, reason_of(error)) from error

    def reader(self, path: str, entry: os.DirEntry[str]) -> Callable[[], bytes] | None:
        is_link = entry.is_symlink()
        if is_link and (reason := self._astray(entry)):
            raise FileReadError(path, reason)
        # What is no link lies in its folder, and need not be asked where it leads.
        within = self._root if is_link else Path(entry.path).parent
        return None if _is_folder(entry) else partial(read_bytes, entry.path, QUOTAS_LIMIT, within=within)

    def _astray(self, link: os.DirEntry[str]) -> str | None:
        """Return why a link is not followed; `None` when it is."""
        try:
            Path(link.path).stat()
        except FileNotFoundError:
            return "it is a link to a file that does not exist"
        except OSError as error:
            return reason_of(error)
        return None if is_within(link.path, self._root) else LEADS_OUT


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False
