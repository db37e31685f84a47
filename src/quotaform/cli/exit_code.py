"""Which status the process ends with."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Final


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


def decide(codes: Iterable[ExitCode]) -> ExitCode:
    """Return the code that matters most: 64 before 1, 3, 4, 2 and 0; what was interrupted or written before all.

    >>> decide([ExitCode.DONE, ExitCode.DIFFERENCES, ExitCode.BLOCKED])
    <ExitCode.BLOCKED: 4>
    """
    found = set(codes)
    return next((code for code in _PRECEDENCE if code in found), ExitCode.DONE)
