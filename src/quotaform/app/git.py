"""The one door to git: the objects of a repository, read in a way that executes nothing of it.

A pull request may hold anything: a folder that is itself a git directory, with a configuration that names commands to
run. So

* the repository is looked for from a folder that contains the files, never from inside of them, and only a `.git` is
  one: git puts no `.git` into a work tree for a commit that has one;
* git discovers nothing above or beside it, no bare repository, and is told nothing by variables such as `GIT_DIR`;
* only `git cat-file --batch` is run. It reads objects, not the index, so that no fsmonitor, filter, hook, text
  conversion, external diff, pager or signature check has its turn; and it fetches nothing (a partial clone would).

Which objects are asked for, and what they mean, is decided here and in the modules that use this one.
"""

from __future__ import annotations

import os
import posixpath
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import new as new_hash
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from stat import S_ISDIR, S_ISLNK, S_ISREG
from typing import Final, NamedTuple

from quotaform.executable import find_executable
from quotaform.model.text import quote

_PATIENCE_SECONDS: Final = 30.0
"""How long one object may take."""

_MAX_BYTES: Final = 16 * 1024 * 1024
"""The largest object that is read; a folder of 100,000 files takes about 5 MiB."""

_MAX_CACHED_ENTRIES: Final = 50_000

_MAX_LINKS: Final = 10

_OPTIONS: Final = (
    "--no-pager",
    "--no-replace-objects",
    *("-c", "safe.bareRepository=explicit"),
    *("-c", "core.fsmonitor=false"),
    *("-c", f"core.hooksPath={os.devnull}"),
    *("-c", "core.sshCommand=false"),
    *("-c", "protocol.allow=never"),
)
_VARIABLES: Final = {
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
_KEPT_VARIABLES: Final = ("GIT_CONFIG", "GIT_EXEC_PATH")
"""What the operator may tell git: which configuration of theirs to read, and where it is installed."""


class GitError(Exception):
    """Git cannot be asked, or does not answer.

    Attributes:
        reason: Why, with what to do if that is known.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


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


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit: its id, the id of its tree, and its parents, of which the first is the branch that it was made on."""

    id: str
    tree: str
    parents: tuple[str, ...]


def find_work_tree(directory: Path) -> Path | None:
    """Return the top of the git work tree that a folder lies in, not looking at the folder itself."""
    for folder in Path(os.path.realpath(directory)).parents:
        mark = folder / ".git"
        if mark.is_file() or (mark.is_dir() and os.path.lexists(mark / "HEAD")):
            return folder
    return None


@contextmanager
def open_objects(top: Path) -> Iterator[GitObjects]:
    """Open the objects of the repository whose work tree has this top.

    Raises:
        GitError: Git is missing.
    """
    git = find_executable("git", outside=top)
    if git is None:
        raise GitError("there is no git command on the PATH; install git")
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or name.startswith(_KEPT_VARIABLES)
    }
    try:
        process = subprocess.Popen(  # noqa: S603 (git from outside of the repository, with fixed arguments)
            [git, *_OPTIONS, "cat-file", "--batch"],
            cwd=top,
            env={**environment, **_VARIABLES, "GIT_CEILING_DIRECTORIES": str(top.parent)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
    except OSError as error:
        raise GitError(f"git does not run: {error.strerror or error}") from None
    with process:
        try:
            yield GitObjects(process, top)
        finally:
            process.kill()


class GitObjects:
    """The objects of a repository, by id.

    Attributes:
        bytes_read: The size of all objects that were read.
    """

    def __init__(self, process: subprocess.Popen[bytes], top: Path) -> None:
        assert process.stdin is not None  # noqa: S101 (made with pipes)
        assert process.stdout is not None  # noqa: S101
        self._process = process
        self._requests = process.stdin
        self._answers = process.stdout
        self._top = top
        self._pending = b""
        self._trees: dict[str, Mapping[str, TreeEntry]] = {}
        self._cached_entries = 0
        self.bytes_read = 0

    def commit(self, name: str) -> Commit | None:
        """Return a commit by its id or as `HEAD`; `None` when there is none.

        Raises:
            GitError: Git does not answer.
        """
        found = self._object(name, b"commit")
        if found is None:
            return None
        commit_id, content = found
        head = [line.partition(b" ") for line in content.partition(b"\n\n")[0].split(b"\n")]
        trees = [value.decode(errors="replace") for key, _, value in head if key == b"tree"]
        parents = tuple(value.decode(errors="replace") for key, _, value in head if key == b"parent")
        return Commit(commit_id, trees[0], parents) if trees else None

    def complaint(self) -> str | None:
        """Return what git complained of on its standard error, if it did; nothing can be asked after this."""
        self._requests.close()
        return self._said() or None

    def blob(self, blob_id: str) -> bytes | None:
        """Return the content of a file; `None` when it is not there.

        Raises:
            GitError: Git does not answer.
        """
        found = self._object(blob_id, b"blob")
        return None if found is None else found[1]

    def tree(self, tree_id: str) -> Mapping[str, TreeEntry]:
        """Return a folder by name; it is empty when it is not there.

        Raises:
            GitError: Git does not answer.
        """
        if tree_id not in self._trees:
            found = self._object(tree_id, b"tree")
            tree = {} if found is None else _parse_tree(found[1], len(tree_id) // 2)
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

        Raises:
            GitError: Git does not answer.
        """
        entry = TreeEntry(0o040000, root)
        walked = ""
        names = path.split("/") if path else []
        for place, name in enumerate(names):
            found = self.tree(entry.id).get(name) if entry.is_folder else None
            if found is None:
                return None
            if S_ISLNK(found.mode):
                target = (self.blob(found.id) or b"").decode(errors="surrogateescape")
                rest = posixpath.normpath(posixpath.join(walked, target, *names[place + 1 :]))
                is_inside = bool(target) and not rest.startswith(("/", "../")) and rest not in ("..", ".")
                return self.entry(root, rest, links - 1) if is_inside and links else None
            entry, walked = found, posixpath.join(walked, name)
        return entry

    def _object(self, name: str, kind: bytes) -> tuple[str, bytes] | None:
        try:
            self._requests.write(name.encode() + b"\n")
        except OSError:
            raise GitError(self._said() or "git ended unexpectedly") from None
        words = self._line().split()
        if len(words) != 3:
            return None
        size = int(words[2])
        if size > _MAX_BYTES:
            self._process.kill()
            raise GitError(f"an object of {size:,} bytes is larger than {_MAX_BYTES:,}")
        self.bytes_read += size
        content = self._read(size + 1)[:size]
        return (words[0].decode(), content) if words[1] == kind else None

    def _line(self) -> bytes:
        while b"\n" not in self._pending:
            self._receive()
        line, _, self._pending = self._pending.partition(b"\n")
        return line

    def _read(self, count: int) -> bytes:
        pieces = [self._pending]
        left = count - len(self._pending)
        while left > 0:
            self._pending = b""
            self._receive()
            pieces.append(self._pending)
            left -= len(self._pending)
        content = b"".join(pieces)
        self._pending = content[count:]
        return content[:count]

    def _receive(self) -> None:
        with DefaultSelector() as selector:
            selector.register(self._answers, EVENT_READ)
            if not selector.select(_PATIENCE_SECONDS):
                raise GitError(f"git did not answer within {_PATIENCE_SECONDS:.0f} seconds")
        piece = os.read(self._answers.fileno(), 1 << 20)
        if not piece:
            raise GitError(self._said() or "git ended unexpectedly")
        self._pending += piece

    def _said(self) -> str:
        """Return why git ended, in the words that it left."""
        assert self._process.stderr is not None  # noqa: S101 (made with a pipe)
        said = self._process.stderr.read(10_000).decode(errors="replace").strip()
        if "dubious ownership" in said:
            directory = quote(str(self._top), len(str(self._top)))
            return (
                "git refuses a repository that another user owns; if you trust it, run: "
                f"git config --global --add safe.directory {directory}"
            )
        return f"git says {quote(said.partition(chr(10))[0], 200)}" if said else ""


def blob_id(content: bytes, like: str) -> str:
    """Return the id that git gives to the content of a file.

    Args:
        content: What it holds.
        like: Another id of the same repository, which tells the kind of hash.
    """
    digest = new_hash("sha1" if len(like) == 40 else "sha256", b"blob %d\0" % len(content), usedforsecurity=False)
    digest.update(content)
    return digest.hexdigest()


def _parse_tree(content: bytes, width: int) -> Mapping[str, TreeEntry]:
    """Read the content of a tree: `MODE NAME NUL ID` again and again, with ids of `width` bytes."""
    entries: dict[str, TreeEntry] = {}
    start = 0
    try:
        while start < len(content):
            end = content.index(b"\0", start)
            mode, _, name = content[start:end].partition(b" ")
            start = end + 1 + width
            entries[name.decode(errors="surrogateescape")] = TreeEntry(int(mode, 8), content[end + 1 : start].hex())
    except ValueError:
        raise GitError("a tree of the repository is damaged") from None
    return entries
