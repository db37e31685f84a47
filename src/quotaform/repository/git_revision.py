"""The files of a quota repository at a commit, as its objects hold them; the work tree is not touched."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import Struct, field

from quotaform.desired.tree import Root, SourceFile, Tree, shown_path
from quotaform.git import GitError, GitObjects, ObjectTooLargeError, TreeEntry, blob_id
from quotaform.model.errors import FileReadError
from quotaform.model.text import size_text
from quotaform.repository.revision import Revision, read_folder
from quotaform.system.files import CONFIG_LIMIT

_SUBMODULE_MODE: Final = 0o160000
_NOWHERE: Final = "it is a link that leads out of the commit, or to a file that does not exist"
_SUBMODULE: Final = "it is a submodule, whose files are not read"


class _AtPath(NamedTuple):
    """What a commit has at a path: an entry, or why it cannot be read, or neither."""

    entry: TreeEntry | None = None
    problem: str | None = None


class GitRevision(Struct, frozen=True):
    """The files of a repository at a commit. Links are followed within the commit, and not out of it.

    Whatever reads may raise `GitError`.
    """

    objects: GitObjects
    root: str  # the id of the commit's tree
    top: Path  # the top of the work tree
    elsewhere: Revision  # reads a quotaform.yaml outside of the work tree, which is in no commit
    similar: Tree | None = None  # the quotas directory in another state: a file with the same content is not read again

    def read_config(self, path: Path) -> SourceFile | None:
        place = self._place(path)
        if place is None:
            return self.elsewhere.read_config(path)
        folder = GitFolder(self.objects, self.root)
        if not folder.has(place):
            return None
        try:
            return SourceFile(shown_path(path), folder.read(place, CONFIG_LIMIT))
        except FileReadError as error:
            raise FileReadError(str(path), error.reason) from None

    def read_tree(self, directory: Path, files: MutableMapping[str, bytes] | None = None) -> Tree:
        name = directory.as_posix()
        place = self._place(directory)
        if place is None:
            raise GitError("the quotas directory is a link that leads out of the git work tree")
        folder = GitFolder(self.objects, self.root, place, {} if self.similar is None else self.similar.files)
        try:
            if folder.is_folder(""):
                return read_folder(folder, name, files)
        except FileReadError as error:
            return Tree(name=name, unreadable={"": error.reason})
        return Tree(name=name, root=Root.FILE if folder.has("") else Root.MISSING)

    def folder(self, path: Path) -> GitFolder | None:
        """Return a folder of the work tree as the commit has it; `None` when it is outside of it."""
        real, top = Path(os.path.realpath(path)), os.path.realpath(self.top)
        if not real.is_relative_to(top):
            return None
        place = real.relative_to(top).as_posix()
        return GitFolder(self.objects, self.root, "" if place == "." else place)

    def _place(self, path: Path) -> str | None:
        """Return a path relative to the top of the work tree; `None` outside of it.

        Only the folder that a file is in is looked for on disk: the file itself may be a link at one commit alone.
        """
        real = os.path.normpath(Path(os.path.realpath(path.parent)) / path.name)
        top = os.path.realpath(self.top)
        return Path(real).relative_to(top).as_posix() if Path(real).is_relative_to(top) else None


class GitFolder(Struct, frozen=True):
    """A folder at a commit; every method may raise `GitError`."""

    objects: GitObjects
    root: str  # the id of the commit's tree
    place: str = ""  # its path, relative to the top of the work tree
    known: Mapping[str, bytes] = field(default_factory=dict)  # contents in another state, by path
    # What is in the folders that were looked into, by place: each is looked for from the top once
    trees: dict[str, Mapping[str, TreeEntry]] = field(default_factory=dict)

    def has(self, path: str) -> bool:
        return self._find(path) != _AtPath()

    def is_folder(self, path: str) -> bool:
        entry, problem = self._find(path)
        if problem is not None:
            raise FileReadError(path, problem)
        return entry is not None and entry.is_folder

    def names(self, path: str) -> Iterator[str]:
        return iter(self._tree(self._join(path)))

    def read(self, path: str, limit: int) -> bytes:
        entry, problem = self._find(path)
        if entry is None or not entry.is_file:
            raise FileReadError(path, problem or "it is a directory")
        known = self.known.get(path)
        if known is not None and blob_id(known, entry.id) == entry.id:
            return known
        try:
            content = self.objects.blob(entry.id, limit)
        except ObjectTooLargeError:
            raise FileReadError(path, f"it is larger than {size_text(limit)}") from None
        if content is None:
            raise GitError(self.objects.error_message() or "this clone does not hold all files of it; fetch them")
        return content

    def entry(self, path: str) -> TreeEntry:
        """Return the entry of a path, links followed; that of what does not exist is neither a file nor a folder."""
        return self.objects.entry(self.root, self._join(path)) or TreeEntry(0, "")

    def _find(self, path: str) -> _AtPath:
        place = self._join(path)
        above, _, name = place.rpartition("/")
        listed = self._tree(above).get(name) if place else self.entry("")
        if listed is None:
            return _AtPath()
        entry = self.entry(path) if listed.is_link else listed
        if _SUBMODULE_MODE in (listed.mode, entry.mode):
            return _AtPath(problem=_SUBMODULE)
        return _AtPath(entry) if entry.mode else _AtPath(problem=_NOWHERE)

    def _tree(self, place: str) -> Mapping[str, TreeEntry]:
        """Return what is in a folder, given from the top, by name; nothing if it is not one."""
        if place not in self.trees:
            entry = self.objects.entry(self.root, place)
            found = self.objects.tree(entry.id) if entry is not None and entry.is_folder else {}
            if any("/" in name for name in found):
                raise GitError("a folder of the repository is damaged")
            self.trees[place] = found
        return self.trees[place]

    def _join(self, path: str) -> str:
        return "/".join(part for part in (self.place, path) if part)
