"""The judge of fault rounds finds every lie that an apply could tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from struct import pack
from typing import Any

import pytest

from tests.faults.judge import TIME_LIMIT, Apply, judge
from tests.faults.proxy import corrupt
from tests.faults.raw import State
from tests.faults.scenario import Scenario, make_scenario
from tests.workflow.command import Result

COMPLETE = "Apply complete! Resources: 1 added, 1 changed, 0 destroyed."
INCOMPLETE = "Apply incomplete! Resources: 0 added, 0 changed, 0 destroyed; 2 unknown."
OLD, NEW = (
    {"producer_byte_rate": 1.0, "consumer_byte_rate": 1.0},
    {"producer_byte_rate": 2.0, "consumer_byte_rate": 2.0},
)


@pytest.fixture
def scenario() -> Scenario:
    """One user to create, one to update, one that no file declares."""
    fault = make_scenario(0, size=1).frame_fault
    before: State = {"a": OLD, "other": OLD}
    return Scenario(kind="cut", seed=0, before=before, declared={"a": NEW, "b": NEW}, is_saved=True, frame_fault=fault)


def receipt(a: str, b: str) -> dict[str, Any]:
    results = [("a", "update", a), ("b", "create", b)]
    names = [a, b]
    return {
        "complete": names == ["applied", "applied"],
        "summary": {name: names.count(name) for name in names},
        "results": [{"entity": {"user": user}, "action": action, "result": each} for user, action, each in results],
    }


def problems(
    scenario: Scenario, code: int, last: str, written: Mapping[str, Any] | None, live: State, seconds: float = 1.0
) -> list[str]:
    return list(judge(scenario, Apply(Result(code, f"{last}\n", ""), written, seconds), live))


def test_what_is_true_passes(scenario: Scenario) -> None:
    assert problems(scenario, 0, COMPLETE, receipt("applied", "applied"), scenario.after) == []
    assert problems(scenario, 6, INCOMPLETE, receipt("unknown", "unknown"), scenario.after) == []
    assert problems(scenario, 6, INCOMPLETE, receipt("unknown", "unknown"), scenario.before) == []
    assert problems(scenario, 1, "", None, scenario.before) == []


@pytest.mark.parametrize(
    ("code", "last", "results", "live", "problem"),
    [
        (0, COMPLETE, ("applied", "applied"), {"a": NEW, "other": OLD}, "exit 0, and 1 entities are not as declared"),
        (0, COMPLETE, ("applied", "applied"), {"a": NEW, "other": OLD}, "the receipt says applied of 'b'"),
        (6, INCOMPLETE, ("unknown", "unconfirmed"), {"a": NEW, "other": OLD}, "the receipt says unconfirmed of 'b'"),
        (6, INCOMPLETE, ("not-attempted", "unknown"), {"a": NEW, "other": OLD}, "the receipt says not-attempted of"),
        (6, INCOMPLETE, ("refused", "unknown"), {"a": NEW, "other": OLD}, "the receipt says refused of 'a'"),
        (6, INCOMPLETE, ("unknown", "unknown"), {"a": {**OLD, "consumer_byte_rate": 2.0}, "other": OLD}, "half an"),
        (6, INCOMPLETE, ("unknown", "unknown"), {"a": NEW}, "half an entity: 'other'"),
        (6, COMPLETE, ("unknown", "unknown"), {"a": OLD, "other": OLD}, "complete: False"),
        (6, "Killed", ("unknown", "unknown"), {"a": OLD, "other": OLD}, "the last line is 'Killed'"),
        (6, COMPLETE, ("applied", "applied"), {"a": NEW, "b": NEW, "other": OLD}, "exit 6, and no receipt says"),
        (1, "", None, {"a": NEW, "other": OLD}, "exit 1, and 1 entities were changed"),
        (6, INCOMPLETE, None, {"a": NEW, "other": OLD}, "there is no receipt"),
        (143, "", None, {"a": OLD, "other": OLD}, "exit 143"),
    ],
)
def test_every_lie_is_found(
    scenario: Scenario, code: int, last: str, results: tuple[str, str] | None, live: State, problem: str
) -> None:
    written = receipt(*results) if results else None
    assert [each for each in problems(scenario, code, last, written, live) if problem in each]


def test_a_killed_apply_that_leaves_no_receipt_is_found(scenario: Scenario) -> None:
    killed = replace(scenario, kind="SIGKILL")
    begun = {**receipt("unknown", "unknown"), "state": "started"}
    assert problems(killed, -9, "", begun, scenario.after) == []
    assert problems(killed, -9, "", None, scenario.before) == []
    assert problems(killed, -9, "", None, scenario.after) == [
        "2 entities were changed, and there is no receipt (exit -9)"
    ]
    assert "the receipt was started and not completed" in problems(scenario, 6, INCOMPLETE, begun, scenario.after)


def test_a_slow_apply_and_an_accident_are_found(scenario: Scenario) -> None:
    slow = problems(scenario, 1, "", None, scenario.before, TIME_LIMIT + 1)
    assert slow == [f"it took {TIME_LIMIT + 1:.0f} s"]
    (crash,) = problems(scenario, 1, "Traceback (most recent call last):", None, scenario.before)
    assert crash.startswith("'Traceback' in the output")


def test_a_corrupt_frame_is_another_one() -> None:
    frame = pack(">ii", 12, 7) + b"12345678"
    seen = {corrupt(frame, Random(seed)) for seed in range(50)}
    assert frame not in seen
    assert len(seen) > 20
