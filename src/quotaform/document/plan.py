"""The plan file: a plan as JSON, written once and refused when it is not what was written.

Format 1.0, `schemas/plan.schema.json`. Minor versions only add fields; an unknown major version is refused.
Two digests guard it: `plan_id` covers what the plan would do and to which cluster, `digest` the whole file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from json import JSONDecodeError, loads
from typing import Any, Final

from quotaform.core.plan import Base, Plan, PlanHeader, PlanSource, Unmanaged
from quotaform.document.change import ChangeReader, change_lines
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
    dump_snapshot_file,
    dump_values,
    load_finding,
    load_snapshot_file,
    load_values,
)
from quotaform.document.line_layout import LayoutError, read_lines
from quotaform.errors import PlanFileChangedError, PlanFileError
from quotaform.model.allowance import Allowance
from quotaform.model.document_kind import PLAN
from quotaform.model.entity import Entity

PLAN_LISTS: Final = frozenset({"changes", "unmanaged", "findings"})
"""The fields of a plan file with a line per item."""


def dump_plan(plan: Plan) -> str:
    """Return the plan file: a header, then one line per entity, so that it can be compared line by line."""
    return "".join(plan_lines(plan))


def plan_lines(plan: Plan) -> Iterator[str]:
    """Yield the plan file in pieces: what is written never has to be in memory whole."""
    return sealed_lines(_fields(plan).items(), PLAN_LISTS)


def _fields(plan: Plan) -> dict[str, Any]:
    header = plan.header
    fields = {
        "plan_id": plan.plan_id,
        "created_at": header.created_at,
        "cluster": dump_cluster(header.cluster_name, header.cluster_id),
        **dump_snapshot_file(header.snapshot),
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
        "changes": change_lines(plan.changes),
        "unmanaged": (
            {**dump_entity(item.entity), "values": dump_values(item.values), "in_scope": item.in_scope}
            for item in plan.unmanaged
        ),
        "findings": map(dump_finding, plan.findings),
    }
    return envelope(PLAN, fields)


def _dump_base(base: Base | None) -> dict[str, str] | None:
    return None if base is None else {"ref": base.ref, "commit": base.commit}


def load_plan(text: str | bytes, file: str) -> Plan:
    """Read a plan file and make sure that it is what was written.

    Args:
        text: The content of the file.
        file: Its name, for messages.

    Raises:
        PlanFileError: It is cut off, not a plan, or of an unknown major version.
        PlanFileChangedError: It was changed after it was written.
    """
    content = text.encode(errors="replace") if isinstance(text, str) else text
    if is_sealed(content):
        with suppress(LayoutError):
            return _read(_plan_document(read_lines(content), file), file)
    return _read(_checked(content, file), file)


def _read(document: Mapping[str, Any], file: str) -> Plan:
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
    document = _plan_document(document, file)
    written = document.pop("digest", None)
    if not is_sealed(content) and _digest(document) != written:
        raise PlanFileChangedError(file, "digest")
    return document


def _plan_document(document: object, file: str) -> dict[str, Any]:
    try:
        return require_kind(document, PLAN)
    except KindError:
        text = f"is not a plan file: it has no kind {PLAN.kind!r}; make one with quotaform plan --out"
        raise PlanFileError(file, text) from None
    except VersionError as error:
        raise PlanFileError(
            file,
            f"has format version {str(error.version)[:20]!r}; this quotaform reads {PLAN.version}: use the "
            "quotaform that wrote it, or make a new plan",
        ) from None


def _digest(document: Mapping[str, Any]) -> str:
    """Return the digest of what was read; empty for what is never written (a bare NaN, 1e400, deep nesting)."""
    try:
        return document_digest(document, PLAN_LISTS)
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
            snapshot=load_snapshot_file(document),
        ),
        changes=tuple(map(ChangeReader().change, document["changes"])),
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
