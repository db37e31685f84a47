"""The plan file: a plan as JSON, written once and refused when it is not what was written.

Format 1.0, `schemas/plan.schema.json`. Minor versions only add fields; an unknown major version is refused.
Two digests guard it: `plan_id` covers what the plan would do and to which cluster, `digest` the whole file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from json import JSONDecodeError, loads
from typing import Any, Final

from quotaform.core.document import (
    document_digest,
    finding_document,
    is_sealed,
    json_number,
    location_document,
    seal_document,
    values_document,
)
from quotaform.core.effects import Effect
from quotaform.core.plan import Change, EntityChange, Plan, PlanHeader, PlanSource, Unmanaged
from quotaform.core.resolve.index import Effective
from quotaform.errors import PlanFileError, StaleError
from quotaform.model.entity import Entity
from quotaform.model.finding import Finding, Severity
from quotaform.model.location import Location
from quotaform.model.precedence import level_of
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import Values
from quotaform.model.units import render_value

FORMAT_VERSION: Final = "1.0"
KIND: Final = "quotaform.plan"


def dump_plan(plan: Plan) -> str:
    """Return the plan file: a header, then one line per entity, so that it can be compared line by line."""
    return seal_document(plan_document(plan))


def plan_document(plan: Plan) -> dict[str, Any]:
    """Return the plan as the plain values of its JSON, without the digest."""
    header = plan.header
    return {
        "format_version": FORMAT_VERSION,
        "kind": KIND,
        "plan_id": plan.plan_id,
        "created_at": header.created_at,
        "cluster": {"name": header.cluster_name, "id": header.cluster_id},
        "source": {
            "directory": header.source.directory,
            "commit": header.source.commit,
            "dirty": header.source.dirty,
            "base": None,
        },
        "options": dict(header.options),
        "complete": plan.is_complete,
        "applyable": plan.is_applyable,
        "summary": dict(plan.summary),
        "changes": [_change_document(change) for change in plan.changes],
        "unmanaged": [
            {
                "address": item.entity.address,
                "entity": item.entity.names,
                "values": values_document(item.values),
                "in_scope": item.in_scope,
            }
            for item in plan.unmanaged
        ],
        "findings": [finding_document(finding) for finding in plan.findings],
    }


def _change_document(change: EntityChange) -> dict[str, Any]:
    return {
        "address": change.entity.address,
        "entity": change.entity.names,
        "action": change.action.value,
        "reason": change.reason,
        "origin": None,
        "direction": change.direction.value,
        "before": values_document(change.before) or None,
        "after": values_document(change.after) or None,
        "keys": [_row_document(row, effect) for row, effect in zip(change.changes, change.effects, strict=True)],
        "location": location_document(change.location),
        "owner": change.owner,
    }


def _row_document(row: Change, effect: Effect) -> dict[str, Any]:
    key = QUOTA_KEYS.get(row.key)
    document: dict[str, Any] = {
        "key": row.key,
        "action": row.action.value,
        "before": json_number(row.before),
        "after": json_number(row.after),
        "effective": {"before": _effective_document(effect.before), "after": _effective_document(effect.after)},
        "display": {
            "before": None if row.before is None else render_value(key, row.before),
            "after": None if row.after is None else render_value(key, row.after),
        },
    }
    if effect.differs:
        document["effective"]["differs"] = dict(effect.differs)
    return document


def _effective_document(effective: Effective) -> dict[str, Any]:
    return {
        "value": json_number(effective.value),
        "source": None if effective.source is None else effective.source.address,
        "entity": None if effective.source is None else effective.source.names,
    }


def load_plan(text: str | bytes, file: str) -> Plan:
    """Read a plan file and make sure that it is what was written.

    Args:
        text: The content of the file.
        file: Its name, for messages.

    Raises:
        PlanFileError: It is cut off, not a plan, or of an unknown major version.
        StaleError: It was changed after it was written.
    """
    document = _checked(text.encode(errors="replace") if isinstance(text, str) else text, file)
    try:
        plan = _plan(document)
        is_same = plan.plan_id == document["plan_id"]
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise PlanFileError(f"{file} is not a plan that this version can read: {error!r}; make a new plan") from error
    if not is_same:
        raise StaleError(f"{file} was changed after it was written: its plan id does not match; make a new plan")
    if plan.is_applyable is not document["applyable"]:
        raise PlanFileError(f"{file} is blocked for a reason that this version does not know; make a new plan")
    return plan


def _checked(content: bytes, file: str) -> dict[str, Any]:
    try:
        document = loads(content)
    except (ValueError, RecursionError) as error:
        where = f" at line {error.lineno}" if isinstance(error, JSONDecodeError) else ""
        raise PlanFileError(
            f"{file} is not a whole plan file: its JSON ends or breaks{where}; make a new plan"
        ) from error
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise PlanFileError(f"{file} is not a plan file: it has no kind {KIND!r}; make one with quotaform plan --out")
    version = document.get("format_version")
    if not isinstance(version, str) or version.partition(".")[0] != FORMAT_VERSION.partition(".")[0]:
        raise PlanFileError(
            f"{file} has format version {str(version)[:20]!r}; this quotaform reads {FORMAT_VERSION}: use the "
            "quotaform that wrote it, or make a new plan"
        )
    written = document.pop("digest", None)
    if not is_sealed(content) and _digest(document) != written:
        raise StaleError(f"{file} was changed after it was written: its digest does not match; make a new plan")
    return document


def _digest(document: Mapping[str, Any]) -> str:
    """Return the digest of what was read; empty for what is never written (a bare NaN, 1e400, deep nesting)."""
    try:
        return document_digest(document)
    except (ValueError, RecursionError):
        return ""


def _plan(document: Mapping[str, Any]) -> Plan:
    source = document["source"]
    return Plan(
        header=PlanHeader(
            cluster_name=document["cluster"]["name"],
            cluster_id=document["cluster"]["id"],
            created_at=document["created_at"],
            source=PlanSource(directory=source["directory"], commit=source["commit"], dirty=source["dirty"]),
            options=dict(document["options"]),
        ),
        changes=tuple(map(_entity_change, _consumed(document["changes"]))),
        unchanged=int(document["summary"]["no_op"]),
        in_scope=int(document["summary"]["in_scope"]),
        unmanaged=tuple(
            Unmanaged(Entity(item["entity"]), _values(item["values"]), item["in_scope"])
            for item in document["unmanaged"]
        ),
        findings=tuple(map(_finding, document["findings"])),
        is_complete=document["complete"],
    )


def _consumed(items: list[Any]) -> Iterator[Any]:
    """Yield items and let go of each, so that a large plan is not in memory twice."""
    items.reverse()
    while items:
        yield items.pop()


def _entity_change(item: Mapping[str, Any]) -> EntityChange:
    entity = Entity(item["entity"])
    rows = [Change(entity, row["key"], _number(row["before"]), _number(row["after"])) for row in item["keys"]]
    effects = [
        Effect(
            _effective(row["effective"]["before"]),
            _effective(row["effective"]["after"]),
            dict(row["effective"].get("differs", {})),
        )
        for row in item["keys"]
    ]
    return EntityChange(
        entity=entity,
        before=_values(item["before"]),
        after=_values(item["after"]),
        changes=tuple(rows),
        effects=tuple(effects),
        reason=item["reason"],
        owner=item["owner"],
        location=_location(item["location"]),
    )


def _number(value: float | str | None) -> float | None:
    return None if value is None else float(value)


def _values(values: Mapping[str, float | str] | None) -> Values:
    return {key: float(value) for key, value in (values or {}).items()}


def _effective(item: Mapping[str, Any]) -> Effective:
    entity = item["entity"]
    if entity is None:
        return Effective(_number(item["value"]))
    source = Entity(entity)
    return Effective(_number(item["value"]), source, level_of(source))


def _location(item: Mapping[str, Any] | None) -> Location | None:
    return None if item is None else Location(item["file"], item["line"], item.get("column", 0))


def _finding(item: Mapping[str, Any]) -> Finding:
    return Finding(
        rule=item["rule"],
        message=item["message"],
        severity=Severity(item["severity"]),
        blocking=item["blocking"],
        address=item["address"],
        key=item["key"],
        override=item["override"],
        location=_location(item["location"]),
    )
