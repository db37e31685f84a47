"""A plugin of pytest (`-p tests.executed_functions`): records which functions each test executes, or runs given tests.

The environment says what is wanted: `QUOTAFORM_RECORD_FUNCTIONS` is the file to write, `QUOTAFORM_RUN_TESTS` a file
with the names of the tests to run, in their order.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections import defaultdict
from collections.abc import Generator
from functools import cache
from pathlib import Path
from time import perf_counter
from types import CodeType
from typing import Final

import pytest

_ROOT: Final = Path(__file__).resolve().parents[1]
_RECORD: Final = os.environ.get("QUOTAFORM_RECORD_FUNCTIONS")
_RUN: Final = os.environ.get("QUOTAFORM_RUN_TESTS")

_recorded: defaultdict[str, list[tuple[float, int, str]]] = defaultdict(list)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, bool | None, bool | None]:
    """Record the functions of the package that a test executes in this process, if it passes."""
    if _RECORD is None:
        return (yield)
    executed: set[CodeType] = set()
    failed, began = item.session.testsfailed, perf_counter()
    # It is called for each call of a Python function, and returns None: no line is traced.
    threading.settrace(lambda frame, *_: executed.add(frame.f_code))
    sys.settrace(lambda frame, *_: executed.add(frame.f_code))
    try:
        return (yield)
    finally:
        sys.settrace(None)
        threading.settrace(None)
        names = {name for code in executed if (name := _name_of(code)) is not None}
        for name in names if item.session.testsfailed == failed else ():
            _recorded[name].append((perf_counter() - began, len(names), item.nodeid))


@cache
def _name_of(code: CodeType) -> str | None:
    """Return file and qualified name of a function; what is nested in one belongs to it."""
    path = Path(code.co_filename)
    if not path.is_relative_to(_ROOT / "src"):
        return None
    return f"{path.relative_to(_ROOT).as_posix()}:{code.co_qualname.partition('.<locals>')[0]}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests that were asked for, in their order."""
    if _RUN is not None:
        order = {test: index for index, test in enumerate(json.loads(Path(_RUN).read_text()))}
        items[:] = sorted((item for item in items if item.nodeid in order), key=lambda item: order[item.nodeid])


def pytest_sessionfinish() -> None:
    """Write the tests of each function, the fastest first: seconds, how many functions it executes, its name."""
    if _RECORD is not None:
        Path(_RECORD).write_text(json.dumps({name: sorted(tests) for name, tests in _recorded.items()}))
