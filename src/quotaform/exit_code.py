"""The exit codes of the commands: errors carry one, and the process ends with one."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """The exit codes of `quotaform`.

    | code | meaning |
    | --- | --- |
    | 0 | success, or nothing to do |
    | 1 | error: could not read, connect or authorise; nothing was written |
    | 2 | differences found: `plan --detailed-exitcode`, `drift` |
    | 3 | the files are invalid |
    | 4 | blocked, rejected by the broker's dry run, or not approved |
    | 5 | stale: the plan, its id or the cluster does not match |
    | 6 | partial: some changes were written, and some are not in effect |
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
