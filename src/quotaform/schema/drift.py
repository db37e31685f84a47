"""The schema of drift."""

from __future__ import annotations

from quotaform.core.drift import DriftClass
from quotaform.model.document_kind import DRIFT
from quotaform.schema.definition import IN_SYNC, address, digest, document, globs, quota_key, timestamp
from quotaform.schema.node import Node, boolean, choice, count, items, maybe_text, record, ref

_CLASSES = {
    DriftClass.MODIFIED: "Declared entities with other values.",
    DriftClass.MISSING: "Declared entities that are not there.",
    DriftClass.UNEXPECTED: "Entities that no file declares, or that must not exist.",
}


def drift() -> tuple[Node, dict[str, Node]]:
    """Return the schema of drift and its definitions."""
    schema = document(
        DRIFT,
        "How a cluster differs from what the files say, as quotaform drift writes it.",
        {
            "cluster": ref("cluster"),
            "read_at": timestamp("When the cluster was read"),
            "options": record(
                "What was asked for.",
                {"select": globs("Globs over addresses."), "exclude": globs("Globs over addresses.")},
            ),
            "complete": boolean("Whether everything was compared; false when parts were selected."),
            "status": choice("Whether anything differs.", ("in-sync", "drift", "unknown")),
            "fingerprint": digest("A digest of the drift: equal as long as the same entities differ in the same way."),
            "summary": record(
                "How many entities each class has.",
                {**{each.value: count(_CLASSES[each]) for each in DriftClass}, "in_sync": count(IN_SYNC)},
            ),
            "entities": items("What differs, by address.", ref("drifted")),
            "findings": items("What was found about the live cluster.", ref("finding")),
        },
    )
    drifted = record(
        "One entity that differs.",
        {
            "address": address(),
            "entity": ref("entity"),
            "class": choice(
                "modified: it holds other values; missing: it is not there; unexpected: it should not be there.",
                (each.value for each in DriftClass),
            ),
            "declared": boolean("Whether the files speak of it."),
            "keys": items("The quota keys that differ.", ref("drifted_key"), minItems=1),
            "location": ref("maybe_location", "Where the entry is."),
            "owner": maybe_text("Whose entry it is, in the words of the files."),
        },
    )
    drifted_key = record(
        "One quota key that differs.",
        {
            "key": quota_key(),
            "desired": ref("maybe_value", "What the files say, or null."),
            "actual": ref("maybe_value", "What the cluster holds, or null."),
        },
    )
    return schema, {"drifted": drifted, "drifted_key": drifted_key}
