"""Writes quotas as a quotas file that reads back bit for bit, and says what no file can hold."""

from __future__ import annotations

from re import compile as regex
from typing import Final

from quotaform.desired.writable import check_writable, writable_values
from quotaform.desired.yaml.document import is_text
from quotaform.model.entity import (
    DEFAULT_WORD,
    Entity,
)
from quotaform.model.finding import Finding
from quotaform.model.quota_key import QUOTA_KEYS, key_order
from quotaform.model.quotas import Quotas, Values
from quotaform.model.units import spell_value

SCHEMA: Final = "../schemas/quotas.schema.json"
"""Where editors find the schema, seen from quotas.d."""

MOST_COLUMNS: Final = 100
"""How long a line of a file may be that could be several."""

_PLAIN = regex(r"[A-Za-z0-9_][A-Za-z0-9_.@/=+-]*").fullmatch
_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0", "\x1b": "\\e"}


def render_quotas(quotas: Quotas, *, schema: str | None = SCHEMA) -> tuple[str, list[Finding]]:
    """Write quotas as the text of a quotas.d file, sorted by address.

    `schema`: where editors find the schema; `None` leaves the line out.

    Returns:
        The text, and what files cannot say: such an entity is left out, never written half.
    """
    lines = [f"# yaml-language-server: $schema={schema}"] if schema else []
    findings: list[Finding] = []
    entries: list[str] = []
    for entity, values in sorted(quotas.items(), key=lambda item: item[0].address):
        findings += check_writable(entity, values)
        written = writable_values(entity, values)
        if written is not None:
            entries += ["", *_entry_lines(entity, written)]
    lines += ["quotas:", *entries[1:]] if entries else ["quotas: []"]
    return "\n".join(lines) + "\n", findings


def render_quotas_yaml(quotas: Quotas) -> str:
    """Return quotas as the text of a quotas.d file, without what files cannot say."""
    return render_quotas(quotas)[0]


def _entry_lines(entity: Entity, values: Values) -> list[str]:
    """Return the lines of an entry as `quotaform fmt` leaves them."""
    return [
        *match_lines(entity),
        "    values:",
        *(f"      {name}: {spell_value(QUOTA_KEYS[name], values[name])}" for name in sorted(values, key=key_order)),
    ]


def match_lines(entity: Entity) -> list[str]:
    """Return the lines with which an entry begins."""
    names = [f"{entity_type}: {_spell_name(name)}" for entity_type, name in entity.parts]
    match = [f"  - match: {{{', '.join(names)}}}"]
    return match if len(match[0]) <= MOST_COLUMNS else ["  - match:", *(f"      {name}" for name in names)]


def _spell_name(name: str | None) -> str:
    if name is None:
        return DEFAULT_WORD
    return f'{{name: "{DEFAULT_WORD}"}}' if name == DEFAULT_WORD else spell_scalar(name)


def spell_scalar(text: str) -> str:
    r"""Return a text as a YAML scalar that every parser reads as this text.

    >>> print(spell_scalar("svc-a"), spell_scalar("007"), spell_scalar("yes"), spell_scalar("a: b\n"))
    svc-a "007" "yes" "a: b\n"
    """
    if _PLAIN(text) and is_text(text):
        return text
    return quote_scalar(text)


def quote_scalar(text: str) -> str:
    """Return a text in double quotes, in which everything is escaped that cannot be seen."""
    return f'"{"".join(map(_escape, text))}"'


def _escape(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
