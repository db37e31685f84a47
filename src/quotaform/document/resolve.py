"""The JSON of resolved limits, with one line per request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from quotaform.core.canonical import json_number
from quotaform.core.resolve.bucket import shared_by
from quotaform.core.resolve.entry import Effective, Resolved
from quotaform.core.resolve.resolution import KeyResolution, Resolution, ResolveHeader
from quotaform.document.envelope import document_lines, envelope
from quotaform.document.field import dump_cluster, dump_entity, dump_finding, dump_snapshot_file
from quotaform.model.document_kind import RESOLVE
from quotaform.model.entity import Entity
from quotaform.model.finding import Finding
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.units import is_unlimited


def dump_resolved(
    resolutions: Iterable[Resolution], header: ResolveHeader, findings: Callable[[], list[Finding]]
) -> Iterator[str]:
    """Yield the document in pieces, one per request.

    `findings` returns the findings, once all requests are resolved.
    """

    def fields() -> Iterator[tuple[str, Any]]:
        yield from envelope(RESOLVE, _dump_header(header)).items()
        yield "requests", map(_dump_request, resolutions)
        yield "findings", [dump_finding(finding) for finding in findings()]

    return document_lines(fields(), {"requests"})


def _dump_header(header: ResolveHeader) -> dict[str, Any]:
    detail = header.detail
    return {
        "cluster": dump_cluster(header.cluster_name, header.cluster_id),
        "read_at": header.read_at,
        **dump_snapshot_file(header.snapshot),
        "plan_id": header.plan_id,
        "options": {"keys": list(detail.keys), "inherited": detail.inherited, "overridden": detail.overridden},
    }


def _dump_request(resolution: Resolution) -> dict[str, Any]:
    entity = resolution.entity
    return {
        **dump_entity(entity),
        "unmentioned": list(resolution.unmentioned),
        "keys": [_dump_key(row, entity) for row in resolution.keys],
    }


def _dump_key(row: KeyResolution, asked: Entity) -> dict[str, Any]:
    resolved, known = row.resolved, QUOTA_KEYS.get(row.key)
    level = resolved.level
    return {
        "key": row.key,
        **_dump_limit(row.key, resolved),
        "per": known.per if known else None,
        "bucket": list(level.bucket) if level else None,
        "shared_by": shared_by(level, asked) if level else None,
        **({"differs": dict(resolved.differs)} if resolved.differs else {}),
        "overridden": [_dump_entry(entry) for entry in resolved.overridden],
        "before": None if row.before is None else _dump_limit(row.key, row.before),
    }


def _dump_limit(key: str, resolved: Resolved) -> dict[str, Any]:
    entry = _dump_entry(resolved.effective)
    return {"value": entry.pop("value"), "unlimited": is_unlimited(QUOTA_KEYS.get(key), resolved.value), **entry}


def _dump_entry(entry: Effective) -> dict[str, Any]:
    value, source, level = entry
    return {
        "value": json_number(value),
        "source": source.address if source else None,
        "entity": source.names if source else None,
        "source_name": level.source if level else None,
        "level": level.number if level else None,
    }
