"""One function decides the exit code, and every error has one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from quotaform.model import errors
from quotaform.model.entity import Entity
from quotaform.model.errors import ExitCode, QuotaformError
from quotaform.model.outcome import ClusterOutcome, exit_code
from quotaform.plan.receipt import Receipt, Result
from tests.builder import PRODUCER, plan_of, receipt_of


def error_classes(base: type[QuotaformError] = QuotaformError) -> Iterator[type[QuotaformError]]:
    yield base
    for each in base.__subclasses__():
        yield from error_classes(each)


def receipt(result: Result) -> Receipt:
    return receipt_of(plan_of({Entity(user="a"): {PRODUCER: 1.0}}, {}), result)


DOWN, STALE = errors.ClusterError("down"), errors.StaleError("old")
INVALID = errors.InvalidFilesError([])


@pytest.mark.parametrize(
    ("found", "code"),
    [
        ([], 0),
        ([ExitCode.DONE, ExitCode.DIFFERENCES], 2),
        ([ExitCode.BLOCKED, ExitCode.DIFFERENCES], 4),
        ([INVALID, ExitCode.BLOCKED], 3),
        ([INVALID, DOWN, ExitCode.DONE], 1),
        ([errors.UsageError("no"), DOWN], 64),
        ([ExitCode.PARTIAL, STALE, DOWN], 6),
        ([ExitCode.INTERRUPTED, ExitCode.PARTIAL], 130),
        # Code 1 says that nothing was written; it was also that of a run which had changed another cluster.
        ([Result.APPLIED, DOWN], 6),
        ([Result.APPLIED, STALE], 6),
        ([Result.ALREADY_APPLIED, DOWN], 1),
        ([Result.ALREADY_APPLIED, STALE], 5),
    ],
)
def test_the_outcome_that_matters_more_decides(found: list[ExitCode | QuotaformError | Result], code: int) -> None:
    outcomes: list[ClusterOutcome[Any]] = []
    for each in found:
        if isinstance(each, QuotaformError):
            outcomes.append(ClusterOutcome("lab", error=each))
        elif isinstance(each, Result):
            outcomes.append(ClusterOutcome("lab", receipt(each).digest))
        else:
            outcomes.append(ClusterOutcome("lab", SimpleNamespace(exit_code=each)))
    assert exit_code(outcomes) == code


@pytest.mark.parametrize("error", list(error_classes()), ids=lambda error: error.__name__)
def test_every_error_ends_with_a_code_of_the_contract(error: type[QuotaformError]) -> None:
    assert error.exit_code not in (ExitCode.DONE, ExitCode.DIFFERENCES)


def test_the_codes_in_the_table_are_those_of_the_errors() -> None:
    rows = re.findall(r"^\| (\d+) \| (`.*)$", errors.__doc__ or "", re.MULTILINE)
    shown = {name: int(code) for code, text in rows for name in re.findall(r"`(\w+)`", text)}
    assert len(shown) >= 6
    assert shown == {name: getattr(errors, name).exit_code for name in shown}
