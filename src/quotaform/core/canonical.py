"""Canonical JSON: numbers that are exact, and digests that depend on content alone."""

from __future__ import annotations

from hashlib import sha256
from json import dumps


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
    text = dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return f"sha256:{sha256(text.encode('ascii')).hexdigest()}"
