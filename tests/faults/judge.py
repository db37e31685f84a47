"""What must be true of a round, whatever happened in it: code, last line and receipt say what the cluster holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from re import compile as regex
from typing import Any, Final

from tests.faults.raw import State, User
from tests.faults.scenario import Scenario
from tests.workflow.command import Result

TIME_LIMIT: Final = 100.0
"""Seconds that an apply may take, whatever is done to it."""

_HOLDS: Final = frozenset({"applied", "already-applied", "unconfirmed"})
"""Results of which the cluster has the new values; what it accepted it holds, seen in time or not."""
_UNTOUCHED: Final = frozenset({"refused", "not-attempted"})
_NOTHING_WRITTEN: Final = frozenset({1, 3, 4, 5, 64})
_SIGNAL_CODES: Final = {"SIGINT": {130, -2}, "SIGTERM": {143, -15}, "SIGHUP": {143, -1}, "SIGKILL": {-9}}
_LAST: Final = regex(
    r"Apply (complete|incomplete)! Resources: (\d+) added, (\d+) changed, (\d+) destroyed\b.*"
).fullmatch
_ACTIONS: Final = ("create", "update", "delete")


@dataclass(frozen=True, slots=True)
class Apply:
    """What one apply left behind: code and output, its receipt if it wrote one, and how long it took."""

    result: Result
    receipt: Mapping[str, Any] | None
    seconds: float


def judge(scenario: Scenario, done: Apply, live: State) -> Iterator[str]:
    """Yield what is wrong.

    `scenario`: the round. `done`: what the command says. `live`: what the brokers hold afterwards.
    """
    yield from _judge_output(scenario, done)
    yield from _judge_entities(scenario, live)
    if scenario.kind != "SIGKILL":
        yield from _judge_code(scenario, done, live)
    if live != scenario.before and done.receipt is None:
        code = done.result.code
        yield f"{_count(live, scenario.before)} entities were changed, and there is no receipt (exit {code})"
    if done.receipt is not None:
        yield from _judge_receipt(scenario, done.receipt, live)
        yield from _judge_last_line(done.result, done.receipt)


def _judge_output(scenario: Scenario, done: Apply) -> Iterator[str]:
    said = done.result.said
    for word in ("Traceback", "internal error", "please report"):
        if word in said:
            yield f"{word!r} in the output: {said[-600:]}"
    if done.seconds > TIME_LIMIT:
        yield f"it took {done.seconds:.0f} s"


def _judge_entities(scenario: Scenario, live: State) -> Iterator[str]:
    """Each entity is as it was, or as it was declared: never a mixture."""
    before, after = scenario.before, scenario.after
    for user in before.keys() | after.keys() | live.keys():
        found = live.get(user)
        if found not in (before.get(user), after.get(user)):
            yield f"half an entity: {user!r} has {found}, was {before.get(user)}, declared {after.get(user)}"
            return


def _judge_code(scenario: Scenario, done: Apply, live: State) -> Iterator[str]:
    code = done.result.code
    is_changed = live != scenario.before
    if code == 0:
        if live != scenario.after:
            yield f"exit 0, and {_count(live, scenario.after)} entities are not as declared"
    elif code in _NOTHING_WRITTEN:
        if is_changed:
            yield f"exit {code}, and {_count(live, scenario.before)} entities were changed"
    elif code == 6:
        if done.receipt is None or done.receipt["complete"]:
            yield "exit 6, and no receipt says what is missing"
    elif code not in {code for _, number in scenario.signals for code in _SIGNAL_CODES[number.name]}:
        yield f"exit {code}"


def _judge_receipt(scenario: Scenario, receipt: Mapping[str, Any], live: State) -> Iterator[str]:
    results: dict[User, str] = {item["entity"]["user"]: item["result"] for item in receipt["results"]}
    if results.keys() != scenario.touched:
        yield f"the receipt is about {len(results)} entities, and {len(scenario.touched)} were to be changed"
    if "state" in receipt and scenario.kind != "SIGKILL":
        yield "the receipt was started and not completed"
    if len(results) != len(receipt["results"]):
        yield "an entity is in the receipt twice"
    summary = {name: count for name, count in receipt["summary"].items() if count}
    if summary != Counter(results.values()):
        yield f"the receipt's summary is {summary}, and its results are {Counter(results.values())}"
    for user, result in results.items():
        found, before, after = live.get(user), scenario.before.get(user), scenario.after.get(user)
        if (result in _HOLDS and found != after) or (result in _UNTOUCHED and found != before):
            yield f"the receipt says {result} of {user!r}, which has {found}; it had {before}, declared is {after}"
            return
    if receipt["complete"] is not all(result in ("applied", "already-applied") for result in results.values()):
        yield f"the receipt says complete: {receipt['complete']} of {summary}"


def _judge_last_line(result: Result, receipt: Mapping[str, Any]) -> Iterator[str]:
    if result.code == -9:
        return
    found = _LAST(result.last)
    if found is None:
        yield f"the last line is {result.last!r}"
        return
    if (found[1] == "complete") is not receipt["complete"]:
        yield f"the last line is {result.last!r}, and the receipt says complete: {receipt['complete']}"
    applied = Counter(item["action"] for item in receipt["results"] if item["result"] == "applied")
    if [int(number) for number in found.groups()[1:]] != [applied[action] for action in _ACTIONS]:
        yield f"the last line is {result.last!r}, and the receipt says {dict(applied)}"


def _count(live: State, other: State) -> int:
    return sum(live.get(user) != other.get(user) for user in live.keys() | other.keys())
