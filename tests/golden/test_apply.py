"""What becomes of an apply when requests are refused, lost or answered late: `story-apply.txt`, one script a line.

The cluster is `tests.scripted_gateway`, and time is its clock: nothing here sleeps. A script is words such as
`writes=fine,request-lost*3 reads=theirs*9 chunk=2`: what each read and each request is answered, and how many
entities a request has; `changing` reads another value each time. `early` is the two reads before anything is written,
`reads` those after them. The plan deletes dave, updates alice, creates bob and carol: in this order in the plan, and
dave last on the wire.

`story-watch.txt` holds what a process that goes on comparing logs, in the words of `Story`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from itertools import count, groupby
from pathlib import Path
from re import search
from shlex import split
from typing import Final

from msgspec import structs

from quotaform.apply.run import apply_plan
from quotaform.model.entity import Entity
from quotaform.model.errors import AuthorizationError, ClusterError, QuotaformError
from quotaform.model.finding import Finding
from quotaform.model.quotas import Quotas
from quotaform.model.records.record import ClusterRecord
from tests.builder import CONSUMER, PRODUCER, plan_of
from tests.git_repository import GitRepository
from tests.golden.conftest import Golden
from tests.golden.table import Lines, Text, check_told
from tests.scripted_gateway import (
    ANSWER_LOST,
    FINE,
    NEVER_SHOWN,
    NO_CONNECTION,
    REQUEST_LOST,
    Answer,
    Clock,
    ScriptedGateway,
)
from tests.unit.test_watch import DRIFT, SYNC, World

ALICE, BOB, CAROL, DAVE = ENTITIES = [Entity(user=name) for name in ("alice", "bob", "carol", "dave")]
OTHERS: Final[Quotas] = {Entity(user="other"): {PRODUCER: 1.0}}
BEFORE: Final[Quotas] = {ALICE: {PRODUCER: 1.0}, DAVE: {PRODUCER: 1.0}, **OTHERS}
AFTER: Final[Quotas] = {**{each: {PRODUCER: 2.0} for each in (ALICE, BOB, CAROL)}, **OTHERS}
PLAN = plan_of({ALICE: {PRODUCER: 2.0}, BOB: {PRODUCER: 2.0}, CAROL: {PRODUCER: 2.0}, DAVE: {}}, BEFORE)
BOTH_KEYS: Final[Quotas] = {ALICE: {PRODUCER: 1.0, CONSUMER: 1.0}}
PLANS = {
    "empty": plan_of({}, BEFORE),
    "another": replace(PLAN, header=structs.replace(PLAN.header, cluster=ClusterRecord(name="lab", id="another"))),
    "blocked": replace(PLAN, findings=(Finding(rule="cluster-id", message="no", blocking=True),)),
    "two-keys": plan_of({ALICE: {PRODUCER: 2.0, CONSUMER: 1.0}}, BOTH_KEYS),
}
STATES: Final[Mapping[str, Quotas]] = {
    "before": BEFORE,
    "after": AFTER,
    "nothing": {Entity(user="other"): {}},
    "two-keys": BOTH_KEYS,
    "half": {**BEFORE, ALICE: {PRODUCER: 2.0}},
    "bob-is-there": {**BEFORE, BOB: {PRODUCER: 2.0}},
    "alice-7": {**BEFORE, ALICE: {PRODUCER: 7.0}},
    "alice-consumes": {**BEFORE, ALICE: {CONSUMER: 9.0}},
    "theirs": {**AFTER, ALICE: {PRODUCER: 9.0, CONSUMER: 1048576.0}, DAVE: {PRODUCER: 3.0}},
}
DENIED = AuthorizationError(
    "The principal is not authorised to read the client quotas of lab", remedy="grant it DESCRIBE", code=31
)
RAISED: Final[Mapping[str, BaseException]] = {
    "gone": ClusterError("connection refused"),
    "denied": DENIED,
    "interrupt": KeyboardInterrupt(),
    "mistake": RuntimeError("out of luck"),
}


class Terminated(KeyboardInterrupt):
    signal_name = "SIGTERM"


ANSWERS: Final[Mapping[str, Answer]] = {
    "fine": FINE,
    "answer-lost": ANSWER_LOST,
    "request-lost": REQUEST_LOST,
    "never-shown": NEVER_SHOWN,
    "no-connection": NO_CONNECTION,
    "interrupt": Answer(raises=KeyboardInterrupt()),
    "interrupt-before": Answer(applies=False, raises=KeyboardInterrupt()),
    "terminated": Answer(raises=Terminated()),
    "refuse-alice": Answer(refused={ALICE: (42, "no")}),
    "refuse-two": Answer(refused={ALICE: (42, "must be greater than 0"), CAROL: (44, "")}),
    "refuse-all": Answer(refused=dict.fromkeys(ENTITIES, (42, "no"))),
    "forbid-all": Answer(refused=dict.fromkeys(ENTITIES, (31, "grant it ALTER_CONFIGS"))),
    "forge": Answer(refused={ALICE: (42, "no\n::error::forged\x1b[31m")}),
}


class LateGateway(ScriptedGateway):
    """A cluster whose first answer after a write may come a minute later: another broker has to be found."""

    clock: Clock | None = None

    def describe_entities(self, entities: Collection[Entity], *, timeout: float | None = None) -> Quotas:
        if self.clock and self.log[-1:] == ["alter"]:
            self.clock.sleep(60.0)
        return super().describe_entities(entities, timeout=timeout)


def script_of(words: str) -> Iterator[str]:
    for word in filter(None, words.split(",")):
        name, _, times = word.partition("*")
        yield from [name] * int(times or 1)


def of_script(text: Text) -> Lines:
    """Yield the result of each entity, what was sent, in which order, and how long it was waited for."""
    asked = dict(word.partition("=")[::2] for word in str(text).split())
    clock = Clock()
    reads = [
        None if name == "now" else RAISED.get(name) or STATES.get(name) or {**BEFORE, ALICE: {PRODUCER: 10.0 + number}}
        for number, name in enumerate([*script_of(asked.pop("early", "now*2")), *script_of(asked.pop("reads", ""))])
    ]
    gateway = LateGateway(
        STATES[asked.pop("live", "before")],
        reads=reads,
        writes=[ANSWERS[name] for name in script_of(asked.pop("writes", ""))],
        validates=[ANSWERS[name] for name in script_of(asked.pop("validates", ""))],
        chunk_size=int(asked.pop("chunk", 100)),
        cluster_id=asked.pop("cluster", "3JxQ0v7pT2a"),
    )
    gateway.clock = clock if asked.pop("late", "") else None
    stops_again = asked.pop("stop", "") == "before-sending-again"
    plan, pinned = PLANS.get(asked.pop("plan", ""), PLAN), asked.pop("pinned", None)
    assert not asked

    def stop(what: str, done: int, total: int) -> None:
        if stops_again and what == "Applying" and len(gateway.sent) == 1 and gateway.log[-1] == "describe":
            raise KeyboardInterrupt

    try:
        receipt = apply_plan(plan, gateway, stop, clock=clock, pinned_id=pinned)
    except (QuotaformError, KeyboardInterrupt) as error:
        yield from f"{type(error).__name__}: {error}".splitlines()
        assert gateway.sent == []
    else:
        assert [each.entity for each in receipt.results] == [change.entity for change in plan.changes]
        for each in receipt.results:
            yield f"{each.entity.names['user']} {each.result}{f': {each.message}' if each.message else ''}"
        stopped = f"; stopped by {receipt.interrupted_by or receipt.interruption}" if receipt.interruption else ""
        yield f"complete {receipt.is_complete}, wrote {receipt.digest.wrote_anything}{stopped}"
        yield f"exit code {receipt.digest.exit_code}"
    requests = " | ".join(" ".join(request) for request in gateway.sent).replace("user=", "")
    yield f"sent {requests or 'nothing'}"
    steps = [(name, len([*group])) for name, group in groupby(gateway.log)]
    did = " ".join(name if times == 1 else f"{name}*{times}" for name, times in steps)
    yield f"did {did or 'nothing'}, {sum(clock.pauses):.1f} s"


def test_every_script_of_an_apply_ends_like_this(golden: Golden) -> None:
    check_told(golden, "story-apply.txt", of_script)


def broken() -> Quotas:
    raise ZeroDivisionError("oops")


LIVE: dict[str, Quotas | ClusterError | Callable[[], Quotas]] = {
    "sync": SYNC,
    "drift": DRIFT,
    "both": {**SYNC, Entity(user="bob"): {PRODUCER: 1.0}},
    "down": ClusterError("it is down"),
    "broken": broken,
}


class Story:
    """What happens to a process that watches, and what it logs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.folder.mkdir(parents=True)

    def watch(self, *said: str) -> None:
        """`watch eu=sync base=HEAD`: begin to watch clusters."""
        live = dict(each.split("=") for each in said)
        base = live.pop("base", None)
        self.world = World(self.folder, {name: LIVE[state] for name, state in live.items()}, base=base)

    def live(self, name: str, state: str) -> None:
        self.world.live[name] = LIVE[state]

    def clusters(self, *names: str) -> None:
        """`clusters eu us 'more=...'`: quotaform.yaml has these, and this line."""
        more = [each.removeprefix("more=") + "\n" for each in names if each.startswith("more=")]
        self.world.configure(*(each for each in names if "=" not in each), more="".join(more))

    def file(self, name: str, text: str) -> None:
        self.world.write(name, f"{text}\n" if text else "")

    def remove(self, name: str) -> None:
        (self.folder / name).unlink()

    def folder_of(self, name: str) -> None:
        (self.folder / name).mkdir()

    def metrics(self, name: str) -> None:
        self.world.metrics = self.folder / name
        self.world.watch.is_alone = True

    def git(self, *arguments: str) -> None:
        GitRepository(self.folder).git(*arguments)

    def wait(self, seconds: str) -> None:
        self.world.clock.seconds += float(seconds)

    def run(self, rounds: str) -> Iterator[str]:
        self.world.asked.clear()
        lines = self.world.run(int(rounds)) or ["(nothing)"]
        yield f"{rounds} rounds:"
        yield from (f"  {line}".replace(f"{self.folder}/", "") for line in lines)

    def asked(self) -> Iterator[str]:
        yield f"asked: {dict(sorted(Counter(self.world.asked).items()))}"

    def sample(self, name: str, *labels: str) -> Iterator[str]:
        yield f"{name} of {', '.join(labels)}: {self.world.sample(name, *labels)}"

    def show(self, name: str, pattern: str) -> Iterator[str]:
        yield from (line for line in (self.folder / name).read_text().splitlines() if search(pattern, line))

    def health(self) -> Iterator[str]:
        is_alive, found = self.world.watch.health()
        clusters = {name: each["status"] for name, each in found["clusters"].items()}
        yield f"{'health' if is_alive else 'failing'}: {found['status']}, files {found['files']}, {clusters}"


def test_what_a_watch_logs(golden: Golden, tmp_path: Path) -> None:
    numbers = count()

    def tell(text: str | bytes) -> Iterator[str]:
        story = Story(tmp_path / str(next(numbers)) / "one")
        for line in str(text).splitlines():
            word, *arguments = split(line)
            yield from getattr(story, "folder_of" if word == "folder" else word)(*arguments) or ()

    check_told(golden, "story-watch.txt", tell)
