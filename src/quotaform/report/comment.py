"""A comment on a pull request: its hidden first line, by which it is found again, and parts that give way until it
fits.

`<!-- quotaform:plan {"v":1,"cluster":"prod-eu","root":"quotas.d","changes":2} -->`. Comments with the same kind,
cluster and root show the same thing at different times. `changes` is 0 when there is nothing to review.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from json import dumps, loads
from re import compile as regex
from typing import Any, Final, TypeAlias

from quotaform.report.markdown import link

Place: TypeAlias = Callable[[str], str | None]
"""Returns the path of a file from the top of its repository; `None` for one that is outside."""


def unchanged_place(file: str) -> str | None:
    """Return the path of a file as it is, where nothing is known of a repository."""
    return None if file.startswith("/") else file


_VERSION: Final = 1
_LINE: Final = regex(r"<!-- quotaform:([a-z][a-z-]{0,30}) (\{.{0,4096}\}) -->").fullmatch


@dataclass(frozen=True, slots=True)
class Marker:
    """What a comment shows."""

    kind: str  # `plan`, `drift` and so on
    cluster: str
    root: str  # The quotas directory
    # How many entities there are to review; `None` where there is something else to read
    changes: int | None = field(default=None, compare=False, repr=False)

    def line(self) -> str:
        r"""Return the first line of the comment, which no name can end.

        >>> print(Marker("plan", "a-->b", "quotas.d", 2).line())
        <!-- quotaform:plan {"v":1,"cluster":"a-\u002d\u003eb","root":"quotas.d","changes":2} -->
        """
        values: dict[str, str | int] = {"v": _VERSION, "cluster": self.cluster, "root": self.root}
        if self.changes is not None:
            values["changes"] = self.changes
        content = dumps(values, separators=(",", ":"))
        content = content.replace("<", "\\u003c").replace(">", "\\u003e").replace("--", "-\\u002d")
        return f"<!-- quotaform:{self.kind} {content} -->"


def read_marker(body: str) -> Marker | None:
    """Return what a comment shows; `None` when its first line is no marker that this version knows.

    >>> read_marker('<!-- quotaform:plan {"v":1,"cluster":"lab","root":"quotas.d"} -->')
    Marker(kind='plan', cluster='lab', root='quotas.d')
    """
    lines = body[:5000].splitlines()
    found = _LINE(lines[0].strip()) if lines else None
    try:
        values = {} if found is None else loads(found[2])
    except (ValueError, RecursionError):
        return None
    cluster, root, changes = (values.get(name) for name in ("cluster", "root", "changes"))
    if found is None or values.get("v") != _VERSION or not isinstance(cluster, str) or not isinstance(root, str):
        return None
    return Marker(found[1], cluster, root, changes if type(changes) is int else None)


_ANY: Final = 1 << 40
COMMENT_BYTES: Final = 60_000
"""How large a comment may be, in UTF-8; GitHub takes 65,536 characters."""

Form: TypeAlias = Callable[[int], str | None]
"""Returns a part in one form; `None` when it takes more bytes than it is given."""


@dataclass(slots=True)
class Part:
    """A part of a document."""

    forms: Sequence[Form]  # From the longest to the shortest
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

    A part that need not have been shortened, because a later one made room, becomes as long again as there is room for.

    `parts`: in the order of the document. `order`: which part takes its next form, step by step, while the document is
    too large. `limit`: its bytes in UTF-8.
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


def part(make: Callable[[Any], Iterable[str]], variants: Iterable[Any]) -> Part:
    """Return the part that a function yields in pieces, one form for each variant that it takes."""
    return Part([partial(_form, make, variant) for variant in variants])


def _form(make: Callable[[Any], Iterable[str]], variant: object, limit: int) -> str | None:
    return joined(make(variant), limit)


def joined(pieces: Iterable[str], most: int) -> str | None:
    """Return pieces as one text, `None` as soon as it is known to take more bytes than `most`."""
    made = []
    for piece in pieces:
        most -= len(piece.encode())
        if most < 0:
            return None
        made.append(piece)
    return "".join(made)


def render_comment(
    marker: Marker,
    heading: str,
    lead: Sequence[str],
    parts: Sequence[Part] = (),
    order: Sequence[Part] = (),
    foot: Sequence[str] = (),
    *,
    limit: int = COMMENT_BYTES,
    run_url: str | None = None,
    place: Place = unchanged_place,
) -> str:
    """Return a comment: its first line, a heading, paragraphs, parts, and small print with a link to the run of CI.

    All texts are Markdown. `order` and `limit` are those of `fit`.
    """
    first = replace(marker, root=place(marker.root) or marker.root)
    head = "\n\n".join([f"{first.line()}\n### {heading}", *lead, ""])
    small = " · ".join(filter(None, (*foot, link("run", run_url))))
    last = f"<sub>{small}</sub>\n" if small else ""
    return fit((Part([lambda _: head]), *parts, Part([lambda _: last])), order, limit)
