"""Asks a session in a process of its own, see `tests.spark.query_program`."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.workflow.command import Result, run_process

_ROOT = Path(__file__).parents[2]


def ask(env: Mapping[str, str] | None = None, **options: Any) -> Any:
    """Return what a session answers that `SessionOptions` of these options give."""
    done = asked(env, **options)
    assert (done.code, done.err) == (0, "")
    return json.loads(done.out)


def asked(env: Mapping[str, str] | None = None, **options: Any) -> Result:
    """Return how a session of such options ends."""
    program = ("-m", "tests.spark.query_program", json.dumps(options))
    return run_process(*program, cwd=_ROOT, env=env, command=sys.executable)
