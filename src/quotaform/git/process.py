"""The process of git that answers: one question at a time, for a limited time and with limited answers.

Only `git cat-file --batch` is run. It reads objects, not the index, so that no fsmonitor, filter, hook, text
conversion, external diff, pager or signature check has its turn; and it fetches nothing (a partial clone would). It
discovers no repository above or next to the given one, no bare one, and ignores variables such as `GIT_DIR`.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from time import monotonic
from typing import Final, NamedTuple

from quotaform.model.text import MIB, quote

_MAX_SECONDS: Final = 3.0
"""How long the repository may be read for one plan, for all of its clusters together, but for its base."""

_MAX_BYTES_READ: Final = 64 * MIB
"""How much one process may be asked for unless its reader says otherwise: HEAD, or the earlier files of one cluster."""

_MAX_ERROR_BYTES: Final = 10_000

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
    """Git cannot be asked, does not answer, or a limit of what is read is reached.

    `reason` is why, with what to do if that is known.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class ObjectTooLargeError(GitError):
    """An object is larger than its reader allows; others can still be read."""

    def __init__(self, size: int, limit: int) -> None:
        self.size = size
        self.limit = limit
        super().__init__(f"an object of {size:,} bytes is larger than {limit:,}")


@dataclass(slots=True)
class TimeLeft:
    """How long the repository may still be read, and how much at a time; one value for all readings of a plan."""

    seconds: float = _MAX_SECONDS
    most_seconds: float = _MAX_SECONDS  # the time that there was
    most_bytes: int | None = None  # how much one process may be asked for; `None` is the usual limit


class Answer(NamedTuple):
    """An object: its id, its kind (`commit`, `tree`, `blob`, `tag`) and its content."""

    id: str
    kind: str
    content: bytes


class GitProcess:
    """Git, asked for objects. `bytes_read` is the size of all objects that were read."""

    def __init__(self, git: Path, top: Path, left: TimeLeft) -> None:
        """Start it."""
        self._git = git
        self._top = top
        self._deadline = monotonic() + left.seconds
        self._limits = left
        self.bytes_read = 0
        self._start()

    def close(self) -> None:
        """End it."""
        self._selector.close()
        with self._process:
            self._process.kill()

    def ask(self, name: str, limit: int) -> Answer | None:
        """Return an object by its id or a revision that names it; `None` when there is none.

        The name is an id, or a revision without a line end (`quotaform.plan.base`). Raises
        `ObjectTooLargeError` if it has more than `limit` bytes.
        """
        self._require_time()
        try:
            self._requests.write(name.encode() + b"\n")
        except OSError:
            raise self._ended() from None
        words = self._line().split()
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
        return Answer(words[0].decode(), words[1].decode(), self._read(size + 1)[:size])

    def error_message(self) -> str | None:
        """Return what git wrote to its standard error, if anything; nothing can be asked after this."""
        self._requests.close()
        with DefaultSelector() as selector:
            selector.register(self._errors, EVENT_READ)
            while monotonic() < self._deadline and selector.select(self._deadline - monotonic()):
                if not self._keep_errors():
                    break
        message = self._error_output.decode(errors="replace").strip()
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
            process = subprocess.Popen(  # noqa: S603 (git from outside of the repository, with fixed arguments)
                [self._git, *_OPTIONS, "cat-file", "--batch"],
                cwd=self._top,
                env={**environment, **_VARIABLES, "GIT_CEILING_DIRECTORIES": str(self._top.parent)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
            )
        except OSError as error:
            raise GitError(f"git cannot be executed: {error.strerror or error}") from None
        assert process.stdin and process.stdout and process.stderr  # noqa: S101, PT018 (made with pipes)
        self._process = process
        self._requests, self._answers, self._errors = process.stdin, process.stdout, process.stderr
        self._selector = DefaultSelector()
        self._selector.register(self._answers, EVENT_READ)
        self._selector.register(self._errors, EVENT_READ)
        self._pending = b""
        self._error_output = b""

    def _require_time(self) -> None:
        if monotonic() >= self._deadline:
            raise GitError(f"the repository is read for at most {self._limits.most_seconds:.0f} seconds")

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
        """Wait for more of the answer. Errors are taken meanwhile: git would wait for room in a full pipe."""
        while True:
            self._require_time()
            ready = {key.fileobj for key, _ in self._selector.select(self._deadline - monotonic())}
            if self._errors in ready and not self._keep_errors():
                self._selector.unregister(self._errors)
            if self._answers in ready:
                break
        piece = os.read(self._answers.fileno(), 1 << 20)
        if not piece:
            raise self._ended()
        self._pending += piece

    def _keep_errors(self) -> bool:
        """Read what is there of the standard error; return whether more may come."""
        piece = os.read(self._errors.fileno(), 1 << 16)
        self._error_output += piece[: _MAX_ERROR_BYTES - len(self._error_output)]
        return bool(piece)

    def _ended(self) -> GitError:
        return GitError(self.error_message() or "git ended unexpectedly")
