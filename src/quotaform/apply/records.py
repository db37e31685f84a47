"""The audit log: one JSON object per line for what an apply did.

| event | written | additional fields |
| --- | --- | --- |
| `start` | before the connection to the cluster | `changes`, `allowances` |
| `change` | for each quota key of the plan, after the apply | `address` to `message` |
| `end` | last | `outcome`, `reason`, `summary` |

A `start` without an `end` means that the apply was killed. Lines are ASCII, so no name can move the cursor of a
terminal or start a new line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from quotaform.model.quotas import Action
from quotaform.model.records.document import AUDIT, json_number, spell
from quotaform.model.records.field import Address, ClusterRecord, Names, QuotaKeyName
from quotaform.model.records.record import UNSET, Count, Digest, Record, Timestamp, UnsetType, Value, about
from quotaform.model.records.schema import Node, document_of
from quotaform.plan.plan import PlanDigest
from quotaform.plan.receipt import Receipt, Result, Run

_LONGEST_TEXT: Final = 1_000
"""The limit on characters of a message in a line."""


class AuditOutcome(StrEnum):
    """How an apply ended.

    | outcome | the cluster |
    | --- | --- |
    | complete | holds what the plan says |
    | incomplete | does not hold all of it |
    | refused | was not changed |
    """

    COMPLETE = "complete"
    INCOMPLETE = "incomplete"
    REFUSED = "refused"


class AuditRecord(Record, document=AUDIT):
    """One line of the file that quotaform apply --audit appends to: an apply begins, changes a quota key, or ends.
    A start without an end means that the apply was killed.
    """

    event: Annotated[Literal["start", "change", "end"], about("The kind of line.")]
    time: Annotated[Timestamp, about("When it was written, as ISO 8601 in UTC.")]
    cluster: ClusterRecord
    plan_id: Annotated[Digest, about("The id of the plan.")]
    commit: Annotated[str | None, about("The git commit of the files, or null outside of git.")]
    applied_by: Annotated[str, about("The user, according to the operating system.")]
    run: Annotated[Run | None, about("The CI job, or null outside CI.")]
    changes: Annotated[Count | UnsetType, about("For start: the number of quota keys that the plan changes.")] = UNSET
    allowances: Annotated[list[str] | UnsetType, about("For start: the rules allowed for the plan.")] = UNSET
    address: Address | UnsetType = UNSET
    entity: Names | UnsetType = UNSET
    key: QuotaKeyName | UnsetType = UNSET
    action: Annotated[
        Action | UnsetType,
        about("create: no value before; update: another value before; delete: no value after."),
    ] = UNSET
    before: Annotated[Value | UnsetType | None, about("For change: the live value before the apply, or null.")] = UNSET
    after: Annotated[
        Value | UnsetType | None, about("For change: the value after the apply, or null if the key is removed.")
    ] = UNSET
    result: Annotated[Result | UnsetType, about("For change: the result for the entity, as in receipts.")] = UNSET
    message: Annotated[
        str | UnsetType | None, about("For change: the message of the broker or the reason; null on success.")
    ] = UNSET
    outcome: Annotated[
        AuditOutcome | UnsetType,
        about("For end: complete: all changes are in effect; incomplete: not all are; refused: nothing was written."),
    ] = UNSET
    reason: Annotated[str | UnsetType | None, about("For end: why it was refused or interrupted, or null.")] = UNSET
    summary: Annotated[
        dict[Result, Count] | UnsetType | None,
        about("For end: the number of entities per result; null if nothing was written."),
    ] = UNSET


@dataclass(frozen=True, slots=True, kw_only=True)
class Auditor:
    """Creates the lines about one run."""

    applied_by: str  # Who, as the operating system says
    run: Run | None = None  # The job of a CI system that it is, if it is one

    def start(self, plan: PlanDigest, time: str) -> str:
        """Return the line written before a plan is applied."""
        return self._line("start", plan, time, changes=plan.rows, allowances=list(plan.allowances))

    def ended(self, receipt: Receipt) -> Iterator[str]:
        """Yield the lines written after a plan was applied: one for each key that it changes, and the outcome."""
        yield from self.changes(receipt)
        yield self.end(receipt)

    def changes(self, receipt: Receipt) -> Iterator[str]:
        """Yield a line for each key that a plan changes."""
        plan = receipt.plan.digest
        for item in receipt.saved().results:
            for row in item.rows:
                yield self._line(
                    "change",
                    plan,
                    receipt.finished_at,
                    address=item.entity.address,
                    entity=item.entity.names,
                    key=row.key,
                    action=row.action,
                    before=json_number(row.before),
                    after=json_number(row.after),
                    result=item.result,
                    message=_cut(item.message or ""),
                )

    def end(self, receipt: Receipt) -> str:
        """Return the line with the outcome of an apply."""
        outcome = AuditOutcome.COMPLETE if receipt.is_complete else AuditOutcome.INCOMPLETE
        reason = f"interrupted by {receipt.interruption}" if receipt.interruption else ""
        tally = receipt.digest.tally
        summary = {result: tally.get(result, 0) for result in Result}
        return self._end(receipt.plan.digest, receipt.finished_at, outcome, reason, summary)

    def refused(self, plan: PlanDigest, time: str, reason: str) -> str:
        """Return the line for a refused plan."""
        return self._end(plan, time, AuditOutcome.REFUSED, reason, None)

    def _end(
        self, plan: PlanDigest, time: str, outcome: AuditOutcome, reason: str, summary: dict[Result, int] | None
    ) -> str:
        return self._line("end", plan, time, outcome=outcome, reason=_cut(reason), summary=summary)

    def _line(self, event: Literal["start", "change", "end"], plan: PlanDigest, time: str, **fields: Any) -> str:
        line = AuditRecord(
            event=event,
            time=time,
            cluster=ClusterRecord(name=plan.cluster_name, id=plan.cluster_id),
            plan_id=plan.plan_id,
            commit=plan.commit,
            applied_by=self.applied_by,
            run=self.run,
            **fields,
        )
        return spell(line) + "\n"


def _cut(text: str) -> str | None:
    return text[:_LONGEST_TEXT] or None


_FIELDS: Final = {
    "start": ["changes", "allowances"],
    "change": ["address", "entity", "key", "action", "before", "after", "result", "message"],
    "end": ["outcome", "reason", "summary"],
}


def audit() -> tuple[Node, dict[str, Node]]:
    """Return the schema of a line of the audit log and its definitions."""
    schema, definitions = document_of(AuditRecord)
    rules: list[Node] = [
        {"if": {"properties": {"event": {"const": event}}}, "then": {"required": names}}
        for event, names in _FIELDS.items()
    ]
    return {**schema, "allOf": rules}, definitions
