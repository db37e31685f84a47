"""The difference between files and cluster, as rows, and the plan that is made of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import MappingProxyType

from msgspec import Struct, field

from quotaform.desired.writer import is_removable
from quotaform.model.alteration import apply_ops
from quotaform.model.entity import Entity
from quotaform.model.finding import Allowance
from quotaform.model.quota_key import QUOTA_KEYS, key_order
from quotaform.model.quotas import (
    ACTION_ORDER,
    NO_VALUES,
    Base,
    Cause,
    Change,
    DeclaredBase,
    Desired,
    Quotas,
    same_value,
)
from quotaform.model.records.record import in_order
from quotaform.model.scope import ALL, FULL_SCOPE, Scope, Selection
from quotaform.model.settings import PruneMode
from quotaform.model.text import inert
from quotaform.plan.plan import EntityChange, Plan, PlanHeader, Unmanaged, entity_origin
from quotaform.resolve.effect import make_effects

# Pruning deletes actual entities that no file declares, by the mode: what the base declares and the files do not
# (`removed`), or all in scope (`scope`). Never what is out of scope, what another repository declares, and what
# quotaform cannot remove. A plan of a selection deletes nothing that is undeclared.


class Pruned(Struct, frozen=True):
    """Why an entity is deleted that no file declares.

    `is_new` says whether it would not be deleted with the mode and the scope of the base.
    """

    reason: str
    owner: str | None = None
    is_new: bool = False


class Pruning(Struct, frozen=True, kw_only=True):
    """What is deleted of a cluster although no file declares it, and what could not be decided."""

    mode: PruneMode = PruneMode.REPORT
    pruned: Mapping[Entity, Pruned] = field(default_factory=dict)  # The entities that are deleted, with the reason
    candidates: int = 0  # How many entities could be deleted, by the mode and what was known before
    problem: str | None = None  # Why it is not known which of them were declared before; `None` when it is
    ignored: tuple[str, ...] = ()  # Which receipts were passed over, and why
    # The last receipt, if only receipts say what was declared before, with the commit of the last one that is of a
    # whole plan.
    receipt: Base | None = None


def removable_entities(
    desired: Desired, actual: Quotas, scope: Scope = FULL_SCOPE, claimed: Collection[Entity] = ()
) -> Iterator[Entity]:
    """Yield the actual entities in scope that neither these files nor another repository declares, and can be removed.

    `claimed` is what other repositories declare.
    """
    for entity, values in actual.items():
        if entity not in desired and entity not in claimed and scope.contains(entity) and is_removable(entity, values):
            yield entity


def prune(
    candidates: Collection[Entity],
    mode: PruneMode,
    base: DeclaredBase | None,
    earlier: Callable[[Entity], bool] = lambda _: True,
) -> Mapping[Entity, Pruned]:
    """Return the entities to delete. `base`: what the files declared before; without it nothing counts as removed."""
    if mode is PruneMode.REPORT:
        return {}
    pruned: dict[Entity, Pruned] = {}
    for entity in candidates:
        if base is not None and base.declares(entity):
            entry = base.desired.get(entity)
            place = entry.location if entry is not None else None
            if place is None or base.base.is_receipt:
                since = "the last apply" if base.base.is_receipt else "the base"
                reason = f"removed from the files since {since} ({inert(base.base.ref)})"
            else:
                reason = f"removed from {inert(place.file)} in this change; was line {place.line}"
            pruned[entity] = Pruned(reason, entry.owner if entry else None)
        elif mode is PruneMode.SCOPE:
            is_new = not earlier(entity)
            reason = "in scope and not declared; prune=scope"
            pruned[entity] = Pruned(f"{reason}, by a change of prune or scope" if is_new else reason, is_new=is_new)
    return pruned


def diff(desired: Desired, actual: Quotas) -> Iterator[Change]:
    """Yield the rows by which a cluster differs from the files, in no particular order.

    A declared entity is declared whole: a known key that it has and that is not declared is removed. A key that this
    version does not know is never touched. Entities that no file declares are not looked at.
    """
    for entity, entry in desired.items():
        before, after = actual.get(entity, NO_VALUES), entry.values
        if before == after:
            continue
        for key, value in after.items():
            if not same_value(before.get(key), value):
                yield Change(entity, key, before.get(key), value)
        for key, value in before.items():
            if key not in after and key in QUOTA_KEYS:
                yield Change(entity, key, value, None)


def removals(entities: Iterable[Entity], actual: Quotas) -> Iterator[Change]:
    """Yield the rows that delete entities: their known keys are removed."""
    for entity in entities:
        for key, value in actual.get(entity, NO_VALUES).items():
            if key in QUOTA_KEYS:
                yield Change(entity, key, value, None)


def make_plan(
    rows: Iterable[Change],
    desired: Desired,
    actual: Quotas,
    header: PlanHeader,
    *,
    scope: Scope = FULL_SCOPE,
    selection: Selection = ALL,
    allowances: Iterable[Allowance] = (),
    base: DeclaredBase | None = None,
    pruned: Mapping[Entity, Pruned] = MappingProxyType({}),
    claimed: Collection[Entity] = (),
) -> Plan:
    """Make a plan of the rows by which a cluster differs from the files.

    `rows`: as `diff` yields them, from whichever engine, in any order; an entity that no file declares is pruned.
    `claimed`: what other quota repositories declare; these files do not speak for it.
    """
    rows_of: dict[Entity, list[Change]] = defaultdict(list)
    for change in rows:
        if not selection.is_partial or selection.contains(change.entity):
            rows_of[change.entity].append(change)
    groups = [
        (entity, tuple(sorted(rows_of[entity], key=lambda change: key_order(change.key))))
        for entity in sorted(rows_of, key=lambda entity: entity.address)
    ]
    planned = {
        entity: apply_ops(actual.get(entity, NO_VALUES), {change.key: change.after for change in group})
        for entity, group in groups
    }
    asked = [(entity, [change.key for change in group]) for entity, group in groups]
    changes = []
    for (entity, group), effects in zip(groups, make_effects(actual, planned, asked), strict=True):
        entry, before, reason = desired.get(entity), actual.get(entity, NO_VALUES), pruned.get(entity)
        cause = entry.cause if entry else Cause.UNDECLARED
        declared = None if base is None else base.values(entity)
        origin = None
        if base is not None and entity not in base.unvalued:
            prunes_more = reason is not None and reason.is_new
            origin = entity_origin(declared, cause, before, group, prunes_more=prunes_more)
        said = "; ".join(filter(None, (entry.absent, entry.reason))) or None if entry else None
        made = EntityChange(
            entity=entity,
            before=before,
            after=planned[entity],
            changes=group,
            effects=effects,
            reason=reason.reason if reason and not entry else said,
            cause=cause,
            origin=origin,
            base=declared,
            owner=entry.owner if entry else (reason.owner if reason else None),
            location=entry.location if entry else None,
            expires=entry.expires if entry and entry.cause is Cause.ENTRY else None,
        )
        changes.append(made)
    changes.sort(key=lambda change: ACTION_ORDER[change.action])
    unmanaged = [
        Unmanaged(entity=entity, values=in_order(values), in_scope=scope.contains(entity) and entity not in claimed)
        for entity, values in actual.items()
        if entity not in desired and entity not in planned and selection.contains(entity)
    ]
    compared = sum(selection.contains(entity) for entity in desired) if selection.is_partial else len(desired)
    return Plan(
        header=header,
        changes=tuple(changes),
        unchanged=compared - sum(change.cause is not Cause.UNDECLARED for change in changes),
        in_scope=sum(scope.contains(entity) and entity not in claimed for entity in actual),
        unmanaged=tuple(sorted(unmanaged, key=lambda item: item.entity.address)),
        declared=frozenset(entity for entity, entry in desired.items() if entry.cause is Cause.ENTRY),
        allowances=tuple(sorted(allowances)),
        is_complete=not selection.is_partial,
        base=base,
    )
