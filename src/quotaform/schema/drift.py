"""The schemas of drift and of notifications about it."""

from __future__ import annotations

from quotaform.core.change import Action
from quotaform.core.drift.drifted import DriftClass
from quotaform.core.drift.notification import NotificationEvent
from quotaform.model.document_kind import DRIFT, NOTIFICATION
from quotaform.schema.definition import IN_SYNC, address, digest, document, globs, quota_key, timestamp
from quotaform.schema.node import Node, boolean, choice, count, items, maybe, maybe_text, record, ref, text

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
            "baseline": _baseline("What the cluster was compared with; omitted before version 1.2."),
            "complete": boolean("Whether all entities were compared; false with a selection."),
            "status": choice("Whether there are differences.", ("in-sync", "drift", "unknown")),
            "fingerprint": digest("A digest of the drift; it changes only if the differences change."),
            "summary": _summary(("pending", "ignored")),
            "entities": items("The entities that differ, by address.", ref("drifted")),
            "pending": items(
                "The changes that are not applied yet, by address; these are not drift.", ref("pending_change")
            ),
            "ignored": items("Differences listed in drift_ignore, by address; not counted.", ref("ignored")),
            "findings": items("Findings about the live cluster.", ref("finding")),
        },
        optional=("snapshot", "baseline", "pending", "ignored"),
    )
    return schema, _definitions()


def notification() -> tuple[Node, dict[str, Node]]:
    """Return the schema of a notification about drift and its definitions."""
    schema = document(
        NOTIFICATION,
        "A notification about drift, as quotaform drift --notify posts it.",
        {
            "event": choice("What it is about.", (each.value for each in NotificationEvent)),
            "cluster": record(
                "The cluster.",
                {
                    "name": text("Its name in quotaform.yaml, or its bootstrap servers."),
                    "id": maybe_text("Its id; null if the check failed."),
                },
            ),
            "checked_at": maybe_text("When the cluster was read (UTC); null if it could not be."),
            "first_seen": maybe_text("When drift was first seen since the cluster was in sync (UTC), or null."),
            "fingerprint": maybe_text("The digest of the drift, as in the JSON of drift; null if the check failed."),
            "baseline": maybe(_baseline("What the cluster was compared with."), "Null if the check failed."),
            "summary": maybe(_summary(()), "Null if the check failed."),
            "items": items("The entities that differ, by address; at most 50.", ref("drifted"), maxItems=50),
            "truncated": boolean("Whether entities were left out."),
            "error": maybe_text("Why the check failed, or null."),
            "links": record(
                "Where to look.",
                {
                    "run": maybe_text("The log of the run in CI, or null."),
                    "runbook": text("What to do when drift is reported."),
                },
            ),
        },
    )
    return schema, _definitions()


def _baseline(description: str) -> Node:
    return record(
        description,
        {
            "type": choice(
                "git: the files at a ref; receipt: what was applied; history: what the cluster held at a time; none: "
                "the files as they are, so that pending changes count as drift.",
                ("git", "receipt", "history", "none"),
            ),
            "ref": maybe_text(
                "The git ref or the path of the receipt, as given; the history and the time of the snapshot.",
                "origin/main",
            ),
            "commit": maybe_text("The commit, if it is known."),
        },
    )


def _summary(optional: tuple[str, ...]) -> Node:
    return record(
        "The number of entities per class.",
        {
            **{each.value: count(_CLASSES[each]) for each in DriftClass},
            "in_sync": count(IN_SYNC),
            "pending": count("Entities that match the baseline but not the files; these are not drift."),
            "ignored": count("Entities with keys that differ and are listed in drift_ignore."),
        },
        optional,
    )


def _definitions() -> dict[str, Node]:
    drifted = record("One entity that differs.", _drifted_fields(), optional=("absent",))
    ignored = record(
        "Ignored differences of an entity.",
        {
            **_drifted_fields(),
            "reason": text("The reason given in drift_ignore."),
            "expires": text("The date (UTC) from which it counts.", "2026-12-31"),
            "ignored_by": ref("maybe_location", "The location of the item of drift_ignore."),
        },
        optional=("absent",),
    )
    pending = record(
        "One entity that matches the baseline but not the files.",
        {
            "address": address(),
            "entity": ref("entity"),
            "action": choice("What an apply would do.", (each.value for each in Action)),
            "declared": boolean("Whether the files declare it."),
            "keys": items("The quota keys that differ.", ref("drifted_key"), minItems=1),
            "location": ref("maybe_location", "The location of its entry."),
            "owner": maybe_text("The owner, from the files."),
        },
    )
    drifted_key = record(
        "One quota key that differs.",
        {
            "key": quota_key(),
            "desired": ref("maybe_value", "The declared value, or null."),
            "actual": ref("maybe_value", "The live value, or null."),
            "baseline": ref("maybe_value", "The value in the baseline, or null; omitted if there is none."),
        },
        optional=("baseline",),
    )
    return {"drifted": drifted, "drifted_key": drifted_key, "pending_change": pending, "ignored": ignored}


def _drifted_fields() -> dict[str, Node]:
    return {
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
    }
