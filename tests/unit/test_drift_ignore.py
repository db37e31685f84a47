"""Drift that is accepted for a time."""

from __future__ import annotations

from datetime import date
from json import loads
from pathlib import Path

import pytest

from quotaform.desired.config_reader import read_config
from quotaform.desired.tree import SourceFile
from quotaform.drift.drift import Drift, make_drift
from quotaform.drift.records import dump_drift
from quotaform.drift.report import render_drift
from quotaform.model.entity import Entity
from quotaform.model.finding import Location
from quotaform.model.quotas import Quotas
from quotaform.model.scope import Pattern
from quotaform.model.settings import DriftIgnore
from tests.builder import CONSUMER, PRODUCER, plan_of

PERF, ALICE = Entity(user="perf-1"), Entity(user="alice")
FILES: Quotas = {PERF: {PRODUCER: 1.0, CONSUMER: 1.0}, ALICE: {PRODUCER: 1.0}}
LIVE: Quotas = {PERF: {PRODUCER: 9.0, CONSUMER: 9.0}, ALICE: {PRODUCER: 1.0}}
TODAY = date(2026, 11, 20)


def ignore(user: str = "perf-*", *keys: str, expires: date = date(2026, 12, 31)) -> DriftIgnore:
    return DriftIgnore(
        match=Pattern((("user", user),)),
        keys=frozenset(keys),
        reason="load test",
        expires=expires,
        location=Location("quotaform.yaml", 3, 5),
    )


def drift_of(*ignores: DriftIgnore, live: Quotas = LIVE) -> Drift:
    return make_drift(plan_of(FILES, live), ignores=ignores, today=TODAY)


def test_ignored_drift_is_shown_with_its_reason_and_does_not_count() -> None:
    drift = drift_of(ignore())
    assert (drift.status, drift.ignored_entities, drift.findings) == ("in-sync", 1, ())
    text = render_drift(drift)
    assert "  modified   user=perf-1   (quotaform.yaml:3:5; until 2026-12-31: load test)" in text
    assert text.splitlines()[-1] == "No drift. 1 declared entity matches the cluster; 1 ignored."
    (item,) = loads(dump_drift(drift))["ignored"]
    assert (item["address"], item["reason"], item["expires"]) == ("user=perf-1", "load test", "2026-12-31")


def test_keys_that_are_not_listed_count() -> None:
    drift = drift_of(ignore("perf-*", PRODUCER))
    assert [change.key for change in drift.entities[0].changes] == [CONSUMER]
    assert [change.key for change in drift.ignored[0].drifted.changes] == [PRODUCER]
    assert render_drift(drift).splitlines()[-1] == "Drift: 1 modified, 0 missing, 0 unexpected; 1 in sync; 1 ignored."


def test_ignored_drift_is_not_in_the_fingerprint() -> None:
    moved = {**LIVE, PERF: {PRODUCER: 7.0, CONSUMER: 9.0}}
    key = ignore("perf-*", PRODUCER)
    assert drift_of(key).fingerprint == drift_of(key, live=moved).fingerprint
    assert drift_of().fingerprint != drift_of(live=moved).fingerprint


@pytest.mark.parametrize(
    ("expires", "rules", "ignored"),
    [
        (date(2026, 12, 31), [], 1),
        (date(2026, 11, 28), [], 1),
        (date(2026, 11, 27), ["drift-ignore-expires"], 1),
        (date(2026, 11, 21), ["drift-ignore-expires"], 1),
        (date(2026, 11, 20), ["drift-ignore-expired"], 0),
        (date(2020, 1, 1), ["drift-ignore-expired"], 0),
    ],
)
def test_an_ignore_is_announced_a_week_before_it_ends(expires: date, rules: list[str], ignored: int) -> None:
    drift = drift_of(ignore(expires=expires))
    assert [finding.rule for finding in drift.findings] == rules
    assert all(finding.severity == "warning" and finding.location for finding in drift.findings)
    assert drift.ignored_entities == ignored


def test_an_ignore_without_use_is_a_note() -> None:
    (finding,) = drift_of(ignore(), ignore("nobody")).findings
    assert (finding.rule, finding.severity) == ("drift-ignore-unused", "note")


def test_two_ignores_may_share_an_entity() -> None:
    drift = drift_of(ignore("perf-*", PRODUCER), ignore("perf-1", CONSUMER))
    assert (drift.status, drift.ignored_entities, len(drift.ignored), drift.findings) == ("in-sync", 1, 2, ())


def problems_of(text: str) -> list[str]:
    return [str(problem) for problem in read_config(SourceFile("quotaform.yaml", text), Path())[1]]


def test_an_ignore_is_read_from_quotaform_yaml() -> None:
    text = "drift_ignore:\n- {match: {user: 'perf-*'}, keys: [producer_byte_rate], reason: x, expires: 2026-12-31}\n"
    config, problems = read_config(SourceFile("quotaform.yaml", text), Path())
    assert not problems
    (item,) = config.drift_ignore
    assert item.covers(PERF, PRODUCER)
    assert not item.covers(PERF, CONSUMER)
    assert not item.covers(ALICE, PRODUCER)
    assert (item.expires, str(item.location)) == (date(2026, 12, 31), "quotaform.yaml:2:3")


@pytest.mark.parametrize(
    ("item", "problem"),
    [
        ("{match: {user: a}, expires: 2026-12-31}", ":1:16: error: item 1 of drift_ignore has no reason; add it"),
        ("{match: {user: a}, reason: x}", ":1:16: error: item 1 of drift_ignore has no expires; add it"),
        ("{match: {user: a}, reason: '', expires: 2026-12-31}", ":1:43: error: reason must not be empty"),
        ("{match: {}, reason: x, expires: 2026-12-31}", ":1:24: error: match must not be empty"),
        ("{match: {usr: a}, reason: x, expires: 2026-12-31}", 'error: unknown field "usr"'),
        ("{match: {user: a}, reason: x, expires: tomorrow}", 'error: expires: "tomorrow" is not a date'),
        ("{match: {user: a}, reason: x, expires: 2026-02-30}", 'error: expires: "2026-02-30" is not a date'),
        ("{match: {user: a}, keys: [], reason: x, expires: 2026-12-31}", "error: keys must not be empty"),
        (
            "{match: {user: a}, keys: [producer_bite_rate], reason: x, expires: 2026-12-31}",
            'error: unknown quota key "producer_bite_rate"; did you mean producer_byte_rate?',
        ),
        ("7", "error: item 1 of drift_ignore must be a mapping"),
    ],
)
def test_a_wrong_ignore_has_its_place(item: str, problem: str) -> None:
    (found,) = problems_of(f"drift_ignore: [{item}]")
    assert problem in found


def test_there_may_not_be_too_many() -> None:
    item = "- {match: {user: a}, reason: x, expires: 2026-12-31}\n"
    (problem,) = problems_of("drift_ignore:\n" + item * 1001)
    assert "drift_ignore contains more than the limit of 1,000 items" in problem
