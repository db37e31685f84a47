"""The progress of what Spark does, also where stderr is not a terminal."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Final

from quotaform.cli.console import Console, share

if TYPE_CHECKING:
    from quotaform.spark.session.options import SessionOptions

_INTERVAL: Final = 30.0
"""The least number of seconds between two lines of a log."""


@dataclass(slots=True)
class JobProgress:
    """A `Progress`: on a terminal that of the console, elsewhere (a log of CI, a notebook) a few lines on stderr.

    One line says that the work begins. Others follow at intervals, and only if more of it is done.

    Attributes:
        console: Where it is shown; nothing is when it is quiet.
        work: What begins, such as `Planning 3 clusters`.
    """

    console: Console
    work: str
    session: SessionOptions
    _last: tuple[str, int] | None = None
    _written_at: float = field(default_factory=monotonic)

    def __call__(self, what: str, done: int, total: int) -> None:
        """Show how far the work is.

        Args:
            total: How many there are; 0 if unknown.
        """
        if not (self.console.is_quiet or sys.stderr.isatty()):
            if self._last is None:
                self._write(f"{self.work} on Spark{self._place()} ...", ("", 0))
            elif done and (what, done) != self._last and monotonic() - self._written_at >= _INTERVAL:
                self._write(f"{what}{share(done, total)} ...", (what, done))
        self.console.progress(what, done, total)

    def _write(self, line: str, shown: tuple[str, int]) -> None:
        self._last, self._written_at = shown, monotonic()
        self.console.warn(line)

    def _place(self) -> str:
        from quotaform.spark.session.session import new_session_place

        place = new_session_place(self.session)
        return f" ({place})" if place is not None else ""
