"""The schema of a resolved entry, against which policies are evaluated."""

from __future__ import annotations

from typing import Any, Final

from quotaform.model.entity import DEFAULT_WORD, KNOWN_TYPES
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.units import UNLIMITED
from quotaform.schema.node import Node, items, record, text

ENTITY: Final = "entity"
VALUES: Final = "values"


def entry() -> tuple[Node, dict[str, Node]]:
    """Return the schema and its definitions."""
    schema = record(
        "A resolved entry: what the files declare for one entity on one cluster, profiles and layers included. "
        "Policies are evaluated against it. Fields without a value are omitted.",
        {
            "address": text("The entity on one line.", "user=svc-orders", f"user={DEFAULT_WORD},client-id=etl"),
            ENTITY: _closed(
                "Entity type to name; null is the default.",
                {row.name: _name(row.name, row.examples) for row in KNOWN_TYPES.values()},
            ),
            VALUES: _closed(
                "Quota key to its value, in the unit of the key; inherited keys are omitted.",
                {
                    key.name: _number(f"{key.limits}, per {key.per}; {UNLIMITED} is {int(key.maximum)}.")
                    for key in QUOTA_KEYS.values()
                },
            ),
            "unlimited": items(
                f"The keys whose value is {UNLIMITED}.", {"enum": list(QUOTA_KEYS)}, examples=[["producer_byte_rate"]]
            ),
            "owner": text("The owner.", "team-orders"),
            "reason": text("The reason.", "checkout traffic"),
            "expires": text("The date (UTC) from which the entry is treated as absent.", "2026-12-31"),
            "profile": text("The profile that the entry names.", "gold"),
            "cluster": text("The name of the cluster in quotaform.yaml.", "prod-eu"),
        },
        optional=("owner", "reason", "expires", "profile", "cluster"),
    )
    return schema | {"additionalProperties": False}, {}


def _closed(description: str, fields: dict[str, Node]) -> Node:
    return record(description, fields, optional=fields) | {"additionalProperties": False, "minProperties": 1}


def _name(entity_type: str, examples: Any) -> Node:
    names = [example for example in examples if isinstance(example, str) and example != DEFAULT_WORD]
    return {"description": f"The {entity_type}; null is the default.", "type": ["string", "null"], "examples": names}


def _number(description: str) -> Node:
    return {"description": description, "type": "number", "exclusiveMinimum": 0}
