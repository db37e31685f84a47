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
        "What limits requests and why, as quotaform resolve writes it.",
        {
            "cluster": ref("cluster"),
            "read_at": timestamp("When the cluster was read"),
            "plan_id": maybe_text("The plan that is taken as applied, or null.", pattern=DIGEST),
            "options": record(
                "What is shown.",
                {
                    "keys": items("The quota keys that were asked for; empty for all.", {"type": "string"}),
                    "inherited": boolean("Whether keys are shown whose value is not the entity's own."),
                    "overridden": boolean("Whether the entries that lost are shown."),
                },
            ),
            "requests": items("What limits each request, in the order in which they were asked.", ref("request")),
            "findings": items("Where the answer needs a second look.", ref("finding")),
        },
    )
    request = record(
        "One concrete entity, and what limits its requests.",
        {
            "address": address(),
            "entity": mapping(
                "Who makes the request: a user, a client-id or both, or an ip. Without a client-id it is empty.",
                {"type": "string"},
                {"user": "svc-orders", "client-id": "etl"},
                minProperties=1,
            ),
            "keys": items("The quota keys that can limit it.", ref("resolved_key")),
        },
    )
    limit = "The limit; null where nothing limits the request."
    definitions = {
        "request": request,
        "resolved_key": _resolved_key(),
        "entry": record("An entry that holds the key.", _entry("The limit that it sets.")),
        "limit": record("A limit and where it comes from.", _limit(limit)),
    }
    return schema, definitions


def _entry(value: str) -> dict[str, Node]:
    levels = (*CLIENT_LEVELS, *IP_LEVELS)
    return {
        "value": ref("maybe_value", value),
        "source": maybe_text("The one-line spelling of the entry that it comes from.", "user=<default>"),
        "entity": maybe(
            ref("entity"), "The entry that it comes from: entity type to name, null being the default of a type."
        ),
        "source_name": choice(
            "The name that KIP-248 gave to this kind of entry.", (*(level.source for level in levels), None)
        ),
        "level": {
            "description": "Its level of precedence; 1 is asked first.",
            "type": ["integer", "null"],
            "minimum": 1,
            "maximum": max(level.number for level in levels),
        },
    }


def _limit(value: str) -> dict[str, Node]:
    return {
        **_entry(value),
        "unlimited": boolean("Whether the request is not limited: nothing applies, or a value that is no limit."),
    }


def _resolved_key() -> Node:
    scopes = dict.fromkeys(key.per for key in QUOTA_KEYS.values())
    return record(
        "What limits a request for one quota key; with the plan applied, if one is given.",
        {
            "key": quota_key(),
            **_limit("The limit; null where nothing limits the request."),
            "per": choice(
                "Where the limit holds: each broker enforces the whole limit, or the cluster does once; null for a "
                "key that this version does not know.",
                (*scopes, None),
            ),
            "bucket": {
                "description": "The entity types whose names tell one rate from another: requests that agree in them "
                "share it. Null where no entry applies.",
                "type": ["array", "null"],
                "items": {"enum": list(ENTITY_TYPES)},
                "minItems": 1,
            },
            "shared_by": maybe_text("The same in words."),
            "overridden": items("The entries that hold the key and lost, in order of precedence.", ref("entry")),
            "before": maybe(
                ref("limit"), "What limits the request as long as the plan is not applied; null without a plan."
            ),
        },
    )
