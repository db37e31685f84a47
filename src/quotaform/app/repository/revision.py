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

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISDIR
from typing import TYPE_CHECKING, Final, Protocol

from quotaform.errors import FileReadError
from quotaform.files import CONFIG_LIMIT, LEADS_OUT, MIB, QUOTAS_LIMIT, is_link, is_within, read_bytes, reason_of

if TYPE_CHECKING:
    from quotaform.desired.tree import SourceFile, Tree

MOST_ENTRIES: Final = 50_000
"""How many files and folders a quotas directory may have."""
MOST_BYTES: Final = 256 * MIB
"""How many bytes the files of a quotas directory may have together."""


class Revision(Protocol):
    """A state of the files of a repository."""

    def read_config(self, path: Path) -> SourceFile | None:
        """Read quotaform.yaml; `None` when there is none.

        Raises:
            FileReadError: It is there and cannot be read.
        """

    def read_tree(self, directory: Path) -> Tree:
        """Read a quotas directory; what cannot be read is part of the answer."""


@dataclass(frozen=True, slots=True)
class WorkTree:
    """The files as they are on disk. Links are followed within the folder that a file is in, and not out of it.

    Attributes:
        named: What the operator named on the command line, which may be anywhere.
    """

    named: frozenset[Path] = frozenset()

    def read_config(self, path: Path) -> SourceFile | None:
        """Read quotaform.yaml; `None` when there is none.

        Raises:
            FileReadError: It is there and cannot be read.
        """
        from quotaform.desired.tree import SourceFile, shown_path

        within = None if path in self.named else path.parent
        try:
            return SourceFile(shown_path(path), read_bytes(path, CONFIG_LIMIT, within=within))
        except FileReadError as error:
            if error.is_missing:
                return None
            raise

    def read_tree(self, directory: Path) -> Tree:
        """Read a quotas directory; what cannot be read is part of the answer."""
        from quotaform.desired.tree import Tree

        if directory not in self.named and is_link(directory) and not is_within(directory, directory.parent):
            return Tree(name=directory.as_posix(), unreadable={"": LEADS_OUT})
        return read_work_tree(directory)


WORK_TREE: Final = WorkTree()


def read_work_tree(directory: Path) -> Tree:
    """Read the files of a quotas directory as they are on disk, and of the folders in it.

    Never raises for what is there: what cannot be read is part of the answer.
    """
    from quotaform.desired.tree import Root, Tree

    name = directory.as_posix()
    try:
        is_folder = S_ISDIR(directory.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return Tree(name=name, root=Root.MISSING)
    except (OSError, ValueError) as error:
        return Tree(name=name, unreadable={"": reason_of(error)})
    if not is_folder:
        return Tree(name=name, root=Root.FILE)
    reading = _Reading(directory)
    try:
        reading.read()
    except _TooMuchError as error:
        return Tree(name=name, unreadable={"": str(error)})
    return Tree(
        name=name,
        files=reading.files,
        others=reading.others,
        folders=reading.folders,
        unreadable=reading.unreadable,
    )


class _TooMuchError(Exception):
    """A quotas directory has more than is read."""


@dataclass(slots=True)
class _Reading:
    root: Path
    files: dict[str, bytes] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)
    entries: int = 0
    size: int = 0

    def read(self) -> None:
        """Read the directory and the folders in it.

        Raises:
            _TooMuchError: There is more than a limit allows.
        """
        for entry in self._list(self.root, ""):
            if self._add(entry, entry.name):
                for inner in self._list(entry.path, entry.name):
                    self._add(inner, f"{entry.name}/{inner.name}")

    def _list(self, directory: str | Path, name: str) -> list[os.DirEntry[str]]:
        """List what is in a folder by name, hidden things left out."""
        try:
            with os.scandir(directory) as entries:
                return sorted(self._counted(entries), key=lambda entry: entry.name)
        except OSError as error:
            self.unreadable[name] = reason_of(error)
            return []

    def _counted(self, entries: Iterator[os.DirEntry[str]]) -> Iterator[os.DirEntry[str]]:
        for entry in entries:
            self.entries += 1
            if self.entries > MOST_ENTRIES:
                raise _TooMuchError(f"it contains more than {MOST_ENTRIES:,} files and directories")
            if not entry.name.startswith("."):
                yield entry

    def _add(self, entry: os.DirEntry[str], name: str) -> bool:
        """Take up an entry, and return whether it is a folder that can be listed."""
        from quotaform.desired.tree import is_read

        if entry.is_symlink() and (reason := self._astray(entry)):
            self.unreadable[name] = reason
        elif _is_folder(entry):
            self.folders.append(name)
            return True
        elif not is_read(name):
            self.others.append(name)
        else:
            # What is no link lies in its folder, and need not be asked where it leads.
            within = self.root if entry.is_symlink() else Path(entry.path).parent
            try:
                content = read_bytes(entry.path, QUOTAS_LIMIT, within=within)
            except FileReadError as error:
                self.unreadable[name] = error.reason
                return False
            self.files[name] = content
            self.size += len(content)
            if self.size > MOST_BYTES:
                raise _TooMuchError(f"its files are larger than {MOST_BYTES // MIB} MiB together")
        return False

    def _astray(self, link: os.DirEntry[str]) -> str | None:
        """Return why a link is not followed; `None` when it is."""
        try:
            Path(link.path).stat()
        except FileNotFoundError:
            return "it is a link to a file that does not exist"
        except OSError as error:
            return reason_of(error)
        return None if is_within(link.path, self.root) else LEADS_OUT


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False
