"""Small parts of the model: the order of findings, precedence, what limits nothing, texts that are cut, CSV."""

from __future__ import annotations

from json import loads
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quotaform.model.finding import Finding, Location, Severity, by_place, by_severity
from quotaform.model.precedence import LEVELS, PRECEDENCES, Level
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.text import quote
from quotaform.model.units import is_unlimited
from quotaform.report.text import csv_cell

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
    for columns in (level.entity_types, level.named, level.defaults, level.non_empty, level.bucket):
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
