"""`unset` in a cluster's layer takes one key of the common entry away."""

from __future__ import annotations

from datetime import date

from quotaform.desired.tree import SourceFile
from quotaform.model.entity import Entity
from quotaform.model.finding import Severity
from quotaform.model.quotas import Cause
from tests.loading import check, load

TODAY = date(2026, 12, 31)
GOLD = {"gold": {"producer_byte_rate": 5.0, "request_percentage": 50.0}}
ALICE = Entity(user="a")
COMMON = "quotas:\n  - match: {user: a}\n    values: {producer_byte_rate: 1, consumer_byte_rate: 2}\n"


def sources(layer: str, common: str = COMMON) -> list[SourceFile]:
    return [
        SourceFile("a.yaml", common),
        SourceFile("prod/a.yaml", f"quotas:\n  - match: {{user: a}}\n{layer}", "prod"),
    ]


def test_the_key_is_taken_away_and_the_others_stay() -> None:
    entry = load(sources("    unset: [producer_byte_rate]\n"), GOLD, TODAY)[ALICE]
    assert entry.values == {"consumer_byte_rate": 2.0}
    assert str(entry.provenance("consumer_byte_rate").location) == "a.yaml:3:37"  # type: ignore[union-attr]


def test_values_beside_it_are_merged_as_ever() -> None:
    layer = "    unset: [producer_byte_rate]\n    values: {consumer_byte_rate: 3, request_percentage: 10}\n"
    assert load(sources(layer), GOLD, TODAY)[ALICE].values == {"consumer_byte_rate": 3.0, "request_percentage": 10.0}


def test_a_key_of_the_profile_beside_it_is_taken_away_too() -> None:
    layer = "    profile: gold\n    unset: [producer_byte_rate]\n"
    assert load(sources(layer), GOLD, TODAY)[ALICE].values == {"consumer_byte_rate": 2.0, "request_percentage": 50.0}


def test_an_expired_common_entry_stays_expired() -> None:
    files = sources("    unset: [producer_byte_rate]\n", COMMON + "    expires: 2026-01-01\n")
    desired, findings = check(files, GOLD, TODAY)
    assert (desired[ALICE].cause, desired[ALICE].absent) == (Cause.EXPIRED, "expired 2026-01-01")
    assert [finding.severity for finding in findings] == [Severity.NOTE]
