"""A Markdown document that fits: its parts give way to shorter forms, in a given order, until it does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

_ANY: Final = 1 << 40
COMMENT_BYTES: Final = 60_000
"""How large a comment may be, in UTF-8; GitHub takes 65,536 characters."""

Form: TypeAlias = Callable[[int], str | None]
"""Returns a part in one form; `None` when it takes more bytes than it is given."""


@dataclass(slots=True)
class Part:
    """A part of a document.

    Attributes:
        forms: From the longest to the shortest.
    """

    forms: Sequence[Form]
    _chosen: int = 0
    _made: dict[int, str | None] = field(default_factory=dict)

    def text(self, limit: int) -> str | None:
        """Return the part in its present form, `None` when it alone takes more bytes than the whole document may."""
        if self._chosen not in self._made:
            self._made[self._chosen] = self.forms[self._chosen](limit)
        return self._made[self._chosen]

    def shorten(self) -> None:
        """Take the next form."""
        self._chosen += 1

    def lengthen(self, fits: Callable[[], bool]) -> None:
        """Take the longest form with which the document fits."""
        shortest = self._chosen
        for chosen in range(shortest):
            self._chosen = chosen
            if fits():
                return
        self._chosen = shortest


def fit(parts: Sequence[Part], order: Sequence[Part], limit: int = COMMENT_BYTES) -> str:
    """Return a document of at most `limit` bytes, when its shortest form allows it.

    A part that was shortened in vain, because only a later one made room, becomes as long again as there is room for.

    Args:
        parts: In the order of the document.
        order: Which part takes its next form, step by step, while the document is too large.
        limit: Its bytes in UTF-8.
    """
    steps = iter(order)
    while _whole(parts, limit) is None:
        shortened = next(steps, None)
        if shortened is None:
            return "".join(part.forms[-1](_ANY) or "" for part in parts)
        shortened.shorten()
    for part in reversed(order):
        part.lengthen(lambda: _whole(parts, limit) is not None)
    return _whole(parts, limit) or ""


def _whole(parts: Sequence[Part], limit: int) -> str | None:
    made = []
    left = limit
    for part in parts:
        text = part.text(limit)
        if text is None or (left := left - len(text.encode())) < 0:
            return None
        made.append(text)
    return "".join(made)


def form(function: Callable[..., Iterable[str]], *arguments: object) -> Form:
    """Return the form of a part that a function yields in pieces."""
    return lambda limit: joined(function(*arguments), limit)


def joined(pieces: Iterable[str], most: int) -> str | None:
    """Return pieces as one text, `None` as soon as it is known to take more bytes than `most`."""
    made = []
    for piece in pieces:
        most -= len(piece.encode())
        if most < 0:
            return None
        made.append(piece)
    return "".join(made)
