"""The output of a command: results to stdout; progress, warnings and questions to stderr.

While a command runs, everything that is printed passes a guard of the standard streams:

* A failed write is noted, not raised: what was done to a cluster stays done even if the output is lost.
* What is left of control characters, and what a CI runner takes for a command, is escaped. This is the last safety net:
  views and errors escape what they quote themselves.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from codecs import register_error
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from io import TextIOWrapper
from pathlib import Path
from re import split
from select import select
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn, TextIO

from quotaform.model.errors import NotApprovedError
from quotaform.model.text import break_lines, escape, is_annotation, json_escape, line_end, printable
from quotaform.system.process import ignore_signals, interrupt_code, rare_collections

if TYPE_CHECKING:
    from quotaform.desired.config import Cluster
    from quotaform.report.text import Style

_COLOUR: Final = "(\x1b\\[(?:0|1|2|31|32|33)m)"
"""What `quotaform.report.text` writes."""
_ESCAPE_UNENCODABLE: Final = "quotaform.escape"
_PROGRESS_DELAY: Final = 1.0
_PROGRESS_INTERVAL: Final = 0.1
_LOG_INTERVAL: Final = 30.0
"""The least number of seconds between two lines of a log."""
_WIPE: Final = "\r\x1b[K"


class GuardedStream:
    """A stream to which only harmless text is written, and whose writes never fail."""

    def __init__(self, stream: TextIO) -> None:
        self.problem: OSError | ValueError | None = None  # Why a write failed; from then on nothing is written
        self.allows_colour = False  # Whether colours are written as they are
        self.is_result = True  # Whether the exit code says that this arrived; not so where it says what was done
        self._stream = stream
        self._line_end = ""

    def __getattr__(self, name: str) -> Any:
        """Return what the stream has, but no way around this guard."""
        if name not in ("closed", "encoding", "errors", "fileno", "isatty"):  # nothing that writes
            raise AttributeError(f"a guarded stream has no {name}")
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write a text without what could do harm."""
        if not isinstance(text, str):  # asked by typer, which looks for a stream of bytes
            raise TypeError("only text can be written here")
        if text:
            harmless = make_harmless(text, before=self._line_end, allows_colour=self.allows_colour)
            self._line_end = line_end(self._line_end + harmless)
            self.write_raw(harmless)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def write_raw(self, text: str) -> None:
        """Write a text as it is, at once; a pipe that is full and does not block is waited for."""
        if self.problem is not None:
            return
        try:
            try:
                descriptor = self._stream.fileno()
                blocks = os.get_blocking(descriptor)
            except (OSError, ValueError, AttributeError):  # not a file of the operating system
                blocks = True
            if blocks:
                self._stream.write(text)
                self._stream.flush()
            else:
                self._write_waiting(descriptor, text)
        except (OSError, ValueError) as error:
            self.problem = error

    def _write_waiting(self, descriptor: int, text: str) -> None:
        # A buffer would lose what does not fit, and some are flushed in the middle of a write: it is left empty.
        left = memoryview(text.encode(self._stream.encoding, self._stream.errors or "strict"))
        is_flushed = False
        while left or not is_flushed:
            try:
                if not is_flushed:
                    self._stream.flush()
                    is_flushed = True
                left = left[os.write(descriptor, left) :]
            except BlockingIOError:
                select([], [descriptor], [])

    def flush(self) -> None:
        """Do nothing: every write is flushed."""

    @property
    def loss(self) -> str | None:
        """Why something could not be written, though somebody may want to read it: not after `| head`."""
        if self.problem is None or isinstance(self.problem, BrokenPipeError):
            return None
        return f"the output cannot be written: {getattr(self.problem, 'strerror', None) or self.problem}"


def write_raw(stream: TextIO, text: str) -> None:
    """Write a text as it is to a stream, guarded or not."""
    getattr(stream, "write_raw", stream.write)(text)


def make_harmless(text: str, *, before: str = "", allows_colour: bool = False) -> str:
    """Return lines without control characters but tabs, which completion for fish needs, and without CI commands.

    The text may be any part of the output, but a colour is never split; `before` is as for `break_lines`.
    """
    if not text.replace("\n", "").isprintable():
        parts = split(_COLOUR, text) if allows_colour else [text]
        parts[::2] = ["".join(c if c in "\n\t" else escape(c) for c in part) for part in parts[::2]]
        text = "".join(parts)
    return break_lines(text, before)


@contextmanager
def guarded_streams() -> Iterator[GuardedStream]:
    """Guard stdout and stderr while a command runs, and yield stdout; they are left as they were found."""
    before = sys.stdout, sys.stderr
    wrappers = [(stream, stream.errors) for stream in before if isinstance(stream, TextIOWrapper)]
    register_error(_ESCAPE_UNENCODABLE, _escape_unencodable)
    for stream, _ in wrappers:
        stream.reconfigure(errors=_ESCAPE_UNENCODABLE)
    guarded = GuardedStream(sys.stdout), GuardedStream(sys.stderr)
    sys.stdout, sys.stderr = guarded
    try:
        yield guarded[0]
    finally:
        sys.stdout, sys.stderr = before
        for stream, errors in wrappers:
            with suppress(OSError, ValueError):  # its reader has ended, or it is closed
                stream.reconfigure(errors=errors)


def _escape_unencodable(error: UnicodeError) -> tuple[str, int]:
    """Return what stands for characters that the encoding does not have, so that JSON stays what it is."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(json_escape, error.object[error.start : error.end])), error.end


def run_as_process(run_command: Callable[[list[str]], int]) -> NoReturn:
    """Run a command with the arguments of the process, whatever its streams are, and exit."""
    # A standard stream that is closed gets something in its place: else the next file would be it. A closed stdout
    # becomes one that cannot be written to, so that this is said when something should be.
    for name, flags in (("stdin", os.O_RDONLY), ("stdout", os.O_RDONLY), ("stderr", os.O_WRONLY)):
        if getattr(sys, name) is None:
            # The lowest free number is that of the closed stream.
            descriptor = os.open(os.devnull, flags)
            setattr(sys, name, open(descriptor, "r" if name == "stdin" else "w", encoding="utf-8"))  # noqa: SIM115, PTH123
    try:
        with rare_collections():
            code = run_command(sys.argv[1:])
            gc.freeze()  # What is left lives until the process ends, which would look through it twice.
    except KeyboardInterrupt as interrupt:
        # It came when everything was said.
        code = interrupt_code(interrupt)
    # What could not be written goes nowhere, or the interpreter would stumble over it when the process ends.
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
    ignore_signals()
    sys.exit(int(code))


@dataclass(slots=True)
class Console:
    """One run's output."""

    color: str = "auto"  # always, never, or auto: on a terminal, and not with NO_COLOR (https://no-color.org)
    is_quiet: bool = False  # Whether progress and warnings are left out; failures never are
    is_verbose: bool = False  # Whether every step is a line on stderr, terminal or not
    _last_step: str = ""
    _started: float = field(default_factory=time.monotonic)
    _shown_at: float = 0.0
    _logged: tuple[str, int] = ("", 0)
    _logged_at: float = field(default_factory=time.monotonic)
    # There is one terminal for all consoles, and whatever is printed next, by whomever, must find its line empty.
    _shows: ClassVar[bool] = False

    def style(self) -> Style:
        """Return how to colour what goes to stdout."""
        from quotaform.report.text import Style

        is_coloured = self.color == "always"
        if self.color == "auto":
            is_capable = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
            is_coloured = is_capable and sys.stdout.isatty()
        if isinstance(sys.stdout, GuardedStream):
            sys.stdout.allows_colour = is_coloured
        return Style(is_coloured)

    @property
    def is_lost(self) -> bool:
        """Whether results cannot be written; commands go on, and `quotaform.cli.main` reports it at the end."""
        return isinstance(sys.stdout, GuardedStream) and sys.stdout.problem is not None

    @staticmethod
    def keep_code() -> None:
        """Let the exit code say what was done, whatever becomes of the output."""
        if isinstance(sys.stdout, GuardedStream):
            sys.stdout.is_result = False

    def echo(self, text: str | Iterable[str], format_name: str = "text") -> None:
        """Print a result, whole or in pieces; what cannot be written is noted, and commands for GitHub stay whole."""
        if format_name == "github":
            self.write_commands(text)
            return
        for piece in (text,) if isinstance(text, str) else text:
            self.clear()
            sys.stdout.write(piece)

    def write_stderr(self, text: str) -> None:
        """Print a text on stderr."""
        self.clear()
        sys.stderr.write(text)

    def write_commands(self, pieces: Iterable[str], *, is_result: bool = True) -> None:
        """Print commands for GitHub Actions, one per line: the only output in which such commands are left whole.

        A runner reads them on stderr, too, where they go if they are not the result.
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
        self.write_stderr("".join(f"{printable(line)}\n" for line in lines))

    def progress(self, what: str, done: int, total: int) -> None:
        """Show how far the work is: on a terminal once it has taken a second, in a log from time to time."""
        if self.is_verbose and what != self._last_step:
            self._last_step = what
            self.clear()
            sys.stderr.write(f"{printable(what)} ...\n")
        now = time.monotonic()
        # How much is done, as it stands behind a step.
        share = f" {done:,} of {total:,} ({100 * done // total}%)" if total else ""
        if self.is_quiet:
            return
        if not sys.stderr.isatty():
            if done and (what, done) != self._logged and now - self._logged_at >= _LOG_INTERVAL:
                self._logged, self._logged_at = (what, done), now
                self.warn(f"{what}{share} ...")
        elif now - self._started >= _PROGRESS_DELAY and now - self._shown_at >= _PROGRESS_INTERVAL:
            self._shown_at = now
            Console._shows = True
            write_raw(sys.stderr, f"{_WIPE}{printable(what)}{share} ...")

    @classmethod
    def clear(cls) -> None:
        """Wipe the progress line."""
        if Console._shows:
            Console._shows = False
            write_raw(sys.stderr, _WIPE)


def step_console() -> Console:
    """Return a console that shows the steps of a start: on a terminal in one line, otherwise in one line each."""
    return Console(is_verbose=not sys.stderr.isatty())


_LONGEST_LINE: Final = 2_000
_BEGIN: Final = 200
_END: Final = 500
"""How much is left of a longer one; the end of a message is its remedy."""


def cut_lines(message: str) -> str:
    """Return a message whose very long lines lose their middle: an argument may be as long as a file."""
    lines = message.split("\n")
    for at, line in enumerate(lines):
        if len(line) > _LONGEST_LINE:
            begin, end = line[:_BEGIN], line[-_END:]
            lines[at] = f"{begin}… ({len(line) - len(begin) - len(end):,} more characters) …{end}"
    return "\n".join(lines)


def write_file(path: Path, text: str | Iterable[str]) -> None:
    """Write a file whole or not at all."""
    from quotaform.system.files import write_atomically, writing

    with writing(path):
        write_atomically(path, text)


def require_confirmed(console: Console, chosen: Cluster, *, auto_approve: bool) -> None:
    """Make sure of a change to a cluster with `confirm: name`, whose name has to be typed."""
    if chosen.confirm != "name" or auto_approve:
        return
    if not sys.stdin.isatty():
        raise NotApprovedError(
            f"cluster {chosen.name} requires typing its name (confirm: name), but there is no terminal",
            remedy="use --auto-approve",
        )
    console.write_stderr(f"Type the name of the cluster, {chosen.name}, to change it: ")
    if sys.stdin.readline().strip() != chosen.name:
        raise NotApprovedError
