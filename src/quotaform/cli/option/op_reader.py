"""What `--add` and `--delete` of `quotaform alter` mean: quota keys to set and to remove."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from quotaform.app.alter import unknown_key_hint
from quotaform.errors import UsageError
from quotaform.model.entity import ENTITY_TYPES, IP, Entity
from quotaform.model.ip import ip_problem
from quotaform.model.quota_key import QUOTA_KEYS, keys_for
from quotaform.model.text import did_you_mean, nearest, quote
from quotaform.model.units import parse_number, parse_value

_MISSPELT: Final = 0.8
"""How near a key must be to a known one to be taken for it; a newer broker may have keys that are less near."""


def read_ops(entity: Entity, added: Iterable[str], deleted: Iterable[str]) -> dict[str, float | None]:
    """Read what is to be set (`key=value`, in units) and removed (`key`), each list separated by commas.

    A key that this version does not know, and that is no misspelt known one, takes a plain number, and the broker
    decides on it. Raises `UsageError` if a piece cannot be read, a key comes twice, a value is not one of its key, or
    the entity cannot carry what is set.
    """
    ops: dict[str, float | None] = {}
    for option, lists in (("--add", added), ("--delete", deleted)):
        for piece in (piece for text in lists for piece in text.split(",")):
            name, separator, text = piece.partition("=")
            if not name or bool(separator) is (option == "--delete"):
                form = (
                    "KEY=VALUE, such as producer_byte_rate=10MiB/s" if option == "--add" else "the name of a quota key"
                )
                raise UsageError(f"{option} {quote(piece)} is not {form}")
            if name in ops:
                raise UsageError(f"{quote(name)} is given twice")
            ops[name] = _read_value(entity, name, text) if option == "--add" else None
    if not ops:
        raise UsageError("no change is given; use --add KEY=VALUE or --delete KEY")
    if any(value is not None for value in ops.values()):
        _require_settable(entity)
    return ops


def _read_value(entity: Entity, name: str, text: str) -> float:
    key = QUOTA_KEYS.get(name)
    if key is None and nearest(name, QUOTA_KEYS, cutoff=_MISSPELT) is not None:
        raise UsageError(f"--add: {quote(name)} is not a quota key{did_you_mean(name, QUOTA_KEYS)}")
    try:
        if key is None:
            return parse_number(text)
        if set(entity.types) <= set(ENTITY_TYPES) and not key.fits(entity):
            fitting = ", ".join(keys_for(entity))
            can = f"it can have {fitting}" if fitting else "no key is"
            raise ValueError(f"{name} is not valid for {entity.address}; {can}")
        return parse_value(key, text)
    except ValueError as error:
        raise UsageError(f"--add: {error}{'' if key else unknown_key_hint(name)}") from error


def _require_settable(entity: Entity) -> None:
    for entity_type, name in entity.parts:
        if name == "":
            raise UsageError(f"the name of {entity_type} is empty; for the default write '{entity_type}=<default>'")
        if entity_type == IP and name is not None and (problem := ip_problem(name)):
            raise UsageError(f"{entity.address}: {problem}")
