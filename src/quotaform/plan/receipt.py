"""What an apply did, entity by entity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated

from quotaform.model.entity import Entity
from quotaform.model.errors import ExitCode
from quotaform.model.finding import Allowance, Approval
from quotaform.model.quotas import Action, Change
from quotaform.model.records.record import Record, about
from quotaform.plan.plan import Plan, PlanOptions, PlanSource


class Result(StrEnum):
    """What became of the changes of one entity.

    | result | the cluster |
    | --- | --- |
    | applied | was read and holds what the plan says |
    | already-applied | held it before anything was sent |
    | refused | refused it; nothing changed on the entity |
    | unconfirmed | accepted it, and did not show it in time |
    | overwritten | accepted it, and holds other values now: it was changed again |
    | unknown | gave no answer; the change may be there, now or later |
    | not-attempted | was never asked |
    """

    APPLIED = "applied"
    ALREADY_APPLIED = "already-applied"
    REFUSED = "refused"
    UNCONFIRMED = "unconfirmed"
    OVERWRITTEN = "overwritten"
    UNKNOWN = "unknown"
    NOT_ATTEMPTED = "not-attempted"

    @property
    def holds(self) -> bool:
        """Whether the cluster is known to hold what the plan says."""
        return self in (Result.APPLIED, Result.ALREADY_APPLIED)

    @property
    def may_have_written(self) -> bool:
        """Whether the apply changed the entity, or may have."""
        return self in (Result.APPLIED, Result.UNCONFIRMED, Result.OVERWRITTEN, Result.UNKNOWN)


@dataclass(frozen=True, slots=True)
class EntityResult:
    """What became of one entity, with the broker's words when it was refused or why."""

    entity: Entity
    action: Action
    result: Result
    message: str = ""
    rows: tuple[Change, ...] = ()  # What the plan changes of it; empty in receipts before 1.1, and before it is kept


class Run(Record):
    """The CI job that applied it, according to its environment."""

    system: Annotated[str, about("The CI system.", "github", "gitlab")]
    url: Annotated[str | None, about("The URL of the job, or null.")] = None
    actor: Annotated[str | None, about("The CI user who started it, or null.")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """Who applied which plan when, and what became of it."""

    plan: Plan
    results: tuple[EntityResult, ...]  # One per entity of the plan, in its order
    applied_by: str  # Who, as the operating system says
    started_at: str
    finished_at: str
    interrupted_by: str | None = None  # The name of the signal that cut it short, if one did
    internal_error: str | None = None  # The mistake of quotaform's own that cut it short, if one did
    run: Run | None = None  # The job of a CI system that applied it, if one did
    is_started: bool = False  # Whether it is a started receipt, made before the first change was sent

    @classmethod
    def started(
        cls, plan: Plan, *, applied: Collection[Entity] = (), applied_by: str, at: str, run: Run | None
    ) -> Receipt:
        """Return the receipt to write before the first change is sent, whose end is not known yet.

        `applied` holds the entities that hold what the plan says already. `at` is the time, ISO 8601 UTC.
        """
        results = (
            EntityResult(each.entity, each.action, Result.ALREADY_APPLIED if each.entity in applied else Result.UNKNOWN)
            for each in plan.changes
        )
        return cls(
            plan=plan,
            results=tuple(results),
            applied_by=applied_by,
            started_at=at,
            finished_at=at,
            run=run,
            is_started=True,
        )

    @property
    def interruption(self) -> str | None:
        """What cut the apply short, in words."""
        if self.internal_error is not None:
            return f"an internal error ({self.internal_error}); please report it"
        return self.interrupted_by

    @property
    def is_complete(self) -> bool:
        """Whether everything holds."""
        return _all_hold(self.results)

    @property
    def wrote_anything(self) -> bool:
        """Whether anything was or may have been written."""
        return any(result.result.may_have_written for result in self.results)

    def count(self, action: Action) -> int:
        """How many entities with this action hold what the plan says and did not before."""
        return sum(result.action is action and result.result is Result.APPLIED for result in self.results)

    @property
    def tally(self) -> Mapping[Result, int]:
        """How many entities there are per result."""
        return _tally(self.results)

    def saved(self) -> SavedReceipt:
        """Return what is kept of it: the plan is not, but what the plan changed is."""
        header = self.plan.header
        rows_of = {change.entity: change.changes for change in self.plan.changes}
        return SavedReceipt(
            plan_id=self.plan.plan_id,
            cluster_name=header.cluster_name,
            cluster_id=header.cluster_id,
            source=header.source,
            options=header.options,
            allowances=self.plan.allowances,
            approvals=self.plan.approvals,
            applied_by=self.applied_by,
            run=self.run,
            started_at=self.started_at,
            finished_at=self.finished_at,
            interrupted_by=self.interruption,
            is_started=self.is_started,
            declared=self.plan.declared,
            results=tuple(replace(item, rows=rows_of[item.entity]) for item in self.results),
        )

    @property
    def digest(self) -> ReceiptDigest:
        """What is left of it where applies to many clusters are counted."""
        return ReceiptDigest(
            cluster_name=self.plan.header.cluster_name,
            cluster_id=self.plan.header.cluster_id,
            plan_id=self.plan.plan_id,
            tally={result.value: count for result, count in self.tally.items()},
            applied={action.value: self.count(action) for action in Action},
            interrupted_by=self.interrupted_by,
            interruption=self.interruption,
            options=self.plan.header.options,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedReceipt:
    """A receipt as it is kept: what an apply did, without the plan that it applied."""

    plan_id: str
    cluster_name: str
    cluster_id: str
    source: PlanSource
    # What was asked for when the plan was made; `None` in receipts before version 1.2.
    options: PlanOptions | None = None
    allowances: tuple[Allowance, ...] = ()
    approvals: tuple[Approval, ...] = ()  # The approvals that the plan depended on
    applied_by: str  # Who, as the operating system says
    run: Run | None = None  # The job of a CI system that did it, if one did
    started_at: str
    finished_at: str
    interrupted_by: str | None = None  # What cut it short, in words
    # Whether it was written before the first change was sent, and the apply never completed it.
    is_started: bool = False
    # All entities for which the files declared values; `None` in receipts before version 1.1.
    declared: frozenset[Entity] | None = None
    results: tuple[EntityResult, ...]  # One per entity of the plan, in its order

    @property
    def is_complete(self) -> bool:
        """Whether everything held when it was written."""
        return _all_hold(self.results)

    @property
    def is_whole(self) -> bool:
        """Whether the cluster held everything that the files declared: a whole plan, and all of it was applied."""
        is_partial = self.options is not None and self.options.is_partial
        return self.is_complete and not (is_partial or self.is_revert)

    @property
    def is_revert(self) -> bool:
        """Whether it put back what another apply had changed, and did not follow the files."""
        return self.options is not None and self.options.is_revert

    @property
    def tally(self) -> Mapping[Result, int]:
        """How many entities there are per result."""
        return _tally(self.results)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptDigest:
    """What is kept of each apply in a run over many clusters: counts, and nothing of the size of its entities."""

    cluster_name: str
    cluster_id: str
    plan_id: str
    tally: Mapping[str, int]  # How many entities each result has; those that none has are left out
    applied: Mapping[str, int]  # By action, how many entities hold what the plan says and did not before
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

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of a run that applies."""
        codes = []
        if self.interrupted_by is not None:
            codes.append(ExitCode.INTERRUPTED if self.interrupted_by == "SIGINT" else ExitCode.TERMINATED)
        if not self.is_complete:
            codes.append(ExitCode.PARTIAL if self.wrote_anything else ExitCode.ERROR)
        return ExitCode.most_severe(codes)

    @property
    def counts(self) -> Mapping[str, int]:
        """Its numbers, by name."""
        return {"changes": self.may_have_changed, **self.applied}


def _all_hold(results: Iterable[EntityResult]) -> bool:
    return all(item.result.holds for item in results)


def _tally(results: Iterable[EntityResult]) -> Mapping[Result, int]:
    return Counter(item.result for item in results)
