"""The one door to git: the objects of a repository, read in a way that executes nothing of it.

A pull request may hold anything: a folder that is itself a git directory, with a configuration that names commands to
run. So

* the repository is looked for from a folder that contains the files, never from inside of them, and only a `.git` is
  one: git puts no `.git` into a work tree for a commit that has one;
* one process is started, and only in a way that reads objects, see `quotaform.git.process`.

What is read is limited: the size of an object, the bytes of one reading, and the time of all readings for a plan. Which
objects are asked for, and what they mean, is decided in the modules that use this one; here is only which commit two
histories have in common.

A push may contain objects that git itself would not write; they count as damaged.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import new as new_hash
from pathlib import Path
from re import compile as regex
from stat import S_ISDIR, S_ISLNK, S_ISREG
from time import monotonic
from typing import Final, NamedTuple

from quotaform.git.process import GitError, GitProcess, ObjectTooLargeError, TimeLeft
from quotaform.model.text import MIB
from quotaform.system.executable import find_executable

_is_id: Final = regex(rb"[0-9a-f]{40}|[0-9a-f]{64}").fullmatch
_is_mode: Final = regex(rb"[0-7]{1,6}").fullmatch


class TreeEntry(NamedTuple):
    """What a tree says of a name: the mode, as of a file, and the id of the object."""

    mode: int
    id: str

    @property
    def is_folder(self) -> bool:
        """Whether it is a tree."""
        return S_ISDIR(self.mode)

    @property
    def is_file(self) -> bool:
        """Whether it is the content of a file."""
        return S_ISREG(self.mode)

    @property
    def is_link(self) -> bool:
        """Whether it is a symbolic link."""
        return S_ISLNK(self.mode)


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit: its id, the id of its tree, and its parents, of which the first is the branch that it was made on."""

    id: str
    tree: str
    parents: tuple[str, ...]


def parse_commit(commit_id: str, content: bytes) -> Commit:
    """Read the content of a commit: a header of `KEY VALUE` lines, an empty line, the message.

    Raises `GitError` if there is no tree, or an id is none.
    """
    header = [line.partition(b" ") for line in content.partition(b"\n\n")[0].split(b"\n")]
    trees = [value for key, _, value in header if key == b"tree"]
    parents = [value for key, _, value in header if key == b"parent"]
    if not trees or not all(map(_is_id, (*trees, *parents))):
        raise GitError("a commit of the repository is damaged")
    return Commit(commit_id, trees[0].decode(), tuple(parent.decode() for parent in parents))


def parse_tree(content: bytes, width: int) -> Mapping[str, TreeEntry]:
    """Read the content of a tree: `MODE NAME NUL ID` again and again, with ids of `width` bytes.

    Raises `GitError` if a mode is none, or the content ends early.
    """
    entries: dict[str, TreeEntry] = {}
    start = 0
    while start < len(content):
        end = content.find(b"\0", start)
        mode, _, name = content[start:end].partition(b" ")
        start = end + 1 + width
        if end < 0 or start > len(content) or not _is_mode(mode):
            raise GitError("a folder of the repository is damaged")
        entries[name.decode(errors="surrogateescape")] = TreeEntry(int(mode, 8), content[end + 1 : start].hex())
    return entries


def blob_id(content: bytes, like: str) -> str:
    """Return the id that git gives to the content of a file.

    `like` is another id of the same repository, which tells the kind of hash.
    """
    digest = new_hash("sha1" if len(like) == 40 else "sha256", b"blob %d\0" % len(content), usedforsecurity=False)
    digest.update(content)
    return digest.hexdigest()


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

    The time until the end of the context is taken from `left`.
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
        return None if found is None else parse_commit(*found)

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
            tree = parse_tree(found[1], len(tree_id) // 2)
            self._cached_entries += len(tree)
            if self._cached_entries > _MAX_CACHED_ENTRIES:
                self._trees.clear()
                self._cached_entries = len(tree)
            self._trees[tree_id] = tree
        return self._trees[tree_id]

    def entry(self, root: str, path: str, links: int = _MAX_LINKS) -> TreeEntry | None:
        """Return what a tree has at a path, symbolic links followed within the tree."""
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

    Returns:
        The base itself if the head contains it; `None` if they have nothing in common, the clone lacks commits, or
        too many would have to be read.
    """
    count, is_incomplete = 0, False

    def parents(commits: Iterable[Commit], seen: dict[str, Commit]) -> Iterator[Commit]:
        """Yield the parents of commits that were not seen before, and add them to those that were."""
        nonlocal count, is_incomplete
        for parent in (parent for commit in commits for parent in commit.parents):
            if parent in seen or count > MAX_COMMITS:
                continue
            count += 1
            if found := objects.commit(parent):
                seen[parent] = found
                yield found
            else:
                is_incomplete = True

    of_head: dict[str, Commit] = {head.id: head}
    of_base: dict[str, Commit] = {base.id: base}
    heads, bases = [head], [base]
    while heads or bases:
        if base.id in of_head:
            return base
        if count > MAX_COMMITS:
            return None
        if not heads and of_head.keys() & of_base.keys():
            break
        # An ancestor of the base has no way to the base.
        heads = list(parents((commit for commit in heads if commit.id not in of_base), of_head))
        bases = list(parents(bases, of_base))
    if base.id in of_head:
        return base
    return None if is_incomplete else next((each for each in of_head.values() if each.id in of_base), None)
