"""Anchors of a YAML file, and what its aliases expand to."""

from __future__ import annotations

from typing import Any, NamedTuple

from quotaform.core.check import rule
from quotaform.desired.yaml.document import Document, StopReadingError
from quotaform.desired.yaml.problem import (
    ALIASED_PER_NODE,
    MAX_ALIASED,
    MAX_ANCHORED,
    MAX_DEPTH,
    MOST_ALIASED,
    ProblemReporter,
)
from quotaform.desired.yaml.scalar import Oddity


class Anchor(NamedTuple):
    """A value with a name.

    Attributes:
        value: The value.
        oddity: What a text would be taken for elsewhere.
        size: How many values it holds, itself and those of its aliases among them.
        height: How many levels it nests.
    """

    value: Any
    oddity: Oddity | None
    size: int
    height: int


class Anchors:
    """The anchors that were read so far; an alias means the last one of its name that begins before it.

    Attributes:
        aliased: How many values aliases have added so far.
    """

    __slots__ = ("_anchored", "_anchors", "_document", "_open", "_problems", "aliased")

    def __init__(self, document: Document, problems: ProblemReporter) -> None:
        self.aliased = 0
        self._document = document
        self._problems = problems
        self._anchors: dict[str, Anchor] = {}
        self._open: dict[str, int] = {}
        self._anchored = 0

    def add(self, name: str, value: Any, oddity: Oddity | None) -> None:
        """Add the anchor of a scalar."""
        self._open.pop(name, None)
        self._anchors[name] = Anchor(value, oddity, 1, 0)

    def begin(self, name: str, mark: Any) -> None:
        """Note that the value of an anchor begins, a mapping or a list."""
        self._open[name] = mark.line

    def end(self, name: str, value: Any, size: int, height: int, mark: Any) -> None:
        """Add an anchor whose value has ended, unless one of its name began within it."""
        if self._open.pop(name, None) is None:
            return
        self._anchors[name] = Anchor(value, None, size, height)
        self._anchored += self._document.keep(value)
        if self._anchored > MAX_ANCHORED:
            self._problems.report_anchors(mark)

    def follow(self, event: Any, depth: int, written: int) -> Anchor:
        """Return what an alias points to, unless it expands to too much.

        Args:
            depth: How deep it is.
            written: How many values the file holds so far.
        """
        name = event.anchor
        if name in self._open:
            self._problems.report(
                rule.RECURSIVE_ALIAS,
                f"the alias *{name} is part of the value that it refers to (line {self._open[name] + 1})",
                event,
            )
            raise StopReadingError
        anchor = self._anchors.get(name)
        if anchor is None:
            self._problems.report(rule.UNKNOWN_ALIAS, f"the alias *{name} has no anchor &{name} before it", event)
            raise StopReadingError
        self.aliased += anchor.size
        limit = min(MAX_ALIASED + ALIASED_PER_NODE * written, MOST_ALIASED)
        if self.aliased > limit:
            self._problems.report(
                rule.ALIAS_BOMB,
                f"the aliases of this file expand to more than {limit:,} values; use fewer aliases",
                event,
            )
            raise StopReadingError
        if depth + anchor.height > MAX_DEPTH:
            self._problems.report_depth(event)
        return anchor
