"""The one door to git: the objects of a repository, read in a way that executes nothing of it.

A pull request may hold anything: a folder that is itself a git directory, with a configuration that names commands to
run. So

* the repository is looked for from a folder that contains the files, never from inside of them, and only a `.git` is
  one: git puts no `.git` into a work tree for a commit that has one;
* one process is started, and only in a way that reads objects, see `quotaform.app.git.process`.

What is read is limited, whoever reads it: the size of an object, the bytes of one reading, and the time of all readings
for a plan. Which objects are asked for, and what they mean, is decided in the modules that use this one; here is only
which commit two histories have in common.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Final

from quotaform.app.git.object import Commit, DamagedObjectError, TreeEntry, parse_commit, parse_tree
from quotaform.app.git.process import GitError, GitProcess, ObjectTooLargeError, TimeLeft
from quotaform.executable import find_executable
from quotaform.files import MIB

_MAX_OBJECT_BYTES: Final = 16 * MIB
"""The largest commit or folder that is read; a folder of 100,000 files takes about 5 MiB."""

_MAX_TARGET_BYTES: Final = 4096
"""The longest target of a symbolic link that an operating system takes."""

_MAX_CACHED_ENTRIES: Final = 50_000

_MAX_LINKS: Final = 10


def find_work_tree(directory: Path) -> Path | None:
    """Return the top of the git work tree that a folder lies in, not looking at the folder itself."""
    for folder in Path(os.path.realpath(directory)).parents:
        mark = folder / ".git"
        if mark.is_file() or (mark.is_dir() and os.path.lexists(mark / "HEAD")):
            return folder
    return None


@contextmanager
def open_objects(top: Path, left: TimeLeft) -> Iterator[GitObjects]:
    """Open the objects of the repository whose work tree has this top.

    Args:
        top: The top of the work tree.
        left: How long the repository may still be read; the time until the end of the context is taken from it.

    Raises:
        GitError: Git is missing, or no time is left.
    """
    started = monotonic()
    git = find_executable("git", outside=top)
    if git is None:
        raise GitError("no git command was found on the PATH; install git")
    process = GitProcess(git, top, left)
    try:
        yield GitObjects(process)
    finally:
        process.close()
        left.seconds -= monotonic() - started


class GitObjects:
    """The objects of a repository, by id; every method may raise `GitError`."""

    def __init__(self, process: GitProcess) -> None:
        self._process = process
        self._trees: dict[str, Mapping[str, TreeEntry]] = {}
        self._cached_entries = 0

    @property
    def bytes_read(self) -> int:
        """The size of all objects that were read."""
        return self._process.bytes_read

    def error_message(self) -> str | None:
        """Return what git wrote to its standard error, if anything; nothing can be asked after this."""
        return self._process.error_message()

    def commit(self, name: str) -> Commit | None:
        """Return a commit by its id or a revision that names it; `None` when there is none."""
        found = self._content(name, "commit", _MAX_OBJECT_BYTES)
        try:
            return None if found is None else parse_commit(*found)
        except DamagedObjectError:
            raise GitError("a commit of the repository is damaged") from None

    def blob(self, blob_id: str, limit: int) -> bytes | None:
        """Return the content of a file; `None` when it is not there.

        `limit` is how many bytes it may have. Raises `ObjectTooLargeError` if it has more.
        """
        found = self._content(blob_id, "blob", limit)
        return None if found is None else found[1]

    def tree(self, tree_id: str) -> Mapping[str, TreeEntry]:
        """Return a folder by name. Raises `GitError` if it is not there, git does not answer, or a limit is reached."""
        if tree_id not in self._trees:
            found = self._content(tree_id, "tree", _MAX_OBJECT_BYTES)
            if found is None:
                raise GitError("a folder is not in this clone")
            try:
                tree = parse_tree(found[1], len(tree_id) // 2)
            except DamagedObjectError:
                raise GitError("a folder of the repository is damaged") from None
            self._cached_entries += len(tree)
            if self._cached_entries > _MAX_CACHED_ENTRIES:
                self._trees.clear()
                self._cached_entries = len(tree)
            self._trees[tree_id] = tree
        return self._trees[tree_id]

    def entry(self, root: str, path: str, links: int = _MAX_LINKS) -> TreeEntry | None:
        """Return what a tree has at a path, symbolic links followed within the tree.

        Args:
            root: The id of the tree.
            path: Relative to it, with slashes; `""` is the tree itself.
            links: How many links may be followed.
        """
        entry = TreeEntry(0o040000, root)
        walked = ""
        names = path.split("/") if path else []
        for place, name in enumerate(names):
            found = self.tree(entry.id).get(name) if entry.is_folder else None
            if found is None:
                return None
            if found.is_link:
                target = self._target(found.id)
                rest = posixpath.normpath(posixpath.join(walked, target, *names[place + 1 :]))
                is_inside = bool(target) and not rest.startswith(("/", "../")) and rest not in ("..", ".")
                return self.entry(root, rest, links - 1) if is_inside and links else None
            entry, walked = found, posixpath.join(walked, name)
        return entry

    def _target(self, blob_id: str) -> str:
        """Return where a symbolic link leads; empty when that is nowhere."""
        try:
            return (self.blob(blob_id, _MAX_TARGET_BYTES) or b"").decode(errors="surrogateescape")
        except ObjectTooLargeError:
            return ""

    def _content(self, name: str, kind: str, limit: int) -> tuple[str, bytes] | None:
        """Return the id and the content of an object; `None` when it is missing or of another kind."""
        answer = self._process.ask(name, limit)
        return (answer.id, answer.content) if answer is not None and answer.kind == kind else None


MAX_COMMITS: Final = 4000
"""How many commits are read to find out."""


def merge_base(objects: GitObjects, head: Commit, base: Commit) -> Commit | None:
    """Return the newest commit that two histories have in common, as far as that is known.

    Both histories are searched together, one generation after the other. With several common commits of one generation
    it is one of them.

    Args:
        head: The commit whose history is asked about.

    Returns:
        The base itself if the head contains it; `None` if they have nothing in common, the clone lacks commits, or
        too many would have to be read.
    """
    reader = _Reader(objects)
    of_head: dict[str, Commit] = {head.id: head}
    of_base: dict[str, Commit] = {base.id: base}
    heads, bases = [head], [base]
    while heads or bases:
        if base.id in of_head:
            return base
        if reader.count > MAX_COMMITS:
            return None
        if not heads and of_head.keys() & of_base.keys():
            break
        # An ancestor of the base has no way to the base.
        heads = list(reader.parents((commit for commit in heads if commit.id not in of_base), of_head))
        bases = list(reader.parents(bases, of_base))
    if base.id in of_head:
        return base
    return None if reader.is_incomplete else next((each for each in of_head.values() if each.id in of_base), None)


class _Reader:
    """Reads commits.

    Attributes:
        count: How many were read.
        is_incomplete: Whether the clone lacked any.
    """

    def __init__(self, objects: GitObjects) -> None:
        self._objects = objects
        self.count = 0
        self.is_incomplete = False

    def parents(self, commits: Iterable[Commit], seen: dict[str, Commit]) -> Iterator[Commit]:
        """Yield the parents of commits that were not seen before, and add them to those that were."""
        for commit in commits:
            for parent in commit.parents:
                if parent in seen or self.count > MAX_COMMITS:
                    continue
                self.count += 1
                found = self._objects.commit(parent)
                if found is None:
                    self.is_incomplete = True
                else:
                    seen[parent] = found
                    yield found
