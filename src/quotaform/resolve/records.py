"""The JSON documents of `resolve` and `explain`, and their schemas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from quotaform.model.entity import ENTITY_TYPES, Entity
from quotaform.model.finding import Finding
from quotaform.model.precedence import CLIENT_LEVELS, IP_LEVELS
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import Cause
from quotaform.model.records.document import EXPLAIN, RESOLVE, document_lines, envelope, indented, json_number
from quotaform.model.records.field import dump_cluster, dump_entity, dump_finding, dump_location, dump_snapshot_file
from quotaform.model.records.schema import (
    DIGEST,
    Node,
    address,
    boolean,
    choice,
    document,
    items,
    mapping,
    maybe,
    maybe_text,
    quota_key,
    record,
    ref,
    text,
    timestamp,
)
from quotaform.model.units import is_unlimited, render_value
from quotaform.resolve.explain import Explained, ExplainedKey, ExplainedText, Explanation, Giver, Step
from quotaform.resolve.request import Effective, Resolved, shared_by
from quotaform.resolve.resolve import KeyResolution, Resolution, ResolveHeader


def dump_resolved(
    resolutions: Iterable[Resolution], header: ResolveHeader, findings: Callable[[], list[Finding]]
) -> Iterator[str]:
    """Yield the document in pieces, one per request.

    `findings` returns the findings, once all requests are resolved.
    """

    def fields() -> Iterator[tuple[str, Any]]:
        yield from envelope(RESOLVE, _dump_header(header)).items()
        yield "requests", map(_dump_request, resolutions)
        yield "findings", [dump_finding(finding) for finding in findings()]

    return document_lines(fields(), {"requests"})


def _dump_header(header: ResolveHeader) -> dict[str, Any]:
    detail = header.detail
    return {
        "cluster": dump_cluster(header.cluster_name, header.cluster_id),
        "read_at": header.read_at,
        **dump_snapshot_file(header.snapshot),
        "plan_id": header.plan_id,
        "options": {"keys": list(detail.keys), "inherited": detail.inherited, "overridden": detail.overridden},
    }


def _dump_request(resolution: Resolution) -> dict[str, Any]:
    entity = resolution.entity
    return {
        **dump_entity(entity),
        "unmentioned": list(resolution.unmentioned),
        "keys": [_dump_resolved_key(row, entity) for row in resolution.keys],
    }


def _dump_resolved_key(row: KeyResolution, asked: Entity) -> dict[str, Any]:
    resolved, known = row.resolved, QUOTA_KEYS.get(row.key)
    level = resolved.level
    return {
        "key": row.key,
        **_dump_limit(row.key, resolved),
        "per": known.per if known else None,
        "bucket": list(level.bucket) if level else None,
        "shared_by": shared_by(level, asked) if level else None,
        **({"differs": dict(resolved.differs)} if resolved.differs else {}),
        "overridden": [_dump_entry(entry) for entry in resolved.overridden],
        "before": None if row.before is None else _dump_limit(row.key, row.before),
    }


def _dump_limit(key: str, resolved: Resolved) -> dict[str, Any]:
    entry = _dump_entry(resolved.effective)
    return {"value": entry.pop("value"), "unlimited": is_unlimited(QUOTA_KEYS.get(key), resolved.value), **entry}


def _dump_entry(entry: Effective) -> dict[str, Any]:
    value, source, level = entry
    return {
        "value": json_number(value),
        "source": source.address if source else None,
        "entity": source.names if source else None,
        "source_name": level.source if level else None,
        "level": level.number if level else None,
    }


def dump_explained(explained: Explained) -> str:
    """Return an explanation as JSON."""
    fields = {
        "directory": explained.directory,
        **dump_entity(explained.entity),
        "clusters": [_dump_explanation(explanation) for explanation in explained.clusters],
    }
    return indented(envelope(EXPLAIN, fields))


def _dump_explanation(explanation: Explanation) -> dict[str, Any]:
    return {
        "cluster": explanation.cluster,
        "cause": explanation.cause.value,
        "absent": explanation.absent,
        "location": dump_location(explanation.location),
        "keys": [_dump_explained_key(explained) for explained in explanation.keys],
        "texts": [_dump_text(text) for text in explanation.texts],
    }


def _dump_explained_key(explained: ExplainedKey) -> dict[str, Any]:
    return {
        "key": explained.key,
        "value": json_number(explained.value),
        "display": _display(explained.key, explained.value),
        "steps": [_dump_step(explained.key, step) for step in explained.steps],
    }


def _dump_step(key: str, step: Step) -> dict[str, Any]:
    return {
        "value": json_number(step.value),
        "display": _display(key, step.value),
        "giver": step.giver.value,
        "layer": step.layer,
        "profile": step.profile,
        "location": dump_location(step.location),
    }


def _dump_text(text: ExplainedText) -> dict[str, Any]:
    return {
        "field": text.field,
        "text": text.text,
        "layer": text.layer,
        "location": dump_location(text.location),
        "replaced": text.is_replaced,
    }


def _display(key: str, value: float | None) -> str | None:
    return None if value is None else render_value(QUOTA_KEYS.get(key), value)


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


def explain() -> tuple[Node, dict[str, Node]]:
    """Return the schema of explanations and its definitions."""
    schema = document(
        EXPLAIN,
        "Where the declared values of an entity come from, as quotaform explain writes it.",
        {
            "directory": text("The quotas directory, as given."),
            "address": address("user=svc-orders"),
            "entity": ref("entity"),
            "clusters": items("One section per cluster.", ref("section"), minItems=1),
        },
    )
    return schema, {"section": _section(), "key": _key(), "step": _step(), "text": _text()}


def _section() -> Node:
    return record(
        "What is declared for one cluster.",
        {
            "cluster": maybe_text("The cluster name, or null if quotaform.yaml has no clusters."),
            "cause": choice(
                "The kind of declaration; undeclared if no file of the cluster declares the entity.",
                (cause.value for cause in Cause if cause is not Cause.REVERT),
            ),
            "absent": maybe_text("Why the entity must not exist; null if it must exist."),
            "location": ref("maybe_location", "The entry with the highest precedence."),
            "keys": items("All keys that any layer sets or removes.", ref("key")),
            "texts": items("Owners and reasons, those of the common layer first.", ref("text")),
        },
    )


def _key() -> Node:
    return record(
        "A quota key with all layers that set or remove it.",
        {
            "key": quota_key(),
            "value": ref("maybe_value", "The declared value; null when the key is not set."),
            "display": maybe_text("The value as printed in plans."),
            "steps": items(
                "What the layers set, in order; the last one wins.",
                ref("step"),
                minItems=1,
            ),
        },
    )


def _step() -> Node:
    return record(
        "A value or removal in one layer.",
        {
            "value": ref("maybe_value", "The value; null if the key is removed."),
            "display": maybe_text("The value as printed in plans."),
            "giver": choice("The part of the entry that sets or removes the key.", (giver.value for giver in Giver)),
            "layer": _layer(),
            "profile": maybe_text("The profile with the value, or null."),
            "location": ref("maybe_location", "The location in the files."),
        },
    )


def _text() -> Node:
    return record(
        "An owner, a reason or a coming expiry.",
        {
            "field": choice("Owner, reason or expiry.", ("owner", "reason", "expires")),
            "text": text("The text; for expires the date (UTC), such as 2026-12-31."),
            "layer": _layer(),
            "location": ref("maybe_location", "The entry that it belongs to."),
            "replaced": boolean("Whether a later layer replaces it."),
        },
    )


def _layer() -> Node:
    return maybe_text("The cluster whose own file it is in; null for a common file.")
