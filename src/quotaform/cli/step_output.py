"""What a step of GitHub Actions gives to later steps in the file `$GITHUB_OUTPUT`: the exit code and what it means.

Actions makes one failure of every code that is not 0, so the reason is what a workflow can act on:

| exit code | reason |
| --- | --- |
| 0 | `success` |
| 1 | `error` |
| 2 | `differences` |
| 3 | `invalid-files` |
| 4 | `blocked:RULE,RULE...`, `refused` (by the broker's dry run), `not-approved` |
| 5 | `stale` |
| 6 | `partial` |
| 64 | `usage` |
| 130, 143 | `interrupted`, `terminated` |

Of several clusters the reason is that of the gravest.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Any, Final

from quotaform.app.rendering import digest_of
from quotaform.atomic_file import append_to_regular_file
from quotaform.core.change import Action
from quotaform.core.digest import DriftDigest, PlanDigest, ReceiptDigest
from quotaform.core.outcome import ClusterOutcome
from quotaform.core.result import Validation
from quotaform.errors import (
    BlockedError,
    ClusterIdError,
    NotApprovedError,
    PlanBlockedError,
    QuotaformError,
    RefusedError,
)
from quotaform.exit_code import ExitCode
from quotaform.model.finding import Severity

COMMANDS: Final = frozenset({"plan", "apply", "drift", "validate"})
_REASONS: Final = {
    ExitCode.DONE: "success",
    ExitCode.ERROR: "error",
    ExitCode.DIFFERENCES: "differences",
    ExitCode.INVALID: "invalid-files",
    ExitCode.BLOCKED: "blocked",
    ExitCode.STALE: "stale",
    ExitCode.PARTIAL: "partial",
    ExitCode.USAGE: "usage",
    ExitCode.INTERRUPTED: "interrupted",
    ExitCode.TERMINATED: "terminated",
}


@dataclass(slots=True)
class StepOutput:
    """What is to be written.

    Attributes:
        blocked: Why clusters are blocked, in words such as `blocked:delete`.
        values: Further outputs by name.
    """

    blocked: set[str] = field(default_factory=set)
    values: dict[str, str] = field(default_factory=dict)

    def reason(self, code: int) -> str:
        """Return what an exit code means in this run."""
        if code == ExitCode.BLOCKED and self.blocked:
            rules = sorted({rule for word in self.blocked for rule in word.partition(":")[2].split(",") if rule})
            return f"blocked:{','.join(rules)}" if rules else min(self.blocked)
        return _REASONS[ExitCode(code)]


_STEP: ContextVar[StepOutput | None] = ContextVar("_STEP", default=None)


def _step() -> StepOutput:
    """Return what is collected for the step that is running."""
    step = _STEP.get()
    if step is None:
        step = StepOutput()
        _STEP.set(step)
    return step


def note_error(error: QuotaformError) -> None:
    """Take the reason from an error that ends the command."""
    if isinstance(error, BlockedError):
        _step().blocked.add(_error_reason(error))


def note_outcomes(outcomes: Iterable[ClusterOutcome[Any]]) -> None:
    """Take outputs from what became of clusters; numbers are those of all clusters together."""
    step = _step()
    totals: dict[str, int] = {}
    ids: list[str] = []
    fingerprints: list[str] = []
    for outcome in outcomes:
        if outcome.error is not None:
            note_error(outcome.error)
            continue
        value = digest_of(outcome.require())
        for name, number in _numbers(value).items():
            totals[name] = totals.get(name, 0) + number
        if isinstance(value, PlanDigest):
            ids.append(value.plan_id)
            if not value.is_applyable:
                step.blocked.add(_blocked(value.blocking))
        elif isinstance(value, ReceiptDigest):
            ids.append(value.plan_id)
        elif isinstance(value, DriftDigest):
            fingerprints.append(value.fingerprint)
    step.values |= {name: str(number) for name, number in totals.items()}
    if ids:
        step.values["plan_id"] = "\n".join(ids)
    if fingerprints:
        step.values["fingerprint"] = "\n".join(fingerprints)


def _numbers(value: object) -> Mapping[str, int]:
    if isinstance(value, PlanDigest):
        counts = {name: value.summary[name] for name in (*Action, "blocked")}
        return {"changes": value.changes, **counts}
    if isinstance(value, ReceiptDigest):
        return {"changes": value.may_have_changed, **value.applied}
    if isinstance(value, DriftDigest):
        return {"changes": value.entities, **value.summary, "pending": value.pending}
    if isinstance(value, Validation):
        return {"problems": sum(problem.severity is Severity.ERROR for problem in value.problems)}
    return {}


def _error_reason(error: BlockedError) -> str:
    if isinstance(error, PlanBlockedError):
        return _blocked(sorted({finding.rule for finding in error.findings if finding.blocking}))
    if isinstance(error, ClusterIdError):
        return "blocked:cluster-id"
    if isinstance(error, RefusedError):
        return "refused"
    return "not-approved" if isinstance(error, NotApprovedError) else "blocked"


def _blocked(rules: Iterable[str]) -> str:
    return f"blocked:{','.join(rules)}"


def end_step(code: int) -> str | None:
    """Append the outputs to `$GITHUB_OUTPUT`, and return why that is not possible, if so."""
    step = _step()
    _STEP.set(None)
    name = os.environ.get("GITHUB_OUTPUT")
    if not name:
        return None
    outputs = {"exitcode": str(code), "reason": step.reason(code), **step.values}
    try:
        append_to_regular_file(Path(name), "".join(_written(*each) for each in outputs.items()))
    except OSError as error:
        return f"the outputs of the step cannot be written: {error.strerror or error}"
    return None


def _written(name: str, value: str) -> str:
    """Return an output with an end that its value cannot contain."""
    end = f"quotaform-{token_hex(16)}"
    while end in value:
        end = f"quotaform-{token_hex(16)}"
    return f"{name}<<{end}\n{value}\n{end}\n"
