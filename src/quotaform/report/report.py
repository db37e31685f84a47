"""A result as it describes itself: findings, sections of tables and of values over time, and sentences about them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from enum import Enum
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from msgspec import Struct, field

if TYPE_CHECKING:
    from quotaform.model.finding import Finding
    from quotaform.report.comment import Marker

MOST_POINTS: Final = 2000
"""How many points a curve has at most: more than a screen has columns of pixels."""

_GAP: Final = 2.5
"""A curve has a gap where two of its points are so many of its steps apart."""


class Number(NamedTuple):
    """A cell that is sorted by a number."""

    text: str
    value: float


class Bar(Struct, frozen=True, kw_only=True):
    """A cell that shows a value as a bar, next to those of other rows; its numbers are in other cells."""

    value: float  # From 0 on
    scale: float  # The value at the right edge, above 0
    low: float | None = None  # What the value is at least
    high: float | None = None  # What it is at most
    mark: float | None = None  # What it is compared with: a limit, or what was recorded
    is_severe: bool = False


class Coloured(NamedTuple):
    """A cell that a terminal shows in a colour."""

    text: str
    colour: str | None


Cell: TypeAlias = str | Number | Coloured | Bar


def cell_text(cell: Cell) -> str:
    """Return a cell as text; of a bar there is none."""
    return "" if isinstance(cell, Bar) else cell if isinstance(cell, str) else cell.text


class ColumnKind(Enum):
    """Where the cells of a column stand."""

    WORDS = "in the table"
    NAME = "in the table, as names from clusters and files"
    DETAIL = "in the table; in text on a line of their own below the row, unless they are empty"
    PAGE = "on pages alone"


class Column(NamedTuple):
    """A column; one of words is its name alone."""

    name: str
    kind: ColumnKind = ColumnKind.WORDS


Columns: TypeAlias = tuple[str | Column, ...]


class Table(Struct, frozen=True):
    """A table; the first cell of a row names what it is about."""

    caption: str
    columns: Columns
    rows: tuple[tuple[Cell, ...], ...]
    more: str = ""  # What is not in it, in a sentence
    total: int = 0  # How many rows there are, if not all of them are in it
    hint: str = ""  # Where the others are, in a sentence
    line: str = ""  # How a row reads as one line, such as `{0} {1} = {2}`; only for `section_lines`
    is_folded: bool = False  # Whether it is less important: short in text, and Markdown shows it when somebody opens it
    is_kept: bool = False  # Whether Markdown without room for all of it leaves out everything else before its names
    counted: str = ""  # The column of which Markdown counts the words, and tells equal rows as one, without such room


class Curve(Struct, frozen=True):
    """Values over time, in order; those between two times are not known."""

    times: tuple[datetime, ...] = ()
    values: tuple[float, ...] = ()  # The highest value of the step that ends at each time
    step_s: float = 60.0  # How long a step is, in seconds

    def pieces(self) -> Iterator[list[tuple[datetime, float]]]:
        """Yield the points between two gaps."""
        gap = timedelta(seconds=self.step_s * _GAP)
        piece: list[tuple[datetime, float]] = []
        for at, value in zip(self.times, self.values, strict=True):
            if piece and at - piece[-1][0] > gap:
                yield piece
                piece = []
            piece.append((at, value))
        if piece:
            yield piece


def curve_of(points: Sequence[tuple[datetime, float]], step_s: float) -> Curve:
    """Return a curve through points.

    `points` are times and values, in order. `step_s` is the step in which they were looked for; that of the recording
    may be longer, and is the one they have most often.
    """
    steps = sorted((later - sooner).total_seconds() for (sooner, _), (later, _) in pairwise(points))
    usual = steps[len(steps) // 2] if steps else step_s
    return Curve(tuple(at for at, _ in points), tuple(value for _, value in points), max(step_s, usual))


class Span(Struct, frozen=True):
    """A time in which something held, from its start to its end."""

    start: datetime
    end: datetime


class PlotLimit(Struct, frozen=True):
    """A limit: its value, and when it held; `None` for all the time."""

    name: str  # Those of the same name look alike
    value: float
    start: datetime | None = None
    end: datetime | None = None


class Plot(Struct, frozen=True, kw_only=True):
    """Values over time, with limits and marked times."""

    caption: str
    key: str | None  # The quota key, which has the unit; `None` for milliseconds
    name: str = "rate"  # What the curve is
    curve: Curve = field(default_factory=Curve)
    limits: tuple[PlotLimit, ...] = ()
    severe: tuple[str, tuple[Span, ...]] = ("", ())  # What happened at some times, and when
    possible: tuple[str, tuple[Span, ...]] = ("", ())  # The same of what may have happened
    start: datetime
    end: datetime


class Section(Struct, frozen=True):
    """A table, values over time, and sentences about them."""

    table: Table
    plots: tuple[Plot, ...] = ()
    sentences: tuple[str, ...] = ()  # Above the table
    notes: tuple[str, ...] = ()  # Below it


def sections_of(*tables: Table) -> tuple[Section, ...]:
    """Return tables as sections, without those that have no rows."""
    return tuple(Section(table) for table in tables if table.rows)


class Report(Struct, frozen=True, kw_only=True):
    """A result."""

    title: str  # What it is about
    name: str = ""  # The cluster of which it is, if it is one
    state: str = ""  # What became of that, in a few words
    about: tuple[str, ...] = ()  # Where it comes from: the table, the times
    findings: Sequence[Finding] = ()  # What was found; what blocks is never left out
    caution: str = ""  # What blocking findings mean, if it is not that they block a plan
    sections: tuple[Section, ...] = ()
    nothing: str = "No data."  # Why there are no sections, in a sentence, unless the total says so
    notes: tuple[str, ...] = ()  # What a reader must know of it, in sentences
    total: str = ""  # The summary, a sentence
    text: Callable[[], Iterable[str]] | None = None  # All of it as terminals show it, for Markdown with room
    marker: Marker | None = None  # By what a comment with it is found again

    @property
    def sentences(self) -> tuple[str, ...]:
        """What stands below the tables, or in their place."""
        return self.notes if self.sections or not self.nothing else (self.nothing, *self.notes)
