"""Which status the process ends with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from quotaform.model.errors import ExitCode
from quotaform.model.outcome import ClusterOutcome

if TYPE_CHECKING:
    from quotaform.cluster.scram_credential import ScramResult, ScramUser
    from quotaform.drift.drift import DriftDigest
    from quotaform.model.outcome import FormattedFile, Validation
    from quotaform.plan.plan import PlanDigest
    from quotaform.plan.receipt import ReceiptDigest
    from quotaform.review.run import CommentOutcome

T = TypeVar("T")

_PRECEDENCE: Final = (
    ExitCode.TERMINATED,
    ExitCode.INTERRUPTED,
    ExitCode.PARTIAL,
    ExitCode.STALE,
    ExitCode.USAGE,
    ExitCode.ERROR,
    ExitCode.INVALID,
    ExitCode.BLOCKED,
    ExitCode.DIFFERENCES,
)
_NOTHING_WRITTEN: Final = frozenset(
    {ExitCode.STALE, ExitCode.USAGE, ExitCode.ERROR, ExitCode.INVALID, ExitCode.BLOCKED}
)
"""The codes of a cluster to which nothing was written."""


def decide(outcomes: Iterable[ClusterOutcome[T]], judge: Callable[[T], ExitCode]) -> ExitCode:
    """Return the code of a run: the one that matters most among those of its outcomes.

    >>> from quotaform.model.errors import ClusterError
    >>> decide([ClusterOutcome("a", 1), ClusterOutcome("b", error=ClusterError("down"))], ExitCode)
    <ExitCode.ERROR: 1>

    `judge`: returns the code of an outcome that has a value.
    """
    return gravest(
        judge(outcome.require()) if outcome.error is None else outcome.error.exit_code for outcome in outcomes
    )


def decide_apply(outcomes: Sequence[ClusterOutcome[ReceiptDigest]]) -> ExitCode:
    """Return the code of applying plans: what holds for a cluster to which nothing was written does not for the run."""
    code = decide(outcomes, judge_receipt)
    wrote_anything = any(outcome.error is None and outcome.require().wrote_anything for outcome in outcomes)
    return ExitCode.PARTIAL if wrote_anything and code in _NOTHING_WRITTEN else code


def gravest(codes: Iterable[ExitCode]) -> ExitCode:
    """Return the code that matters most."""
    found = set(codes)
    return next((code for code in _PRECEDENCE if code in found), ExitCode.DONE)


def judge_plan(plan: PlanDigest, *, is_detailed: bool = False) -> ExitCode:
    """Return the code of a plan.

    `is_detailed`: whether differences count (`--detailed-exitcode`).
    """
    if not plan.is_applyable:
        return ExitCode.BLOCKED
    return ExitCode.DIFFERENCES if plan.changes and is_detailed else ExitCode.DONE


def judge_drift(drift: DriftDigest, *, is_reported_only: bool = False) -> ExitCode:
    """Return the code of a comparison.

    `is_reported_only`: whether differences do not count (`--exit-zero`).
    """
    if not drift.is_known:
        return ExitCode.ERROR
    return ExitCode.DIFFERENCES if drift.entities and not is_reported_only else ExitCode.DONE


def judge_scram(result: ScramResult) -> ExitCode:
    """Return the code of setting or deleting SCRAM credentials."""
    if not result.failed:
        return ExitCode.DONE
    return ExitCode.PARTIAL if result.wrote_anything else ExitCode.ERROR


def judge_scram_users(users: Iterable[ScramUser]) -> ExitCode:
    """Return the code of describing SCRAM credentials: that of an error when a user has none."""
    return ExitCode.ERROR if any(user.code for user in users) else ExitCode.DONE


def judge_lost_output(code: int, *, is_kept: bool) -> int:
    """Return the code of a run whose output could not be written.

    `code`: the code of what was done. `is_kept`: whether something may have been changed, of which the code must tell.
    """
    return code if is_kept else gravest({ExitCode(code), ExitCode.ERROR})


def judge_comment(outcome: CommentOutcome) -> ExitCode:
    """Return the code of writing a comment."""
    return ExitCode.DONE if outcome.step is not None else ExitCode.ERROR


def judge_format(file: FormattedFile, *, is_written: bool) -> ExitCode:
    """Return the code of bringing a file into the style.

    `is_written`: whether differences are written, so that they do not count.
    """
    if file.problems:
        return ExitCode.INVALID
    return ExitCode.DIFFERENCES if file.is_changed and not is_written else ExitCode.DONE


def judge_validation(validation: Validation) -> ExitCode:
    """Return the code of checking the files."""
    return ExitCode.DONE if validation.is_valid else ExitCode.INVALID


def judge_receipt(receipt: ReceiptDigest) -> ExitCode:
    """Return the code of an apply."""
    codes = []
    if receipt.interrupted_by is not None:
        codes.append(ExitCode.INTERRUPTED if receipt.interrupted_by == "SIGINT" else ExitCode.TERMINATED)
    if not receipt.is_complete:
        codes.append(ExitCode.PARTIAL if receipt.wrote_anything else ExitCode.ERROR)
    return gravest(codes)
