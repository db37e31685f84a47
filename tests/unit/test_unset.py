"""`unset` in a cluster's layer takes one key of the common entry away."""

from __future__ import annotations

from datetime import date

import pytest

from quotaform.desired.tree import SourceFile
from quotaform.model.entity import Entity
from quotaform.model.entry import Cause
from quotaform.model.finding import Severity
from tests.builder import ALL_KEYS_TEXT, CLIENT_KEYS_TEXT
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


@pytest.mark.parametrize(
    ("layer", "messages"),
    [
        (
            "    unset: [request_percentage]\n",
            [
                "prod/a.yaml:3:13: error: user=a has no request_percentage to unset: the common entry at a.yaml:2:5 "
                "has none; remove it [bad-unset]"
            ],
        ),
        (
            "    unset: [producr_byte_rate]\n",
            [
                'prod/a.yaml:3:13: error: user=a: unknown quota key "producr_byte_rate"; did you mean '
                f"producer_byte_rate? The keys are {ALL_KEYS_TEXT} [unknown-key]"
            ],
        ),
        (
            "    unset: [connection_creation_rate]\n",
            [
                "prod/a.yaml:3:13: error: connection_creation_rate is not valid for user=a; user entities can "
                f"have {CLIENT_KEYS_TEXT} [bad-key]"
            ],
        ),
        (
            "    unset: [producer_byte_rate, producer_byte_rate]\n",
            ["prod/a.yaml:3:33: error: user=a producer_byte_rate is in unset twice; remove one of the two [bad-unset]"],
        ),
        (
            "    values: {producer_byte_rate: 1}\n    unset: [producer_byte_rate]\n",
            [
                "prod/a.yaml:4:13: error: user=a producer_byte_rate is both in unset and in values, at "
                "prod/a.yaml:3:14; remove one of the two [bad-unset]"
            ],
        ),
        (
            "    unset: [producer_byte_rate, consumer_byte_rate]\n",
            ["prod/a.yaml:2:5: error: unset leaves user=a without any value; write state: absent instead [no-values]"],
        ),
        (
            "    state: absent\n    unset: [producer_byte_rate]\n",
            [
                "prod/a.yaml:4:5: error: user=a has state: absent, which does not allow unset; remove one of the two "
                "[bad-state]"
            ],
        ),
        ("    unset: []\n", ["prod/a.yaml:3:12: error: unset must not be empty [empty-field]"]),
        (
            "    unset: producer_byte_rate\n",
            [
                'prod/a.yaml:3:12: error: unset must be a list, not "producer_byte_rate"; '
                'write ["producer_byte_rate"] [wrong-type]'
            ],
        ),
        (
            "    unset: [5]\n",
            [
                "prod/a.yaml:3:13: error: item 1 of unset must be text, but YAML reads 5 as a number; "
                'write "5" [wrong-type]'
            ],
        ),
    ],
)
def test_a_mistake_is_named_with_its_place_and_a_remedy(layer: str, messages: list[str]) -> None:
    _, findings = check(sources(layer), GOLD, TODAY)
    assert [str(finding) for finding in findings] == messages


def test_there_must_be_a_common_entry() -> None:
    _, findings = check(sources("    unset: [producer_byte_rate]\n", "quotas: []\n"), GOLD, TODAY)
    assert [str(finding) for finding in findings] == [
        "prod/a.yaml:3:13: error: user=a has no producer_byte_rate to unset: no common file declares user=a; remove it "
        "[bad-unset]"
    ]


def test_a_common_file_cannot_use_it() -> None:
    _, findings = check([SourceFile("a.yaml", COMMON + "    unset: [request_percentage]\n")], GOLD, TODAY)
    assert [str(finding) for finding in findings] == [
        "a.yaml:4:5: error: user=a is declared in a common file, but unset removes keys of the common entry; "
        "use it in the directory of a cluster, or remove it [bad-unset]"
    ]
