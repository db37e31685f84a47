"""Canonical JSON: numbers that are exact, and digests that depend on content alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from itertools import islice
from json import JSONEncoder
from typing import Any, Final

_AT_ONCE: Final = 1_000
_spell: Final = JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode


def json_number(value: float | None) -> int | float | str | None:
    """Return a value as JSON holds it: whole doubles as their exact integer, NaN and infinities as words.

    >>> json_number(2.0**63), json_number(0.5), json_number(float("nan"))
    (9223372036854775808, 0.5, 'NaN')
    """
    if value is None:
        return None
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    return int(value) if value == int(value) else value


def digest(content: object) -> str:
    """Return `sha256:…` over the canonical JSON of a value: sorted keys, no white space, ASCII."""
    return digest_of((_spell(content),))


def digest_of(pieces: Iterable[str]) -> str:
    """Return `sha256:…` over a text in pieces, which is ASCII."""
    hashed = sha256()
    for piece in pieces:
        hashed.update(piece.encode("ascii"))
    return f"sha256:{hashed.hexdigest()}"


def json_pieces(fields: Mapping[str, Any]) -> Iterator[str]:
    """Yield the canonical JSON of a mapping in pieces; an iterator is a list of which only some items are made at once.

    >>> "".join(json_pieces({"b": iter([1, 2]), "a": 0}))
    '{"a":0,"b":[1,2]}'
    """
    separator = "{"
    for name in sorted(fields):
        yield f"{separator}{_spell(name)}:"
        separator = ","
        value = fields[name]
        if isinstance(value, Iterator):
            gap = "["
            while some := list(islice(value, _AT_ONCE)):
                yield gap + _spell(some)[1:-1]
                gap = ","
            yield "[]" if gap == "[" else "]"
        else:
            yield _spell(value)
    yield "}" if separator == "," else "{}"
