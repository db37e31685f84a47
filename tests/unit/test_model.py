"""Small parts of the model: order of findings, precedence, what limits nothing, texts that are cut, CSV, exit codes."""

from __future__ import annotations

from collections.abc import Iterator
from json import loads
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quotaform.model import errors
from quotaform.model.entity import Entity
from quotaform.model.errors import ExitCode, QuotaformError
from quotaform.model.finding import Finding, Location, Severity, by_place, by_severity
from quotaform.model.outcome import ClusterOutcome, exit_code
from quotaform.model.precedence import LEVELS, PRECEDENCES, Level
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.text import quote
from quotaform.model.units import is_unlimited
from quotaform.plan.receipt import Receipt, Result
from quotaform.report.text import csv_cell
from tests.builder import PRODUCER, plan_of, receipt_of

WARNING = Severity.WARNING


def test_findings_in_files_go_by_place_whatever_their_severity() -> None:
    expected = [
        Finding(rule="r", message="nowhere"),
        Finding(rule="r", message="the file", location=Location("a.yaml")),
        Finding(rule="r", message="m", severity=WARNING, location=Location("a.yaml", 2, 9)),
        Finding(rule="r", message="m", location=Location("a.yaml", 10, 3)),
        Finding(rule="s", message="m", location=Location("a.yaml", 10, 3)),
        Finding(rule="r", message="m", location=Location("b.yaml", 1, 1)),
    ]
    assert by_place(Random(1).sample(expected, len(expected))) == expected


def test_findings_about_a_cluster_go_by_severity_then_by_rule_and_entity() -> None:
    expected = [
        Finding(rule="z", message="m", blocking=True, severity=WARNING, address="user=z"),
        Finding(rule="z", message="m"),
        Finding(rule="a", message="m", address="user=a"),
        Finding(rule="z", message="m", severity=WARNING),
        Finding(rule="a", message="m", severity=WARNING, address="user=a", key="k"),
        Finding(rule="a", message="m", severity=WARNING, address="user=b"),
        Finding(rule="b", message="m", severity=WARNING, address="user=a"),
        Finding(rule="a", message="m", severity=Severity.NOTE, address="user=a"),
    ]
    assert by_severity(Random(1).sample(expected, len(expected))) == expected


def test_what_is_about_no_entity_keeps_the_order_in_which_it_was_found() -> None:
    found = [Finding(rule=rule, message="m", severity=Severity.NOTE) for rule in ("b", "a", "c")]
    assert by_severity(found) == found


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.source)
def test_the_columns_of_a_level_are_columns_of_its_requests(level: Level) -> None:
    (precedence,) = (each for each in PRECEDENCES if level in each.levels)
    for columns in (level.named, level.defaults, level.bucket):
        assert columns == tuple(column for column in precedence.columns if column in columns)


def test_addresses_alone_have_several_spellings() -> None:
    assert [list(precedence.canonical) for precedence in PRECEDENCES] == [[], ["ip"]]
    assert PRECEDENCES[1].canonical["ip"]("::ffff:10.0.0.1") == "10.0.0.1"


def test_no_value_and_the_maximum_limit_nothing() -> None:
    for key in QUOTA_KEYS.values():
        assert [is_unlimited(key, value) for value in (None, key.maximum, 1.0)] == [True, True, False]
    assert [is_unlimited(None, value) for value in (float("inf"), 1e300)] == [True, False]


def test_a_quoted_text_is_cut() -> None:
    assert quote("a" * 81) == f'"{"a" * 80}…" (81 characters)'
    assert quote("a\n" * 50, 4) == '"a\\na\\n…" (100 characters)'


@given(st.text())
def test_a_cell_says_exactly_which_name_it_is(name: str) -> None:
    cell = csv_cell(name)
    assert (loads(cell) if cell.startswith('"') else cell) == name
    assert cell.isprintable()


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
