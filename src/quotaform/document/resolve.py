"""What limits requests, as machines read it: one JSON document with one line per request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from json import dumps
from typing import Any, Final

from quotaform.core.document import finding_document, json_number
from quotaform.core.resolve.bucket import shared_by
from quotaform.core.resolve.index import Effective, Resolved
from quotaform.core.resolve.resolution import KeyResolution, Resolution, ResolveHeader
from quotaform.model.entity import Entity
from quotaform.model.finding import Finding
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.units import is_unlimited

FORMAT_VERSION: Final = "1.0"
KIND: Final = "quotaform.resolve"


def render_resolve_json(
    header: ResolveHeader, resolutions: Iterable[Resolution], findings: Callable[[], list[Finding]]
) -> Iterator[str]:
    """Yield the document in pieces, one per request.

    Args:
        header: What is resolved against what.
        resolutions: What limits each request.
        findings: Asked at the end for what is worth saying.
    """
    lines = [f"  {dumps(name)}: {dumps(value)},\n" for name, value in _header_document(header).items()]
    yield "{\n" + "".join(lines) + '  "requests": ['
    separator = "\n    "
    for resolution in resolutions:
        yield separator + dumps(request_document(resolution))
        separator = ",\n    "
    end = "" if separator == "\n    " else "\n  "
    yield f'{end}],\n  "findings": {dumps([finding_document(finding) for finding in findings()])}\n}}\n'


def _header_document(header: ResolveHeader) -> dict[str, Any]:
    detail = header.detail
    return {
        "format_version": FORMAT_VERSION,
        "kind": KIND,
        "cluster": {"name": header.cluster_name, "id": header.cluster_id},
        "read_at": header.read_at,
        "plan_id": header.plan_id,
        "options": {"keys": list(detail.keys), "inherited": detail.inherited, "overridden": detail.overridden},
    }


def request_document(resolution: Resolution) -> dict[str, Any]:
    """Return one request as the plain values of its JSON."""
    entity = resolution.entity
    return {
        "address": entity.address,
        "entity": entity.names,
        "keys": [_key_document(row, entity) for row in resolution.keys],
    }


def _key_document(row: KeyResolution, asked: Entity) -> dict[str, Any]:
    resolved, known = row.resolved, QUOTA_KEYS.get(row.key)
    level = resolved.level
    return {
        "key": row.key,
        **_limit_document(row.key, resolved),
        "per": known.per if known else None,
        "bucket": list(level.bucket) if level else None,
        "shared_by": shared_by(level, asked) if level else None,
        "overridden": [_entry_document(entry) for entry in resolved.overridden],
        "before": None if row.before is None else _limit_document(row.key, row.before),
    }


def _limit_document(key: str, resolved: Resolved) -> dict[str, Any]:
    value, source, _, level = resolved
    entry = _entry_document(Effective(value, source, level))
    return {"value": entry.pop("value"), "unlimited": is_unlimited(QUOTA_KEYS.get(key), value), **entry}


def _entry_document(entry: Effective) -> dict[str, Any]:
    value, source, level = entry
    return {
        "value": json_number(value),
        "source": source.address if source else None,
        "entity": source.names if source else None,
        "source_name": level.source if level else None,
        "level": level.number if level else None,
    }
