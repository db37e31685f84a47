"""Reads the fields of files: names and patterns of entities, values, dates; finds names that look like a mistake."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import date
from decimal import Decimal
from itertools import product
from math import prod
from re import compile as regex
from typing import Any, Final
from unicodedata import name as character_name
from unicodedata import normalize

from quotaform.desired.yaml.document import Document, Node, Oddity, StopReadingError, glued_key, spot_of, taken_for
from quotaform.model import rule
from quotaform.model.entity import (
    DEFAULT_WORD,
    ENTITY_TYPES,
    IP,
    KNOWN_TYPES,
    MAX_NAME_BYTES,
    Entity,
    EntityPart,
    can_combine,
    ip_problem,
    meant_type,
    spell_name,
)
from quotaform.model.quota_key import QUOTA_KEYS, keys_for
from quotaform.model.rule import FindingRule
from quotaform.model.scope import Pattern, pattern_problem
from quotaform.model.text import did_you_mean, quote
from quotaform.model.units import UNLIMITED, parse_value
from quotaform.model.variable import PLACES, PREFIX

_LITERALLY: Final = "Kafka uses it literally; check that this is intended"


def name_oddness(entity_type: str, name: str) -> str | None:
    """Return why a name is suspicious and what to check; `None` if it is not.

    >>> print(name_oddness("user", "Default"))
    is an ordinary name; did you mean <default>?
    """
    if name != DEFAULT_WORD and name.strip().strip("<>").lower() == "default":
        return f"is an ordinary name; did you mean {DEFAULT_WORD}?"
    if not name.isprintable():
        return f"contains characters that are not printable; {_LITERALLY}"
    if PREFIX in name:
        return f"contains a variable, which is not expanded here; {_LITERALLY}"
    if name != name.strip():
        return f"begins or ends with white space; {_LITERALLY}"
    if "*" in name:
        return f"contains *, but names are not patterns ({DEFAULT_WORD} means all others); {_LITERALLY}"
    if name.startswith("User:"):
        return f"begins with User:, but quotas use the name without it; did you mean {spell_name(name[5:])}?"
    kind, equals, rest = name.partition("=")
    if equals and kind in ENTITY_TYPES:
        return f"begins with {kind}=, as addresses do in plans; did you mean {kind}: {spell_name(rest)}?"
    scripts = {character_name(character, "").partition(" ")[0] for character in name if character.isalpha()}
    mixed = sorted(scripts & {"CYRILLIC", "GREEK", "FULLWIDTH", "MATHEMATICAL"})
    if mixed and "LATIN" in scripts:
        return f"mixes Latin and {mixed[0].capitalize()} letters, which look alike; {_LITERALLY}"
    if name != normalize("NFC", name):
        return f"is not in Unicode's composed form (NFC), as most programs write it; {_LITERALLY}"
    return None


MAX_ENTITIES: Final = 200_000
"""The limit on entities in a file; lists in a match multiply."""

_KNOWN: Final = frozenset(ENTITY_TYPES)
_PLAIN: Final = regex(r"(?!User:|(?i:default)$|(?:user|client-id|ip)=)[A-Za-z0-9._@:/=,+-]+").fullmatch
"""A name that is not suspicious."""


def read_match(match: dict[str, Any], document: Document, room: int) -> list[Entity]:
    """Return the entities that a match selects; none if it is invalid.

    `match`: entity type to name, list of names or `{name: ...}`. `room`: how many entities the file may still declare.
    Raises `StopReadingError` if there are more, or more problems than are shown.
    """
    errors = document.errors
    columns = [_read_names(match, entity_type, document) for entity_type in ENTITY_TYPES if entity_type in match]
    if len(columns) != len(match) or not can_combine(match):
        _report_types(match, document)
    if not columns or document.errors > errors:
        return []
    if prod(map(len, columns)) > room:
        text = f"this file declares more than {MAX_ENTITIES:,} entities; divide it"
        document.add(rule.TOO_MANY_ENTITIES, text, match, columns[0][0][0])
        raise StopReadingError
    return [Entity.of(parts) for parts in product(*columns)]


def _report_types(match: dict[str, Any], document: Document) -> None:
    known = [entity_type for entity_type in match if entity_type in _KNOWN]
    for entity_type, name in match.items():
        if entity_type not in _KNOWN:
            other = meant_type(entity_type)
            guess = f"; did you mean {other}?" if other else did_you_mean(entity_type, ENTITY_TYPES)
            if glued := glued_key(entity_type, ENTITY_TYPES):
                guess = f"; write a space after the colon of {glued}."
            elif name is None and known and isinstance(match[known[-1]], str):
                # YAML takes {user: CN=a,OU=b} for two keys.
                guess = '; quote a name with commas, as in {user: "CN=a,OU=b"}, or list names: {user: [a, b]}.'
            text = f"unknown entity type {quote(entity_type)}{guess or '.'} The types are {', '.join(ENTITY_TYPES)}"
            document.add(rule.BAD_MATCH, text, match, entity_type, at_key=True)
    if not can_combine(known):
        alone = min(known, key=lambda name: len(KNOWN_TYPES[name].combines_with))
        others = " or ".join(name for name in ENTITY_TYPES if name != alone)
        text = f"{alone} cannot be combined with {others}; Kafka limits connections per address only"
        document.add(rule.BAD_MATCH, text, match, alone, at_key=True)


def _read_names(match: dict[str, Any], entity_type: str, document: Document) -> list[EntityPart]:
    node = match[entity_type]
    if not isinstance(node, list):
        name, is_good = _read_name(match, entity_type, entity_type, document)
        return [(entity_type, name)] if is_good else []
    if not node:
        text = f"the list of {entity_type} names is empty; add a name, or remove the entry"
        document.add(rule.BAD_MATCH, text, match, entity_type)
    names: dict[str | None, int] = {}
    for index in range(len(node)):
        name, is_good = _read_name(node, index, entity_type, document)
        if is_good and names.setdefault(name, index) != index:
            entity = Entity.of(((entity_type, name),))
            first = document.place(node, names[name]).value
            text = f"{entity.address} is in this list twice; it is also at {first}. Keep one of the two"
            document.add(rule.DUPLICATE_ENTITY, text, node, index, entity=entity)
    return [(entity_type, name) for name in names]


def _read_name(container: Any, key: str | int, entity_type: str, document: Document) -> tuple[str | None, bool]:
    """Return one name, `None` for the default, and whether it may be used."""
    name = container[key]
    is_literal = isinstance(name, dict)
    if is_literal:
        if list(name) != ["name"]:
            text = f'{entity_type} must be a name, or {{name: "..."}} without other fields'
            document.add(rule.BAD_NAME, text, container, key)
            return None, False
        container, key, name = name, "name", name["name"]
    if type(name) is not str or (document.has_odd and document.oddity(container, key) is not None):
        document.add(rule.BAD_NAME, _no_name_text(container, key, entity_type, name, document), container, key)
        return None, False
    if name == DEFAULT_WORD and not is_literal:
        return None, True
    if _PLAIN(name) and entity_type != IP and len(name) <= MAX_NAME_BYTES:
        return name, True
    problem = None
    if not name:
        problem = f"{entity_type} has an empty name, which brokers reject; write {DEFAULT_WORD} for the default"
    elif entity_type == IP:
        problem = f"ip {reason}" if (reason := ip_problem(name)) else None
    elif len(name) * 4 > MAX_NAME_BYTES and (size := len(name.encode())) > MAX_NAME_BYTES:
        problem = f"this {entity_type} name has {size} bytes; Kafka's protocol allows at most {MAX_NAME_BYTES}"
    elif oddness := name_oddness(entity_type, name):
        document.add(rule.ODD_NAME, f"{entity_type}={spell_name(name)} {oddness}", container, key)
    if problem:
        document.add(rule.BAD_NAME, problem, container, key)
    return name, not problem


def _no_name_text(container: Any, key: str | int, entity_type: str, node: Node, document: Document) -> str:
    raw = document.place(container, key).text or ""
    if node is None:
        remedy = f"write {DEFAULT_WORD} for the default" + (f', or "{raw}" if that is the name' if raw else "")
        return f"{entity_type} has no name, perhaps because a variable is not set; {remedy}"
    if isinstance(node, list | dict):
        return f"{entity_type} must be a name, a list of names or {{name: ...}}; a list cannot contain lists"
    kind = "a boolean" if isinstance(node, bool) else document.oddity(container, key) or "a number"
    if kind is Oddity.INFINITE:
        kind = "infinity or not a number"
    return taken_for(raw, f"{kind}, not as a {entity_type} name")


def read_pattern(node: dict[str, Any], document: Document) -> Pattern:
    """Return a pattern; the schema reports values that are not text."""
    parts: list[tuple[str, str | None]] = []
    for entity_type in ENTITY_TYPES:
        name = node.get(entity_type)
        if isinstance(name, str):
            if problem := pattern_problem(name):
                document.add(rule.TOO_LARGE, f"{problem}; shorten it", node, entity_type)
            parts.append((entity_type, None if name == DEFAULT_WORD else name))
    return Pattern(tuple(parts))


SMALL_RATE: Final = 1024
"""A byte rate below it was probably meant in a larger unit."""


def read_values(node: dict[str, Any], entity: Entity | None, document: Document) -> dict[str, float]:
    """Return the good values of a mapping of quota keys, and report what is wrong."""
    values: dict[str, float] = {}
    types = () if entity is None else entity.types
    for key, raw in node.items():
        quota_key = QUOTA_KEYS.get(key)
        if quota_key is None or not quota_key.entity_types.issuperset(types):
            known = None if quota_key is None else key
            document.add(*key_problem(key, entity), node, key, at_key=True, entity=entity, quota_key=known)
            continue
        _, _, written, oddity = spot_of(node, key)
        try:
            is_text = type(raw) is str and oddity is None
            values[key] = parse_value(quota_key, raw if is_text else _value_text(raw, written, oddity))
        except ValueError as error:
            # The text of the error would show what a variable holds.
            what = f"{quote(written)} is not a value; {PLACES}" if written and PREFIX in written else str(error)
            text = f"{of_entity(entity)}{key}: {what}"
            document.add(rule.BAD_VALUE, text, node, key, entity=entity, quota_key=key)
    return values


def bare_keys(node: Mapping[str, Any], values: Mapping[str, float]) -> tuple[str, ...]:
    """Return the keys whose values are small byte rates without a unit; `node` has the values as they are written."""
    small = [key for key, value in values.items() if value < SMALL_RATE and key in node]
    # Every unit ends in "/s".
    return tuple([key for key in small if QUOTA_KEYS[key].unit == "B/s" and not str(node[key]).endswith("s")])


def _value_text(raw: Any, text: str | None, oddity: Oddity | None) -> str:
    """Return a value as it was written. Raises `ValueError` if it is nothing that is written as one text."""
    if raw is None:
        raise ValueError(f"there is no value; omit the key to inherit one, or write {UNLIMITED}")
    if isinstance(raw, bool | dict | list):
        what = text if isinstance(raw, bool) else "a mapping" if isinstance(raw, dict) else "a list"
        raise ValueError(f"{what} is not a limit; write a value, or {UNLIMITED}")
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
    """Return the day of the field `expires`, if there is one. `example`: a day, for the message about another text."""
    raw = item.get("expires")
    if not isinstance(raw, str):
        return None
    with suppress(ValueError):
        if _DAY(raw):
            return date.fromisoformat(raw)
    text = f"expires: {quote(raw)} is not a date; write it as in {example}"
    document.add(rule.BAD_DATE, text, item, "expires")
    return None
