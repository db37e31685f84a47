"""The files of a quota repository at a commit, as its objects hold them; the work tree is not touched."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from quotaform.git.object_store import GitObjects, TreeEntry, blob_id
from quotaform.git.process import GitError, ObjectTooLargeError
from quotaform.model.errors import FileReadError
from quotaform.model.text import size_text
from quotaform.repository.revision import Revision, read_folder
from quotaform.system.files import CONFIG_LIMIT

if TYPE_CHECKING:
    from quotaform.desired.tree import SourceFile, Tree

_SUBMODULE_MODE: Final = 0o160000
_NOWHERE: Final = "it is a link that leads out of the commit, or to a file that does not exist"
_SUBMODULE: Final = "it is a submodule, whose files are not read"


class _Found(NamedTuple):
    """What a commit has at a path: an entry, or why it cannot be read, or neither."""

    entry: TreeEntry | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class GitRevision:
    """The files of a repository at a commit. Links are followed within the commit, and not out of it.

    Whatever reads may raise `GitError`.
    """

    objects: GitObjects
    root: str  # the id of the commit's tree
    top: Path  # the top of the work tree
    elsewhere: Revision  # reads a quotaform.yaml outside of the work tree, which is in no commit
    similar: Tree | None = None  # the quotas directory in another state: a file with the same content is not read again

    def read_config(self, path: Path) -> SourceFile | None:
        from quotaform.desired.tree import SourceFile, shown_path

        place = self._place(path)
        if place is None:
            return self.elsewhere.read_config(path)
        entry, problem = self.find(place)
        if problem is None and entry is None:
            return None
        if entry is None or not entry.is_file:
            raise FileReadError(str(path), problem or "it is a directory")
        try:
            return SourceFile(shown_path(path), self.blob(entry.id, CONFIG_LIMIT))
        except ObjectTooLargeError:
            raise FileReadError(str(path), f"it is larger than {size_text(CONFIG_LIMIT)}") from None

    def read_tree(self, directory: Path, files: MutableMapping[str, bytes] | None = None) -> Tree:
        from quotaform.desired.tree import Root, Tree

        name = directory.as_posix()
        place = self._place(directory)
        if place is None:
            raise GitError("the quotas directory is a link that leads out of the git work tree")
        entry, problem = self.find(place)
        if problem is not None:
            return Tree(name=name, unreadable={"": problem})
        if entry is None:
            return Tree(name=name, root=Root.MISSING)
        if not entry.is_folder:
            return Tree(name=name, root=Root.FILE)
        known = {} if self.similar is None else self.similar.files
        return read_folder(GitFolder(self, place, known), name, files)

    def folder(self, path: Path) -> GitFolder | None:
        """Return a folder of the work tree as the commit has it; `None` when it is outside of it."""
        real, top = Path(os.path.realpath(path)), os.path.realpath(self.top)
        if not real.is_relative_to(top):
            return None
        place = real.relative_to(top).as_posix()
        return GitFolder(self, "" if place == "." else place)

    def _place(self, path: Path) -> str | None:
        """Return a path relative to the top of the work tree; `None` outside of it.

        Only the folder that a file is in is looked for on disk: the file itself may be a link at one commit alone.
        """
        real = os.path.normpath(Path(os.path.realpath(path.parent)) / path.name)
        top = os.path.realpath(self.top)
        return Path(real).relative_to(top).as_posix() if Path(real).is_relative_to(top) else None

    def find(self, place: str) -> _Found:
        """Return what is at a path, relative to the top of the work tree."""
        folder, _, name = place.rpartition("/")
        above = self.objects.entry(self.root, folder)
        listed = self.objects.tree(above.id).get(name) if above is not None and above.is_folder else None
        return _Found() if listed is None else self.follow(place, listed)

    def follow(self, place: str, listed: TreeEntry) -> _Found:
        """Return what is at a path of which a tree lists this."""
        if listed.mode == _SUBMODULE_MODE:
            return _Found(problem=_SUBMODULE)
        if not listed.is_link:
            return _Found(listed)
        entry = self.objects.entry(self.root, place)
        if entry is None or entry.mode == _SUBMODULE_MODE:
            return _Found(problem=_NOWHERE if entry is None else _SUBMODULE)
        return _Found(entry)

    def blob(self, identity: str, limit: int) -> bytes:
        """Return the content of a file by its id. Raises `ObjectTooLargeError` if it has too many bytes."""
        content = self.objects.blob(identity, limit)
        if content is None:
            raise GitError(self.objects.error_message() or "this clone does not hold all files of it; fetch them")
        return content


@dataclass(frozen=True, slots=True)
class GitFolder:
    """A folder at a commit; every method may raise `GitError`."""

    revision: GitRevision
    place: str  # its path, relative to the top of the work tree
    known: Mapping[str, bytes] = field(default_factory=dict)  # contents in another state, by path
    # What is in the folders that were looked into, by path: each is looked for from the top once
    trees: dict[str, Mapping[str, TreeEntry]] = field(default_factory=dict)

    def has(self, path: str) -> bool:
        return self._find(path) != _Found()

    def is_folder(self, path: str) -> bool:
        entry, problem = self._find(path)
        if problem is not None:
            raise FileReadError(path, problem)
        return entry is not None and entry.is_folder

    def names(self, path: str) -> Iterator[str]:
        return iter(self._tree(path))

    def read(self, path: str, limit: int) -> bytes:
        entry, problem = self._find(path)
        if entry is None or not entry.is_file:
            raise FileReadError(path, problem or "it is no file")
        known = self.known.get(path)
        if known is not None and blob_id(known, entry.id) == entry.id:
            return known
        try:
            return self.revision.blob(entry.id, limit)
        except ObjectTooLargeError:
            raise FileReadError(path, f"it is larger than {size_text(limit)}") from None

    def _find(self, path: str) -> _Found:
        folder, _, name = path.rpartition("/")
        listed = self._tree(folder).get(name)
        return _Found() if listed is None else self.revision.follow(self._join(path), listed)

    def _tree(self, path: str) -> Mapping[str, TreeEntry]:
        """Return what is in a folder by name; nothing if it is none."""
        if path not in self.trees:
            entry = self.entry(path)
            self.trees[path] = self.revision.objects.tree(entry.id) if entry.is_folder else {}
            if any("/" in name for name in self.trees[path]):
                raise GitError("a folder of the repository is damaged")
        return self.trees[path]

    def _join(self, path: str) -> str:
        return "/".join(part for part in (self.place, path) if part)

    def entry(self, path: str) -> TreeEntry:
        """Return the entry of a path, links followed; that of what does not exist is neither a file nor a folder."""
        entry = self.revision.objects.entry(self.revision.root, self._join(path))
        return TreeEntry(0, "") if entry is None else entry
