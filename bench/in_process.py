#!/usr/bin/env python3
"""Run `quotaform` in this process with a part of it left out or repeated: what the part takes is the difference.

`in_process.py unchecked ARGUMENTS` makes plans without guards, lints and policies; `in_process.py rounds N ARGUMENTS`
lets `drift --watch` end after N rounds, one right after the other, if all clusters are in sync.
"""

from __future__ import annotations

import os
import sys
from typing import Any, NoReturn

from quotaform.cli.console import run_as_process
from quotaform.cli.main import run
from quotaform.drift.watch import Watch
from quotaform.plan.run import plan


def without_checks(made: Any, *_: Any) -> Any:
    """Return a plan without findings."""
    return made


def make_rounds(watching: Watch, count: int) -> NoReturn:
    """Make rounds, and end this process."""
    for _ in range(count):
        watching.make_round()
    _, health = watching.health()
    in_sync = [each for each in health["clusters"].values() if each["status"] == "in-sync"]
    print(f"{count} rounds, {len(in_sync)} in sync", flush=True)
    os._exit(0)


def main() -> None:
    """Change what the first argument says, and run the others."""
    what, *arguments = sys.argv[1:]
    if what == "unchecked":
        vars(plan)["with_findings"] = without_checks
    else:
        count = int(arguments.pop(0))
        Watch.run = lambda self: make_rounds(self, count)  # type: ignore[method-assign]
    run_as_process(lambda _: run(arguments))


if __name__ == "__main__":
    main()
