"""SCRAM credentials and what became of changing them, as machines read them."""

from __future__ import annotations

from collections.abc import Sequence
from json import dumps
from typing import Any, Final

from quotaform.model.scram import ScramResult, ScramRow, ScramUpsertion, ScramUser

FORMAT_VERSION: Final = "1.0"
DESCRIBE_KIND: Final = "quotaform.scram"
RESULT_KIND: Final = "quotaform.scram-result"


def render_scram_json(cluster: str, cluster_id: str | None, users: Sequence[ScramUser]) -> str:
    """Return credentials as JSON, by user; a user who could not be described has an error."""
    return _render(DESCRIBE_KIND, cluster, cluster_id, "users", [_user(found) for found in users])


def render_scram_result_json(cluster: str, cluster_id: str | None, result: ScramResult) -> str:
    """Return what became of each credential as JSON; nothing of any password is in it."""
    return _render(RESULT_KIND, cluster, cluster_id, "results", [_row(row) for row in result])


def _render(kind: str, cluster: str, cluster_id: str | None, name: str, items: list[dict[str, Any]]) -> str:
    document = {
        "format_version": FORMAT_VERSION,
        "kind": kind,
        "cluster": {"name": cluster, "id": cluster_id},
        name: items,
    }
    return dumps(document, indent=2) + "\n"


def _user(found: ScramUser) -> dict[str, Any]:
    return {
        "user": found.user,
        "credentials": [{"mechanism": each.mechanism, "iterations": each.iterations} for each in found.credentials],
        "error": {"code": found.code, "message": found.message} if found.code else None,
    }


def _row(row: ScramRow) -> dict[str, Any]:
    alteration = row.alteration
    return {
        "user": alteration.user,
        "mechanism": str(alteration.mechanism),
        "iterations": alteration.iterations if isinstance(alteration, ScramUpsertion) else None,
        "outcome": str(row.outcome),
        "code": row.code,
        "message": row.message,
    }
