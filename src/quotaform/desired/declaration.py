"""One entry of quotas.d: checked, and expanded to one declaration per entity."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from functools import lru_cache
from re import compile as regex
from typing import Any, Final, NamedTuple

from quotaform.core.check import rule
from quotaform.desired.match import MAX_ENTITIES, read_match
from quotaform.desired.report import Report
from quotaform.desired.schema.explain import did_you_mean
from quotaform.desired.variable import VARIABLE
from quotaform.desired.yaml.scalar import Oddity
from quotaform.model.entity import Entity
from quotaform.model.entry import Entry
from quotaform.model.location import Location
from quotaform.model.quota_key import QUOTA_KEYS, keys_for
from quotaform.model.quotas import Values
from quotaform.model.text import quote
from quotaform.model.units import UNLIMITED, parse_value

Profiles = Mapping[str, Values]
"""Profile name to its values."""

STATE_ABSENT: Final = "state: absent"
"""Why an entity that a file calls absent must not exist."""

_DATE: Final = regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2}").fullmatch
_TEXT_FIELDS: Final = ("owner", "reason", "profile")
_UNCLEAR_NUMBERS: Final = frozenset(
    {Oddity.OCTAL, Oddity.HEXADECIMAL, Oddity.BINARY, Oddity.UNDERSCORED, Oddity.SEXAGESIMAL}
)


class Declaration(NamedTuple):
    """What one file says about one entity, before layers are merged.

    Attributes:
        entry: The entry, whatever day it is.
        expires: From this day (UTC) on it counts as absent.
    """

    entry: Entry
    expires: date | None


class Reader:
    """Turns entries into declarations; keeps equal values once."""

    def __init__(self, profiles: Profiles) -> None:
        self.profiles = profiles
        self.known: dict[tuple[tuple[str, float], ...], Values] = {}

    def read(self, items: list[Any], report: Report) -> list[Declaration]:
        """Read the `quotas` of one file; what is wrong goes to the report.

        Raises:
            UnclearError: Something is wrong and the document was read without details.
        """
        declarations: list[Declaration] = []
        document = report.document
        for index, item in enumerate(items):
            if isinstance(item, dict):
                location = document.start(items, index)
                self.read_item(("quotas", index), item, location, report, declarations)
        return declarations

    def read_item(
        self,
        path: tuple[str | int, ...],
        item: dict[str, Any],
        location: Location,
        report: Report,
        declarations: list[Declaration],
    ) -> None:
        """Add the declarations of one entry."""
        match = item.get("match")
        if not isinstance(match, dict):
            return
        errors = report.errors
        report.part = (*path, "match")
        named = read_match(match, report, MAX_ENTITIES - len(declarations))
        entity = named[0] if named else None
        if report.document.odd:
            _check_texts(path, item, report)
        expires = _read_expires(path, item, report) if "expires" in item else None
        if item.get("state") == "absent":
            _check_absent(path, item, entity, report)
            values: Values = {}
            absent = STATE_ABSENT
        else:
            values, absent = self.read_values(path, item, entity, report), None
        if not named or (not values and absent is None) or report.errors > errors:
            return
        owner, reason = item.get("owner"), item.get("reason")
        for declared in named:
            entry = Entry(entity=declared, values=values, location=location, owner=owner, reason=reason, absent=absent)
            declarations.append(Declaration(entry, expires))

    def read_values(
        self, path: tuple[str | int, ...], item: dict[str, Any], entity: Entity | None, report: Report
    ) -> Values:
        """Return the values of an entry: its profile's, overridden by its own."""
        values: dict[str, float] = {}
        if "profile" in item:
            report.part = (*path, "profile")
            values.update(self.read_profile(item, entity, report))
        own = item.get("values")
        if isinstance(own, dict):
            report.part = (*path, "values")
            values.update(read_own_values(own, entity, report))
            if not own:
                report.say(rule.NO_VALUES, f"{_of(entity)}has no values; write some, or state: absent", item, "values")
        elif "profile" not in item and "values" not in item and "state" not in item:
            report.part = (*path, "")
            text = f"{_of(entity)}declares nothing; write values, profile or state: absent"
            report.say_at(rule.NO_VALUES, text, report.document.locate(path).value)
        elif "profile" not in item and "values" not in item and item["state"] == "present":
            report.part = (*path, "")
            text = f"{_of(entity)}declares nothing; write values or profile beside state: present"
            report.say_at(rule.NO_VALUES, text, report.document.locate(path).value)
        return self.known.setdefault(tuple(values.items()), values)

    def read_profile(self, item: dict[str, Any], entity: Entity | None, report: Report) -> Values:
        """Return the values of the profile that an entry names."""
        name = item["profile"]
        if not isinstance(name, str) or not name or (id(item), "profile") in report.document.odd:
            return {}
        values = self.profiles.get(name)
        if values is None:
            known = f" The profiles are {', '.join(map(quote, self.profiles))}" if self.profiles else ""
            guess = did_you_mean(name, self.profiles) or "; quotaform.yaml has none of this name."
            report.say(rule.UNKNOWN_PROFILE, f"unknown profile {quote(name)}{guess}{known}", item, "profile")
            return {}
        for key in values:
            if entity is not None and not QUOTA_KEYS[key].fits(entity):
                text = f"profile {quote(name)} {_misfit(key, entity)}"
                report.say(rule.BAD_KEY, text, item, "profile", address=entity.address, quota_key=key)
        return values


def read_own_values(node: dict[str, Any], entity: Entity | None, report: Report) -> dict[str, float]:
    """Return the good values of a mapping of quota keys; what is wrong goes to the report."""
    values: dict[str, float] = {}
    odd = report.document.odd
    types = entity.types if entity is not None else ()
    for key, raw in node.items():
        kind = type(raw)
        if (kind is str or kind is int) and not odd:
            try:
                values[key] = _parse(key, raw, types)
                continue
            except (KeyError, ValueError):
                pass
        _read_slowly(node, key, entity, report, values)
    return values


@lru_cache(maxsize=65536)
def _parse(key: str, raw: str | int, types: tuple[str, ...]) -> float:
    """Read a value that is good; anything else is a KeyError or a ValueError."""
    if not QUOTA_KEYS[key].entity_types.issuperset(types):
        raise KeyError(key)
    return parse_value(QUOTA_KEYS[key], str(raw))


def _read_slowly(
    node: dict[str, Any], key: str, entity: Entity | None, report: Report, values: dict[str, float]
) -> None:
    quota_key = QUOTA_KEYS.get(key)
    address = entity.address if entity is not None else None
    if quota_key is None:
        text = (
            f"{_of(entity, ': ')}unknown quota key {quote(key)}{_key_guess(key)} The keys are {', '.join(QUOTA_KEYS)}"
        )
        report.say(rule.UNKNOWN_KEY, text, node, key, at_key=True, address=address)
        return
    if entity is not None and not quota_key.fits(entity):
        report.say(rule.BAD_KEY, _misfit(key, entity), node, key, at_key=True, address=address, quota_key=key)
        return
    raw = node[key]
    written = report.document.place(node, key).text
    try:
        values[key] = parse_value(quota_key, _value_text(raw, written, report.document.odd.get((id(node), key))))
    except ValueError as error:
        # The text of the error would show what a variable holds.
        what = _variable_text(written) if written and VARIABLE in written else str(error)
        report.say(rule.BAD_VALUE, f"{_of(entity)}{key}: {what}", node, key, address=address, quota_key=key)


def _value_text(raw: Any, text: str | None, oddity: Oddity | None) -> str:
    """Return a value as it was written.

    Raises:
        ValueError: It is nothing that is written as one text.
    """
    if raw is None:
        raise ValueError(f"there is no value; leave the key out to inherit one, or write {UNLIMITED}")
    if isinstance(raw, bool):
        raise ValueError(f"{text} is true or false to YAML, not a limit; write a value, or {UNLIMITED}")
    if isinstance(raw, dict | list):
        raise ValueError(f"{'a mapping' if isinstance(raw, dict) else 'a list'} is not a value")
    if oddity in _UNCLEAR_NUMBERS:
        raise ValueError(f"{text} is {oddity} to some readers of YAML; write it in plain digits")
    if isinstance(raw, Decimal):
        return text or str(raw)
    return str(raw)


def _key_guess(key: str) -> str:
    words = regex(r"(?<=[a-z])(?=[A-Z])").sub("_", key).replace(" ", "_")
    return did_you_mean(words, QUOTA_KEYS) or "."


def _misfit(key: str, entity: Entity) -> str:
    kinds = " and ".join(entity.types)
    if QUOTA_KEYS[key].fits(entity):
        return key
    return f"{key} does not fit {entity.address}; an entity of {kinds} takes {', '.join(keys_for(entity))}"


def _variable_text(written: str) -> str:
    return f"{quote(written)} is not a value; variables are replaced in quotaform.yaml only, and must hold a value"


def _of(entity: Entity | None, gap: str = " ") -> str:
    return f"{entity.address}{gap}" if entity is not None else ""


def _check_texts(path: tuple[str | int, ...], item: dict[str, Any], report: Report) -> None:
    for field in _TEXT_FIELDS:
        oddity = report.document.odd.get((id(item), field))
        if oddity is not None:
            report.part = (*path, field)
            raw = item[field]
            report.say(
                rule.WRONG_TYPE, f'{field} must be text, and YAML reads {raw} as {oddity}; write "{raw}"', item, field
            )


def _check_absent(path: tuple[str | int, ...], item: dict[str, Any], entity: Entity | None, report: Report) -> None:
    for field in ("values", "profile", "expires"):
        if field in item:
            report.part = (*path, field)
            text = f"{_of(entity)}is absent, so {field} means nothing; remove it, or remove state: absent"
            report.say(rule.BAD_STATE, text, item, field, at_key=True)


def _read_expires(path: tuple[str | int, ...], item: dict[str, Any], report: Report) -> date | None:
    raw = item["expires"]
    if not isinstance(raw, str):
        return None
    try:
        if _DATE(raw):
            return date.fromisoformat(raw)
    except ValueError:
        pass
    report.part = (*path, "expires")
    report.say(rule.BAD_DATE, f"expires: {quote(raw)} is not a day; write one as in 2026-12-31", item, "expires")
    return None
