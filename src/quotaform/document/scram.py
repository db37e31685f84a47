"""The JSON of SCRAM credentials and of their alterations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quotaform.document.envelope import envelope, indented
from quotaform.document.field import dump_cluster
from quotaform.model.document_kind import SCRAM, SCRAM_RESULT
from quotaform.model.scram import ScramResult, ScramRow, ScramUpsertion, ScramUser


def dump_scram(users: Sequence[ScramUser], cluster_name: str, cluster_id: str | None) -> str:
    """Return credentials as JSON, by user; a user who could not be described has an error."""
    return indented(
        envelope(SCRAM, {"cluster": dump_cluster(cluster_name, cluster_id), "users": list(map(_user, users))})
    )


def dump_scram_result(result: ScramResult, cluster_name: str, cluster_id: str | None) -> str:
    """Return what became of each credential as JSON; nothing of any password is in it."""
    fields = {"cluster": dump_cluster(cluster_name, cluster_id), "results": list(map(_row, result))}
    return indented(envelope(SCRAM_RESULT, fields))


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
