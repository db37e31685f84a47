"""A program that runs commands one after the other: in one session, as a notebook does, or each in its own.

Each line of stdin is a JSON object, and so is each line of stdout, its answer. The first line of stdout says that the
session has started.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from quotaform.fleet.options import SessionOptions
from quotaform.fleet.session import spark_session
from quotaform.model.errors import QuotaformError
from tests.spark.query import answer
from tests.workflow.command import Result, call, run


def main() -> None:
    """Answer until stdin ends."""
    # What commands print goes elsewhere.
    output = os.fdopen(os.dup(1), "w", encoding="utf-8")
    options = json.loads(sys.argv[1])
    with ExitStack() as stack:
        if options is not None:
            stack.enter_context(spark_session(SessionOptions(**options)))
        print(json.dumps("started"), file=output, flush=True)
        for line in sys.stdin:
            print(json.dumps(asdict(done(json.loads(line)))), file=output, flush=True)


def done(request: dict[str, Any]) -> Result:
    """Do what a line says."""
    if "session" in request:
        return call(lambda _: _ask(SessionOptions(**request["session"])), env=request["env"])
    return run(*request["arguments"], cwd=Path(request["cwd"]), env=request["env"])


def _ask(options: SessionOptions) -> int:
    try:
        print(json.dumps(answer(options)))
    except QuotaformError as error:
        print(error, file=sys.stderr)
        return int(error.exit_code)
    return 0


if __name__ == "__main__":
    main()
