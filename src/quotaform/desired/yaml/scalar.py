"""Interprets plain YAML scalars for which YAML 1.1 and 1.2 agree, and rejects the others.

| written without quotes | read as |
| --- | --- |
| `svc-orders`, `10MiB/s`, `y` | text |
| `null`, `~`, nothing | null |
| `yes`, `No`, `on`, `true` | a boolean |
| `5`, `-5` | an integer |
| `1.5`, `1e6` | an exact decimal |
| `007`, `0x1F`, `1_000`, `1:30`, `.inf`, `2026-12-31` | text, marked as ambiguous: others read a number or a date |
"""

from __future__ import annotations

from collections.abc import Collection
from decimal import Decimal
from enum import StrEnum
from functools import lru_cache
from re import VERBOSE
from re import compile as regex
from typing import Final, TypeAlias

from quotaform.model.text import LONGEST, quote

Scalar: TypeAlias = str | int | Decimal | bool | None

WORDS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("yes", "Yes", "YES", "on", "On", "ON", "true", "True", "TRUE"), True),
    **dict.fromkeys(("no", "No", "NO", "off", "Off", "OFF", "false", "False", "FALSE"), False),
}
"""The words that are not text (YAML 1.1 as PyYAML reads it, which includes those of YAML 1.2)."""

NUMERIC_STARTS: Final = frozenset("0123456789+-.")
"""What a number or a date begins with."""


class Oddity(StrEnum):
    """What another reader of YAML takes a scalar for."""

    DATE = "a date"
    OCTAL = "an octal number"
    HEXADECIMAL = "a hexadecimal number"
    BINARY = "a binary number"
    UNDERSCORED = "a number with underscores"
    SEXAGESIMAL = "a sexagesimal number"
    INFINITE = "not a finite number"
    NUMBER = "a number"


_MAX_INTEGER: Final = 18
_MAX_NUMBER: Final = 40
_INTEGER: Final = regex(r"0|-?[1-9][0-9]*").fullmatch
_DECIMAL: Final = regex(r"[-+]?(?:0|[1-9][0-9]*)?(?:\.[0-9]*)?(?:[eE][-+]?[0-9]{1,4})?").fullmatch
_ODD: Final = tuple(
    (oddity, regex(pattern, VERBOSE).fullmatch)
    for oddity, pattern in (
        (
            Oddity.DATE,
            r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2} (?:(?:[Tt]|[\ \t]+)[0-9]{1,2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]*)?"
            r"(?:[\ \t]*(?:Z|[-+][0-9]{1,2}(?::?[0-9]{2})?))?)?",
        ),
        (Oddity.OCTAL, r"[-+]?0o?[0-7]+"),
        (Oddity.HEXADECIMAL, r"[-+]?0x[0-9a-fA-F_]+"),
        (Oddity.BINARY, r"[-+]?0b[01_]+"),
        (Oddity.INFINITE, r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"),
        (Oddity.SEXAGESIMAL, r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?"),
        (Oddity.UNDERSCORED, r"[-+]?(?:[0-9]+_[0-9_]*(?:\.[0-9_]*)?|[0-9]*\.[0-9]*_[0-9_]*)(?:[eE][-+]?[0-9]+)?"),
        (Oddity.NUMBER, r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"),
    )
)


@lru_cache(maxsize=8192)
def read_number(text: str) -> str | int | Decimal | Oddity:
    """Read a plain scalar that begins like a number.

    >>> read_number("5"), read_number("1e6"), read_number("007").value, read_number("10MiB/s")
    (5, Decimal('1E+6'), 'an octal number', '10MiB/s')

    Returns:
        The number when every reader agrees on it, what it is otherwise taken for, or the text when it is text.
    """
    if len(text) <= _MAX_INTEGER and _INTEGER(text):
        return int(text)
    if len(text) <= _MAX_NUMBER and _DECIMAL(text) and text[0] != "+" and any(map(str.isdigit, text.split("e")[0])):
        return Decimal(text)
    return next((oddity for oddity, matches in _ODD if matches(text)), text)


def glued_key(key: str, known: Collection[str]) -> str | None:
    """Return the known key that a key begins with when only the space after its colon is missing.

    >>> glued_key("user:alice", ["user"]), glued_key("user", ["user"])
    ('user', None)
    """
    begin, colon, _ = key.partition(":")
    return begin if colon and begin in known else None


def taken_for(raw: str, kind: str) -> str:
    """Say that YAML takes a plain scalar for something that is no text, and what to write.

    >>> print(taken_for("007", "an octal number"))
    YAML reads 007 as an octal number; write "007"
    """
    if len(raw) > LONGEST:
        return f"YAML reads {quote(raw)} as {kind}; quote it"
    return f'YAML reads {raw} as {kind}; write "{raw}"'


def is_text(text: str) -> bool:
    """Whether every reader of YAML takes this plain scalar for text.

    >>> [is_text(text) for text in ("svc-a", "yes", "y", "007", "1e5", "", "<default>")]
    [True, False, False, False, False, False, True]
    """
    if text in WORDS or text in {"y", "Y", "n", "N", "=", "<<"}:
        return False
    return text[0] not in NUMERIC_STARTS or type(read_number(text)) is str
