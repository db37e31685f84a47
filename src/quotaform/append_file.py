"""The one way to append to a file: line by line, so that what several processes append does not mix."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from quotaform.files import require_no_way_out

_FLAGS: Final = (
    os.O_WRONLY
    | os.O_APPEND
    | os.O_CREAT
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_NONBLOCK", 0)
)


class AppendedFile:
    """A file that lines are appended to; it is never shortened, and what it holds is never written again."""

    def __init__(self, path: Path) -> None:
        """Open it, or create it.

        Raises:
            OSError: It cannot be opened for writing.
        """
        require_no_way_out(path)
        self._descriptor = os.open(path, _FLAGS, 0o666)
        os.set_blocking(self._descriptor, True)
        self._breaks_line = not _ends_line(path)

    def append(self, lines: Iterable[str]) -> None:
        """Append lines, each by a write of its own, and make them last through a power cut.

        Args:
            lines: Each ends with a line break.

        Raises:
            OSError: They could not be written; some of them may have been.
        """
        for line in lines:
            # The last line of a process that was killed may have no end.
            text = f"\n{line}" if self._breaks_line else line
            self._breaks_line = False
            data = text.encode()
            while data:
                data = data[os.write(self._descriptor, data) :]
        with suppress(OSError):  # A pipe and a terminal cannot.
            os.fsync(self._descriptor)

    def close(self) -> None:
        """Close it."""
        os.close(self._descriptor)


def _ends_line(path: Path) -> bool:
    """Whether a file is empty, ends with a line break, or cannot tell."""
    try:
        if not path.is_file() or not path.stat().st_size:
            return True
        with path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"
    except OSError:
        return True
