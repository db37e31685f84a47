"""Drift that is accepted for a time; `rules-drift.txt` has what is shown of it."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from quotaform.desired.config_reader import read_config
from quotaform.desired.tree import SourceFile
from quotaform.drift.drift import make_drift
from quotaform.model.entity import Entity
from quotaform.model.scope import Pattern
from quotaform.model.settings import Ignore
from tests.builder import CONSUMER, PRODUCER, plan_of

PERF = Entity(user="perf-1")


def test_ignored_drift_is_not_in_the_fingerprint() -> None:
    def fingerprint(live: float, *keys: str) -> str:
        ignore = Ignore(
            match=Pattern((("user", "perf-*"),)), keys=frozenset(keys), reason="load test", expires=date(2026, 12, 31)
        )
        plan = plan_of({PERF: {PRODUCER: 1.0, CONSUMER: 1.0}}, {PERF: {PRODUCER: live, CONSUMER: 9.0}})
        return make_drift(plan, ignores=[ignore], today=date(2026, 11, 20)).fingerprint

    assert fingerprint(7.0, PRODUCER) == fingerprint(9.0, PRODUCER)
    assert fingerprint(7.0, CONSUMER) != fingerprint(9.0, CONSUMER)


def test_there_may_not_be_too_many() -> None:
    item = "- {match: {user: a}, reason: x, expires: 2026-12-31}\n"
    (problem,) = read_config(SourceFile("quotaform.yaml", "drift_ignore:\n" + item * 1001), Path())[1]
    assert "drift_ignore contains more than the limit of 1,000 items" in str(problem)
