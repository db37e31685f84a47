"""Reads the `values` of an entry or a profile, and the `expires` date of an item."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import date
from decimal import Decimal
from re import compile as regex
from typing import Any, Final

from quotaform.desired.yaml.document import Document, Oddity, spot_of
from quotaform.model import rule
from quotaform.model.entity import Entity
from quotaform.model.quota_key import QUOTA_KEYS, keys_for
from quotaform.model.rule import FindingRule
from quotaform.model.text import did_you_mean, quote
from quotaform.model.units import UNLIMITED, parse_value
from quotaform.model.variable import PLACES, PREFIX

SMALL_RATE: Final = 1024
"""A byte rate below it was probably meant in a larger unit."""


def read_values(node: dict[str, Any], entity: Entity | None, document: Document) -> dict[str, float]:
    """Return the good values of a mapping of quota keys, and report what is wrong."""
    values: dict[str, float] = {}
    types = () if entity is None else entity.types
    for key, raw in node.items():
        quota_key = QUOTA_KEYS.get(key)
        if quota_key is None or not quota_key.entity_types.issuperset(types):
            address = None if entity is None else entity.address
            known = None if quota_key is None else key
            document.add(*key_problem(key, entity), node, key, at_key=True, address=address, quota_key=known)
            continue
        _, _, written, oddity = spot_of(node, key)
        try:
            is_text = type(raw) is str and oddity is None
            values[key] = parse_value(quota_key, raw if is_text else _value_text(raw, written, oddity))
        except ValueError as error:
            # The text of the error would show what a variable holds.
            what = f"{quote(written)} is not a value; {PLACES}" if written and PREFIX in written else str(error)
            address = None if entity is None else entity.address
            text = f"{of_entity(entity)}{key}: {what}"
            document.add(rule.BAD_VALUE, text, node, key, address=address, quota_key=key)
    return values


def bare_keys(node: Mapping[str, Any], values: Mapping[str, float]) -> tuple[str, ...]:
    """Return the keys whose values are small byte rates without a unit.

    `node`: the values as they are written. `values`: the same as they were read.
    """
    small = [key for key, value in values.items() if value < SMALL_RATE and key in node]
    # Every unit ends in "/s".
    return tuple([key for key in small if QUOTA_KEYS[key].unit == "B/s" and not str(node[key]).endswith("s")])


def _value_text(raw: Any, text: str | None, oddity: Oddity | None) -> str:
    """Return a value as it was written. Raises `ValueError` if it is nothing that is written as one text."""
    if raw is None:
        raise ValueError(f"there is no value; omit the key to inherit one, or write {UNLIMITED}")
    if isinstance(raw, bool):
        raise ValueError(f"{text} is a boolean, not a limit; write a value, or {UNLIMITED}")
    if isinstance(raw, dict | list):
        raise ValueError(
            f"{'a mapping' if isinstance(raw, dict) else 'a list'} is not a limit; write a value, or {UNLIMITED}"
        )
    if oddity not in {None, Oddity.DATE, Oddity.INFINITE, Oddity.NUMBER}:
        raise ValueError(f"some YAML parsers read {quote(text or '')} as {oddity}; write it in plain digits")
    return text or str(raw) if isinstance(raw, Decimal) else str(raw)


def key_problem(key: str, entity: Entity | None) -> tuple[FindingRule, str]:
    """Return why a key is none that an entity can have."""
    if key in QUOTA_KEYS and entity is not None:
        return rule.BAD_KEY, misfit_text(key, entity)
    words = regex(r"(?<=[a-z])(?=[A-Z])").sub("_", key).replace(" ", "_")
    guess = did_you_mean(words, QUOTA_KEYS) or "."
    if key[:1].isdigit():
        guess = "; a comma in { } begins the next key, so write decimals with a point."
    text = f"unknown quota key {quote(key)}{guess} The keys are {', '.join(QUOTA_KEYS)}"
    return rule.UNKNOWN_KEY, f"{of_entity(entity, ': ')}{text}"


def misfit_text(key: str, entity: Entity) -> str:
    """Say that an entity cannot have a key, and which it can have."""
    kinds = " and ".join(entity.types)
    return f"{key} is not valid for {entity.address}; {kinds} entities can have {', '.join(keys_for(entity))}"


def of_entity(entity: Entity | None, gap: str = " ") -> str:
    """Return how a message about an entity begins; empty when it is not known which."""
    return f"{entity.address}{gap}" if entity is not None else ""


_DAY: Final = regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2}").fullmatch


def read_expires(item: dict[str, Any], document: Document, example: str = "2026-12-31") -> date | None:
    """Return the day that an item names; `None` when it names none, of which the schema finds the wrong type.

    `example`: how a day is written, for the message.
    """
    raw = item.get("expires")
    if not isinstance(raw, str):
        return None
    with suppress(ValueError):
        if _DAY(raw):
            return date.fromisoformat(raw)
    text = f"expires: {quote(raw)} is not a date; write it as in {example}"
    document.add(rule.BAD_DATE, text, item, "expires")
    return None
