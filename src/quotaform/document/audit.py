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
from json import dumps
from typing import Any, Final

from quotaform.core.canonical import json_number
from quotaform.core.digest import PlanDigest, digest_plan
from quotaform.core.receipt import Receipt, Result, Run
from quotaform.document.envelope import envelope
from quotaform.document.field import dump_cluster, dump_entity
from quotaform.document.receipt import dump_run
from quotaform.model.document_kind import AUDIT

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
    """Creates the lines about one run.

    Attributes:
        applied_by: Who, as the operating system says.
        run: The job of a CI system that it is, if it is one.
    """

    applied_by: str
    run: Run | None = None

    def start(self, plan: PlanDigest, time: str) -> str:
        """Return the line written before a plan is applied."""
        return self._line("start", plan, time, {"changes": plan.rows, "allowances": list(plan.allowances)})

    def ended(self, receipt: Receipt) -> Iterator[str]:
        """Yield the lines written after a plan was applied: one for each key that it changes, and the outcome."""
        yield from self.changes(receipt)
        yield self.end(receipt)

    def changes(self, receipt: Receipt) -> Iterator[str]:
        """Yield a line for each key that a plan changes."""
        plan = digest_plan(receipt.plan)
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
        return self._end(digest_plan(receipt.plan), receipt.finished_at, outcome, reason, summary)

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
            "run": None if self.run is None else dump_run(self.run),
        }
        return dumps(envelope(AUDIT, {**common, **fields})) + "\n"


def _cut(text: str) -> str | None:
    return text[:_LONGEST_TEXT] or None
