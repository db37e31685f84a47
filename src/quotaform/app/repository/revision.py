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
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from stat import S_ISDIR
from typing import TYPE_CHECKING, Final, Protocol

from quotaform.app.repository.tree_reading import TreeReading
from quotaform.errors import FileReadError
from quotaform.files import CONFIG_LIMIT, LEADS_OUT, QUOTAS_LIMIT, is_link, is_within, read_bytes, reason_of
from quotaform.model.text import inert

if TYPE_CHECKING:
    from quotaform.desired.tree import SourceFile, Tree


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
        """Read quotaform.yaml; `None` when there is none. Raises `FileReadError` if it is there and cannot be read."""
        from quotaform.desired.tree import SourceFile, shown_path

        within = None if path in self.named else path.parent
        try:
            return SourceFile(shown_path(path), read_bytes(path, CONFIG_LIMIT, within=within))
        except FileReadError as error:
            if error.is_missing:
                return None
            raise

    def read_tree(self, directory: Path, files: MutableMapping[str, bytes] | None = None) -> Tree:
        """Read a quotas directory; what cannot be read is part of the answer."""
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
