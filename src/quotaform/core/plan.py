"""A plan: the whole difference between files and cluster, by entity, what it was made of, and what checks found in it.

It is a sorted tuple of changes, made by `quotaform.core.difference`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from quotaform.core.base import Base, DeclaredBase
from quotaform.core.blast_radius import BlastRadius
from quotaform.core.canonical import digest_of, json_number, json_pieces
from quotaform.core.change import Action, Change
from quotaform.core.effects import Direction
from quotaform.core.entity_change import EntityChange
from quotaform.core.origin import Origin
from quotaform.core.plan_options import PlanOptions
from quotaform.model.allowance import Allowance
from quotaform.model.approval import Approval
from quotaform.model.entity import Entity
from quotaform.model.entry import Cause
from quotaform.model.finding import Finding
from quotaform.model.quotas import Quotas, Values
from quotaform.model.snapshot import SnapshotFile

if TYPE_CHECKING:
    from quotaform.core.usage.backtest import ClusterBacktest


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
        dirty: Whether the files differ from it: those of the directory, quotaform.yaml, approvals.yaml and policies.
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
        created_at: When the cluster or its snapshot was read, ISO 8601 UTC.
    """

    cluster_name: str
    cluster_id: str
    created_at: str
    source: PlanSource
    options: PlanOptions = field(default_factory=PlanOptions)
    snapshot: SnapshotFile | None = None


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The whole difference between files and cluster.

    Attributes:
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
        blast_radius: Whose effective limits it changes of those who connect, if that was asked for. Nothing of it is
            applied, so the plan id does not cover it.
        backtest: What it would have throttled of recorded usage, if that was asked for; like the blast radius.
        actual: Everything that the cluster holds, if the blast radius or a backtest is computed elsewhere; not in a
            plan file.
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
    blast_radius: BlastRadius | None = None
    backtest: ClusterBacktest | None = None
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
                    *([] if each.cluster is None else [{"cluster": each.cluster}]),
                ]
                for each in self.approvals
            ]
        if limits := self.header.options.limits.dump():
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
