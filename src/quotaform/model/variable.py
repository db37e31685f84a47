"""`${env:NAME}` in texts: one reading of it, for quotaform.yaml and for client properties.

The environment is an argument, and no message holds what a variable holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from re import Match
from re import compile as regex
from typing import Final

PREFIX: Final = "${env:"
"""How a reference to a variable begins."""

# One match takes everything up to the next brace, so that no text is gone over twice.
_ANY: Final = regex(r"\$\{([^}]*)(\}?)")
_NAME: Final = regex(r"[A-Za-z_][A-Za-z0-9_]*").fullmatch


class ReferenceProblem(Enum):
    """Why a `${...}` is not replaced.

    | problem | example |
    | --- | --- |
    | NOT_A_REFERENCE | `${NAME}`, `${env:NAME` |
    | OTHER_SOURCE | `${file:NAME}` |
    | BAD_NAME | `${env:1}` |
    | UNSET | `${env:NAME}` without such a variable |
    """

    NOT_A_REFERENCE = auto()
    OTHER_SOURCE = auto()
    BAD_NAME = auto()
    UNSET = auto()


@dataclass(frozen=True, slots=True)
class Expansion:
    """A text with its variables replaced; it may hold a secret and does not show.

    Attributes:
        text: The text; what was not replaced is in it as it was written.
        problems: What was not replaced, and the name in it, in the order of the text.
    """

    text: str = field(repr=False)
    problems: tuple[tuple[ReferenceProblem, str], ...] = ()


def expand(text: str, environment: Mapping[str, str]) -> Expansion:
    """Replace every `${env:NAME}` by the value of the variable; what comes from a variable is not expanded again.

    >>> expand("${env:HOST}:9092", {"HOST": "b1"}).text
    'b1:9092'
    >>> expand("${env:HOST}:9092", {}).problems
    ((<ReferenceProblem.UNSET: 4>, 'HOST'),)
    """
    if "${" not in text:
        return Expansion(text)
    problems: list[tuple[ReferenceProblem, str]] = []

    def replace(match: Match[str]) -> str:
        source, colon, name = match[1].partition(":")
        problem = None
        if not colon or not match[2]:
            problem = ReferenceProblem.NOT_A_REFERENCE
        elif source != "env":
            problem = ReferenceProblem.OTHER_SOURCE
        elif not _NAME(name):
            problem = ReferenceProblem.BAD_NAME
        elif name not in environment:
            problem = ReferenceProblem.UNSET
        if problem is None:
            return environment[name]
        problems.append((problem, name))
        return match[0]

    expanded = _ANY.sub(replace, text)
    return Expansion(expanded, tuple(problems))
