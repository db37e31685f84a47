"""Lints: their settings; `rules-lint.txt`, `rules-plan.txt` and `texts-unit.txt` have what each finds."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

from quotaform.model.entity import Entity
from quotaform.model.finding import Location
from quotaform.model.scope import Pattern
from quotaform.model.settings import Capacity, Ignore, LintSettings
from quotaform.plan.check.check import with_findings
from quotaform.plan.check.facts import Facts, LintRequest
from tests.builder import PRODUCER, REQUEST, declare, findings_of, plan_of
from tests.loading import load_config

MIB = 1048576.0
TODAY = date(2026, 11, 22)


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
            Ignore(rule="shadowed-entry", address="client-id=etl", reason="agreed", expires=date(2026, 12, 31)),
            Ignore(rule="expires-soon", match=Pattern((("user", "perf-*"),)), reason="tests"),
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
