"""The files of a quota repository at a commit, as its objects hold them; the work tree is not touched."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from quotaform.git.object_store import GitObjects, TreeEntry, blob_id
from quotaform.git.process import GitError, ObjectTooLargeError
from quotaform.model.errors import FileReadError
from quotaform.model.text import size_text
from quotaform.repository.revision import Revision, TreeReading
from quotaform.system.files import CONFIG_LIMIT, POLICY_LIMIT, QUOTAS_LIMIT

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
        return _CommitReading(self, place, files).read(name)

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

    def content(self, path: str, entry: TreeEntry) -> bytes:
        """Return the content of a file of the quotas directory.

        Raises `ObjectTooLargeError` if it has too many bytes.
        """
        known = None if self.similar is None else self.similar.files.get(path)
        if known is not None and blob_id(known, entry.id) == entry.id:
            return known
        return self.blob(entry.id, QUOTAS_LIMIT)

    def blob(self, identity: str, limit: int) -> bytes:
        """Return the content of a file by its id. Raises `ObjectTooLargeError` if it has too many bytes."""
        content = self.objects.blob(identity, limit)
        if content is None:
            raise GitError(self.objects.error_message() or "this clone does not hold all files of it; fetch them")
        return content


@dataclass(frozen=True, slots=True)
class GitFolder:
    """A folder at a commit, see `quotaform.repository.policy`; every method may raise `GitError`.

    `place` is the path of the folder, relative to the top of the work tree.
    """

    revision: GitRevision
    place: str

    def has(self, path: str) -> bool:
        return self.revision.find(self._join(path)) != _Found()

    def is_folder(self, path: str) -> bool:
        return self.entry(path).is_folder

    def names(self, path: str) -> Iterator[str]:
        entry = self.entry(path)
        if entry.is_folder:
            yield from self.revision.objects.tree(entry.id)

    def read(self, path: str) -> bytes:
        entry, problem = self.revision.find(self._join(path))
        if entry is None or not entry.is_file:
            raise FileReadError(path, problem or "it is no file")
        try:
            return self.revision.blob(entry.id, POLICY_LIMIT)
        except ObjectTooLargeError:
            raise FileReadError(path, f"it is larger than {size_text(POLICY_LIMIT)}") from None

    def _join(self, path: str) -> str:
        return "/".join(part for part in (self.place, path) if part)

    def entry(self, path: str) -> TreeEntry:
        """Return the entry of a path, links followed; that of what does not exist is neither a file nor a folder."""
        entry = self.revision.objects.entry(self.revision.root, self._join(path))
        return TreeEntry(0, "") if entry is None else entry


class _CommitReading(TreeReading[TreeEntry]):
    """Reads a quotas directory at a commit; git may raise a `GitError` for anything."""

    def __init__(self, revision: GitRevision, place: str, files: MutableMapping[str, bytes] | None = None) -> None:
        super().__init__(files)
        self._revision, self._place = revision, place

    def entries(self, folder: str) -> Iterator[tuple[str, TreeEntry]]:
        objects = self._revision.objects
        here = objects.entry(self._revision.root, self._inner(folder) if folder else self._place)
        for name, listed in objects.tree(here.id).items() if here is not None else ():
            if "/" in name:
                raise GitError("a folder of the repository is damaged")
            yield name, listed

    def reader(self, path: str, entry: TreeEntry) -> Callable[[], bytes] | None:
        found, problem = self._revision.follow(self._inner(path), entry)
        if found is None:
            raise FileReadError(path, problem or _NOWHERE)
        return None if found.is_folder else partial(self._content, path, found)

    def _inner(self, path: str) -> str:
        return f"{self._place}/{path}"

    def _content(self, path: str, entry: TreeEntry) -> bytes:
        try:
            return self._revision.content(path, entry)
        except ObjectTooLargeError:
            raise FileReadError(path, f"it is larger than {size_text(QUOTAS_LIMIT)}") from None
