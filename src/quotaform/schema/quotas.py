"""The schema of quotas files."""

from __future__ import annotations

from typing import Final

from quotaform.model.entity import DEFAULT_WORD, KNOWN_TYPES, MAX_NAME_BYTES, EntityType
from quotaform.model.quota_key import QUOTA_KEYS, QuotaKey
from quotaform.model.units import UNLIMITED, describe_key, unit_spellings
from quotaform.schema.node import Node, choice, closed, items, ref, text

_NUMBER: Final = r"(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?"


def values() -> Node:
    """Return the schema of values as people write them: one field per quota key."""
    return closed(
        "Quota keys and their limits. An omitted key is inherited.",
        {name: _value(key) for name, key in QUOTA_KEYS.items()},
        minProperties=1,
    )


def _value(key: QuotaKey) -> Node:
    units = "|".join(unit_spellings(key))
    return {
        "description": describe_key(key),
        "type": ["string", "number"],
        "pattern": f"^({UNLIMITED}|{_NUMBER} ?({units})?)$",
        "exclusiveMinimum": 0,
        "examples": [*key.examples, UNLIMITED],
    }


def _names(row: EntityType) -> Node:
    name: Node = {"anyOf": [{"type": "string", "minLength": 1, "maxLength": MAX_NAME_BYTES}, ref("literal")]}
    return {
        "description": row.description,
        "anyOf": [*name["anyOf"], {"type": "array", "minItems": 1, "items": name}],
        "examples": list(row.examples),
    }


def _match() -> Node:
    return closed(
        "The entity of the entry: a user, a client-id, both, or an ip. <default> is the default entity; a list "
        "stands for one entity per name.",
        {row.name: _names(row) for row in KNOWN_TYPES.values()},
        minProperties=1,
        dependencies={row.name: {"maxProperties": 1} for row in KNOWN_TYPES.values() if not row.combines_with},
        examples=[{"user": "svc-orders"}, {"user": DEFAULT_WORD, "client-id": "etl"}],
    )


def quotas() -> tuple[Node, dict[str, Node]]:
    """Return the schema and its definitions."""
    schema = closed(
        "A file of quotas.d. A declaration covers all quota keys of its entity.",
        {"quotas": items("The entries; each entity at most once per layer.", ref("entry"))},
        required=["quotas"],
    )
    return schema, {"literal": _literal(), "match": _match(), "values": values(), "entry": _entry()}


def _literal() -> Node:
    return closed(
        "A literal name, for names with a special meaning.",
        {"name": text("The name, taken literally.", minLength=1)},
        required=["name"],
        examples=[{"name": DEFAULT_WORD}],
    )


def _entry() -> Node:
    first = next(iter(QUOTA_KEYS))
    return closed(
        "The quotas of one or several entities.",
        {
            "match": ref("match"),
            "values": ref("values"),
            "profile": text(
                "The name of a profile in quotaform.yaml; values next to it override it key by key.",
                "gold",
                minLength=1,
            ),
            "unset": items(
                "Keys of the common entry to remove for this cluster; only in the directory of a cluster.",
                {"type": "string", "minLength": 1, "examples": [first]},
                minItems=1,
                examples=[[first]],
            ),
            "owner": text("The owner; shown in plans.", "team-orders", minLength=1),
            "reason": text("The reason; shown in plans.", "checkout traffic", minLength=1),
            "expires": text(
                "Treated as absent from this date (UTC).",
                "2026-12-31",
                pattern="^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
            ),
            "state": choice("absent: the entity must not have any quotas.", ("present", "absent"))
            | {"default": "present"},
        },
        required=["match"],
        anyOf=[
            {"required": ["values"]},
            {"required": ["profile"]},
            {"required": ["unset"]},
            {"required": ["state"], "properties": {"state": {"const": "absent"}}},
        ],
    )
