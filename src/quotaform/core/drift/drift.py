"""How a cluster differs from what was last agreed: see `quotaform.core.drift.drifted` for the classes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date
from typing import Final

from quotaform.core.base import Base, DeclaredBase
from quotaform.core.canonical import digest, json_number
from quotaform.core.change import Action, Change
from quotaform.core.check import rule
from quotaform.core.check.writable import is_out_of_reach
from quotaform.core.drift.drifted import DriftClass, DriftedEntity, PendingChange, read_change, read_unmanaged
from quotaform.core.drift.ignore import DriftIgnore, active_ignores, check_ignores
from quotaform.core.plan import Plan
from quotaform.core.plan_options import PlanOptions
from quotaform.model.entry import Cause
from quotaform.model.finding import Finding, by_weight
from quotaform.model.snapshot import SnapshotFile

_FINDINGS: Final = frozenset(
    row.id
    for row in (
        rule.CLUSTER_ID,
        rule.NO_MATCH,
        rule.UNKNOWN_COMMIT,
        rule.BASE_EMPTY,
        rule.NO_LONGER_DECLARED,
        rule.HISTORY_NOT_SEARCHED,
        rule.UNKNOWN_TYPE,
        rule.UNKNOWN_KEY,
        rule.EMPTY_NAME,
        rule.BAD_NAME,
        rule.BAD_SHAPE,
        rule.IP_NAME,
        rule.IP_ALIAS,
        rule.MISFIT_KEY,
        rule.NAN_VALUE,
        rule.INEXACT_VALUE,
    )
)
"""What a plan finds that is about the cluster and how it was compared; its guards are about an apply."""


@dataclass(frozen=True, slots=True)
class IgnoredDrift:
    """Keys of an entity that differ and do not count, and why."""

    drifted: DriftedEntity
    ignore: DriftIgnore


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """All that differs, by address.

    Attributes:
        read_at: When the cluster or its snapshot was read, ISO 8601 UTC.
        in_sync: How many declared entities match the cluster.
        findings: Warnings and notes about the live cluster.
        options: What was asked for when the plan was made that it was read from.
        baseline: What was last agreed; `None` when the cluster was compared with the files.
        pending: What an apply would change and is no drift; empty without a baseline.
        ignored: What differs and does not count, because of `drift_ignore`.
        managed: How many entities the files declare values for.
        unmanaged_in_scope: How many live entities in scope no file declares.
    """

    cluster_name: str
    cluster_id: str
    read_at: str
    entities: tuple[DriftedEntity, ...]
    in_sync: int
    findings: tuple[Finding, ...]
    options: PlanOptions
    snapshot: SnapshotFile | None = None
    baseline: Base | None = None
    pending: tuple[PendingChange, ...] = ()
    ignored: tuple[IgnoredDrift, ...] = ()
    managed: int = 0
    unmanaged_in_scope: int = 0
    unmanaged_out_of_scope: int = 0

    @property
    def is_known(self) -> bool:
        """Whether the right cluster was compared; if not, nothing follows from what was seen."""
        return not any(finding.rule == rule.CLUSTER_ID.id for finding in self.findings)

    @property
    def is_complete(self) -> bool:
        """Whether everything was compared."""
        return not self.options.is_partial

    @property
    def has_entities(self) -> bool:
        """Whether anything was compared; not so when the selection leaves nothing."""
        return self.is_complete or bool(self.entities or self.in_sync or self.pending or self.ignored)

    @property
    def status(self) -> str:
        """`unknown`, `drift` or `in-sync`."""
        if not self.is_known:
            return "unknown"
        return "drift" if self.entities else "in-sync"

    @property
    def summary(self) -> dict[str, int]:
        """How many entities each class has."""
        counts = {drift_class.value: 0 for drift_class in DriftClass}
        for drifted in self.entities:
            counts[drifted.drift_class.value] += 1
        return counts

    @property
    def pending_actions(self) -> dict[str, int]:
        """How many entities each action is pending for."""
        counts = {action.value: 0 for action in Action}
        for pending in self.pending:
            counts[pending.action.value] += 1
        return counts

    @property
    def ignored_entities(self) -> int:
        """How many entities have keys that differ and do not count."""
        return len({ignored.drifted.entity for ignored in self.ignored})

    @property
    def fingerprint(self) -> str:
        """A digest of the drift set: equal as long as the same entities differ in the same way from what was agreed.

        What is pending or ignored is not in it, nor what the files say where a baseline says what was agreed.
        """
        rows = [
            [
                drifted.entity.address,
                drifted.drift_class.value,
                change.key,
                json_number(change.before),
                json_number(drifted.agreed(change)),
            ]
            for drifted in self.entities
            for change in drifted.changes
        ]
        return digest([self.cluster_id, rows])


def make_drift(
    plan: Plan,
    *,
    ignores: Iterable[DriftIgnore] = (),
    today: date = date.min,
) -> Drift:
    """Read a plan as drift: what it would change, and what is in scope and not declared.

    What nobody can declare, exclude or remove is a finding and no drift, which would never end. `plan` is the plan; its
    base is the baseline, and without one the cluster is compared with the files. `ignores` is what does not count.
    """
    wrong_cluster = tuple(finding for finding in plan.findings if finding.rule == rule.CLUSTER_ID.id)
    if wrong_cluster:
        return _not_compared(plan, wrong_cluster)
    baseline = plan.base
    found: list[DriftedEntity | PendingChange] = [read_change(change) for change in plan.changes]
    in_scope = [item for item in plan.unmanaged if item.in_scope]
    found += [read_unmanaged(item, baseline) for item in in_scope if not is_out_of_reach(item.entity)]
    found.sort(key=lambda each: each.entity.address)
    every_ignore = tuple(ignores)
    active = active_ignores(every_ignore, today)
    entities: list[DriftedEntity] = []
    ignored: list[IgnoredDrift] = []
    for each in found:
        if isinstance(each, DriftedEntity):
            counted, left_out = _split(each, active)
            entities += counted
            ignored += left_out
    used = {id(each.ignore) for each in ignored}
    findings = [finding for finding in plan.findings if finding.rule in _FINDINGS]
    findings += check_ignores(every_ignore, used, today)
    findings += _check_unvalued(entities, baseline)
    undeclared = sum(change.cause is Cause.UNDECLARED for change in plan.changes)
    return Drift(
        cluster_name=plan.header.cluster_name,
        cluster_id=plan.header.cluster_id,
        read_at=plan.header.created_at,
        entities=tuple(entities),
        in_sync=plan.unchanged,
        findings=tuple(by_weight(findings)),
        options=plan.header.options,
        snapshot=plan.header.snapshot,
        baseline=None if baseline is None else baseline.base,
        pending=tuple(each for each in found if isinstance(each, PendingChange)),
        ignored=tuple(ignored),
        managed=len(plan.declared or ()),
        unmanaged_in_scope=len(in_scope) + undeclared,
        unmanaged_out_of_scope=len(plan.unmanaged) - len(in_scope),
    )


def _not_compared(plan: Plan, why: tuple[Finding, ...]) -> Drift:
    """Return the drift of a cluster that the files are not for: what differs there says nothing."""
    return Drift(
        cluster_name=plan.header.cluster_name,
        cluster_id=plan.header.cluster_id,
        read_at=plan.header.created_at,
        entities=(),
        in_sync=0,
        findings=why,
        options=plan.header.options,
        snapshot=plan.header.snapshot,
        baseline=None if plan.base is None else plan.base.base,
        managed=len(plan.declared or ()),
    )


def _split(drifted: DriftedEntity, ignores: tuple[DriftIgnore, ...]) -> tuple[list[DriftedEntity], list[IgnoredDrift]]:
    """Return what counts of an entity that differs, if anything, and what is ignored, by the first ignore that fits."""
    by_ignore: dict[int | None, list[Change]] = {}
    for change in drifted.changes:
        first = (place for place, each in enumerate(ignores) if each.covers(change.entity, change.key))
        by_ignore.setdefault(next(first, None), []).append(change)
    counted = by_ignore.pop(None, [])
    return (
        [replace(drifted, changes=tuple(counted))] if counted else [],
        [
            IgnoredDrift(replace(drifted, changes=tuple(rows)), ignores[place])
            for place, rows in by_ignore.items()
            if place is not None
        ],
    )


def _check_unvalued(entities: Iterable[DriftedEntity], baseline: DeclaredBase | None) -> list[Finding]:
    """Note that the values of entities that differ are not in the baseline."""
    if baseline is None:
        return []
    count = sum(drifted.entity in baseline.unvalued for drifted in entities)
    if not count:
        return []
    text = (
        f"the applied values of {count:,} of the entities that differ are neither in the receipt nor in a commit that "
        "git has here, so their changes count as drift even if they are pending; fetch the git history "
        "(fetch-depth: 0), or give a git ref as the baseline"
    )
    return [rule.BASELINE_VALUES_UNKNOWN.finding(text)]
