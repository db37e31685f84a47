"""The comma-separated lists of `kafka-client-quotas`: names, defaults, values and properties.

Entity types, names and keys are read as `quotaform.model.sanitizer.desanitize` does, so that what `--describe` prints
can be given back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from re import compile as regex
from typing import Final

from quotaform.errors import UsageError
from quotaform.model.entity import DEFAULT_WORD
from quotaform.model.sanitizer import desanitize, sanitize
from quotaform.model.text import quote
from quotaform.model.units import parse_number

COMMA: Final = "A name with a comma is written whole as --describe prints it: user=CN%3Da%2CO%3Db."
"""The remedy when a name was cut at a comma."""


_PROPERTY_PIECES: Final = regex(r'(?:[^,"]|"(?:[^"\\]|\\.)*"|")+').findall
_PROPERTY_NAME: Final = regex(r"[A-Za-z][A-Za-z0-9._-]*").fullmatch


def _pieces(option: str, lists: Iterable[str]) -> Iterator[str]:
    for text in lists:
        for piece in text.split(","):
            if not piece:
                raise UsageError(f"{option} {quote(text)} has an empty item; remove the extra comma")
            yield piece


def read_parts(names: Iterable[str], defaults: Iterable[str]) -> dict[str, str | None]:
    """Read `--names` and `--defaults`: entity type to name, `None` for the default.

    >>> read_parts(["user=CN%3Da%20b"], ["client-id"])
    {'user': 'CN=a b', 'client-id': None}

    Raises:
        UsageError: A piece is no pair, or a type comes twice.
    """
    parts: dict[str, str | None] = {}

    def put(option: str, entity_type: str, name: str | None) -> None:
        if entity_type in parts:
            raise UsageError(f"{option}: the entity type {quote(entity_type)} is given twice. {COMMA}")
        parts[entity_type] = name

    for piece in _pieces("--names", names):
        entity_type, separator, name = piece.partition("=")
        if not separator or not entity_type:
            raise UsageError(f"--names: {quote(piece)} is not type=name. {COMMA}")
        if name == DEFAULT_WORD:
            raise UsageError(
                f"--names: for the default write --defaults={entity_type}; a literal name {DEFAULT_WORD} is "
                f"written {sanitize(name)}"
            )
        put("--names", desanitize(entity_type), desanitize(name))
    for entity_type in _pieces("--defaults", defaults):
        if "=" in entity_type:
            raise UsageError(f"--defaults: {quote(entity_type)} is not an entity type; names go into --names")
        put("--defaults", desanitize(entity_type), None)
    return parts


def read_ops(added: Iterable[str], deleted: Iterable[str]) -> dict[str, float | None]:
    """Read `--add` and `--delete`: quota key to the value to set, `None` to remove it.

    A value is a decimal number, of which the nearest double is sent, as Kafka's own tools do.

    >>> read_ops(["consumer_byte_rate=2000000"], ["producer_byte_rate"])
    {'consumer_byte_rate': 2000000.0, 'producer_byte_rate': None}

    Raises:
        UsageError: A piece is no pair, a value no finite number, or a key comes twice.
    """
    ops: dict[str, float | None] = {}

    def put(option: str, key: str, value: float | None) -> None:
        if key in ops:
            raise UsageError(f"{option}: {quote(key)} is given twice")
        ops[key] = value

    for piece in _pieces("--add", added):
        key, separator, text = piece.partition("=")
        if not separator or not key:
            raise UsageError(f"--add: {quote(piece)} is not key=value")
        try:
            put("--add", desanitize(key), parse_number(text))
        except ValueError as error:
            raise UsageError(f"--add: {error} (quotaform alter takes units, too)") from error
    for key in _pieces("--delete", deleted):
        if "=" in key:
            raise UsageError(f"--delete: {quote(key)} is not the name of a quota key; leave the value out")
        put("--delete", desanitize(key), None)
    return ops


def read_properties(lists: Iterable[str]) -> dict[str, str]:
    """Read `--adminclient-property` (KIP-248); a comma in double quotes, or before what is no key, is of the value.

    >>> read_properties(["security.protocol=SSL,ssl.cipher.suites=A,B"])
    {'security.protocol': 'SSL', 'ssl.cipher.suites': 'A,B'}

    Raises:
        UsageError: It begins with a piece without `=`, or a key comes twice.
    """
    properties: dict[str, str] = {}
    for text in lists:
        last = None
        for piece in _PROPERTY_PIECES(text):
            key, separator, value = piece.partition("=")
            if separator and _PROPERTY_NAME(key.strip()):
                last = key.strip()
                if last in properties:
                    raise UsageError("--adminclient-property: a key is given twice")
                properties[last] = value
            elif last is not None:
                properties[last] += f",{piece}"
            else:
                # Not shown: it may be half of a password.
                raise UsageError("--adminclient-property is not key=value")
    return properties
