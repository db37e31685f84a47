"""The standard streams while a command runs: everything that is printed passes here.

* A failed write is noted, not raised: what was done to a cluster stays done even if the output is lost.
* What is left of control characters, and what a CI runner takes for a command, is escaped. This is the last safety net:
  views and errors escape what they quote themselves.
"""

from __future__ import annotations

import gc
import os
import sys
from codecs import register_error
from collections.abc import Callable, Iterable
from io import TextIOWrapper
from re import split
from select import select
from typing import Any, Final, NoReturn, TextIO

from quotaform.model.text import break_lines, escape, json_escape, line_end
from quotaform.system.process import ignore_signals, interrupt_code, rare_collections

_COLOUR: Final = "(\x1b\\[(?:0|1|2|31|32|33)m)"
"""What `quotaform.report.text` writes."""
_HARMLESS: Final = frozenset({"closed", "encoding", "errors", "fileno", "isatty"})
"""What of a stream is passed on: nothing that writes."""
_ESCAPE_UNENCODABLE: Final = "quotaform.escape"


class GuardedStream:
    """A stream to which only harmless text is written, and whose writes never fail.

    Attributes:
        problem: Why a write failed; from then on nothing is written.
        allows_colour: Whether colours are written as they are.
        is_result: Whether the exit code says that what is written here arrived. Not so where it says what was done.
    """

    def __init__(self, stream: TextIO) -> None:
        """Guard a stream."""
        self.problem: OSError | ValueError | None = None
        self.allows_colour = False
        self.is_result = True
        self._stream = stream
        self._line_end = ""

    def __getattr__(self, name: str) -> Any:
        """Return what the stream has, but no way around this guard."""
        if name not in _HARMLESS:
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
        """Write texts without what could do harm."""
        for line in lines:
            self.write(line)

    def write_raw(self, text: str) -> None:
        """Write a text as it is."""
        if self.problem is None:
            try:
                _write(self._stream, text)
            except (OSError, ValueError) as error:
                self.problem = error

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
    r"""Return lines without control characters but tabs, which completion for fish needs, and without CI commands.

    >>> print(make_harmless("a\n::error::b\x07"))
    a
    :\u003aerror::b\u0007

    `text`: any number of lines, whole or in parts; a colour is never split. `before`: as for
    `quotaform.model.text.break_lines`.
    """
    if not text.replace("\n", "").isprintable():
        parts = split(_COLOUR, text) if allows_colour else [text]
        parts[::2] = ["".join(c if c in "\n\t" else escape(c) for c in part) for part in parts[::2]]
        text = "".join(parts)
    return break_lines(text, before)


def _write(stream: TextIO, text: str) -> None:
    """Write and flush; a pipe that is full and does not block is waited for."""
    try:
        descriptor = stream.fileno()
        blocks = os.get_blocking(descriptor)
    except (OSError, ValueError, AttributeError):  # not a file of the operating system
        blocks = True
    if blocks:
        stream.write(text)
        stream.flush()
        return
    # A buffer would lose what does not fit, and some are flushed in the middle of a write: it is left empty.
    left = memoryview(text.encode(stream.encoding, stream.errors or "strict"))
    is_flushed = False
    while left or not is_flushed:
        try:
            if not is_flushed:
                stream.flush()
                is_flushed = True
            left = left[os.write(descriptor, left) :]
        except BlockingIOError:
            select([], [descriptor], [])


class GuardedStreams:
    """Guards stdout and stderr for as long as a command runs; they are left as they were found."""

    def __enter__(self) -> tuple[GuardedStream, GuardedStream]:
        self._before = sys.stdout, sys.stderr
        self._wrappers = [stream for stream in self._before if isinstance(stream, TextIOWrapper)]
        self._errors = [stream.errors for stream in self._wrappers]
        register_error(_ESCAPE_UNENCODABLE, _escape_unencodable)
        for stream in self._wrappers:
            stream.reconfigure(errors=_ESCAPE_UNENCODABLE)
        guarded = GuardedStream(sys.stdout), GuardedStream(sys.stderr)
        sys.stdout, sys.stderr = guarded
        return guarded

    def __exit__(self, *_: object) -> None:
        sys.stdout, sys.stderr = self._before
        for stream, name in zip(self._wrappers, self._errors, strict=True):
            try:
                stream.reconfigure(errors=name)
            except (OSError, ValueError):  # its reader has ended, or it is closed
                continue


def _escape_unencodable(error: UnicodeError) -> tuple[str, int]:
    """Return what stands for characters that the encoding does not have, so that JSON stays what it is."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(json_escape, error.object[error.start : error.end])), error.end


def _open_closed_streams() -> None:
    """Put something in the place of standard streams that are closed: else the next file would be one of them.

    A closed stdout becomes one that cannot be written to, so that this is said when something should be.
    """
    for name, flags in (("stdin", os.O_RDONLY), ("stdout", os.O_RDONLY), ("stderr", os.O_WRONLY)):
        if getattr(sys, name) is None:
            # The lowest free number is that of the closed stream.
            descriptor = os.open(os.devnull, flags)
            setattr(sys, name, open(descriptor, "r" if name == "stdin" else "w", encoding="utf-8"))  # noqa: SIM115, PTH123


def _drop_unwritten_output() -> None:
    """Let what could not be written go nowhere, or the interpreter would stumble over it when the process ends."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)


def run_as_process(run_command: Callable[[list[str]], int]) -> NoReturn:
    """Run a command with the arguments of the process, whatever its streams are, and exit."""
    _open_closed_streams()
    try:
        with rare_collections():
            code = run_command(sys.argv[1:])
            gc.freeze()  # What is left lives until the process ends, which would look through it twice.
    except KeyboardInterrupt as interrupt:
        # It came when everything was said.
        code = interrupt_code(interrupt)
    _drop_unwritten_output()
    ignore_signals()
    sys.exit(int(code))
