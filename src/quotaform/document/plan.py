"""The plan file: a plan as JSON, refused if it was modified.

Format 1.1, `schemas/plan.schema.json`. Minor versions only add fields; an unknown major version is refused.
It has two digests: `plan_id` covers the changes and the cluster, `digest` the whole file. Neither protects against
somebody who recomputes them, so a plan file is verified when it is loaded:

| check | rejects |
| --- | --- |
| digest | a file that was modified without recomputing it |
| schema | a missing field, or one of the wrong type |
| plan id | changes, a cluster or allowances that do not match the id |
| derived fields | a field that differs from the one recomputed from other fields |
| contents | a change that no plan contains: an entity twice, a value that files cannot declare |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from json.encoder import encode_basestring_ascii as quoted
from typing import TYPE_CHECKING, Any, Final, TypeVar

from quotaform.core.check.saved.plan import saved_plan_problem
from quotaform.core.entity_change import EntityChange
from quotaform.core.plan import Plan, PlanHeader, PlanSource, Unmanaged
from quotaform.document.blast_radius import dump_blast_radius, load_blast_radius
from quotaform.document.change import ChangeReader, change_lines
from quotaform.document.envelope import Spelled, envelope, sealed_lines
from quotaform.document.field import (
    dump_approval,
    dump_base,
    dump_cluster,
    dump_entity,
    dump_finding,
    dump_snapshot_file,
    dump_values,
    load_approval,
    load_base,
    load_finding,
    load_snapshot_file,
    load_values,
)
from quotaform.document.plan_options import dump_options, load_options
from quotaform.document.sealed_content import SealedContent, SealedFormat, Strict
from quotaform.document.shape import ShapeError, loaded_items, readable, require_shape
from quotaform.errors import PlanFileChangedError, PlanFileError
from quotaform.model.address import parse_address
from quotaform.model.allowance import Allowance
from quotaform.model.approval import Approval
from quotaform.model.document_kind import PLAN
from quotaform.model.entity import Entity

if TYPE_CHECKING:
    from quotaform.core.usage.backtest import ClusterBacktest

T = TypeVar("T")

PLAN_LISTS: Final[Mapping[str, str]] = {
    "changes": "change",
    "declared": "address",
    "unmanaged": "unmanaged",
    "findings": "finding",
}
"""The fields of a plan file with a line per item, and the definition of an item in the schema."""

_FORMAT: Final = SealedFormat(
    kind=PLAN,
    lists=PLAN_LISTS,
    noun="plan",
    command="quotaform plan --out",
    remedy="make a new plan",
    unreadable=PlanFileError,
    changed=PlanFileChangedError,
)


def plan_lines(plan: Plan) -> Iterator[str]:
    """Yield the plan file in pieces: a header, then one line per entity, so that it can be compared line by line.

    What is written never has to be in memory whole.
    """
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
            "base": dump_base(header.source.base),
        },
        "options": dump_options(header.options),
        **({"allowances": list(map(str, plan.allowances))} if plan.allowances else {}),
        **({"approvals": list(map(dump_approval, plan.approvals))} if plan.approvals else {}),
        "complete": plan.is_complete,
        "applyable": plan.is_applyable,
        "summary": dict(plan.summary),
        **({} if plan.blast_radius is None else {"blast_radius": dump_blast_radius(plan.blast_radius)}),
        **({} if plan.backtest is None else {"backtest": _dump_backtest(plan.backtest)}),
        "changes": change_lines(plan.changes),
        **({} if plan.declared is None else {"declared": _address_lines(plan.declared)}),
        "unmanaged": (
            {**dump_entity(item.entity), "values": dump_values(item.values), "in_scope": item.in_scope}
            for item in plan.unmanaged
        ),
        "findings": map(dump_finding, plan.findings),
    }
    return envelope(PLAN, fields)


def _address_lines(entities: Iterable[Entity]) -> Iterator[Spelled]:
    return (Spelled(quoted(address)) for address in sorted([entity.address for entity in entities]))


def load_plan(text: str | bytes, file: str) -> Plan:
    """Read a plan file and make sure that it is a plan, and the one that was written.

    Args:
        file: Its name, for messages.

    Raises:
        PlanFileError: It is truncated, not a plan, of an unknown major version, or inconsistent.
        PlanFileChangedError: It was changed after it was written.
    """
    content = SealedContent(text.encode(errors="replace") if isinstance(text, str) else text, file, _FORMAT)
    return content.read(lambda document, strict: _checked(content, document, strict, file))


def _checked(content: SealedContent, document: Mapping[str, Any], strict: Strict, file: str) -> Plan:
    require_shape(document, PLAN.name, PLAN_LISTS)
    plan = _plan(document)
    if plan.plan_id != document["plan_id"]:
        raise PlanFileChangedError(file, "plan id")
    if problem := saved_plan_problem(plan):
        raise ShapeError(*problem)
    content.require_written(lambda: _fields(plan), strict)
    return plan


def _plan(document: Mapping[str, Any]) -> Plan:
    source = document["source"]
    changes = tuple(_items(document, "changes", ChangeReader().change))
    return Plan(
        header=PlanHeader(
            cluster_name=document["cluster"]["name"],
            cluster_id=document["cluster"]["id"],
            created_at=document["created_at"],
            source=PlanSource(
                directory=source["directory"],
                commit=source["commit"],
                dirty=source["dirty"],
                base=load_base(source["base"]),
            ),
            options=load_options(document["options"]),
            snapshot=load_snapshot_file(document),
        ),
        changes=changes,
        unchanged=int(document["summary"]["no_op"]),
        in_scope=int(document["summary"]["in_scope"]),
        unmanaged=tuple(_items(document, "unmanaged", _unmanaged)),
        declared=_declared(document, changes) if "declared" in document else None,
        allowances=_allowances(document),
        approvals=_approvals(document),
        findings=tuple(_items(document, "findings", load_finding)),
        is_complete=document["complete"],
        blast_radius=load_blast_radius(document["blast_radius"]) if "blast_radius" in document else None,
        backtest=_load_backtest(document["backtest"]) if "backtest" in document else None,
    )


def _dump_backtest(found: ClusterBacktest) -> dict[str, Any]:
    from quotaform.document.usage_backtest import dump_cluster_backtest

    return dump_cluster_backtest(found)


def _load_backtest(item: Mapping[str, Any]) -> ClusterBacktest:
    from quotaform.document.usage_backtest import load_cluster_backtest

    return load_cluster_backtest(item)


def _declared(document: Mapping[str, Any], changes: Iterable[EntityChange]) -> frozenset[Entity]:
    """Return the declared entities; those that change are the same objects, so that their addresses are not read."""
    known = {change.entity.address: change.entity for change in changes}
    return frozenset(_items(document, "declared", lambda text: known.get(text) or parse_address(text)))


def _unmanaged(item: Mapping[str, Any]) -> Unmanaged:
    return Unmanaged(Entity(item["entity"]), load_values(item["values"]), item["in_scope"])


def _items(document: Mapping[str, Any], name: str, load: Callable[[Any], T]) -> Iterator[T]:
    return loaded_items(document, name, load, PLAN.name, PLAN_LISTS[name])


def _allowances(document: Mapping[str, Any]) -> tuple[Allowance, ...]:
    with readable("allowances"):
        return tuple(map(Allowance.parse, document.get("allowances", ())))


def _approvals(document: Mapping[str, Any]) -> tuple[Approval, ...]:
    with readable("approvals"):
        return tuple(map(load_approval, document.get("approvals", ())))
