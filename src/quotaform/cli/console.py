"""Where output goes: results to stdout; progress, warnings and errors to stderr."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from quotaform.errors import QuotaformError, UsageError

if TYPE_CHECKING:
    from quotaform.views.style import Style

_PROGRESS_DELAY: Final = 1.0
_PROGRESS_INTERVAL: Final = 0.1


class Color(StrEnum):
    """When to colour."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


@dataclass(slots=True)
class Console:
    """One run's output.

    Attributes:
        color: When to colour; AUTO is on a terminal, and not with NO_COLOR (https://no-color.org).
        is_quiet: Whether progress and warnings are left out.
        is_verbose: Whether every step is a line on stderr, terminal or not.
    """

    color: Color = Color.AUTO
    is_quiet: bool = False
    is_verbose: bool = False
    _last_step: str = ""
    _started: float = field(default_factory=time.monotonic)
    _shown_at: float = 0.0
    # There is one terminal for all consoles, and whatever is printed next, by whomever, must find its line empty.
    _shows: ClassVar[bool] = False
    _is_unread: bool = False

    def style(self) -> Style:
        """Return how to colour what goes to stdout."""
        from quotaform.views.style import Style

        if self.color is Color.AUTO:
            return Style(sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb")
        return Style(self.color is Color.ALWAYS)

    def echo(self, text: str | Iterable[str]) -> None:
        """Print a result as it is, whole or in pieces.

        A reader that went away (`| head`) neither stops the work nor changes its end.
        """
        for piece in (text,) if isinstance(text, str) else text:
            self._echo(piece)

    def _echo(self, text: str) -> None:
        self.clear()
        if self._is_unread:
            return
        if sys.stdout is None:
            raise QuotaformError("the output cannot be written: it is closed")
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except BrokenPipeError:
            self._is_unread = True
        except OSError as error:
            raise QuotaformError(f"the output cannot be written: {error.strerror or error}") from error

    def write_stderr(self, text: str) -> None:
        """Print a text on stderr, unless nobody reads it any more."""
        self.clear()
        _write_stderr(text)

    def warn(self, text: str) -> None:
        """Print a line on stderr, unless quiet."""
        self.clear()
        if not self.is_quiet:
            _write_stderr(f"{text}\n")

    def progress(self, what: str, done: int, total: int) -> None:
        """Show how far the work is, on a terminal and only once it has taken a second."""
        if self.is_verbose and what != self._last_step:
            self._last_step = what
            self.clear()
            _write_stderr(f"{what} ...\n")
        now = time.monotonic()
        if self.is_quiet or now - self._started < _PROGRESS_DELAY or now - self._shown_at < _PROGRESS_INTERVAL:
            return
        if not sys.stderr.isatty():
            return
        self._shown_at = now
        Console._shows = True
        share = f" {done:,} of {total:,} ({100 * done // total}%)" if total else ""
        _write_stderr(f"\r\x1b[K{what}{share} ...")

    @classmethod
    def clear(cls) -> None:
        """Wipe the progress line."""
        if Console._shows:
            Console._shows = False
            _write_stderr("\r\x1b[K")


def _write_stderr(text: str) -> None:
    """Write to stderr; a closed or broken stderr must not stop the command."""
    with suppress(OSError, ValueError):
        sys.stderr.write(text)
        sys.stderr.flush()


def drop_unwritten_output() -> None:
    """Let what could not be written go nowhere, or the interpreter would stumble over it when the process ends."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())
            os.close(nowhere)


def write_file(path: Path, text: str | Iterable[str]) -> None:
    """Write a file whole or not at all.

    Raises:
        QuotaformError: It cannot be written.
    """
    from quotaform.files import write_text_atomically

    try:
        write_text_atomically(path, text)
    except OSError as error:
        raise QuotaformError(f"{path} cannot be written: {error.strerror or error}") from error


def remove_file(path: Path) -> None:
    """Remove a file that was written earlier, if there is one.

    Raises:
        QuotaformError: It cannot be removed.
    """
    from quotaform.files import remove_regular_file

    try:
        remove_regular_file(path)
    except OSError as error:
        raise QuotaformError(f"{path}, of an earlier run, cannot be removed: {error.strerror or error}") from error


def require_writable(path: Path) -> None:
    """Make sure that a file can be written later, before anything else is done.

    Raises:
        QuotaformError: Its folder cannot be made or written to.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise QuotaformError(f"{path} cannot be written: {error.strerror or error}; nothing was done") from error
    if path.is_dir() or not os.access(path.parent, os.W_OK):
        raise QuotaformError(f"{path} cannot be written; nothing was done: name another file")


def require_choice(what: str, name: str, allowed: tuple[str, ...]) -> str:
    """Make sure that a word is one of those that an option takes.

    Raises:
        UsageError: It is not.
    """
    if name not in allowed:
        raise UsageError(f"{what} {name!r} does not exist here; choose from {', '.join(allowed)}")
    return name
