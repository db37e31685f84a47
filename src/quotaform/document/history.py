"""The JSON of histories."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from quotaform.core.canonical import json_number
from quotaform.core.history import (
    Append,
    AppendedSnapshot,
    Changer,
    EntityHistory,
    HistoryAppend,
    HistoryChange,
    HistoryDifference,
    HistoryRow,
)
from quotaform.document.envelope import envelope, indented
from quotaform.document.field import dump_entity
from quotaform.model.document_kind import HISTORY, HISTORY_APPEND, HISTORY_DIFF
from quotaform.model.moment import spell_moment


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
        "read_at": _moment(each.read_at),
        "status": "failed" if each.status is None else each.status.value,
        "values": each.values,
        "error": None if each.error is None else str(each.error),
    }


def dump_entity_history(found: EntityHistory) -> str:
    """Return what entities had and when as JSON."""
    fields = {
        "table": found.table,
        "since": _moment(found.since),
        "until": _moment(found.until),
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
        "valid_to": _moment(row.valid_to),
        "changed_by": _changer(row.changed_by),
        "ended_by": _changer(row.ended_by),
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
                "first_at": _moment(each.first_at),
                "before_at": _moment(each.before_at),
                "after_at": _moment(each.after_at),
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
        "changed_at": _moment(row.changed_at),
        "changed_by": _changer(row.changed_by),
    }


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else spell_moment(moment)


def _changer(changer: Changer | None) -> dict[str, Any] | None:
    if changer is None:
        return None
    return {
        "actor": changer.actor,
        "plan_id": changer.plan_id,
        "commit": changer.commit,
        "at": spell_moment(changer.at),
    }
