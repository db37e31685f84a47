"""The schema of what `quotaform explain` prints."""

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
            "directory": text("The quotas directory, as it was given."),
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
            "cluster": maybe_text("The cluster's name, or null when quotaform.yaml names none."),
            "cause": choice(
                "What makes the entity what it is to be; undeclared when no file of the cluster mentions it.",
                (cause.value for cause in Cause),
            ),
            "absent": maybe_text("Why the entity must not exist, in the words of the files; null when it must."),
            "location": ref("maybe_location", "The entry that has the last word."),
            "keys": items("Every key that any layer speaks of.", ref("key")),
            "texts": items("Owners and reasons, those of the common layer first.", ref("text")),
        },
    )


def _key() -> Node:
    return record(
        "A quota key with everything that speaks of it.",
        {
            "key": quota_key(),
            "value": ref("maybe_value", "The declared value; null when the key is not set."),
            "display": maybe_text("The value as plans print it."),
            "steps": items(
                "What the layers say, in order: the last one decides, and is where the value comes from.",
                ref("step"),
                minItems=1,
            ),
        },
    )


def _step() -> Node:
    return record(
        "What one part of a layer says about a key.",
        {
            "value": ref("maybe_value", "The value that it gives; null when it takes the key away."),
            "display": maybe_text("The value as plans print it."),
            "giver": choice("The part that gives the value or takes the key away.", (giver.value for giver in Giver)),
            "layer": _layer(),
            "profile": maybe_text("The profile that gives it, if it is one."),
            "location": ref("maybe_location", "Where it is written."),
        },
    )


def _text() -> Node:
    return record(
        "An owner or a reason.",
        {
            "field": choice("Which of them.", ("owner", "reason")),
            "text": text("What it says."),
            "layer": _layer(),
            "location": ref("maybe_location", "The entry that it belongs to."),
            "replaced": boolean("Whether a later layer says something else."),
        },
    )


def _layer() -> Node:
    return maybe_text("The cluster whose own file it is in; null for a common file.")
