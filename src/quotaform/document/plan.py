"""The plan file: a plan as JSON, written once and refused when it is not what was written.

Format 1.0, `schemas/plan.schema.json`. Minor versions only add fields; an unknown major version is refused.
Two digests guard it: `plan_id` covers what the plan would do and to which cluster, `digest` the whole file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from json import JSONDecodeError, loads
from typing import Any

from quotaform.core.canonical import json_number
from quotaform.core.effects import Effect
from quotaform.core.plan import Base, Change, EntityChange, Origin, Plan, PlanHeader, PlanSource, Unmanaged
from quotaform.core.resolve.entry import Effective
from quotaform.document.envelope import (
    KindError,
    VersionError,
    document_digest,
    envelope,
    is_sealed,
    require_kind,
    sealed_lines,
)
from quotaform.document.field import (
    dump_cluster,
    dump_entity,
    dump_finding,
    dump_location,
    dump_values,
    load_finding,
    load_location,
    load_number,
    load_values,
)
from quotaform.errors import PlanFileChangedError, PlanFileError
from quotaform.model.allowance import Allowance
from quotaform.model.document_kind import PLAN
from quotaform.model.entity import Entity
from quotaform.model.entry import Cause
from quotaform.model.precedence import level_of
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.units import render_value


def dump_plan(plan: Plan) -> str:
    """Return the plan file: a header, then one line per entity, so that it can be compared line by line."""
    return "".join(plan_lines(plan))


def plan_lines(plan: Plan) -> Iterator[str]:
    """Yield the plan file in pieces: what is written never has to be in memory whole."""
    return sealed_lines(_fields(plan).items())


def _fields(plan: Plan) -> dict[str, Any]:
    header = plan.header
    fields = {
        "plan_id": plan.plan_id,
        "created_at": header.created_at,
        "cluster": dump_cluster(header.cluster_name, header.cluster_id),
        "source": {
            "directory": header.source.directory,
            "commit": header.source.commit,
            "dirty": header.source.dirty,
            "base": _dump_base(header.source.base),
        },
        "options": dict(header.options),
        **({"allowances": list(map(str, plan.allowances))} if plan.allowances else {}),
        "complete": plan.is_complete,
        "applyable": plan.is_applyable,
        "summary": dict(plan.summary),
        "changes": map(_dump_change, plan.changes),
        "unmanaged": (
            {**dump_entity(item.entity), "values": dump_values(item.values), "in_scope": item.in_scope}
            for item in plan.unmanaged
        ),
        "findings": map(dump_finding, plan.findings),
    }
    return envelope(PLAN, fields)


def _dump_base(base: Base | None) -> dict[str, str] | None:
    return None if base is None else {"ref": base.ref, "commit": base.commit}


def _dump_change(change: EntityChange) -> dict[str, Any]:
    return {
        **dump_entity(change.entity),
        "action": change.action.value,
        "reason": change.reason,
        "cause": change.cause.value,
        "origin": change.origin,
        "direction": change.direction.value,
        "before": dump_values(change.before) or None,
        "after": dump_values(change.after) or None,
        "keys": [_dump_row(row, effect) for row, effect in zip(change.changes, change.effects, strict=True)],
        "location": dump_location(change.location),
        "owner": change.owner,
    }


def _dump_row(row: Change, effect: Effect) -> dict[str, Any]:
    key = QUOTA_KEYS.get(row.key)
    document: dict[str, Any] = {
        "key": row.key,
        "action": row.action.value,
        "before": json_number(row.before),
        "after": json_number(row.after),
        "effective": {"before": _dump_effective(effect.before), "after": _dump_effective(effect.after)},
        "display": {
            "before": None if row.before is None else render_value(key, row.before),
            "after": None if row.after is None else render_value(key, row.after),
        },
    }
    if effect.differs:
        document["effective"]["differs"] = dict(effect.differs)
    return document


def _dump_effective(effective: Effective) -> dict[str, Any]:
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
        PlanFileChangedError: It was changed after it was written.
    """
    document = _checked(text.encode(errors="replace") if isinstance(text, str) else text, file)
    try:
        plan = _plan(document)
        is_same = plan.plan_id == document["plan_id"]
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise PlanFileError(file, f"is not a plan that this version can read: {error!r}; make a new plan") from error
    if not is_same:
        raise PlanFileChangedError(file, "plan id")
    if plan.is_applyable is not document["applyable"]:
        raise PlanFileError(file, "is blocked for a reason that this version does not know; make a new plan")
    return plan


def _checked(content: bytes, file: str) -> dict[str, Any]:
    try:
        document = loads(content)
    except (ValueError, RecursionError) as error:
        where = f" at line {error.lineno}" if isinstance(error, JSONDecodeError) else ""
        raise PlanFileError(
            file, f"is not a whole plan file: its JSON ends or breaks{where}; make a new plan"
        ) from error
    try:
        document = require_kind(document, PLAN)
    except KindError:
        text = f"is not a plan file: it has no kind {PLAN.kind!r}; make one with quotaform plan --out"
        raise PlanFileError(file, text) from None
    except VersionError as error:
        raise PlanFileError(
            file,
            f"has format version {str(error.version)[:20]!r}; this quotaform reads {PLAN.version}: use the "
            "quotaform that wrote it, or make a new plan",
        ) from None
    written = document.pop("digest", None)
    if not is_sealed(content) and _digest(document) != written:
        raise PlanFileChangedError(file, "digest")
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
            source=PlanSource(
                directory=source["directory"],
                commit=source["commit"],
                dirty=source["dirty"],
                base=_base(source["base"]),
            ),
            options=dict(document["options"]),
        ),
        changes=tuple(map(_entity_change, _consumed(document["changes"]))),
        unchanged=int(document["summary"]["no_op"]),
        in_scope=int(document["summary"]["in_scope"]),
        unmanaged=tuple(
            Unmanaged(Entity(item["entity"]), load_values(item["values"]), item["in_scope"])
            for item in document["unmanaged"]
        ),
        allowances=tuple(map(Allowance.parse, document.get("allowances", ()))),
        findings=tuple(map(load_finding, document["findings"])),
        is_complete=document["complete"],
    )


def _base(item: Mapping[str, Any] | None) -> Base | None:
    return None if item is None else Base(item["ref"], item["commit"])


def _consumed(items: list[Any]) -> Iterator[Any]:
    """Yield items and let go of each, so that a large plan is not in memory twice."""
    items.reverse()
    while items:
        yield items.pop()


def _entity_change(item: Mapping[str, Any]) -> EntityChange:
    entity = Entity(item["entity"])
    rows = [Change(entity, row["key"], load_number(row["before"]), load_number(row["after"])) for row in item["keys"]]
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
        before=load_values(item["before"]),
        after=load_values(item["after"]),
        changes=tuple(rows),
        effects=tuple(effects),
        reason=item["reason"],
        cause=Cause(item.get("cause", Cause.ENTRY)),
        origin=None if item["origin"] is None else Origin(item["origin"]),
        owner=item["owner"],
        location=load_location(item["location"]),
    )


def _effective(item: Mapping[str, Any]) -> Effective:
    entity = item["entity"]
    if entity is None:
        return Effective(load_number(item["value"]))
    source = Entity(entity)
    return Effective(load_number(item["value"]), source, level_of(source))
