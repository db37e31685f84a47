"""What an apply did, entity by entity, its receipt, which is JSON that is refused if it was modified, and its revert.

Format 1.3, `schemas/receipt.schema.json`. Like a plan file, it is verified when it is loaded, see
`quotaform.model.records.record`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Final, Literal, Self

from msgspec import Struct, field, structs

from quotaform.model.entity import Entity
from quotaform.model.errors import StaleError, first_lines
from quotaform.model.finding import Allowance, Approval
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import NO_VALUES, Action, ActionName, Base, Cause, Change, Quotas, same_value
from quotaform.model.records.document import RECEIPT, json_number, sealed_lines
from quotaform.model.records.record import (
    Address,
    ClusterRecord,
    Count,
    Digest,
    QuotaKeyName,
    Record,
    SealedFormat,
    ShapeError,
    Timestamp,
    Value,
    about,
    derived,
    read_sealed,
    readable,
    sealed_fields,
    written,
)
from quotaform.model.scope import Selection
from quotaform.model.text import option_of
from quotaform.model.units import is_writable
from quotaform.plan.check.saved import Problem, entity_problem, value_problem
from quotaform.plan.digest import ClusterDigest, FleetRow, FleetStatus
from quotaform.plan.plan import EntityChange, Plan, PlanOptions, PlanSource
from quotaform.plan.records import checked_approval, checked_options, dump_declared, load_declared, load_number
from quotaform.resolve.effect import value_text


class Result(StrEnum):
    """What became of the changes of one entity."""

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


class RowRecord(Record):
    """The planned change of one quota key; the result says whether it is in effect."""

    key: QuotaKeyName
    before: Annotated[Value | None, about("The live value before the apply, or null.")]
    after: Annotated[Value | None, about("The value after the apply, or null if the key is removed.")]


class EntityResult(Record):
    """The result for one entity."""

    address: Address = derived(lambda item: item.entity.address)
    entity: Entity
    action: ActionName
    result: Annotated[
        Result,
        about(
            "applied: written and read back. already-applied: already as planned before the apply. refused: rejected "
            "by the broker; not changed. unconfirmed: accepted, but not visible before the time limit. overwritten: "
            "accepted, but changed by somebody else since. unknown: no response; the change may be in effect, now or "
            "later. not-attempted: not sent."
        ),
    ]
    message: Annotated[str | None, about("The message of the broker or the reason; null on success.")] = None
    keys: Annotated[
        tuple[RowRecord, ...], about("The quota keys that the plan changes, with the values before and after.")
    ] = ()

    @classmethod
    def of(cls, change: EntityChange, result: Result, message: str | None = None) -> Self:
        """Return what became of a change of a plan."""
        keys = tuple(
            [
                RowRecord(key=row.key, before=json_number(row.before), after=json_number(row.after))
                for row in change.changes
            ]
        )
        return cls(entity=change.entity, action=change.action, result=result, message=message, keys=keys)

    @property
    def rows(self) -> tuple[Change, ...]:
        """What the plan changes of it."""
        return tuple(
            [Change(self.entity, row.key, load_number(row.before), load_number(row.after)) for row in self.keys]
        )


class Run(Record):
    """The CI job that applied it, according to its environment."""

    system: Annotated[str, about("The CI system.", "github", "gitlab")]
    url: Annotated[str | None, about("The URL of the job, or null.")] = None
    actor: Annotated[str | None, about("The CI user who started it, or null.")] = None


class Receipt(Struct, frozen=True, kw_only=True):
    """Who applied which plan when, and what became of it."""

    plan: Plan
    results: tuple[EntityResult, ...]  # One per entity of the plan, in its order
    applied_by: str  # Who, as the operating system says
    started_at: str
    finished_at: str
    interrupted_by: str | None = None  # The name of the signal that cut it short, if one did
    internal_error: str | None = None  # The error in quotaform that cut it short, if one did
    run: Run | None = None  # The job of a CI system that applied it, if one did
    is_started: bool = False  # Whether it is a started receipt, made before the first change was sent

    @property
    def interruption(self) -> str | None:
        """What cut the apply short, in words."""
        if self.internal_error is not None:
            return f"an internal error ({self.internal_error}); please report it"
        return self.interrupted_by

    @property
    def is_complete(self) -> bool:
        """Whether everything holds."""
        return all(item.result.holds for item in self.results)

    def saved(self) -> SavedReceipt:
        """Return what is kept of it: the plan is not, but what the plan changed is."""
        plan, header = self.plan, self.plan.header
        return SavedReceipt(
            plan_id=plan.plan_id,
            state="started" if self.is_started else None,
            cluster=header.cluster,
            source=ReceiptSource(**structs.asdict(header.source)),
            options=header.options,
            allowances=tuple(map(str, plan.allowances)),
            approvals=plan.approvals,
            applied_by=self.applied_by,
            run=self.run,
            started_at=self.started_at,
            finished_at=self.finished_at,
            interrupted_by=self.interruption,
            declared_addresses=dump_declared(plan.declared),
            results=self.results,
        )

    @property
    def digest(self) -> ClusterDigest:
        """Return what a report of many clusters keeps of it."""
        header, tally = self.plan.header, counted_results(self.results)
        applied = {
            action.value: sum(each.action is action and each.result is Result.APPLIED for each in self.results)
            for action in Action
        }
        already = tally[Result.ALREADY_APPLIED]
        may_have_changed = sum(count for result, count in tally.items() if result.may_have_written)
        status = FleetStatus.APPLIED if self.results else FleetStatus.UNCHANGED
        row = FleetRow(
            cluster=header.cluster.name,
            cluster_id=header.cluster.id,
            status=status if self.is_complete else FleetStatus.INCOMPLETE,
            entities={
                **applied,
                "already_applied": already,
                "not_in_effect": len(self.results) - already - sum(applied.values()),
            },
            differences=len(self.results),
        )
        return ClusterDigest(
            row=row,
            counts={"changes": may_have_changed, **applied},
            plan_id=self.plan.plan_id,
            tally=tally,
            wrote_anything=may_have_changed > 0,
            interrupted_by=self.interrupted_by,
        )


class ReceiptSource(PlanSource, omit_defaults=True):
    """The origin of the files."""

    base: Annotated[Base | None, about("What the files were compared with.")] = None


class SavedReceipt(Record, document=RECEIPT, dict=True, omit_defaults=True):
    """The result of applying a plan, as quotaform apply writes it."""

    plan_id: Annotated[Digest, about("The id of the applied plan.")]
    state: Annotated[
        Literal["started"] | None,
        about(
            "started: written before the first change was sent, and never completed, so that the apply was killed or "
            "is running; results say what was intended. Omitted once the apply has ended."
        ),
    ] = None
    cluster: ClusterRecord
    source: Annotated[ReceiptSource, about("Where the files came from; base is omitted if there is none.")]
    options: Annotated[PlanOptions, about("The options of the plan.")]
    allowances: Annotated[tuple[str, ...], about("The rules allowed for the plan, as RULE or RULE=N.")] = written(
        default=()
    )
    approvals: Annotated[
        tuple[Approval, ...],
        about("The approvals of approvals.yaml that the plan depended on; omitted if there are none."),
    ] = ()
    applied_by: Annotated[str, about("The user, according to the operating system.")]
    run: Annotated[Run | None, about("Omitted outside CI.")] = None
    started_at: Annotated[Timestamp, about("When it began, as ISO 8601 in UTC.")]
    finished_at: Annotated[Timestamp, about("When it ended, as ISO 8601 in UTC.")]
    interrupted_by: Annotated[str | None, about("The signal that interrupted the apply, or null.", "SIGINT")] = written(
        default=None
    )
    is_complete: Annotated[bool, about("Whether all changes of the plan are in effect.")] = derived(
        lambda receipt: all(item.result.holds for item in receipt.results), name="complete"
    )
    summary: Annotated[dict[Result, Count], about("The number of entities per result.")] = derived(
        lambda receipt: counted_results(receipt.results)
    )
    declared_addresses: Annotated[
        tuple[Address, ...] | None,
        about(
            "The addresses of all entities that the files declared for the cluster, selected or not, sorted. Omitted "
            "by a revert if the files are invalid, and by an apply of rows, which has no files."
        ),
    ] = field(default=None, name="declared")
    results: Annotated[tuple[EntityResult, ...], about("One item per entity of the plan, in its order.")]
    digest: Annotated[Digest, about("A digest of everything else in this file.")] = derived(lambda _: "")

    @property
    def is_started(self) -> bool:
        """Whether it was written before the first change was sent, and the apply never completed it."""
        return self.state is not None

    @cached_property
    def declared(self) -> frozenset[Entity] | None:
        """All entities for which the files declared values; `None` if they were invalid, or there were none."""
        return load_declared(self.declared_addresses, (item.entity for item in self.results))


def counted_results(results: Iterable[EntityResult]) -> dict[Result, int]:
    """Return how many entities there are per result."""
    counts = Counter(item.result for item in results)
    return {result: counts[result] for result in Result}


RECEIPT_LISTS: Final = frozenset(("declared", "results"))
"""The fields of a receipt with a line per item."""

HEAD: Final = 512
"""A receipt says within this many bytes whether it is a started one."""

_FORMAT: Final = SealedFormat(
    kind=RECEIPT,
    record=SavedReceipt,
    lists=RECEIPT_LISTS,
    rows="results",
    remedy="use the file that quotaform apply wrote",
)


def receipt_lines(receipt: Receipt | SavedReceipt) -> Iterator[str]:
    """Yield a receipt as JSON in pieces, one line per entity."""
    saved = receipt.saved() if isinstance(receipt, Receipt) else receipt
    return sealed_lines(sealed_fields(saved, RECEIPT_LISTS, results=saved.results), RECEIPT_LISTS)


def is_started_head(content: bytes) -> bool:
    """Whether a file that begins like this (`HEAD`) is a started receipt, written by `receipt_lines`."""
    return b'\n  "state": "started",\n' in content


def load_receipt(text: str | bytes, file: str) -> SavedReceipt:
    """Read a receipt and make sure that it is one, and the one that was written.

    Raises `SavedFileError` or `SavedFileChangedError`.
    """
    return read_sealed(text, file, _FORMAT, _checked)


def _checked(receipt: SavedReceipt) -> SavedReceipt:
    with readable():
        for text in receipt.allowances:
            Allowance.parse(text)
        for each in receipt.approvals:
            checked_approval(each)
        checked_options(receipt.options)
        if receipt.declared_addresses != dump_declared(receipt.declared):
            raise ShapeError("declared", "is not a sorted list of addresses")
        for name, problem in _problems(receipt):
            raise ShapeError(name, problem)
    return receipt


def _problems(receipt: SavedReceipt) -> Iterator[Problem]:
    """Yield what a receipt holds and no apply notes."""
    seen = set()
    for index, item in enumerate(receipt.results):
        place, rows = f"results[{index}]", item.rows
        if item.entity in seen:
            yield f"{place}.entity", "is also in another result"
        seen.add(item.entity)
        if receipt.is_started and item.result not in (Result.UNKNOWN, Result.ALREADY_APPLIED):
            yield f"{place}.result", "contradicts the state"
        if problem := entity_problem(item.entity):
            yield f"{place}.{problem[0]}", problem[1]
        if not rows:
            yield f"{place}.keys", "is empty"
        if len({row.key for row in rows}) < len(rows):
            yield f"{place}.keys", "has a key twice"
        for number, row in enumerate(rows):
            if problem := value_problem(item.entity.types, row.key, row.after):
                yield f"{place}.keys[{number}].{problem[0]}", problem[1]
            if same_value(row.before, row.after):
                yield f"{place}.keys[{number}]", "changes nothing"
            if (item.action is Action.CREATE and row.before is not None) or (
                item.action is Action.DELETE and row.after is not None
            ):
                yield f"{place}.keys[{number}]", "contradicts the action"


# Putting back what an apply changed: a key that holds what the apply wrote gets the value from before, and one that
# holds this is left; when a key holds anything else, it was changed again, on purpose, and the whole revert is refused.
# Nothing else is touched: an entity that held the planned values before, or whose change was refused or not sent.


class Revert(Struct, frozen=True, kw_only=True):
    """What there is to do to put back what an apply changed."""

    receipt: SavedReceipt
    rows: list[Change] = []  # The keys to put back, each with its live value and the one from before
    back: int = 0  # How many entities have nothing to put back
    left: list[Entity] = []  # The entities that held the planned values before the apply, which did not change them
    # What the apply did to a key that holds neither what it wrote nor what was there before, and the value now.
    moved: list[tuple[Change, float | None]] = []
    unwritable: list[Change] = []  # The keys to put back to a value that no file can declare, as NaN
    files_problem: str | None = None  # Why it is not known what the files declare, if it is not
    claimed: frozenset[Entity] = frozenset()  # What other quota repositories declare for the cluster
    claims_problem: str | None = None  # Why that is not known, if it is not
    policies_problem: str | None = None  # Why the values cannot be checked against the policies, if they cannot


def find_revert(receipt: SavedReceipt, actual: Quotas, selection: Selection) -> Revert:
    """Compare what an apply changed with what the cluster holds now."""
    found, back = Revert(receipt=receipt), 0
    for item in receipt.results:
        if not selection.contains(item.entity):
            continue
        if item.result is Result.ALREADY_APPLIED:
            found.left.append(item.entity)
        if not item.result.may_have_written:
            continue
        live = actual.get(item.entity, NO_VALUES)
        is_back = True
        for row in item.rows:
            value = live.get(row.key)
            if same_value(value, row.before):
                continue
            is_back = False
            if not same_value(value, row.after):
                found.moved.append((row, value))
            elif row.before is not None and not is_writable(QUOTA_KEYS[row.key], row.before):
                found.unwritable.append(row)
            else:
                found.rows.append(Change(row.entity, row.key, row.after, row.before))
        back += is_back
    return structs.replace(found, back=back)


def require_revertible(revert: Revert) -> None:
    """Make sure that everything can be put back.

    Raises `StaleError` if something has moved on, or was a value that cannot be written.
    """
    problems = []
    for row, live in revert.moved:
        problems.append(
            f"{row.entity.address}: {row.key} is {value_text(row.key, live)}; the apply changed it from "
            f"{value_text(row.key, row.before)} to {value_text(row.key, row.after)}, and somebody else has changed it "
            "since"
        )
    for row in revert.unwritable:
        was = value_text(row.key, row.before)
        problems.append(f"{row.entity.address}: {row.key} was {was} before the apply, which cannot be written")
    if problems:
        raise StaleError(
            "the apply cannot be reverted, so nothing is planned:",
            *first_lines(problems),
            f"Leave these entities out with {option_of('exclude')}, or declare the values that they are to have.",
        )


def as_revert(plan: Plan, revert: Revert) -> Plan:
    """Return a plan of the rows of a revert as what it is: its changes follow from the receipt, not from the files."""
    reason = f"reverts plan {revert.receipt.plan_id.removeprefix('sha256:')[:12]}"
    return replace(
        plan,
        changes=tuple(
            structs.replace(change, cause=Cause.REVERT, reason=reason, location=None, expires=None)
            for change in plan.changes
        ),
        unchanged=revert.back,
        unmanaged=(),
        declared=plan.declared if revert.files_problem is None else None,
    )
