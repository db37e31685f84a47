"""The one door to git: the objects of a repository, read in a way that executes nothing of it.

A pull request may hold anything: a folder that is itself a git directory, with a configuration that names commands to
run. So

* the repository is looked for from a folder that contains the files, never from inside of them, and only a `.git` is
  one: git puts no `.git` into a work tree for a commit that has one;
* only `git cat-file --batch` is run. It reads objects, not the index, so that no fsmonitor, filter, hook, text
  conversion, external diff, pager or signature check has its turn; and it fetches nothing (a partial clone would). It
  discovers no repository above or next to the given one, no bare one, and ignores variables such as `GIT_DIR`.

What is read is limited: the size of an object, the bytes of one reading, and the time of all readings for a plan. Which
objects are asked for, and what they mean, is decided in the modules that use this one; here is only which commit two
histories have in common.

A push may contain objects that git itself would not write; they count as damaged.
"""

from __future__ import annotations

import os
import posixpath
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import new as new_hash
from pathlib import Path
from re import compile as regex
from signal import SIGKILL
from stat import S_ISDIR, S_ISLNK, S_ISREG
from tempfile import TemporaryFile
from threading import Timer
from time import monotonic
from typing import Final, NamedTuple

from msgspec import Struct

from quotaform.model.text import MIB, quote
from quotaform.system.executable import find_executable

_is_id: Final = regex(rb"[0-9a-f]{40}|[0-9a-f]{64}").fullmatch
_is_mode: Final = regex(rb"[0-7]{1,6}").fullmatch

_MAX_SECONDS: Final = 3.0
"""How long the repository may be read for one plan, for all of its clusters together, but for its base."""

_MAX_BYTES_READ: Final = 64 * MIB
"""How much one process may be asked for unless its reader says otherwise: HEAD, or the earlier files of one cluster."""

_MAX_ERROR_BYTES: Final = 10_000
_MAX_LINE_BYTES: Final = 1 << 16

_MAX_OBJECT_BYTES: Final = 16 * MIB
"""The largest commit or folder that is read; a folder of 100,000 files takes about 5 MiB."""

_MAX_TARGET_BYTES: Final = 4096  # the longest target of a symbolic link that an operating system takes

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
"""What the operator may set for git: which configuration of theirs to read, and where it is installed."""


class GitError(Exception):
    """Git cannot be asked, does not answer, or a limit is reached; `reason` is why, and what to do if that is known."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class ObjectTooLargeError(GitError):
    """An object is larger than its reader allows; others can still be read."""

    def __init__(self, size: int, limit: int) -> None:
        self.size = size
        self.limit = limit
        super().__init__(f"an object of {size:,} bytes is larger than {limit:,}")


class TimeLeft(Struct):
    """How long the repository may still be read, and how much at a time; one value for all readings of a plan."""

    seconds: float = _MAX_SECONDS
    most_seconds: float = _MAX_SECONDS  # the time that there was
    most_bytes: int | None = None  # how much one process may be asked for; `None` is the usual limit


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


class Commit(Struct, frozen=True):
    """A commit: its id, the id of its tree, and its parents, of which the first is the branch that it was made on."""

    id: str
    tree: str
    parents: tuple[str, ...]


def parse_commit(commit_id: str, content: bytes) -> Commit:
    """Read a commit: `KEY VALUE` lines, an empty line, the message. Raises `GitError` for a wrong id, or no tree."""
    header = [line.partition(b" ") for line in content.partition(b"\n\n")[0].split(b"\n")]
    trees = [value for key, _, value in header if key == b"tree"]
    parents = [value for key, _, value in header if key == b"parent"]
    if not trees or not all(map(_is_id, (*trees, *parents))):
        raise GitError("a commit of the repository is damaged")
    return Commit(commit_id, trees[0].decode(), tuple(parent.decode() for parent in parents))


def parse_tree(content: bytes, width: int) -> Mapping[str, TreeEntry]:
    """Read a tree: `MODE NAME NUL ID` many times, ids of `width` bytes. Raises `GitError` if it is damaged."""
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
    """Return the id that git gives to the content of a file, by the kind of hash that another id, `like`, has."""
    digest = new_hash("sha1" if len(like) == 40 else "sha256", b"blob %d\0" % len(content), usedforsecurity=False)
    digest.update(content)
    return digest.hexdigest()


def find_work_tree(directory: Path) -> Path | None:
    """Return the top of the git work tree that a folder lies in, not looking at the folder itself."""
    for folder in Path(os.path.realpath(directory)).parents:
        mark = folder / ".git"
        if mark.is_file() or (mark.is_dir() and os.path.lexists(mark / "HEAD")):
            return folder
    return None


@contextmanager
def open_objects(top: Path, left: TimeLeft) -> Iterator[GitObjects]:
    """Open the objects of the repository whose work tree has this top; the time of the context is taken from `left`."""
    started = monotonic()
    git = find_executable("git", outside=top)
    if git is None:
        raise GitError("no git command was found on the PATH; install git")
    objects = GitObjects(git, top, left)
    try:
        yield objects
    finally:
        objects.close()
        left.seconds -= monotonic() - started


class GitObjects:
    """The objects of a repository, by id; every method may raise `GitError`.

    A process of git is asked for one at a time. `bytes_read` is the size of all objects that were read.
    """

    def __init__(self, git: Path, top: Path, left: TimeLeft) -> None:
        self._git = git
        self._top = top
        self._deadline = monotonic() + left.seconds
        self._limits = left
        self._trees: dict[str, Mapping[str, TreeEntry]] = {}
        self._cached_entries = 0
        self.bytes_read = 0
        self._start()

    def close(self) -> None:
        """End the process."""
        self._timer.cancel()
        self._errors.close()
        with self._process:
            self._kill()

    def commit(self, name: str) -> Commit | None:
        """Return a commit by its id or a revision that names it; `None` when there is none."""
        found = self._content(name, "commit", _MAX_OBJECT_BYTES)
        return None if found is None else parse_commit(*found)

    def blob(self, blob_id: str, limit: int) -> bytes | None:
        """Return a file; `None` when it is not there. Raises `ObjectTooLargeError` for more than `limit` bytes."""
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
        """Return the id and the content of an object; `None` when it is missing or of another kind.

        The name is an id, or a revision without a line end (`quotaform.plan.base`).
        """
        self._require_time()
        try:
            os.write(self._requests.fileno(), name.encode() + b"\n")
        except OSError:
            raise self._ended() from None
        line = self._answers.readline(_MAX_LINE_BYTES)
        if not line.endswith(b"\n"):
            raise self._ended()
        words = line.split()
        if len(words) != 3 or not words[2].isdigit():
            return None
        size = int(words[2])
        if size > limit:
            self._restart()
            raise ObjectTooLargeError(size, limit)
        most = _MAX_BYTES_READ if self._limits.most_bytes is None else self._limits.most_bytes
        if self.bytes_read + size > most:
            self._restart()
            raise GitError(f"at most {most // MIB} MiB of the repository are read")
        self.bytes_read += size
        content = self._answers.read(size + 1)
        if len(content) <= size:
            raise self._ended()
        return (words[0].decode(), content[:size]) if words[1].decode() == kind else None

    def error_message(self) -> str | None:
        """Return what git wrote to its standard error, if anything; nothing can be asked after this."""
        self._requests.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(max(0.0, self._deadline - monotonic()))
            self._timer.cancel()
        self._errors.seek(0)
        message = self._errors.read(_MAX_ERROR_BYTES).decode(errors="replace").strip()
        if "dubious ownership" in message:
            directory = quote(str(self._top), len(str(self._top)))
            return (
                "git refuses a repository that another user owns; if you trust it, run: "
                f"git config --global --add safe.directory {directory}"
            )
        if "lazy fetching disabled" in message:
            return "this is a partial clone, which does not hold all earlier files"
        return f"git failed: {quote(message.partition(chr(10))[0], 200)}" if message else None

    def _restart(self) -> None:
        """Let another process answer the next question: the content of the object would come first, however large."""
        self.close()
        self._start()

    def _start(self) -> None:
        self._require_time()
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("GIT_") or name.startswith(_KEPT_VARIABLES)
        }
        try:
            self._errors = TemporaryFile()  # noqa: SIM115 (closed with the process)
            self._process = subprocess.Popen(  # noqa: S603 (git from outside of the repository, with fixed arguments)
                [self._git, *_OPTIONS, "cat-file", "--batch"],
                cwd=self._top,
                env={**environment, **_VARIABLES, "GIT_CEILING_DIRECTORIES": str(self._top.parent)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                process_group=0,
            )
        except OSError as error:
            raise GitError(f"git cannot be executed: {error.strerror or error}") from None
        assert self._process.stdin and self._process.stdout  # noqa: S101, PT018 (made with pipes)
        self._requests, self._answers = self._process.stdin, self._process.stdout
        # What waits for an answer then gets the end of it.
        self._timer = Timer(self._deadline - monotonic(), self._kill)
        self._timer.daemon = True
        self._timer.start()

    def _kill(self) -> None:
        """End git and what it may have started, which could hold its pipes open."""
        if self._process.returncode is None:  # Else the number may be that of others by now.
            with suppress(OSError):
                os.killpg(self._process.pid, SIGKILL)

    def _require_time(self) -> None:
        if monotonic() >= self._deadline:
            raise GitError(f"the repository is read for at most {self._limits.most_seconds:.0f} seconds")

    def _ended(self) -> GitError:
        self._require_time()
        return GitError(self.error_message() or "git ended unexpectedly")


MAX_COMMITS: Final = 4000
"""How many commits are read to find out."""


def merge_base(objects: GitObjects, head: Commit, base: Commit) -> Commit | None:
    """Return the newest commit that two histories have in common, as far as that is known.

    Both histories are searched together, one generation after the other. With several common commits of one generation
    it is one of them.

    Returns the base itself if the head contains it; `None` if they have nothing in common, the clone lacks commits, or
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
