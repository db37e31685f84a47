"""Reading a quotas directory, wherever its files are: what counts of it, and how much of it is read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from operator import itemgetter
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from quotaform.errors import FileReadError
from quotaform.files import MIB

if TYPE_CHECKING:
    from quotaform.desired.tree import Tree

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
