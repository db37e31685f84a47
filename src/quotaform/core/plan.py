"""The difference between files and cluster, as rows, and what it means.

A plan is a sorted tuple of changes: one (entity, key) with its value before and after. Everything else
(text, plan file, alterations, drift, the Spark engine) consumes those rows; nothing computes them twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final

from quotaform.core.canonical import digest_of, json_number, json_pieces
from quotaform.core.effects import Direction, Effect, make_effects
from quotaform.core.origin import Base, DeclaredBase, Origin, entity_origin
from quotaform.core.prune import NOT_PRUNED, Pruned
from quotaform.core.scope import ALL, FULL_SCOPE, Scope, Selection
from quotaform.model.allowance import Allowance
from quotaform.model.alteration import Alteration, apply_ops
from quotaform.model.approval import Approval
from quotaform.model.entity import Entity
from quotaform.model.entry import Cause, Desired, Entry
from quotaform.model.finding import Finding
from quotaform.model.location import Location
from quotaform.model.quota_key import QUOTA_KEYS, key_order
from quotaform.model.quotas import Quotas, Values, same_value
from quotaform.model.snapshot import SnapshotFile


class Action(StrEnum):
    """What happens to a value or to an entity.

    | action | before | after |
    | --- | --- | --- |
    | create | none | some |
    | update | some | some, different |
    | delete | some | none |
    """

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"

    @property
    def glyph(self) -> str:
        """The sign in front of a line: `+`, `~` or `-`."""
        return _GLYPHS[self]


_GLYPHS: Final = {Action.CREATE: "+", Action.UPDATE: "~", Action.DELETE: "-"}


NO_VALUES: Final[Values] = {}
"""What the cluster holds of an entity that is not there; one object, because a plan may create very many."""

LIMIT_OPTIONS: Final = ("guards", "protect")
"""The options of a plan that say what its guards went by, where that is not the default."""

ACTION_ORDER = {Action.DELETE: 0, Action.UPDATE: 1, Action.CREATE: 2}
"""The order in which a plan lists its entities; within an action they go by address."""


def action_of(before: float | None, after: float | None) -> Action:
    """What happens to a value; `None` is no value."""
    if before is None:
        return Action.CREATE
    return Action.DELETE if after is None else Action.UPDATE


@dataclass(frozen=True, slots=True)
class Change:
    """One row of a plan: a quota key of an entity, its value before and after; `None` is no value."""

    entity: Entity
    key: str
    before: float | None
    after: float | None

    @property
    def action(self) -> Action:
        """What happens to the value."""
        return action_of(self.before, self.after)


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityChange:
    """The changes of one entity, which the broker makes all or not at all.

    Attributes:
        entity: Whose quotas change.
        before: All values that the cluster holds, empty when the entity is not there.
        after: All values that it will hold, empty when the entity will be gone.
        changes: One row per key that changes, in the order of the keys.
        effects: What each row does to the effective limit.
        reason: Why, in the words of the files; for a deletion `state: absent` or `expired DATE`, or why it is pruned.
        cause: What in the files it follows from; the other texts are about the entry if there is one.
        origin: What it is due to; `None` without a base to compare with, see `quotaform.core.origin`.
        base: What the base declares for the entity, empty when it must not exist; `None` when the base does not declare
            it, and without a base.
        owner: Whose entry it is, in the words of the files.
        location: Where the entry is.
        expires: The day (UTC) from which on the entry will count as absent.
    """

    entity: Entity
    before: Values
    after: Values
    changes: tuple[Change, ...]
    effects: tuple[Effect, ...]
    reason: str | None = None
    cause: Cause = Cause.ENTRY
    origin: Origin | None = None
    base: Values | None = None
    owner: str | None = None
    location: Location | None = None
    expires: date | None = None

    @property
    def action(self) -> Action:
        """What happens to the entity."""
        if not self.before:
            return Action.CREATE
        return Action.UPDATE if self.after else Action.DELETE

    @property
    def direction(self) -> Direction:
        """What happens to the effective limits, taken together."""
        taken = Direction.NONE
        for change, effect in zip(self.changes, self.effects, strict=True):
            direction = effect.direction(change.key)
            if taken is Direction.NONE:
                taken = direction
            elif direction is not taken and direction is not Direction.NONE:
                return Direction.MIXED
        return taken

    @property
    def becomes_unlimited(self) -> bool:
        """Whether an effective limit becomes unlimited."""
        for change, effect in zip(self.changes, self.effects, strict=True):
            if effect.before.value is not None and effect.becomes_unlimited(change.key):
                return True
        return False

    def alteration(self) -> Alteration:
        """What to send for it: what the rows say."""
        ops = {change.key: change.after for change in self.changes}
        # Of a created entity both are the same, and there may be very many of them in memory.
        return Alteration(self.entity, self.after if self.after == ops else ops)


@dataclass(frozen=True, slots=True)
class Unmanaged:
    """A live entity that no file declares, reported and left alone."""

    entity: Entity
    values: Values
    in_scope: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSource:
    """Where the files came from.

    Attributes:
        directory: As it was given.
        commit: The git commit, if there is one.
        dirty: Whether the tree differs from it.
        base: What the files were compared with, if anything.
    """

    directory: str
    commit: str | None = None
    dirty: bool | None = None
    base: Base | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanHeader:
    """What a plan was made of.

    Attributes:
        cluster_name: As in quotaform.yaml, or the bootstrap servers.
        cluster_id: The id that the cluster gave itself.
        created_at: When the cluster or its snapshot was read, ISO 8601 UTC.
        source: Where the files came from.
        options: What was asked for: `prune`, `select`, `exclude`, and `bootstrap_server` if it stands for the cluster.
        snapshot: The snapshot that was read in the place of the cluster.
    """

    cluster_name: str
    cluster_id: str
    created_at: str
    source: PlanSource
    options: Mapping[str, Any] = field(default_factory=dict)
    snapshot: SnapshotFile | None = None


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The whole difference between files and cluster.

    Attributes:
        header: What it was made of.
        changes: One per entity that differs: deletes, updates, creates, each by address.
        unchanged: How many declared entities match the cluster.
        in_scope: How many of the cluster's entities are in scope.
        unmanaged: The live entities that no file declares.
        declared: All entities for which the files declare values, selected or not; `None` when a plan file of an
            earlier version does not say.
        allowances: The rules that are allowed for this plan, sorted.
        approvals: The approvals that lift a block of this plan, sorted.
        findings: What the checks found, see `quotaform.core.check.plan`.
        is_complete: Whether the plan covers everything; false when parts were left out (`--select`).
        base: What the base declares; not in a plan file.
    """

    header: PlanHeader
    changes: tuple[EntityChange, ...]
    unchanged: int = 0
    in_scope: int = 0
    unmanaged: tuple[Unmanaged, ...] = ()
    declared: frozenset[Entity] | None = None
    allowances: tuple[Allowance, ...] = ()
    approvals: tuple[Approval, ...] = ()
    findings: tuple[Finding, ...] = ()
    is_complete: bool = True
    base: DeclaredBase | None = field(default=None, compare=False, repr=False)

    @property
    def rows(self) -> tuple[Change, ...]:
        """The plan itself: every (entity, key) that changes."""
        return tuple(change for entity_change in self.changes for change in entity_change.changes)

    @property
    def is_applyable(self) -> bool:
        """Whether nothing blocks it."""
        return not any(finding.blocking for finding in self.findings)

    @property
    def managed(self) -> int:
        """How many live entities are managed: declared ones that exist already, and those that the plan deletes.

        Of a selection, what was not compared counts as existing.
        """
        if self.declared is None:
            return self.unchanged + self.count(Action.UPDATE) + self.count(Action.DELETE)
        known = self.declared
        created = sum(change.action is Action.CREATE and change.entity in known for change in self.changes)
        undeclared = sum(change.action is Action.DELETE and change.entity not in known for change in self.changes)
        return len(known) - created + undeclared

    def count(self, action: Action) -> int:
        """How many entities an action happens to; unlike `summary` it does not look at the effects."""
        return sum(change.action is action for change in self.changes)

    @cached_property
    def deleted(self) -> frozenset[str]:
        """The addresses of the entities that are deleted."""
        return frozenset(change.entity.address for change in self.changes if change.action is Action.DELETE)

    @property
    def declares_nothing(self) -> bool:
        """Whether it is known that no file says anything of any entity; of a selection it is not."""
        return (
            self.is_complete
            and "revert" not in self.header.options
            and self.declared is not None
            and not self.declared
            and self.unchanged == 0
            and all(change.cause is Cause.UNDECLARED for change in self.changes)
        )

    @property
    def has_entities(self) -> bool:
        """Whether anything was compared; not so when the selection leaves nothing."""
        return self.is_complete or bool(self.changes or self.unchanged or self.unmanaged)

    @cached_property
    def plan_id(self) -> str:
        """A digest of what the plan would do, to which cluster, by which limits of guards, and what is allowed and
        approved: no prose or paths.

        The id of a blocked plan covers what blocks it, too: whoever approved it did not approve the same changes
        without that.
        """
        content: dict[str, Any] = {
            "allowances": [str(allowance) for allowance in self.allowances],
            "changes": self._spelled_rows(),
            "cluster_id": self.header.cluster_id,
        }
        if self.approvals:
            content["approvals"] = [
                [
                    each.rule,
                    each.entity.address,
                    each.approver,
                    each.expires.isoformat(),
                    each.action,
                    *_spelled(each.to),
                ]
                for each in self.approvals
            ]
        limits = {name: self.header.options[name] for name in LIMIT_OPTIONS if name in self.header.options}
        if limits:
            content["limits"] = limits
        blocking = [finding for finding in self.findings if finding.blocking]
        if blocking:
            content["blocked"] = sorted([each.rule, each.address or "", each.key or ""] for each in blocking)
        return digest_of(json_pieces(content))

    def _spelled_rows(self) -> Iterator[list[Any]]:
        """Yield the rows as the plan id covers them, by address and key: of a large plan only a few at a time."""
        for change in sorted(self.changes, key=lambda change: change.entity.address):
            address = change.entity.address
            for row in sorted(change.changes, key=lambda row: row.key):
                yield [address, row.key, row.action, json_number(row.before), json_number(row.after)]

    @cached_property
    def summary(self) -> Mapping[str, int]:
        """How many entities each thing happens to."""
        counts = dict.fromkeys(
            ("create", "update", "delete", "no_op", "loosen", "tighten", "mixed", "to_unlimited", "blocked"), 0
        )
        for change in self.changes:
            counts[change.action] += 1
            direction = change.direction
            if direction is not Direction.NONE:
                counts[direction] += 1
            counts["to_unlimited"] += change.becomes_unlimited
        counts["no_op"] = self.unchanged
        counts["in_scope"] = self.in_scope
        counts["blocked"] = sum(finding.blocking for finding in self.findings)
        if self.header.source.base is not None:
            origins = [change.origin for change in self.changes]
            counts["drift"], counts["both"] = origins.count(Origin.DRIFT), origins.count(Origin.BOTH)
        return MappingProxyType(counts)


def _spelled(values: Iterable[tuple[str, float]]) -> list[list[Any]]:
    return [[key, json_number(value)] for key, value in values]


def diff(desired: Desired, actual: Quotas, pruned: Iterable[Entity] = ()) -> Iterator[Change]:
    """Yield the rows by which a cluster differs from the files, in no particular order.

    A declared entity is declared whole: a live key that is known and not declared is removed. A key that this
    version does not know is never touched. Entities that no file declares are not looked at, but for those that
    are to be pruned: their known keys are removed.

    Args:
        desired: What the files say.
        actual: Everything the cluster holds.
        pruned: Entities to remove although no file declares them.
    """
    for entity, entry in desired.items():
        live, wanted = actual.get(entity, NO_VALUES), entry.values
        if not live:
            for key, value in wanted.items():
                yield Change(entity, key, None, value)
            continue
        if live == wanted:
            continue
        for key, value in wanted.items():
            if not same_value(live.get(key), value):
                yield Change(entity, key, live.get(key), value)
        for key, value in live.items():
            if key not in wanted and key in QUOTA_KEYS:
                yield Change(entity, key, value, None)
    yield from removals((entity for entity in pruned if entity not in desired), actual)


def removals(entities: Iterable[Entity], actual: Quotas) -> Iterator[Change]:
    """Yield the rows that delete entities: their known keys are removed.

    Args:
        entities: Which ones.
        actual: Everything the cluster holds.
    """
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
    pruned: Mapping[Entity, Pruned] = NOT_PRUNED,
    claimed: Collection[Entity] = (),
) -> Plan:
    """Make a plan of the rows by which a cluster differs from the files.

    Args:
        rows: As `diff` yields them, from whichever engine, in any order; an entity that no file declares is pruned.
        desired: What the files say.
        actual: Everything the cluster holds.
        header: What the plan is made of.
        scope: The entities that the files speak for.
        selection: The part that was asked for.
        allowances: The rules that are allowed for this plan.
        base: What the files are compared with, to tell what a change is due to.
        pruned: Why entities are deleted that no file declares.
        claimed: What other quota repositories declare; these files do not speak for it.
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
    changes = [
        _entity_change(
            entity,
            desired.get(entity),
            actual.get(entity, NO_VALUES),
            planned[entity],
            group,
            effects,
            base,
            pruned.get(entity),
        )
        for (entity, group), effects in zip(groups, make_effects(actual, planned, asked), strict=True)
    ]
    changes.sort(key=lambda change: ACTION_ORDER[change.action])
    unmanaged = [
        Unmanaged(entity, values, scope.contains(entity) and entity not in claimed)
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


def _entity_change(
    entity: Entity,
    entry: Entry | None,
    before: Values,
    after: Values,
    changes: tuple[Change, ...],
    effects: tuple[Effect, ...],
    base: DeclaredBase | None,
    pruned: Pruned | None,
) -> EntityChange:
    cause = entry.cause if entry else Cause.UNDECLARED
    declared = None if base is None else base.values(entity)
    is_known = base is not None and entity not in base.unvalued
    return EntityChange(
        entity=entity,
        before=before,
        after=after,
        changes=changes,
        effects=effects,
        reason=(entry.absent or entry.reason) if entry else (pruned.reason if pruned else None),
        cause=cause,
        origin=entity_origin(declared, cause, before, changes, prunes_more=pruned is not None and pruned.is_new)
        if is_known
        else None,
        base=declared,
        owner=entry.owner if entry else (pruned.owner if pruned else None),
        location=entry.location if entry else None,
        expires=entry.expires if entry and entry.cause is Cause.ENTRY else None,
    )
