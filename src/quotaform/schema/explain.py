"""The schema of `quotaform explain`."""

from __future__ import annotations

from quotaform.core.provenance import Giver
from quotaform.model.document_kind import EXPLAIN
from quotaform.model.entry import Cause
from quotaform.schema.definition import address, document, quota_key
from quotaform.schema.node import Node, boolean, choice, items, maybe_text, record, ref, text


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
