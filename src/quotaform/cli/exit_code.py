"""Which status the process ends with."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from quotaform.core.receipt import Receipt


class ExitCode(IntEnum):
    """The exit codes of `quotaform`.

    | code | meaning |
    | --- | --- |
    | 0 | done, or nothing to do |
    | 1 | error: could not read, connect or authorise; nothing was written |
    | 2 | differences: `plan --detailed-exitcode`, `drift` |
    | 3 | the files are invalid |
    | 4 | blocked, refused by the dry run, or not approved |
    | 5 | stale: plan, plan id or cluster no longer match |
    | 6 | partial: something was written, and not all of it holds |
    | 64 | wrong usage of the command |
    | 130, 143 | interrupted |
    """

    DONE = 0
    ERROR = 1
    DIFFERENCES = 2
    INVALID = 3
    BLOCKED = 4
    STALE = 5
    PARTIAL = 6
    USAGE = 64
    INTERRUPTED = 130
    TERMINATED = 143


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
    ExitCode.DONE,
)


def decide(
    *,
    differs: bool = False,
    is_blocked: bool = False,
    is_invalid: bool = False,
    is_unknown: bool = False,
    receipt: Receipt | None = None,
) -> ExitCode:
    """Return the code that matters most of all that a run found out.

    >>> decide(differs=True, is_blocked=True)
    <ExitCode.BLOCKED: 4>

    Args:
        differs: There are differences, and they count as a result.
        is_blocked: Something blocks the plan.
        is_invalid: The files are invalid.
        is_unknown: What was asked could not be found out.
        receipt: What an apply did.
    """
    found = {
        ExitCode.DIFFERENCES: differs,
        ExitCode.BLOCKED: is_blocked,
        ExitCode.INVALID: is_invalid,
        ExitCode.ERROR: is_unknown,
    }
    if receipt is not None:
        is_cut = receipt.interrupted_by is not None
        found[ExitCode.TERMINATED] = is_cut and receipt.interrupted_by in ("SIGTERM", "SIGHUP")
        found[ExitCode.INTERRUPTED] = receipt.interrupted_by == "SIGINT"
        found[ExitCode.PARTIAL] = not receipt.is_complete and receipt.wrote_anything
        found[ExitCode.ERROR] |= not receipt.is_complete
    return next((code for code in _PRECEDENCE if found.get(code)), ExitCode.DONE)
