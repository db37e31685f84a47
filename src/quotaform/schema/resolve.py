"""The schema of resolved limits."""

from __future__ import annotations

from quotaform.model.document_kind import RESOLVE
from quotaform.model.entity import ENTITY_TYPES
from quotaform.model.precedence import CLIENT_LEVELS, IP_LEVELS
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.schema.definition import DIGEST, address, document, quota_key, timestamp
from quotaform.schema.node import Node, boolean, choice, items, mapping, maybe, maybe_text, record, ref


def resolve() -> tuple[Node, dict[str, Node]]:
    """Return the schema of resolved limits and its definitions."""
    schema = document(
        RESOLVE,
        "The effective quotas of requests, as quotaform resolve writes them.",
        {
            "cluster": ref("cluster"),
            "read_at": timestamp("When the cluster or its snapshot was read"),
            "snapshot": ref(
                "snapshot_file", "The snapshot that was read instead of a running cluster; omitted if there is none."
            ),
            "plan_id": maybe_text("The plan that is assumed to be applied, or null.", pattern=DIGEST),
            "options": record(
                "The options of the command.",
                {
                    "keys": items("The selected quota keys; empty for all.", {"type": "string"}),
                    "inherited": boolean("Whether keys whose value comes from another entity are included."),
                    "overridden": boolean("Whether overridden entries are included."),
                },
            ),
            "requests": items("The effective quotas per request, in the order of the requests.", ref("request")),
            "findings": items("Findings about the resolved quotas.", ref("finding")),
        },
        optional=("snapshot",),
    )
    request = record(
        "A concrete entity and its effective quotas.",
        {
            "address": address(),
            "entity": mapping(
                "The source of the request: a user, a client-id, both, or an ip.",
                {"type": "string"},
                {"user": "svc-orders", "client-id": "etl"},
                minProperties=1,
            ),
            "unmentioned": items(
                "The entity types without a name in the request, resolved for a name that no quota mentions.",
                {"enum": list(ENTITY_TYPES)},
            ),
            "keys": items("The quota keys that can limit it.", ref("resolved_key")),
        },
    )
    limit = "The limit; null if there is none."
    definitions = {
        "request": request,
        "resolved_key": _resolved_key(),
        "entry": record("An entry with the key.", _entry("The limit that it sets.")),
        "limit": record("A limit and where it comes from.", _limit(limit)),
    }
    return schema, definitions


def _entry(value: str) -> dict[str, Node]:
    levels = (*CLIENT_LEVELS, *IP_LEVELS)
    return {
        "value": ref("maybe_value", value),
        "source": maybe_text("The address of the entry that it comes from.", "user=<default>"),
        "entity": maybe(
            ref("entity"), "The entry that it comes from: entity type to name, null being the default of a type."
        ),
        "source_name": choice(
            "The name of this kind of entry in KIP-248.", (*(level.source for level in levels), None)
        ),
        "level": {
            "description": "Its level of precedence; 1 is the highest.",
            "type": ["integer", "null"],
            "minimum": 1,
            "maximum": max(level.number for level in levels),
        },
    }


def _limit(value: str) -> dict[str, Node]:
    return {
        **_entry(value),
        "unlimited": boolean("Whether the request is unlimited: no entry applies, or its value is no limit."),
    }


def _resolved_key() -> Node:
    scopes = dict.fromkeys(key.per for key in QUOTA_KEYS.values())
    return record(
        "The effective quota of a request for one key; with the plan applied, if one is given.",
        {
            "key": quota_key(),
            **_limit("The limit; null if there is none."),
            "per": choice(
                "Where the limit applies: each broker enforces the whole limit, or the cluster enforces it once; null "
                "for an unknown key.",
                (*scopes, None),
            ),
            "bucket": {
                "description": "The entity types that identify the rate: requests with equal names for them share it. "
                "Null if no entry applies.",
                "type": ["array", "null"],
                "items": {"enum": list(ENTITY_TYPES)},
                "minItems": 1,
            },
            "shared_by": maybe_text("The bucket in words."),
            "differs": mapping(
                "Entity type to the number of names that resolve to another value than a name that no quota mentions; "
                "omitted if there are none.",
                {"type": "integer", "minimum": 1},
                {"client-id": 3},
                minProperties=1,
            ),
            "overridden": items("The overridden entries with the key, in order of precedence.", ref("entry")),
            "before": maybe(ref("limit"), "The limit before the plan is applied; null without a plan."),
        },
        optional=("differs",),
    )
