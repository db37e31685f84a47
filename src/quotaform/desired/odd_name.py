"""Detects names that are valid but probably a mistake."""

from __future__ import annotations

from typing import Final
from unicodedata import name as character_name
from unicodedata import normalize

from quotaform.model.entity import DEFAULT_WORD, ENTITY_TYPES, spell_name
from quotaform.model.variable import PREFIX

_LITERALLY: Final = "Kafka uses it literally; check that this is intended"
_DEFAULT: Final = DEFAULT_WORD.strip("<>")
_LATIN: Final = "LATIN"
_LOOK_ALIKE: Final = frozenset({"CYRILLIC", "GREEK", "FULLWIDTH", "MATHEMATICAL"})
_ASCII_END: Final = "\x7f"


def name_oddness(entity_type: str, name: str) -> str | None:
    """Return why a name is suspicious and what to check; `None` if it is not.

    >>> print(name_oddness("user", "Default"))
    is an ordinary name; did you mean <default>?
    """
    if name != DEFAULT_WORD and name.strip().strip("<>").lower() == _DEFAULT:
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
    return _letter_oddness(name) if name > _ASCII_END or not name.isascii() else None


def _letter_oddness(name: str) -> str | None:
    scripts = {character_name(character, "").partition(" ")[0] for character in name if character.isalpha()}
    if _LATIN in scripts and (mixed := sorted(scripts & _LOOK_ALIKE)):
        return f"mixes Latin and {mixed[0].capitalize()} letters, which look alike; {_LITERALLY}"
    if name != normalize("NFC", name):
        return f"is not in Unicode's composed form (NFC), as most programs write it; {_LITERALLY}"
    return None
