"""Reads the `expires` date of an item."""

from __future__ import annotations

from datetime import date
from re import compile as regex
from typing import Any, Final

from quotaform.core.check import rule
from quotaform.desired.report import Part
from quotaform.model.text import quote

_DAY: Final = regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2}").fullmatch


def read_expires(item: dict[str, Any], part: Part, example: str = "2026-12-31") -> date | None:
    """Return the day that an item names; `None` when it names none, of which the schema finds the wrong type.

    Args:
        example: How a day is written, for the message.
    """
    raw = item.get("expires")
    if not isinstance(raw, str):
        return None
    try:
        if _DAY(raw):
            return date.fromisoformat(raw)
    except ValueError:
        pass
    text = f"expires: {quote(raw)} is not a date; write it as in {example}"
    part.at("expires").add(rule.BAD_DATE, text, item, "expires")
    return None
