"""Lints: where a value has no unit, and the settings; `rules-lint.txt` has what each of the others finds."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from quotaform.desired.tree import SourceFile
from quotaform.model.entity import Entity
from quotaform.model.finding import Location
from quotaform.model.scope import Pattern
from quotaform.model.settings import Capacity, LintIgnore, LintSettings
from quotaform.plan.check.check import with_findings
from quotaform.plan.check.facts import Facts, LintRequest
from quotaform.plan.check.lint import LintFacts, check_lints, declared_quotas
from tests.builder import CONSUMER, MUTATION, PRODUCER, REQUEST, declare, findings_of, plan_of
from tests.loading import load, load_config

MIB = 1048576.0
TODAY = date(2026, 11, 22)


def suspicious(*sources: SourceFile) -> list[tuple[str | None, str]]:
    """The keys of values that lack a unit, and where they are."""
    desired = load(sources, {"p": {CONSUMER: 5.0, PRODUCER: 6.0}}, TODAY)
    facts = LintFacts(
        desired=desired,
        quotas=declared_quotas(desired),
        settings=LintSettings(),
        capacity=Capacity(),
        today=TODAY,
    )
    return [(each.key, str(each.location)) for each in check_lints(facts).findings if each.rule == "suspicious-unit"]


def entry(value: str, key: str = PRODUCER, more: str = "") -> str:
    return f"quotas:\n  - match: {{user: a}}\n    values: {{{key}: {value}}}\n{more}"


@pytest.mark.parametrize(
    ("value", "warns"),
    [
        ("1", True),
        ("1023", True),
        ('"10"', True),
        ("10.0", True),
        ("1e2", True),
        ("1024", False),
        ("10B/s", False),
        ("0.5KiB/s", False),
        ("1KiB/s", False),
        ("unlimited", False),
    ],
)
@pytest.mark.parametrize("more", ["", "    reason: x\n    profile: p\n"], ids=["plain", "profile"])
def test_a_small_byte_rate_without_a_unit_is_suspicious(value: str, warns: bool, more: str) -> None:
    found = suspicious(SourceFile("quotas.d/a.yaml", entry(value, more=more)))
    assert found == ([(PRODUCER, "quotas.d/a.yaml:3:14")] if warns else [])


@pytest.mark.parametrize("key", [REQUEST, MUTATION])
def test_other_keys_are_small_numbers(key: str) -> None:
    assert suspicious(SourceFile("quotas.d/a.yaml", entry("10", key))) == []


@pytest.mark.parametrize(
    ("common", "own", "place"),
    [
        ("10", entry("10B/s"), None),
        ("10B/s", entry("10"), "quotas.d/lab/a.yaml:3:14"),
        ("10", entry("5%", REQUEST), "quotas.d/a.yaml:3:14"),
    ],
)
def test_the_value_of_the_last_layer_counts(common: str, own: str, place: str | None) -> None:
    sources = SourceFile("quotas.d/a.yaml", entry(common)), SourceFile("quotas.d/lab/a.yaml", own, "lab")
    assert suspicious(*sources) == ([(PRODUCER, place)] if place else [])


def test_a_lint_is_no_part_of_the_plan_id_and_can_be_left_out() -> None:
    desired = declare({Entity(client_id="etl"): {PRODUCER: MIB}})
    plan = plan_of(desired, {Entity(user=None): {PRODUCER: MIB}})
    request = LintRequest(settings=LintSettings(), capacity=Capacity(), today=TODAY)
    facts = Facts(desired=desired, actual={Entity(user=None): {PRODUCER: MIB}}, lints=request)
    linted = with_findings(plan, facts)
    assert ([each.rule for each in linted.findings], linted.plan_id) == (["shadowed-entry"], plan.plan_id)
    assert findings_of(plan, replace(facts, lints=None)) == ()


def test_the_settings_are_read(tmp_path: Path) -> None:
    path = tmp_path / "quotaform.yaml"
    text = """\
clusters:
  lab:
    snapshot: x
    capacity: {producer_byte_rate: 500MiB/s, request_percentage: 800%}
profiles: {tiny: {producer_byte_rate: 10, consumer_byte_rate: 10B/s}}
principals: {brokers: [kafka, ANONYMOUS]}
lints:
  expires_within_days: 30
  ignore:
    - {rule: shadowed-entry, address: client-id=etl, reason: agreed, expires: 2026-12-31}
    - {rule: expires-soon, match: {user: "perf-*"}, reason: tests}
"""
    path.write_text(text, encoding="utf-8")

    config = load_config(path)

    assert config.lints == LintSettings(
        ignores=(
            LintIgnore(rule="shadowed-entry", address="client-id=etl", reason="agreed", expires=date(2026, 12, 31)),
            LintIgnore(rule="expires-soon", match=Pattern((("user", "perf-*"),)), reason="tests"),
        ),
        expires_within_days=30,
        broker_principals=("kafka", "ANONYMOUS"),
    )
    assert config.lints.ignores[0].location == Location(path.as_posix(), 10, 7)
    capacity = config.clusters["lab"].capacity
    assert capacity.values == {PRODUCER: 500 * MIB, REQUEST: 800.0}
    assert capacity.places[REQUEST] == Location(path.as_posix(), 4, 46)
    (finding,) = config.lints.profile_findings
    assert (finding.rule, finding.key, finding.location) == (
        "suspicious-unit",
        PRODUCER,
        Location(path.as_posix(), 5, 39),
    )
