"""The JSON of drift, of its notifications and of the notify state, and the schemas."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from json import dumps, loads
from typing import Any, Final

from quotaform.drift.drift import Drift, DriftClass, DriftedEntity, IgnoredDrift, PendingChange
from quotaform.drift.event import ClusterState, Notification, NotificationEvent, Notified
from quotaform.model.quotas import Action, Change
from quotaform.model.records.document import (
    DRIFT,
    NOTIFICATION,
    NOTIFY_STATE,
    EnvelopeError,
    envelope,
    indented,
    json_number,
    require_kind,
)
from quotaform.model.records.field import dump_cluster, dump_entity, dump_finding, dump_location, dump_snapshot_file
from quotaform.model.records.schema import (
    IN_SYNC,
    Node,
    address,
    boolean,
    choice,
    count,
    digest,
    document,
    globs,
    items,
    maybe,
    maybe_text,
    quota_key,
    record,
    ref,
    text,
    timestamp,
)
from quotaform.plan.records import dump_drift_options


def dump_drift(drift: Drift) -> str:
    """Return drift as JSON."""
    fields = {
        "cluster": dump_cluster(drift.cluster_name, drift.cluster_id),
        "read_at": drift.read_at,
        **dump_snapshot_file(drift.snapshot),
        "options": dump_drift_options(drift.options),
        "baseline": dump_baseline(drift),
        "complete": drift.is_complete,
        "status": drift.status,
        "fingerprint": drift.fingerprint,
        "summary": dump_summary(drift),
        "entities": [dump_drifted(drifted) for drifted in drift.entities],
        "pending": [_dump_pending(pending) for pending in drift.pending],
        "ignored": [_dump_ignored(ignored) for ignored in drift.ignored],
        "findings": [dump_finding(finding) for finding in drift.findings],
    }
    return indented(envelope(DRIFT, fields))


def dump_baseline(drift: Drift) -> dict[str, Any]:
    """Return what a cluster was compared with as JSON holds it."""
    base = drift.baseline
    if base is None:
        return {"type": "none", "ref": None, "commit": None}
    return {"type": base.type, "ref": base.ref, "commit": base.commit}


def dump_summary(drift: Drift) -> dict[str, int]:
    """Return how many entities each class has as JSON holds it."""
    return {
        **drift.summary,
        "in_sync": drift.in_sync,
        "pending": len(drift.pending),
        "ignored": drift.ignored_entities,
    }


def dump_drifted(drifted: DriftedEntity) -> dict[str, Any]:
    """Return an entity that differs as JSON holds it."""
    return {
        **dump_entity(drifted.entity),
        "class": drifted.drift_class.value,
        "declared": drifted.is_declared,
        "absent": drifted.absent,
        "keys": [
            {
                **_dump_row(change),
                **({} if drifted.baseline is None else {"baseline": json_number(drifted.agreed(change))}),
            }
            for change in drifted.changes
        ],
        "location": dump_location(drifted.location),
        "owner": drifted.owner,
    }


def _dump_pending(pending: PendingChange) -> dict[str, Any]:
    return {
        **dump_entity(pending.entity),
        "action": pending.action.value,
        "declared": pending.is_declared,
        "keys": [_dump_row(change) for change in pending.changes],
        "location": dump_location(pending.location),
        "owner": pending.owner,
    }


def _dump_ignored(ignored: IgnoredDrift) -> dict[str, Any]:
    return {
        **dump_drifted(ignored.drifted),
        "reason": ignored.ignore.reason,
        "expires": ignored.ignore.expires.isoformat(),
        "ignored_by": dump_location(ignored.ignore.location),
    }


def _dump_row(change: Change) -> dict[str, Any]:
    return {"key": change.key, "desired": json_number(change.after), "actual": json_number(change.before)}


MOST_ITEMS: Final = 50
"""How many entities a notification lists."""
MOST_KEYS: Final = 20
"""How many keys of an entity it lists; there are five that are known."""
RUNBOOK: Final = "https://github.com/quotaform/quotaform/blob/main/docs/drift.md#when-drift-is-reported"
_LONGEST_ERROR: Final = 2_000


def dump_notification(notification: Notification) -> str:
    """Return a notification as JSON on one line."""
    drift = notification.drift
    fields = {
        "event": notification.event.value,
        "cluster": dump_cluster(notification.cluster, None if drift is None else drift.cluster_id),
        "checked_at": None if drift is None else drift.read_at,
        "first_seen": notification.first_seen,
        "fingerprint": None if drift is None else drift.fingerprint,
        "baseline": None if drift is None else dump_baseline(drift),
        "summary": None if drift is None else dump_summary(drift),
        "items": [] if drift is None else _dump_items(drift),
        "truncated": drift is not None and len(drift.entities) > MOST_ITEMS,
        "error": None if notification.error is None else notification.error[:_LONGEST_ERROR],
        "links": {"run": notification.run, "runbook": RUNBOOK},
    }
    return dumps(envelope(NOTIFICATION, fields), allow_nan=False)


def _dump_items(drift: Drift) -> list[dict[str, Any]]:
    items = [dump_drifted(drifted) for drifted in drift.entities[:MOST_ITEMS]]
    return [{**item, "keys": item["keys"][:MOST_KEYS]} for item in items]


_UNREADABLE: Final = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)


def dump_notify_state(states: Mapping[str, ClusterState]) -> str:
    """Return what is remembered, by the name of the cluster, as JSON."""
    clusters = {
        name: {
            "cluster_id": state.cluster_id,
            "first_seen": state.first_seen,
            "told": {
                receiver: {"fingerprint": last.fingerprint, "failure": last.is_failure}
                for receiver, last in sorted(state.notified.items())
            },
        }
        for name, state in sorted(states.items())
    }
    return indented(envelope(NOTIFY_STATE, {"clusters": clusters}))


def load_notify_state(text: str) -> dict[str, ClusterState]:
    """Return what `dump_notify_state` wrote. Raises `ValueError` if it is something else."""
    try:
        document = require_kind(loads(text), NOTIFY_STATE)
        return {str(name): _load_state(item) for name, item in document["clusters"].items()}
    except EnvelopeError:
        raise ValueError("it is not a state file of quotaform drift, or has an unknown version") from None
    except _UNREADABLE:
        raise ValueError("it is damaged") from None


def _load_state(item: Mapping[str, Any]) -> ClusterState:
    return ClusterState(
        cluster_id=_text(item["cluster_id"]),
        first_seen=_moment(item["first_seen"]),
        notified={
            str(receiver): Notified(_text(last["fingerprint"]), last["failure"] is True)
            for receiver, last in item["told"].items()
        },
    )


def _moment(value: object) -> str | None:
    text = _text(value)
    if text is not None:
        datetime.fromisoformat(text)
    return text


def _text(value: object) -> str | None:
    if value is not None and not isinstance(value, str):
        raise TypeError
    return value


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
