"""The JSON of a change, one line of the plan file.

A plan may have 100,000 changes, so time and memory matter: lines are concatenated from strings, which takes a fifth of
the time of `json.dumps` with the same result, and equal strings and limits are shared when a file is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date
from functools import lru_cache
from json.encoder import encode_basestring_ascii as quoted
from typing import Any, Final

from quotaform.core.canonical import json_number
from quotaform.core.change import NO_VALUES, Change, action_of
from quotaform.core.effects import Effect
from quotaform.core.entity_change import EntityChange
from quotaform.core.origin import Origin
from quotaform.core.resolve.entry import NO_LIMIT, NO_NAMES, Effective
from quotaform.document.envelope import Spelled
from quotaform.document.field import load_number
from quotaform.model.entity import Entity
from quotaform.model.entry import Cause
from quotaform.model.location import Location
from quotaform.model.precedence import level_of
from quotaform.model.quota_key import QUOTA_KEYS, key_order
from quotaform.model.quotas import Values
from quotaform.model.units import render_value

_REMEMBERED: Final = 4096
"""How many different texts a writer keeps for the next lines: values come again and again."""
_NULL: Final = "null"
_NO_LIMIT: Final = '{"value": null, "source": null, "entity": null}'


def change_lines(changes: Iterable[EntityChange]) -> Iterator[Spelled]:
    """Yield changes as JSON, each on one line, to the letter as `json.dumps` spells it."""
    return map(_Writer().change, changes)


class _Writer:
    """Spells changes, and remembers what several of them have in common."""

    def __init__(self) -> None:
        self._number: Callable[[float | None], str] = lru_cache(_REMEMBERED)(_number)
        self._in_order: Callable[[tuple[str, ...]], list[str]] = lru_cache(_REMEMBERED)(_in_order)
        self._row_ends: Callable[[str, float | None, float | None], tuple[str, str]] = lru_cache(_REMEMBERED)(_row_ends)
        self._names: Callable[[Entity], tuple[str, str]] = lru_cache(_REMEMBERED)(_names)

    def change(self, change: EntityChange) -> Spelled:
        """Return a change as JSON."""
        entity = change.entity
        own = _names(entity)
        rows = ", ".join(
            [self._row(row, effect, entity, own) for row, effect in zip(change.changes, change.effects, strict=True)]
        )
        return Spelled(
            f'{{"address": {own[0]}, "entity": {own[1]}, "action": "{change.action}", '
            f'"reason": {_text(change.reason)}, "cause": "{change.cause}", "origin": {_text(change.origin)}, '
            f'"direction": "{change.direction}", "before": {self._values(change.before)}, '
            f'"after": {self._values(change.after)}{self._base(change.base)}, "keys": [{rows}], '
            f'"location": {_location(change.location)}, '
            f'"owner": {_text(change.owner)}{_expiry(change.expires)}}}'
        )

    def _base(self, values: Values | None) -> str:
        if values is None:
            return ""
        return f', "base": {self._values(values) if values else "{}"}'

    def _values(self, values: Values) -> str:
        if not values:
            return _NULL
        keys = self._in_order(tuple(values))
        return f"{{{', '.join([f'{quoted(key)}: {self._number(values[key])}' for key in keys])}}}"

    def _row(self, row: Change, effect: Effect, entity: Entity, own: tuple[str, str]) -> str:
        start, end = self._row_ends(row.key, row.before, row.after)
        before, after = self._effective(effect.before, entity, own), self._effective(effect.after, entity, own)
        differs = f', "differs": {_counts(effect.differs)}' if effect.differs else ""
        return f'{start}"effective": {{"before": {before}, "after": {after}{differs}}}, {end}'

    def _effective(self, effective: Effective, entity: Entity, own: tuple[str, str]) -> str:
        if effective is NO_LIMIT:
            return _NO_LIMIT
        value, source, _ = effective
        if source is None:
            return f'{{"value": {self._number(value)}, "source": null, "entity": null}}'
        address, names = own if source is entity else self._names(source)
        return f'{{"value": {self._number(value)}, "source": {address}, "entity": {names}}}'


def _text(text: str | None) -> str:
    return _NULL if text is None else quoted(text)


def _expiry(expires: date | None) -> str:
    return "" if expires is None else f', "expires": "{expires.isoformat()}"'


def _number(value: float | None) -> str:
    number = json_number(value)
    return _text(number) if number is None or isinstance(number, str) else repr(number)


def _in_order(keys: tuple[str, ...]) -> list[str]:
    return sorted(keys, key=key_order)


def _names(entity: Entity) -> tuple[str, str]:
    """Return the address of an entity, and its names by type."""
    names = ", ".join([f"{quoted(kind)}: {_text(name)}" for kind, name in entity.parts])
    return quoted(entity.address), f"{{{names}}}"


def _row_ends(key: str, before: float | None, after: float | None) -> tuple[str, str]:
    """Return how a row begins and ends: what follows from the key and its values alone."""
    known = QUOTA_KEYS.get(key)
    shown = [None if value is None else render_value(known, value) for value in (before, after)]
    return (
        f'{{"key": {quoted(key)}, "action": "{action_of(before, after)}", '
        f'"before": {_number(before)}, "after": {_number(after)}, ',
        f'"display": {{"before": {_text(shown[0])}, "after": {_text(shown[1])}}}}}',
    )


def _counts(differs: Mapping[str, int]) -> str:
    return f"{{{', '.join([f'{quoted(kind)}: {count}' for kind, count in differs.items()])}}}"


def _location(location: Location | None) -> str:
    if location is None:
        return _NULL
    return f'{{"file": {quoted(location.file)}, "line": {location.line}, "column": {location.column}}}'


class ChangeReader:
    """Reads the changes of one plan file."""

    def __init__(self) -> None:
        """Begin with nothing that lines could share."""
        self._texts: dict[str, str] = {}
        self._counts: dict[tuple[tuple[str, int], ...], Mapping[str, int]] = {(): NO_NAMES}
        self._effective: dict[tuple[float | tuple[str, str | None] | None, ...], Effective] = {}

    def change(self, item: Mapping[str, Any]) -> EntityChange:
        """Return a change of its JSON.

        Raises:
            KeyError, TypeError, ValueError, AttributeError, OverflowError: It is not what this version writes.
        """
        text = self._texts
        names = item["entity"]
        entity = self._entity(names)
        level = level_of(entity)
        rows, effects = [], []
        for row in item["keys"]:
            key = text.setdefault(row["key"], row["key"])
            rows.append(Change(entity, key, load_number(row["before"]), load_number(row["after"])))
            limits = [
                Effective(load_number(each["value"]), entity, level) if each["entity"] == names else self._limit(each)
                for each in (row["effective"]["before"], row["effective"]["after"])
            ]
            effects.append(Effect(limits[0], limits[1], self._differs(row["effective"].get("differs"))))
        return EntityChange(
            entity=entity,
            before=self._values(item["before"]),
            after=self._values(item["after"]),
            changes=tuple(rows),
            effects=tuple(effects),
            reason=self._text(item["reason"]),
            cause=Cause(item["cause"]),
            origin=None if item["origin"] is None else Origin(item["origin"]),
            base=self._values(item["base"]) if "base" in item else None,
            owner=self._text(item["owner"]),
            location=self._location(item["location"]),
            expires=date.fromisoformat(item["expires"]) if "expires" in item else None,
        )

    def _text(self, text: str | None) -> str | None:
        return None if text is None else self._texts.setdefault(text, text)

    def _values(self, values: Mapping[str, float | str] | None) -> Values:
        if not values:
            return NO_VALUES
        return {self._texts.setdefault(key, key): float(value) for key, value in values.items()}

    def _location(self, item: Mapping[str, Any] | None) -> Location | None:
        if item is None:
            return None
        return Location(self._texts.setdefault(item["file"], item["file"]), item["line"], item.get("column", 0))

    def _entity(self, names: Mapping[str, str | None]) -> Entity:
        for name in names.values():
            if name is not None and not isinstance(name, str):
                raise TypeError("a name is a text or null")
        return Entity.of([(self._texts.setdefault(kind, kind), name) for kind, name in names.items()])

    def _limit(self, item: Mapping[str, Any]) -> Effective:
        value, names = load_number(item["value"]), item["entity"]
        if names is None:
            return NO_LIMIT if value is None else Effective(value)
        shared = (value, *names.items())
        found = self._effective.get(shared)
        if found is None:
            source = self._entity(names)
            found = self._effective[shared] = Effective(value, source, level_of(source))
        return found

    def _differs(self, counts: Mapping[str, int] | None) -> Mapping[str, int]:
        if not counts:
            return NO_NAMES
        return self._counts.setdefault(tuple(counts.items()), dict(counts))
