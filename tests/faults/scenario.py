"""What a round is about: quotas before, what files declare, what is done to whom and when; all of it from a seed."""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from typing import Final

from tests.faults.proxy import Action, FrameFault, Moment, Side
from tests.faults.raw import ALTER, DESCRIBE, State, User, Values

_SIZES: Final = (1, 20, 300, 3_000, 6_000)
"""Entities; with two or three keys each, 3,000 take several requests."""
_ONE_REQUEST: Final = 1_800
"""About so many entities are dry-run in one request and written in another one."""
_ODD_NAMES: Final = (None, "CN=a b,O=x", "Å/ß", "a,user=b", "::error::x", "x" * 200)


class Victim(StrEnum):
    """A broker that something is done to."""

    USED = "the broker in use"
    OTHER = "another broker"
    CONTROLLER = "the active controller"


@dataclass(frozen=True, slots=True)
class BrokerFault:
    """What is done to a broker at the moment: it is killed, or frozen for some seconds; after the round it is back."""

    victim: Victim
    is_killed: bool
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    kind: str  # its kind, a name of `KINDS`
    seed: int  # what it was made from
    before: State  # what the cluster holds at first
    declared: Mapping[User, Values | None]  # what the files say: values, or `None` for a tombstone
    is_saved: bool  # whether a saved plan is applied, and not the files
    frame_fault: FrameFault  # what happens to a frame; its moment is that of everything else
    delay: float = 0.0  # seconds from the moment to the signals and to what is done to a broker
    # What is sent to the command, with the seconds after the one before
    signals: tuple[tuple[float, signal.Signals], ...] = ()
    broker_fault: BrokerFault | None = None  # what is done to a broker
    after: State = field(init=False)

    def __post_init__(self) -> None:
        merged = {**self.before, **self.declared}
        object.__setattr__(self, "after", {user: values for user, values in merged.items() if values})

    @property
    def touched(self) -> set[User]:
        return {user for user in self.declared if self.before.get(user) != self.after.get(user)}

    def files(self) -> str:
        lines = ["quotas:"]
        for user, values in self.declared.items():
            name = "<default>" if user is None else json.dumps(user)
            what = "state: absent" if values is None else f"values: {json.dumps(values)}"
            lines.append(f"  - match: {{user: {name}}}\n    {what}")
        return "\n".join(lines) + "\n"

    def __str__(self) -> str:
        fault = self.frame_fault
        size = f"{len(self.touched):5} entities, {'saved plan' if self.is_saved else 'files'}"
        where = f"{fault.moment.side} {fault.moment.api_key} #{fault.moment.skip}"
        what = f"{fault.action} at {fault.share:.2f}, {fault.times}x" if fault.action is not Action.PASS else ""
        return f"seed {self.seed:<6} {self.kind:18} {size}, {where} {what}".rstrip()


KINDS: Final = (
    "cut", "SIGINT", "broker killed", "corrupt", "SIGTERM", "controller killed", "reset", "SIGKILL", "broker frozen",
    "freeze", "SIGHUP", "drip", "SIGINT twice", "controller frozen", "delay", "other killed",
)  # fmt: skip
"""A round takes the kind at its seed, so that many rounds in a row have them all."""


def make_scenario(seed: int, kind: str | None = None, size: int | None = None) -> Scenario:
    """Return the round of a seed.

    `seed`: any whole number. `kind`: one of `KINDS`, instead of the seed's own. `size`: how many entities are declared,
    instead of the seed's own.
    """
    kind = kind or KINDS[seed % len(KINDS)]
    random = Random(f"{seed} {kind}")
    drawn = random.choice(_SIZES)
    before, declared = _quotas(random, drawn if size is None else size)
    is_saved = random.random() < 0.7
    is_late = kind.startswith(("SIG", "broker", "controller", "other"))
    moment = _moment(random, -(-len(declared) // _ONE_REQUEST), is_late=is_late)
    word = kind.partition(" ")[0]
    fault = FrameFault(moment=moment)
    signals: list[tuple[float, signal.Signals]] = []
    broker_fault = None
    if word in list(Action):
        fault = FrameFault(
            moment=moment,
            action=Action(word),
            share=random.choice([0.0, 1.0, random.random()]),
            seconds=random.choice([0.5, 3.0]) if word == Action.DRIP else random.choice([0.1, 2.0, 6.0]),
            times=random.choice([1, 1, 1, 2, 4]),
            seed=seed,
        )
    elif word.startswith("SIG"):
        number = signal.Signals[word]
        signals = [(0.0, number), (random.uniform(0, 0.3), number)] if "twice" in kind else [(0.0, number)]
    else:
        victims = {"broker": Victim.USED, "other": Victim.OTHER, "controller": Victim.CONTROLLER}
        broker_fault = BrokerFault(victims[word], "killed" in kind, random.choice([1.0, 4.0, 12.0]))
    return Scenario(
        kind=kind,
        seed=seed,
        before=before,
        declared=declared,
        is_saved=is_saved,
        frame_fault=fault,
        delay=random.choice([0.0, 0.0, random.uniform(0, 0.02), random.uniform(0, 0.5)]),
        signals=tuple(signals),
        broker_fault=broker_fault,
    )


def _moment(random: Random, requests: int, *, is_late: bool) -> Moment:
    """Return a moment of an apply: near the dry run, the writing and the reading back more often than not.

    `random`: what chooses. `requests`: of how many requests the dry run is, and the writing. `is_late`: whether the dry
    run of many entities counts less.
    """
    side = random.choice(list(Side))
    if random.random() < (0.1 if is_late else 0.25):
        return Moment(side, None, random.randint(0, 8))
    first = requests if is_late and requests > 1 else 0
    alter, describe = random.randint(first, 2 * requests - 1), random.randint(0, 1) + 2 * (first > 0)
    return random.choice([Moment(side, ALTER, alter), Moment(side, ALTER, alter), Moment(side, DESCRIBE, describe)])


def _quotas(random: Random, size: int) -> tuple[State, dict[User, Values | None]]:
    """Return what there is, and what is declared: entities to create, update, delete and leave."""
    names: list[User] = [f"u{number}" for number in range(size)]
    for place in range(min(len(_ODD_NAMES), size)):
        names[random.randrange(size)] = _ODD_NAMES[place]
    before: State = {f"other{number}": _values(random) for number in range(5)}
    declared: dict[User, Values | None] = {}
    for user in dict.fromkeys(names):
        what = random.random()
        if what < 0.6:
            before[user] = _values(random)
        # Of one that is there, the declared values differ in every key: a mixture of both shows.
        declared[user] = _values(random)
        if user in before and what < 0.1:
            declared[user] = None
        elif what < 0.2 and user in before:
            declared[user] = before[user]
    return before, declared


def _values(random: Random) -> Values:
    values = {
        "producer_byte_rate": float(random.randint(1, 10**9)),
        "consumer_byte_rate": float(random.randint(1, 10**9)),
    }
    if random.random() < 0.3:
        values["request_percentage"] = float(random.randint(1, 10**6))
    return values
