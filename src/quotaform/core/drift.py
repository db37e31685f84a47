"""How a cluster differs from what git says, by class.

| class | the files | the cluster |
| --- | --- | --- |
| modified | declare the entity | holds it with other values |
| missing | declare the entity | does not hold it |
| unexpected | say nothing, or that it must not exist | holds it |

Drift is the same difference as a plan's, seen from the other side.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from quotaform.core.canonical import digest, json_number
from quotaform.core.check import rule
from quotaform.core.check.writable import is_out_of_reach
from quotaform.core.plan import Action, Change, Plan
from quotaform.model.entity import Entity
from quotaform.model.entry import Cause
from quotaform.model.finding import Finding
from quotaform.model.location import Location
from quotaform.model.quota_key import key_order
from quotaform.model.snapshot import SnapshotFile


class DriftClass(StrEnum):
    """In what way an entity differs."""

    MODIFIED = "modified"
    MISSING = "missing"
    UNEXPECTED = "unexpected"


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftedEntity:
    """One entity that differs.

    Attributes:
        entity: Which one.
        drift_class: In what way.
        changes: The keys that differ, as the changes that would bring the cluster back.
        is_declared: Whether the files speak of it.
        absent: Why the files say that it must not exist: `state: absent` or `expired DATE`; `None` if they do not.
        owner: Whose entry it is.
        location: Where the entry is.
    """

    entity: Entity
    drift_class: DriftClass
    changes: tuple[Change, ...]
    is_declared: bool = True
    absent: str | None = None
    owner: str | None = None
    location: Location | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """All that differs, by address.

    Attributes:
        cluster_name: As in the plan.
        cluster_id: As in the plan.
        read_at: When the cluster or its snapshot was read, ISO 8601 UTC.
        entities: What differs.
        in_sync: How many declared entities match the cluster.
        findings: What is worth saying about the live cluster.
        options: What was asked for: `select`, `exclude`, and `bootstrap_server` when it stands for the cluster.
        snapshot: The snapshot that was read in the place of the cluster.
    """

    cluster_name: str
    cluster_id: str
    read_at: str
    entities: tuple[DriftedEntity, ...]
    in_sync: int
    findings: tuple[Finding, ...]
    options: Mapping[str, Any]
    snapshot: SnapshotFile | None = None

    @property
    def is_known(self) -> bool:
        """Whether the right cluster was compared; if not, nothing follows from what was seen."""
        return not any(finding.rule == rule.CLUSTER_ID.id for finding in self.findings)

    @property
    def is_complete(self) -> bool:
        """Whether everything was compared."""
        return not (self.options.get("select") or self.options.get("exclude"))

    @property
    def has_entities(self) -> bool:
        """Whether anything was compared; not so when the selection leaves nothing."""
        return self.is_complete or bool(self.entities or self.in_sync)

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
    def fingerprint(self) -> str:
        """A digest of the drift set: equal as long as the same entities differ in the same way."""
        rows = [
            [
                drifted.entity.address,
                drifted.drift_class.value,
                change.key,
                json_number(change.before),
                json_number(change.after),
            ]
            for drifted in self.entities
            for change in drifted.changes
        ]
        return digest([self.cluster_id, rows])


_CLASSES = {
    Action.CREATE: DriftClass.MISSING,
    Action.UPDATE: DriftClass.MODIFIED,
    Action.DELETE: DriftClass.UNEXPECTED,
}


def make_drift(plan: Plan) -> Drift:
    """Read a plan as drift: what it would change, and what is in scope and not declared.

    What nobody can declare, exclude or remove is a finding and no drift, which would never end.
    """
    entities = [
        DriftedEntity(
            entity=change.entity,
            drift_class=_CLASSES[change.action],
            changes=change.changes,
            is_declared=change.cause is not Cause.UNDECLARED,
            absent=change.reason if change.cause in (Cause.TOMBSTONE, Cause.EXPIRED) else None,
            owner=change.owner,
            location=change.location,
        )
        for change in plan.changes
    ]
    entities += [
        DriftedEntity(
            entity=item.entity,
            drift_class=DriftClass.UNEXPECTED,
            changes=tuple(
                Change(item.entity, key, item.values[key], None) for key in sorted(item.values, key=key_order)
            ),
            is_declared=False,
        )
        for item in plan.unmanaged
        if item.in_scope and not is_out_of_reach(item.entity)
    ]
    asked = {name: value for name, value in plan.header.options.items() if name != "prune"}
    return Drift(
        cluster_name=plan.header.cluster_name,
        cluster_id=plan.header.cluster_id,
        read_at=plan.header.created_at,
        entities=tuple(sorted(entities, key=lambda drifted: drifted.entity.address)),
        in_sync=plan.unchanged,
        findings=plan.findings,
        options={"select": [], "exclude": [], **asked},
        snapshot=plan.header.snapshot,
    )
