"""Colour on a terminal, and nothing anywhere else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quotaform.core.change import Action

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}
_BY_ACTION = {"create": "green", "update": "yellow", "delete": "red"}


@dataclass(frozen=True, slots=True)
class Style:
    """Colours text when `is_coloured`, else returns it as it is."""

    is_coloured: bool = False

    def paint(self, text: str, colour: str) -> str:
        """Return the text in a colour: bold, dim, red, green or yellow."""
        return f"\x1b[{_CODES[colour]}m{text}\x1b[0m" if self.is_coloured else text

    def action(self, text: str, action: Action) -> str:
        """Return the text in the colour of an action: green creates, yellow updates, red deletes."""
        return self.paint(text, _BY_ACTION[action.value])


PLAIN = Style()


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number and its noun.

    >>> counted(1, "entity", "entities"), counted(2000, "key")
    ('1 entity', '2,000 keys')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
