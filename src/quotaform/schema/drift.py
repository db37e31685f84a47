"""The schema of drift."""

from __future__ import annotations

from quotaform.core.drift import DriftClass
from quotaform.model.document_kind import DRIFT
from quotaform.schema.definition import IN_SYNC, address, digest, document, globs, quota_key, timestamp
from quotaform.schema.node import Node, boolean, choice, count, items, maybe_text, record, ref, text

_CLASSES = {
    DriftClass.MODIFIED: "Declared entities with other values.",
    DriftClass.MISSING: "Declared entities that do not exist.",
    DriftClass.UNEXPECTED: "Entities that no file declares, or that must not exist.",
}


def drift() -> tuple[Node, dict[str, Node]]:
    """Return the schema of drift and its definitions."""
    schema = document(
        DRIFT,
        "The differences between a cluster and the files, as quotaform drift writes them.",
        {
            "cluster": ref("cluster"),
            "read_at": timestamp("When the cluster or its snapshot was read"),
            "snapshot": ref(
                "snapshot_file", "The snapshot that was read instead of a running cluster; omitted if there is none."
            ),
            "options": record(
                "The options of the command.",
                {
                    "select": globs("Globs of addresses."),
                    "exclude": globs("Globs of addresses."),
                    "bootstrap_server": text(
                        "The value of --bootstrap-server when it stands for the cluster, whose files are used; "
                        "omitted otherwise."
                    ),
                },
                optional=("bootstrap_server",),
            ),
            "complete": boolean("Whether all entities were compared; false with a selection."),
            "status": choice("Whether there are differences.", ("in-sync", "drift", "unknown")),
            "fingerprint": digest("A digest of the drift; it changes only if the differences change."),
            "summary": record(
                "The number of entities per class.",
                {**{each.value: count(_CLASSES[each]) for each in DriftClass}, "in_sync": count(IN_SYNC)},
            ),
            "entities": items("The entities that differ, by address.", ref("drifted")),
            "findings": items("Findings about the live cluster.", ref("finding")),
        },
        optional=("snapshot",),
    )
    drifted = record(
        "One entity that differs.",
        {
            "address": address(),
            "entity": ref("entity"),
            "class": choice(
                "modified: other values; missing: declared but not live; unexpected: live but not declared.",
                (each.value for each in DriftClass),
            ),
            "declared": boolean("Whether the files declare it."),
            "absent": maybe_text(
                "Why it must not exist, according to the files; null if it is declared or in no file, and omitted "
                "before version 1.1.",
                "expired 2026-12-31",
            ),
            "keys": items("The quota keys that differ.", ref("drifted_key"), minItems=1),
            "location": ref("maybe_location", "The location of its entry."),
            "owner": maybe_text("The owner, from the files."),
        },
        optional=("absent",),
    )
    drifted_key = record(
        "One quota key that differs.",
        {
            "key": quota_key(),
            "desired": ref("maybe_value", "The declared value, or null."),
            "actual": ref("maybe_value", "The live value, or null."),
        },
    )
    return schema, {"drifted": drifted, "drifted_key": drifted_key}
