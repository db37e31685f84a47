"""What a result amounts to: counts and what is decided by them, and nothing of the size of its entities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from quotaform.core.blast_radius import RadiusCounts
from quotaform.core.change import Action
from quotaform.core.drift.drift import Drift
from quotaform.core.plan import Plan
from quotaform.core.plan_options import PlanOptions
from quotaform.core.receipt import Receipt, Result


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDigest:
    """What a plan amounts to.

    Attributes:
        read_at: When the cluster or its snapshot was read, ISO 8601 UTC; of a snapshot, when it was taken.
        is_snapshot: Whether a snapshot was read in the place of the cluster.
        summary: How many entities each thing happens to, as in the plan.
        changes: How many entities are changed.
        rows: How many keys are changed.
        commit: The commit of the files, if it is known.
        allowances: The rules that were allowed for the plan.
        undeclared: How many live entities in scope no file declares.
        is_applyable: Whether nothing blocks it.
        has_entities: Whether anything was compared.
        blocking: The rules that block it.
        blast_radius: How many limits it changes for those who really connect; `None` if nobody asked for it.
    """

    cluster_name: str
    cluster_id: str
    plan_id: str
    read_at: str
    is_snapshot: bool
    summary: Mapping[str, int]
    changes: int
    rows: int
    commit: str | None
    allowances: tuple[str, ...]
    undeclared: int
    is_applyable: bool
    has_entities: bool
    blocking: tuple[str, ...] = ()
    blast_radius: RadiusCounts | None = None


def digest_plan(plan: Plan) -> PlanDigest:
    """Return what a plan amounts to."""
    header = plan.header
    return PlanDigest(
        cluster_name=header.cluster_name,
        cluster_id=header.cluster_id,
        plan_id=plan.plan_id,
        read_at=header.created_at if header.snapshot is None else header.snapshot.captured_at,
        is_snapshot=header.snapshot is not None,
        summary=dict(plan.summary),
        changes=len(plan.changes),
        rows=len(plan.rows),
        commit=header.source.commit,
        allowances=tuple(map(str, plan.allowances)),
        undeclared=sum(item.in_scope for item in plan.unmanaged),
        is_applyable=plan.is_applyable,
        has_entities=plan.has_entities,
        blocking=tuple(sorted({finding.rule for finding in plan.findings if finding.blocking})),
        blast_radius=plan.blast_radius.without_changes() if plan.blast_radius else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftDigest:
    """What drift amounts to.

    Attributes:
        cluster_name: As in the drift.
        read_at: When the cluster or its snapshot was read, ISO 8601 UTC; of a snapshot, when it was taken.
        is_snapshot: Whether a snapshot was read in the place of the cluster.
        status: `unknown`, `drift` or `in-sync`.
        summary: How many entities each class has.
        in_sync: How many declared entities match the cluster.
        pending: How many changes are not applied yet.
        ignored: How many entities have drift that is ignored.
        is_complete: Whether everything was compared.
        has_entities: Whether anything was compared.
        fingerprint: A digest of the drift set.
    """

    cluster_name: str
    cluster_id: str
    read_at: str
    is_snapshot: bool
    status: str
    summary: Mapping[str, int]
    in_sync: int
    pending: int
    ignored: int
    is_complete: bool
    has_entities: bool
    fingerprint: str

    @property
    def is_known(self) -> bool:
        """Whether the right cluster was compared."""
        return self.status != "unknown"

    @property
    def entities(self) -> int:
        """How many entities differ."""
        return sum(self.summary.values())


def digest_drift(drift: Drift) -> DriftDigest:
    """Return what drift amounts to."""
    return DriftDigest(
        cluster_name=drift.cluster_name,
        cluster_id=drift.cluster_id,
        read_at=drift.read_at if drift.snapshot is None else drift.snapshot.captured_at,
        is_snapshot=drift.snapshot is not None,
        status=drift.status,
        summary=drift.summary,
        in_sync=drift.in_sync,
        pending=len(drift.pending),
        ignored=drift.ignored_entities,
        is_complete=drift.is_complete,
        has_entities=drift.has_entities,
        fingerprint=drift.fingerprint,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptDigest:
    """What an apply amounts to.

    Attributes:
        plan_id: The id of the plan that was applied.
        tally: How many entities each result has; those that none has are left out.
        applied: By action, how many entities hold what the plan says and did not before.
        options: What was asked for when the plan was made.
        interruption: What cut the apply short, in words.
    """

    cluster_name: str
    cluster_id: str
    plan_id: str
    tally: Mapping[str, int]
    applied: Mapping[str, int]
    options: PlanOptions
    interrupted_by: str | None = None
    interruption: str | None = None

    @property
    def is_complete(self) -> bool:
        """Whether everything holds."""
        return all(Result(name).holds for name in self.tally)

    @property
    def wrote_anything(self) -> bool:
        """Whether anything was or may have been written."""
        return self.may_have_changed > 0

    @property
    def may_have_changed(self) -> int:
        """How many entities were or may have been changed."""
        return sum(count for name, count in self.tally.items() if Result(name).may_have_written)

    @property
    def entities(self) -> int:
        """How many entities the plan changes."""
        return sum(self.tally.values())


def digest_receipt(receipt: Receipt) -> ReceiptDigest:
    """Return what an apply amounts to."""
    return ReceiptDigest(
        cluster_name=receipt.plan.header.cluster_name,
        cluster_id=receipt.plan.header.cluster_id,
        plan_id=receipt.plan.plan_id,
        tally={result.value: count for result, count in receipt.tally.items()},
        applied={action.value: receipt.count(action) for action in Action},
        interrupted_by=receipt.interrupted_by,
        interruption=receipt.interruption,
        options=receipt.plan.header.options,
    )


def digest_result(value: object) -> object:
    """Return what a result amounts to; one that has no digest stands for itself."""
    if isinstance(value, Plan):
        return digest_plan(value)
    if isinstance(value, Receipt):
        return digest_receipt(value)
    return digest_drift(value) if isinstance(value, Drift) else value
