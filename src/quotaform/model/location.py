"""Where something is written."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Location:
    """A place in a file; `line` and `column` count from 1, and 0 means the file as a whole.

    >>> str(Location("quotas.d/orders.yaml", 12, 3))
    'quotas.d/orders.yaml:12:3'
    >>> str(Location("quotas.d/orders.yaml"))
    'quotas.d/orders.yaml'
    """

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        if not self.line:
            return self.file
        return f"{self.file}:{self.line}:{self.column}" if self.column else f"{self.file}:{self.line}"
