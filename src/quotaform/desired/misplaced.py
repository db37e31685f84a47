"""Detects misspelt or wrongly indented fields of an entry, and reports each as one problem."""

from __future__ import annotations

from itertools import islice
from typing import Any, Final

from quotaform.core.check import rule
from quotaform.desired.report import Part
from quotaform.desired.yaml.scalar import glued_key
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.text import nearest
from quotaform.schema.catalog import load_schema

_LOOKED_AT: Final = 20
_DECLARING: Final = frozenset({"values", "profile", "unset", "state"})


def misspells_any(item: dict[str, Any]) -> bool:
    """Whether one of the first fields of an entry is probably a misspelt one that declares something."""
    return any(misspells_field(field) for field in islice(item, _LOOKED_AT))


def misspells_field(field: str) -> bool:
    """Whether a field that is not one is probably one that declares something, or a quota key.

    >>> [misspells_field(field) for field in ("valeus", "values:{a", "producer_byte_rate", "values", "xyz")]
    [True, True, True, False, False]
    """
    fields = load_schema("quotas")["definitions"]["entry"]["properties"]
    if field in fields:
        return False
    return field in QUOTA_KEYS or bool({nearest(field, fields), glued_key(field, fields)} & _DECLARING)


def report_misplaced(item: dict[str, Any], part: Part) -> None:
    """Report quota keys that are fields of an entry because they are not indented below `values`."""
    for key in item:
        if key in QUOTA_KEYS:
            text = f"{key} is a quota key, not a field of an entry; write it below values, and indent it further"
            part.at(key).add(rule.UNKNOWN_FIELD, text, item, key, at_key=True)
            if item.get("values") is None:
                part.report.covered.add((*part.path, "values"))
