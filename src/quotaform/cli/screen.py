"""A screen of its own on a terminal, drawn again and again, and the keys that are pressed meanwhile."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from select import select
from time import sleep
from types import TracebackType
from typing import Any, Final, Self

from quotaform.cli.stream import GuardedStream

_ENTER: Final = "\x1b[?1049h\x1b[?25l"
"""The other screen of the terminal, whose content goes when it is left; and no cursor."""
_LEAVE: Final = "\x1b[?25h\x1b[?1049l"
_HOME: Final = "\x1b[H"
_END_LINE: Final = "\x1b[K\n"
_CLEAR_REST: Final = "\x1b[J"


class Screen:
    """Takes the terminal over until it is left, however that happens."""

    def __enter__(self) -> Self:
        """Take the terminal over: keys are read as they are pressed, and not shown."""
        self._before: Any = None
        # Windows has no termios: then only Ctrl-C ends what runs.
        with suppress(ImportError, OSError):
            import termios
            import tty

            if sys.stdin.isatty():
                self._before = termios.tcgetattr(sys.stdin.fileno())
                tty.setcbreak(sys.stdin.fileno())
        _write_control(_ENTER)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the terminal back as it was."""
        _write_control(_LEAVE)
        if self._before is not None:
            import termios

            with suppress(OSError, termios.error):
                termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, self._before)

    def draw(self, text: str) -> None:
        """Show a text in the place of what is shown; it fits the terminal."""
        _write_control(_HOME)
        lines = text.rstrip("\n").split("\n")
        for number, line in enumerate(lines, start=1):
            sys.stdout.write(line)
            # A line end in the last line of the terminal would move everything up.
            _write_control(_END_LINE if number < len(lines) else "\x1b[K")
        _write_control(_CLEAR_REST)

    def key(self, seconds: float) -> str | None:
        """Return the next key that is pressed, or `None` if there is none in time."""
        if self._before is None:
            sleep(max(0.0, seconds))
            return None
        if not select([sys.stdin], [], [], max(0.0, seconds))[0]:
            return None
        # Not by the buffer of stdin: what that takes ahead is never ready again.
        typed = os.read(sys.stdin.fileno(), 1)
        if not typed:  # The terminal is gone.
            sleep(max(0.0, seconds))
        return typed.decode(errors="replace") or None


def _write_control(text: str) -> None:
    write = sys.stdout.write_raw if isinstance(sys.stdout, GuardedStream) else sys.stdout.write
    write(text)
