"""A location in a file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from quotaform.printable import printable

Position: TypeAlias = int
"""A line and a column as one number, for where there are very many; see `pack_position`."""

_COLUMN_BITS: Final = 32


def pack_position(line: int, column: int) -> Position:
    """Return a line and a column, both from 1 on, as one number.

    >>> Location.at("quotas.d/orders.yaml", pack_position(12, 3))
    Location(file='quotas.d/orders.yaml', line=12, column=3)
    """
    return line << _COLUMN_BITS | column


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

    @classmethod
    def at(cls, file: str, position: Position) -> Location:
        """Return a place by a packed position; 0 means the file as a whole."""
        return cls(file, position >> _COLUMN_BITS, position & (1 << _COLUMN_BITS) - 1)

    def __str__(self) -> str:
        # A relative path that GitHub Actions would take for a command, as a problem begins its line with it.
        file = printable(f"./{self.file}" if self.file.lstrip().startswith("::") else self.file)
        if not self.line:
            return file
        return f"{file}:{self.line}:{self.column}" if self.column else f"{file}:{self.line}"
