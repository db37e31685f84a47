"""The JSON documents of histories, and their schemas."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from quotaform.history.history import (
    Append,
    AppendedSnapshot,
    Changer,
    EntityHistory,
    HistoryAppend,
    HistoryChange,
    HistoryDifference,
    HistoryRow,
)
from quotaform.model.moment import spell_moment
from quotaform.model.records.document import (
    HISTORY,
    HISTORY_APPEND,
    HISTORY_DIFF,
    DocumentKind,
    envelope,
    indented,
    json_number,
)
from quotaform.model.records.field import dump_entity
from quotaform.model.records.schema import (
    DIGEST,
    MOMENT,
    Node,
    boolean,
    choice,
    count,
    document,
    items,
    maybe,
    maybe_text,
    quota_key,
    record,
    ref,
    text,
)


def dump_append(result: HistoryAppend) -> str:
    """Return what became of an append as JSON."""
    fields = {
        "table": result.table,
        "summary": {**{status.value: result.count(status) for status in Append}, "failed": len(result.failed)},
        "snapshots": [_dump_snapshot(each) for each in result.snapshots],
        "receipt_problems": list(result.problems),
    }
    return indented(envelope(HISTORY_APPEND, fields))


def _dump_snapshot(each: AppendedSnapshot) -> dict[str, Any]:
    return {
        "cluster": each.cluster,
        "cluster_id": each.cluster_id,
        "file": each.file,
        "read_at": _dump_moment(each.read_at),
        "status": "failed" if each.status is None else each.status.value,
        "values": each.values,
        "error": None if each.error is None else str(each.error),
    }


def dump_entity_history(found: EntityHistory) -> str:
    """Return what entities had and when as JSON."""
    fields = {
        "table": found.table,
        "since": _dump_moment(found.since),
        "until": _dump_moment(found.until),
        "entities": list(found.entities),
        "total": found.total,
        "rows": [_dump_row(row) for row in found.rows],
    }
    return indented(envelope(HISTORY, fields))


def _dump_row(row: HistoryRow) -> dict[str, Any]:
    return {
        "cluster": row.cluster,
        "cluster_id": row.cluster_id,
        **dump_entity(row.entity),
        "key": row.key,
        "value": json_number(row.value),
        "valid_from": spell_moment(row.valid_from),
        "valid_to": _dump_moment(row.valid_to),
        "changed_by": _dump_changer(row.changed_by),
        "ended_by": _dump_changer(row.ended_by),
    }


def dump_history_difference(found: HistoryDifference) -> str:
    """Return what changed between two moments as JSON."""
    fields = {
        "table": found.table,
        "since": spell_moment(found.since),
        "until": spell_moment(found.until),
        "clusters": [
            {
                "cluster": each.cluster,
                "compared": each.is_compared,
                "first_at": _dump_moment(each.first_at),
                "before_at": _dump_moment(each.before_at),
                "after_at": _dump_moment(each.after_at),
            }
            for each in found.clusters
        ],
        "summary": {
            "created": found.created,
            "updated": found.updated,
            "deleted": found.deleted,
            "entities": found.entities,
        },
        "changes": [_dump_change(row) for row in found.rows],
    }
    return indented(envelope(HISTORY_DIFF, fields))


def _dump_change(row: HistoryChange) -> dict[str, Any]:
    return {
        "cluster": row.cluster,
        **dump_entity(row.entity),
        "key": row.key,
        "before": json_number(row.before),
        "after": json_number(row.after),
        "changed_at": _dump_moment(row.changed_at),
        "changed_by": _dump_changer(row.changed_by),
    }


def _dump_moment(moment: datetime | None) -> str | None:
    return None if moment is None else spell_moment(moment)


def _dump_changer(changer: Changer | None) -> dict[str, Any] | None:
    if changer is None:
        return None
    return {
        "actor": changer.actor,
        "plan_id": changer.plan_id,
        "commit": changer.commit,
        "at": spell_moment(changer.at),
    }


_TABLE: Final = "The history, as given."
_CLUSTER: Final = "The name of the cluster."
_NUMBER: Final = {status: f"Snapshots that are {status.value}." for status in Append}


def history_append() -> tuple[Node, dict[str, Node]]:
    """Return the schema of an append and its definitions."""
    snapshot = record(
        "A snapshot and what became of it.",
        {
            "cluster": maybe_text(f"{_CLUSTER[:-1]}; null of a file that could not be read."),
            "cluster_id": maybe_text("The id of the cluster; null if it could not be read."),
            "file": maybe_text("The file, as given; null for a running cluster."),
            "read_at": _maybe_moment("When the cluster was read, or null."),
            "status": choice(
                "appended: it is the last one of its cluster; late: a later one was known; known: one of the same "
                "cluster and time was known, and nothing changed; failed: it could not be read.",
                (*(status.value for status in Append), "failed"),
            ),
            "values": count("The number of its values."),
            "error": maybe_text("Why it could not be read, or null."),
        },
    )
    fields = {
        "table": text(_TABLE),
        "summary": record(
            "Snapshots by what became of them.",
            {**{status.value: count(about) for status, about in _NUMBER.items()}, "failed": count("Failed ones.")},
        ),
        "snapshots": items("The snapshots, by cluster and time; those that failed come last.", ref("snapshot")),
        "receipt_problems": items("Why receipts could not be read.", {"type": "string"}),
    }
    return _document(HISTORY_APPEND, "append", fields), {"snapshot": snapshot}


def history() -> tuple[Node, dict[str, Node]]:
    """Return the schema of what entities had and when, and its definitions."""
    row = record(
        "A value and when it was there.",
        {
            "cluster": text(_CLUSTER),
            "cluster_id": text("The id of the cluster then."),
            "address": ref("address"),
            "entity": ref("entity"),
            "key": quota_key(),
            "value": ref("value"),
            "valid_from": _moment_schema("The time of the first snapshot with it."),
            "valid_to": _maybe_moment("The time of the first snapshot without it; null if the last one has it."),
            "changed_by": maybe(ref("changer"), "Who set it, or null if no receipt says so."),
            "ended_by": maybe(ref("changer"), "Who replaced or removed it, or null."),
        },
    )
    fields = {
        "table": text(_TABLE),
        "since": _maybe_moment("The time of the first snapshot of the clusters, or null."),
        "until": _maybe_moment("The time of the last one, or null."),
        "entities": items("The entities that were asked for; empty for all.", ref("address")),
        "total": count("The number of rows, of which at most 1000 are listed."),
        "rows": items("The first rows, by cluster, entity, key and time.", ref("row")),
    }
    return _document(HISTORY, "show", fields), {"row": row, "changer": _changer_schema()}


def history_diff() -> tuple[Node, dict[str, Node]]:
    """Return the schema of what changed between two moments, and its definitions."""
    change = record(
        "A value that differs.",
        {
            "cluster": text(_CLUSTER),
            "address": ref("address"),
            "entity": ref("entity"),
            "key": quota_key(),
            "before": ref("maybe_value"),
            "after": ref("maybe_value"),
            "changed_at": _maybe_moment("The time of the snapshot that showed the last change, or null."),
            "changed_by": maybe(ref("changer"), "Who made it, or null if no receipt says so."),
        },
    )
    fields = {
        "table": text(_TABLE),
        "since": _moment_schema("The earlier time"),
        "until": _moment_schema("The later time"),
        "clusters": items(
            "Which snapshots were compared.",
            record(
                "The last snapshots of a cluster at or before the two times.",
                {
                    "cluster": text(_CLUSTER),
                    "compared": boolean("False if it has no snapshot at or before the earlier time: then no changes."),
                    "first_at": _moment_schema("The time of its first snapshot"),
                    "before_at": _maybe_moment("That of the earlier time; null if there is none."),
                    "after_at": _maybe_moment("That of the later time; null if there is none."),
                },
            ),
        ),
        "summary": record(
            "Numbers of values, and of their entities.",
            {
                "created": count("Values that were set."),
                "updated": count("Values that are others."),
                "deleted": count("Values that were removed."),
                "entities": count("The entities that they belong to."),
            },
        ),
        "changes": items("The first 1000 changes, by cluster, entity and key.", ref("change")),
    }
    return _document(HISTORY_DIFF, "diff", fields), {"change": change, "changer": _changer_schema()}


def _document(kind: DocumentKind, verb: str, fields: dict[str, Node]) -> Node:
    return document(kind, f"The result of quotaform history {verb}.", fields)


def _changer_schema() -> Node:
    return record(
        "Who changed a value, as a receipt says.",
        {
            "actor": text("The user of the CI system, or of the operating system."),
            "plan_id": text("The id of the plan.", pattern=DIGEST),
            "commit": maybe_text("The git commit of the files, or null."),
            "at": _moment_schema("When the apply was finished."),
        },
    )


def _moment_schema(description: str) -> Node:
    return text(f"{description.removesuffix('.')}, as ISO 8601 in UTC.", pattern=MOMENT)


def _maybe_moment(description: str) -> Node:
    return maybe_text(description, pattern=MOMENT)
