"""The audit log: one JSON object per line for what an apply did, and its schema.

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
from json import dumps
from typing import Any, Final

from quotaform.model.records.document import AUDIT, envelope, json_number
from quotaform.model.records.field import dump_cluster, dump_entity
from quotaform.model.records.record import builtins
from quotaform.model.records.schema import (
    Node,
    address,
    choice,
    count,
    digest,
    document,
    items,
    maybe,
    maybe_text,
    quota_key,
    record,
    record_definitions,
    ref,
    text,
    timestamp,
)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Auditor:
    """Creates the lines about one run."""

    applied_by: str  # Who, as the operating system says
    run: Run | None = None  # The job of a CI system that it is, if it is one

    def start(self, plan: PlanDigest, time: str) -> str:
        """Return the line written before a plan is applied."""
        return self._line("start", plan, time, {"changes": plan.rows, "allowances": list(plan.allowances)})

    def ended(self, receipt: Receipt) -> Iterator[str]:
        """Yield the lines written after a plan was applied: one for each key that it changes, and the outcome."""
        yield from self.changes(receipt)
        yield self.end(receipt)

    def changes(self, receipt: Receipt) -> Iterator[str]:
        """Yield a line for each key that a plan changes."""
        plan = receipt.plan.digest
        for item in receipt.saved().results:
            for row in item.rows:
                fields = {
                    **dump_entity(item.entity),
                    "key": row.key,
                    "action": row.action.value,
                    "before": json_number(row.before),
                    "after": json_number(row.after),
                    "result": item.result.value,
                    "message": _cut(item.message),
                }
                yield self._line("change", plan, receipt.finished_at, fields)

    def end(self, receipt: Receipt) -> str:
        """Return the line with the outcome of an apply."""
        outcome = AuditOutcome.COMPLETE if receipt.is_complete else AuditOutcome.INCOMPLETE
        reason = f"interrupted by {receipt.interruption}" if receipt.interruption else ""
        tally = receipt.tally
        summary = {result.value: tally.get(result, 0) for result in Result}
        return self._end(receipt.plan.digest, receipt.finished_at, outcome, reason, summary)

    def refused(self, plan: PlanDigest, time: str, reason: str) -> str:
        """Return the line for a refused plan."""
        return self._end(plan, time, AuditOutcome.REFUSED, reason, None)

    def _end(
        self, plan: PlanDigest, time: str, outcome: AuditOutcome, reason: str, summary: dict[str, int] | None
    ) -> str:
        return self._line("end", plan, time, {"outcome": outcome.value, "reason": _cut(reason), "summary": summary})

    def _line(self, event: str, plan: PlanDigest, time: str, fields: dict[str, Any]) -> str:
        common = {
            "event": event,
            "time": time,
            "cluster": dump_cluster(plan.cluster_name, plan.cluster_id),
            "plan_id": plan.plan_id,
            "commit": plan.commit,
            "applied_by": self.applied_by,
            "run": None if self.run is None else builtins(self.run),
        }
        return dumps(envelope(AUDIT, {**common, **fields})) + "\n"


def _cut(text: str) -> str | None:
    return text[:_LONGEST_TEXT] or None


_CHANGE = ("address", "entity", "key", "action", "before", "after", "result", "message")
_START = ("changes", "allowances")
_END = ("outcome", "reason", "summary")


def audit() -> tuple[Node, dict[str, Node]]:
    """Return the schema of a line of the audit log and its definitions."""
    schema = document(
        AUDIT,
        "One line of the file that quotaform apply --audit appends to: an apply begins, changes a quota key, or ends. "
        "A start without an end means that the apply was killed.",
        {
            "event": choice("The kind of line.", ("start", "change", "end")),
            "time": timestamp("When it was written"),
            "cluster": ref("cluster"),
            "plan_id": digest("The id of the plan."),
            "commit": maybe_text("The git commit of the files, or null outside of git."),
            "applied_by": text("The user, according to the operating system."),
            "run": maybe(ref("run"), "The CI job, or null outside CI."),
            "changes": count("For start: the number of quota keys that the plan changes."),
            "allowances": items("For start: the rules allowed for the plan.", {"type": "string"}),
            "address": address(),
            "entity": ref("entity"),
            "key": quota_key(),
            "action": ref("action"),
            "before": ref("maybe_value", "For change: the live value before the apply, or null."),
            "after": ref("maybe_value", "For change: the value after the apply, or null if the key is removed."),
            "result": choice("For change: the result for the entity, as in receipts.", (each.value for each in Result)),
            "message": maybe_text("For change: the message of the broker or the reason; null on success."),
            "outcome": choice(
                "For end: complete: all changes are in effect; incomplete: not all are; refused: nothing was written.",
                ("complete", "incomplete", "refused"),
            ),
            "reason": maybe_text("For end: why it was refused or interrupted, or null."),
            "summary": maybe(
                record("The number of entities per result.", {each.value: count("Entities.") for each in Result}),
                "For end: the number of entities per result; null if nothing was written.",
            ),
        },
        optional=(*_START, *_CHANGE, *_END),
    )
    fields = {"start": _START, "change": _CHANGE, "end": _END}
    rules: list[Node] = [
        {"if": {"properties": {"event": {"const": event}}}, "then": {"required": list(names)}}
        for event, names in fields.items()
    ]
    return {**schema, "allOf": rules}, record_definitions(Run)
