"""A plan: the whole difference between files and cluster, by entity, what it was made of, and what checks found in it.

It is a sorted tuple of changes, made by `quotaform.plan.difference`: what happens to each entity, row by row, the
effects, and what they are due to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from functools import cached_property
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Annotated, Any, Self

import msgspec
from msgspec import Struct, structs

from quotaform.model.alteration import Alteration
from quotaform.model.entity import Entity
from quotaform.model.errors import OtherClusterError
from quotaform.model.finding import CHANGE, Allowance, Approval, Finding, Location
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import (
    Action,
    Base,
    Cause,
    Change,
    DeclaredBase,
    Quotas,
    SnapshotFile,
    Values,
    same_value,
    same_values,
)
from quotaform.model.records.document import digest, json_number
from quotaform.model.records.record import (
    Address,
    ClusterRecord,
    Count,
    Digest,
    KeyDoubles,
    Record,
    about,
    builtins,
    derived,
    written,
)
from quotaform.model.scope import Pattern
from quotaform.model.settings import DEFAULT_GUARD_LIMITS, CountLimit, GuardLimits, PruneMode
from quotaform.plan.blast_radius import BlastRadius, LimitChange, RadiusCounts
from quotaform.plan.digest import ClusterDigest, FleetRow, FleetStatus
from quotaform.resolve.effect import Direction, Effect

if TYPE_CHECKING:
    from quotaform.plan.backtest import ClusterBacktest


class ChangeOrigin(StrEnum):
    """What a change is due to: the files moved away from the base, the cluster did, or both.

    A base is what the files declared before: at another git revision, or when a receipt was written. Without one there
    is no origin; `docs/ownership.md` says what follows from what the base and the files declare, and the live value.
    """

    CONFIG = "config"
    DRIFT = "drift"
    BOTH = "both"


def entity_origin(
    base: Values | None, cause: Cause, before: Values, rows: Iterable[Change], *, prunes_more: bool = False
) -> ChangeOrigin:
    """Return what the changes of one entity are due to, taken together: of different origins it is `both`.

    `base`: what the base declares; `None` when it does not declare the entity. `prunes_more`: whether the entity is
    undeclared, and would not be pruned with the settings of the base.
    """
    if base is None:
        # What neither declares and a file would have to declare to stay was made on the cluster.
        return ChangeOrigin.DRIFT if cause is Cause.UNDECLARED and not prunes_more else ChangeOrigin.CONFIG
    if base and cause is Cause.UNDECLARED:
        live = {key: value for key, value in before.items() if key in QUOTA_KEYS}
        return ChangeOrigin.CONFIG if same_values(live, base) else ChangeOrigin.BOTH
    origins = {key_origin(base.get(row.key), row) for row in rows}
    return origins.pop() if len(origins) == 1 else ChangeOrigin.BOTH


def key_origin(declared: float | None, row: Change) -> ChangeOrigin:
    """Return what the change of one key is due to.

    `declared` is what the base declares for the key; `None` is no value.
    """
    if same_value(declared, row.after):
        return ChangeOrigin.DRIFT
    return ChangeOrigin.CONFIG if same_value(declared, row.before) else ChangeOrigin.BOTH


class EntityChange(Struct, frozen=True, kw_only=True, gc=False):
    """The changes of one entity, which the broker makes all or not at all."""

    entity: Entity
    before: Values  # All values that the cluster holds, empty when the entity is not there
    after: Values  # All values that it will hold, empty when the entity will be gone
    changes: tuple[Change, ...]  # One row per key that changes, in the order of the keys
    effects: tuple[Effect, ...]  # What each row does to the effective limit
    # Why, in the words of the files; for a deletion `state: absent` or `expired DATE`, or why it is pruned.
    reason: str | None = None
    cause: Cause = Cause.ENTRY  # What in the files it follows from; the other texts are about the entry if there is one
    # What it is due to; `None` without a base to compare with, see `entity_origin`.
    origin: ChangeOrigin | None = None
    # What the base declares for the entity, empty when it must not exist; `None` when the base does not declare it, and
    # without a base.
    base: Values | None = None
    owner: str | None = None
    location: Location | None = None
    expires: date | None = None  # The day (UTC) from which on the entry will count as absent

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
            if effect.becomes_unlimited(change.key):
                return True
        return False

    def origin_of(self, row: Change) -> ChangeOrigin | None:
        """Return what one of the rows is due to; `None` without a base."""
        if self.origin is None or self.base is None:
            return self.origin
        return key_origin(self.base.get(row.key), row)

    def alteration(self) -> Alteration:
        """What to send for it: what the rows say."""
        ops = {change.key: change.after for change in self.changes}
        # Of a created entity both are the same, and there may be very many of them in memory.
        return Alteration(self.entity, self.after if self.after == ops else ops)


class GuardsRecord(Record, omit_defaults=True):
    """The limits of quotaform.yaml that differ from the defaults."""

    delete: CountLimit | None = None
    update: CountLimit | None = None
    change_factor: Annotated[Count | None, about("The factor.")] = None


class PlanOptions(Record, omit_defaults=True):
    """The options of the command."""

    prune: Annotated[PruneMode, about("What happens to entities in scope that no file declares.")] = written(
        default=PruneMode.REPORT
    )
    is_prune_given: Annotated[
        bool, about("Whether the mode was given for this plan; omitted if it is that of quotaform.yaml.")
    ] = msgspec.field(default=False, name="prune_given")
    select: Annotated[tuple[str, ...], about("Globs of addresses to include; all entities if empty.")] = written(
        default=()
    )
    exclude: Annotated[tuple[str, ...], about("Globs of addresses to exclude.")] = written(default=())
    guards: Annotated[GuardsRecord | None, about("Omitted if there are no other limits than the defaults.")] = None
    protect: Annotated[
        tuple[dict[str, str | None], ...],
        about("The protected entities, by entity type: a glob, or null for the default; omitted if there are none."),
    ] = ()
    bootstrap_server: Annotated[
        str | None,
        about("The bootstrap servers, when they were given in the place of the cluster's; omitted otherwise."),
    ] = None
    revert: Annotated[
        Digest | None, about("The id of the plan that this plan reverts; omitted if it reverts none.")
    ] = None

    @classmethod
    def of(cls, limits: GuardLimits, **asked: Any) -> Self:
        """Return options with limits that guards go by: those of a plan without guards are the defaults."""
        found = {name: getattr(limits, name) for name in GuardsRecord.__struct_fields__}
        guards = {name: value for name, value in found.items() if value != getattr(DEFAULT_GUARD_LIMITS, name)}
        protect = tuple(dict(pattern.parts) for pattern in limits.protect)
        return cls(**asked, guards=GuardsRecord(**guards) if guards else None, protect=protect)

    @property
    def limits(self) -> GuardLimits:
        """What guards went by."""
        found = {} if self.guards is None else structs.asdict(self.guards)
        guards = {name: value for name, value in found.items() if value is not None}
        return GuardLimits(**guards, protect=tuple(Pattern(tuple(each.items())) for each in self.protect))

    @property
    def is_partial(self) -> bool:
        """Whether anything could be left out."""
        return bool(self.select or self.exclude)

    @property
    def is_revert(self) -> bool:
        """Whether the plan puts back what another one changed, and does not follow the files."""
        return self.revert is not None


class Unmanaged(Record):
    """A live entity that no file declares."""

    address: Address = derived(lambda item: item.entity.address)
    entity: Entity
    values: KeyDoubles
    in_scope: Annotated[bool, about("Whether it is in scope.")]


class PlanSource(Record):
    """The origin of the files."""

    directory: Annotated[str, about("The directory, as given.", "quotas.d")]
    commit: Annotated[str | None, about("The git commit, or null outside of git.")] = written(default=None)
    # Those of the directory, quotaform.yaml, approvals.yaml and policies.
    dirty: Annotated[bool | None, about("Whether the files differed from that commit; null outside of git.")] = written(
        default=None
    )
    base: Annotated[Base | None, about("What the files were compared with, or null.")] = None


class PlanHeader(Struct, frozen=True, kw_only=True):
    """What a plan was made of."""

    cluster: ClusterRecord
    created_at: str  # When the cluster or its snapshot was read, ISO 8601 UTC
    source: PlanSource
    options: PlanOptions = PlanOptions()
    snapshot: SnapshotFile | None = None


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The whole difference between files and cluster."""

    header: PlanHeader
    changes: tuple[EntityChange, ...]  # One per entity that differs: deletes, updates, creates, each by address
    unchanged: int = 0  # How many declared entities match the cluster
    in_scope: int = 0  # How many of the cluster's entities are in scope
    unmanaged: tuple[Unmanaged, ...] = ()  # The live entities that no file declares
    # All entities for which the files declare values, selected or not; `None` for a revert when they are invalid
    declared: frozenset[Entity] | None = None
    allowances: tuple[Allowance, ...] = ()
    approvals: tuple[Approval, ...] = ()
    findings: tuple[Finding, ...] = ()  # What the checks found, see `quotaform.plan.check.check`
    is_complete: bool = True  # Whether the plan covers everything; false when parts were left out (`--select`)
    # What the base declares; not in a plan file.
    base: DeclaredBase | None = field(default=None, compare=False, repr=False)
    # Whose effective limits it changes of those who connect, if that was asked for. Nothing of it is applied, so the
    # plan id does not cover it.
    blast_radius: BlastRadius | None = None
    # Computes all limits that it changes, if they are wanted in a file; not in a plan file.
    limit_changes: Callable[[], Iterable[LimitChange]] = field(default=tuple, compare=False, repr=False)
    # What it would have throttled of recorded usage, if that was asked for; like the blast radius.
    backtest: ClusterBacktest | None = None
    # Everything that the cluster holds, if the blast radius or a backtest is computed elsewhere; not in a plan file.
    actual: Quotas | None = field(default=None, compare=False, repr=False)

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
            and not self.header.options.is_revert
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

        The id of a blocked plan covers what blocks it, too: an approval of it does not cover the same changes
        without that.
        """
        content: dict[str, Any] = {
            "allowances": [str(allowance) for allowance in self.allowances],
            "changes": (
                (address, row.key, row.action, json_number(row.before), json_number(row.after))
                for address, change in sorted([(each.entity.address, each) for each in self.changes], key=itemgetter(0))
                for row in sorted(change.changes, key=attrgetter("key"))
            ),
            "cluster_id": self.header.cluster.id,
        }
        if self.approvals:
            content["approvals"] = [
                [
                    each.rule,
                    each.address,
                    each.approver,
                    each.expires.isoformat(),
                    each.action or CHANGE,
                    *([key, json_number(value)] for key, value in each.values),
                    *([] if each.cluster is None else [{"cluster": each.cluster}]),
                ]
                for each in self.approvals
            ]
        options = builtins(self.header.options)
        if limits := {name: options[name] for name in ("guards", "protect") if name in options}:
            content["limits"] = limits
        blocking = [finding for finding in self.findings if finding.blocking]
        if blocking:
            content["blocked"] = sorted([each.rule, each.address or "", each.key or ""] for each in blocking)
        return digest(content)

    @cached_property
    def summary(self) -> Mapping[str, int]:
        """How many entities each thing happens to."""
        actions = [change.action for change in self.changes]
        directions = [change.direction for change in self.changes]
        counts = {action.value: actions.count(action) for action in Action}
        counts["no_op"] = self.unchanged
        counts |= {each.value: directions.count(each) for each in Direction if each is not Direction.NONE}
        counts["to_unlimited"] = sum(change.becomes_unlimited for change in self.changes)
        counts["blocked"] = sum(finding.blocking for finding in self.findings)
        counts["in_scope"] = self.in_scope
        if self.header.source.base is not None:
            origins = [change.origin for change in self.changes]
            counts["drift"], counts["both"] = origins.count(ChangeOrigin.DRIFT), origins.count(ChangeOrigin.BOTH)
        return counts

    @property
    def digest(self) -> ClusterDigest:
        """Return what a report of many clusters keeps of it."""
        header, summary = self.header, self.summary
        status = FleetStatus.CHANGE if self.changes else FleetStatus.UNCHANGED
        actions = {action.value: summary[action] for action in Action}
        row = FleetRow(
            cluster=header.cluster.name,
            cluster_id=header.cluster.id,
            status=status if self.is_applyable else FleetStatus.BLOCKED,
            read_at=header.created_at if header.snapshot is None else header.snapshot.captured_at,
            is_snapshot=header.snapshot is not None,
            entities={
                **actions,
                "unchanged": self.unchanged,
                "undeclared": sum(item.in_scope for item in self.unmanaged),
            },
            differences=len(self.changes),
            rules=tuple(sorted({finding.rule for finding in self.findings if finding.blocking})),
            blast_radius=RadiusCounts.sum([self.blast_radius]) if self.blast_radius else None,
        )
        return ClusterDigest(
            row=row,
            counts={"changes": row.differences, **actions, "blocked": summary["blocked"]},
            plan_id=self.plan_id,
            has_entities=self.has_entities,
        )

    def require_cluster(self, cluster_id: str) -> None:
        """Raise `OtherClusterError` unless the plan is for this cluster."""
        if self.header.cluster.id != cluster_id:
            raise OtherClusterError("plan", expected=self.header.cluster.id, found=cluster_id)
