"""The fast path for plain items, which nearly all are: one name per entity type, values, an owner, a reason.

It is part of `quotaform.desired.declaration`, which reads all other items and would return the same result for plain
ones in three times the time. Nothing is reported here, so locations are not tracked, and equal values are read once.
"""

from __future__ import annotations

from collections.abc import Callable
from re import compile as regex
from typing import Any, Final

from quotaform.desired.value import bare_keys, parse_fitting
from quotaform.desired.yaml.document import Document
from quotaform.model.entity import CLIENT_ID, DEFAULT_WORD, USER, Entity, Part
from quotaform.model.entry import Entry, LayerFile
from quotaform.model.location import Position
from quotaform.model.quotas import Values

_FIELDS: Final = frozenset({"match", "values", "owner", "reason"})

_TYPES: Final = frozenset({(USER,), (CLIENT_ID,), (USER, CLIENT_ID), (CLIENT_ID, USER)})
"""The types of a match, as written. Names of ips have rules of their own."""

_NAME: Final = regex(
    r"(?!User:|(?i:default)$|(?:user|client-id|ip)=)"
    r"[A-Za-z0-9._@:/=,-](?:[A-Za-z0-9._@:/=, -]*[A-Za-z0-9._@:/=,-])?"
).fullmatch
"""A name without any problem."""


class PlainItemReader:
    """Reads plain items of files that match their schema and contain no ambiguous scalars."""

    def __init__(self, share: Callable[[Values], Values]) -> None:
        """Make a reader.

        Args:
            share: Returns one object for equal values.
        """
        self._share = share
        self._known: dict[tuple[Any, ...], tuple[Values, tuple[str, ...]]] = {}

    def read(self, item: dict[str, Any], document: Document, file: LayerFile, position: Position) -> Entry | None:
        """Return the entry of an item; `None` if the item is not plain, or wrong."""
        match, written = item.get("match"), item.get("values")
        if type(match) is not dict or type(written) is not dict or not written or not _FIELDS.issuperset(item):
            return None
        types, places = tuple(match), document.keys.get(id(written))
        if types not in _TYPES or places is None:
            return None
        parts: list[Part] = []
        for entity_type, name in match.items():
            if name == DEFAULT_WORD:
                parts.append((entity_type, None))
            elif type(name) is str and _NAME(name):
                parts.append((entity_type, name))
            else:
                return None
        key = (types, *written.items())
        known = self._known.get(key)
        if known is None:
            read = _read_values(written, types)
            if read is None:
                return None
            known = self._known[key] = self._share(read), bare_keys(written, read)
        return Entry(
            entity=Entity.of(parts),
            values=known[0],
            file=file,
            position=position,
            places=tuple(places),
            owner=item.get("owner"),
            reason=item.get("reason"),
            bare=known[1],
        )


def _read_values(written: dict[str, Any], types: tuple[str, ...]) -> Values | None:
    values: dict[str, float] = {}
    for key, raw in written.items():
        try:
            values[key] = parse_fitting(key, raw, types)
        except (KeyError, ValueError):
            return None
    return values
