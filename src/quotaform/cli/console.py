"""Where output goes, and where answers come from: results to stdout; progress, warnings and questions to stderr."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from msgspec import Struct, field

from quotaform.cli.stream import GuardedStream, make_harmless, write_raw
from quotaform.model.errors import NotApprovedError, QuotaformError
from quotaform.model.text import inert, is_annotation, printable
from quotaform.system.process import read_typed_line

if TYPE_CHECKING:
    from quotaform.desired.config import Cluster
    from quotaform.report.text import Style


_PROGRESS_DELAY: Final = 1.0
_PROGRESS_INTERVAL: Final = 0.1
_WIPE: Final = "\r\x1b[K"


class Color(StrEnum):
    """When to colour."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class Console(Struct):
    """One run's output."""

    color: Color = Color.AUTO  # When to colour; AUTO is on a terminal, and not with NO_COLOR (https://no-color.org)
    is_quiet: bool = False  # Whether progress and warnings are left out; failures never are
    is_verbose: bool = False  # Whether every step is a line on stderr, terminal or not
    _last_step: str = ""
    _started: float = field(default_factory=time.monotonic)
    _shown_at: float = 0.0
    # There is one terminal for all consoles, and whatever is printed next, by whomever, must find its line empty.
    _shows: ClassVar[bool] = False

    def style(self) -> Style:
        """Return how to colour what goes to stdout."""
        from quotaform.report.text import Style

        is_coloured = self.color is Color.ALWAYS
        if self.color is Color.AUTO:
            is_capable = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
            is_coloured = is_capable and sys.stdout.isatty()
        if isinstance(sys.stdout, GuardedStream):
            sys.stdout.allows_colour = is_coloured
        return Style(is_coloured)

    @property
    def is_lost(self) -> bool:
        """Whether results cannot be written; commands go on, and `quotaform.cli.main` reports it at the end."""
        return isinstance(sys.stdout, GuardedStream) and sys.stdout.loss is not None

    @staticmethod
    def keep_code() -> None:
        """Let the exit code say what was done, whatever becomes of the output."""
        if isinstance(sys.stdout, GuardedStream):
            sys.stdout.is_result = False

    def echo(self, text: str | Iterable[str]) -> None:
        """Print a result, whole or in pieces; see `quotaform.cli.stream` for what happens when it cannot be written."""
        for piece in (text,) if isinstance(text, str) else text:
            self.clear()
            sys.stdout.write(piece)

    def write_stderr(self, text: str) -> None:
        """Print a text on stderr."""
        self.clear()
        sys.stderr.write(text)

    def write_commands(self, pieces: Iterable[str], *, is_result: bool = True) -> None:
        """Print commands for GitHub Actions, one per line: the only output in which such commands are left whole.

        `is_result`: whether they go to stdout, where a runner reads them as well as on stderr.
        """
        self.clear()
        stream = sys.stdout if is_result else sys.stderr
        for line in "".join(pieces).splitlines():
            write_raw(stream, f"{line if is_annotation(line) else make_harmless(line)}\n")

    def warn(self, *lines: str) -> None:
        """Print lines on stderr, unless quiet."""
        if not self.is_quiet:
            self.report_failure(*lines)

    def warn_of(self, problem: str) -> None:
        """Print a warning on stderr, unless quiet."""
        self.warn(f"Warning: {problem}")

    def warn_of_failure(self, problem: str) -> None:
        """Print a warning on stderr, also when quiet."""
        self.report_failure(f"Warning: {problem}")

    def report_failure(self, *lines: str) -> None:
        """Print lines on stderr, also when quiet: something failed that does not end the command."""
        self.clear()
        sys.stderr.write("".join(f"{printable(line)}\n" for line in lines))

    def progress(self, what: str, done: int, total: int) -> None:
        """Show how far the work is, on a terminal and only once it has taken a second."""
        if self.is_verbose and what != self._last_step:
            self._last_step = what
            self.clear()
            sys.stderr.write(f"{printable(what)} ...\n")
        now = time.monotonic()
        if self.is_quiet or now - self._started < _PROGRESS_DELAY or now - self._shown_at < _PROGRESS_INTERVAL:
            return
        if not sys.stderr.isatty():
            return
        self._shown_at = now
        Console._shows = True
        write_raw(sys.stderr, f"{_WIPE}{printable(what)}{share(done, total)} ...")

    @classmethod
    def clear(cls) -> None:
        """Wipe the progress line."""
        if Console._shows:
            Console._shows = False
            write_raw(sys.stderr, _WIPE)


def step_console() -> Console:
    """Return a console that shows the steps of a start: on a terminal in one line, otherwise in one line each."""
    return Console(is_verbose=not sys.stderr.isatty())


def share(done: int, total: int) -> str:
    """Return how much is done, as it stands behind a step.

    >>> share(3, 12), share(0, 0)
    (' 3 of 12 (25%)', '')
    """
    return f" {done:,} of {total:,} ({100 * done // total}%)" if total else ""


def write_file(path: Path, text: str | Iterable[str]) -> None:
    """Write a file whole or not at all."""
    from quotaform.system.files import write_text_atomically

    try:
        write_text_atomically(path, text)
    except OSError as error:
        raise QuotaformError(f"{path} cannot be written: {error.strerror or error}") from error


def remove_earlier(console: Console, path: Path) -> None:
    """Remove a file of an earlier run, so that it is not taken for the result of this one."""
    from quotaform.system.files import remove_regular_file

    try:
        was_there = remove_regular_file(path)
    except OSError as error:
        raise QuotaformError(f"{path}, of an earlier run, cannot be removed: {error.strerror or error}") from error
    if was_there:
        console.warn(f"Removed the earlier {inert(str(path))}, so that it is not taken for the result of this run")


def require_confirmed(console: Console, chosen: Cluster, *, auto_approve: bool) -> None:
    """Make sure of a change to a cluster with `confirm: name`, whose name has to be typed.

    Raises `NotApprovedError` if another name was typed, or there is no terminal to ask on.
    """
    if chosen.confirm != "name" or auto_approve:
        return
    if not sys.stdin.isatty():
        raise NotApprovedError(
            f"cluster {chosen.name} requires typing its name (confirm: name), but there is no terminal",
            remedy="use --auto-approve",
        )
    console.write_stderr(f"Type the name of the cluster, {chosen.name}, to change it: ")
    if read_typed_line(sys.stdin).strip() != chosen.name:
        raise NotApprovedError
