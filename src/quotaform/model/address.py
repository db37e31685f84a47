"""Parses addresses and names: the inverse of `Entity.address` and `spell_name`."""

from __future__ import annotations

from json import loads
from re import compile as regex
from shlex import quote as quote_for_shell
from typing import Final

from quotaform.model.entity import CLIENT_ID, DEFAULT_WORD, ENTITY_TYPES, Entity, spell_name
from quotaform.model.text import quote

_WORD: Final = r'"(?:[^"\\]|\\.)*"|[A-Za-z0-9._@:/*-]+'
_PART = regex(f"({_WORD})=({DEFAULT_WORD}|{_WORD}|)").match
_RESOURCE = regex(rf"(?i)({'|'.join(ENTITY_TYPES)})[:/ ](.+)").fullmatch
_EXAMPLES: Final = "write for example user=svc-a, 'user=svc-a,client-id=<default>' or 'user=\"CN=a,O=b\"'"


def parse_address(text: str) -> Entity:
    r"""Parse an address as printed in plans; the types may be in any order.

    >>> parse_address('user="CN=a,O=b",client-id=<default>')
    Entity({'user': 'CN=a,O=b', 'client-id': None})
    >>> parse_address('user="<default>"')
    Entity({'user': '<default>'})

    An empty client-id needs no quotes.

    Raises:
        ValueError: It is not an address; the message says what to write.
    """
    names: dict[str, str | None] = {}
    position = 0
    while text:
        found = _PART(text, position)
        is_whole = found is not None and text[found.end() : found.end() + 1] in ("", ",")
        if found is None or not is_whole or not (found[2] or found[1] == CLIENT_ID):
            raise ValueError(f"{quote(text)} is not an address; {_hint(text)}")
        entity_type, name = read_name(found[1]), found[2]
        if entity_type in names:
            raise ValueError(f"{quote(text)} has {quote(entity_type)} twice; an entity has one name per type")
        names[entity_type] = None if name == DEFAULT_WORD else read_name(name)
        position = found.end() + 1
        if found.end() == len(text):
            break
    return Entity.of(names.items())


def read_name(text: str) -> str:
    r"""Return the name that a text stands for: a quoted name is unquoted if results print it that way.

    >>> print(read_name('"a b"'), read_name('"a'), read_name("a b"))
    a b "a a b
    """
    if text.startswith('"') and len(text) > 1:
        try:
            name = loads(text)
        except ValueError:
            return text
        if isinstance(name, str) and text in (spell_name(name), quote(name, len(name))):
            return name
    return text


def _hint(text: str) -> str:
    entity_type, separator, name = text.partition("=")
    tight = ",".join(map(str.strip, text.split(",")))
    if tight != text and (entity := _read(tight)):
        return f"remove the space: write {quote_for_shell(entity.address)}"
    if resource := _RESOURCE(text):  # As kubectl and Kafka's principals have it.
        return f"write {quote_for_shell(f'{resource[1].lower()}={spell_name(resource[2])}')}"
    is_one_name = entity_type in ENTITY_TYPES and name and '"' not in name and DEFAULT_WORD not in name
    if separator and is_one_name and not any(f"{other}=" in name for other in ENTITY_TYPES):
        return f"quote the name: {quote_for_shell(f'{entity_type}={quote(name, len(name))}')}"
    return _EXAMPLES


def _read(text: str) -> Entity | None:
    try:
        return parse_address(text)
    except ValueError:
        return None
