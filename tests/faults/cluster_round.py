"""One round on a cluster of three brokers: disturb an apply, read what is there, judge, and finish the apply."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from subprocess import TimeoutExpired
from tempfile import TemporaryDirectory
from threading import Event, Thread
from time import monotonic
from typing import Any, Final

from tests.faults.judge import TIME_LIMIT, Apply, judge
from tests.faults.proxy import Proxy
from tests.faults.raw import find_controller, read_settled, write_state
from tests.faults.scenario import Scenario, Victim
from tests.faulty_sandbox import FaultySandbox
from tests.workflow.command import Repository, Result, Running

_ALLOWED: Final = (
    *("--allow", "delete=9999", "--allow", "update=9999", "--allow", "change-factor"),
    *("--allow", "to-unlimited", "--allow", "default-entity"),
)
"""Guards do not matter here, and what a scenario changes is more than they let through."""

_GRACE: Final = 30.0
"""Seconds beyond the time limit after which a command is killed."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a round: how the apply ended, whether its moment came, how much was reverted, what is wrong."""

    code: int
    seconds: float
    was_reached: bool
    reverted: int
    problems: tuple[str, ...]


class Arena:
    """A cluster of three brokers behind a proxy, for one round after the other."""

    def __init__(self, kafka: FaultySandbox) -> None:
        self._kafka = kafka
        self._servers = kafka.bootstrap_servers.split(",")
        self._proxy = Proxy(self._servers)

    def close(self) -> None:
        self._proxy.close()

    def play(self, scenario: Scenario, *, reverts: bool = True) -> Verdict:
        """Play a round and judge it; that the receipt is a way back is tried as well, unless it is to be quick."""
        write_state(self._servers, scenario.before)
        with TemporaryDirectory(prefix="quotaform-faults-") as folder:
            repository = Repository(Path(folder), self._proxy.bootstrap_servers)
            repository.quotas(scenario.files())
            done, problems = self._apply(scenario, repository)
            live = read_settled(self._servers)
            problems += judge(scenario, done, live)
            changed = sum(live.get(user) != scenario.before.get(user) for user in scenario.touched)
            if reverts and changed and done.receipt is not None:
                problems += self._revert(scenario, repository)
            problems += self._finish(scenario, repository)
        return Verdict(done.result.code, done.seconds, self._proxy.reached.is_set(), changed, tuple(problems))

    def _apply(self, scenario: Scenario, repository: Repository) -> tuple[Apply, list[str]]:
        arguments = ["apply", "--auto-approve", "--receipt", "receipt.json", *_ALLOWED]
        problems = []
        if scenario.is_saved:
            planned = repository("plan", "--out", "plan.json", "-q", *_ALLOWED)
            if planned.code:
                problems.append(f"the plan ends with {planned.code}: {planned.said[-300:]}")
            arguments = ["apply", "plan.json", "--auto-approve", "--receipt", "receipt.json"]
        with self._proxy.disturbed(scenario.frame_fault):
            began = monotonic()
            running = repository.start(*arguments)
            with self._disturbing(scenario, running):
                try:
                    result = running.end(timeout=TIME_LIMIT + _GRACE)
                except TimeoutExpired:
                    result = Result(-9, "", "")
                    problems.append("it hangs")
                except AssertionError as error:
                    result = Result(-9, "", "")
                    problems.append(f"it did not end in words: {error}"[:3000])
                seconds = monotonic() - began
        return Apply(result, _read_receipt(repository), seconds), problems

    @contextmanager
    def _disturbing(self, scenario: Scenario, running: Running) -> Iterator[None]:
        """Do what a scenario does to the command and to a broker, and take it back afterwards."""
        over = Event()
        touched: list[int] = []

        def disturb() -> None:
            while not self._proxy.reached.wait(0.05):
                if over.is_set():
                    return
            over.wait(scenario.delay)
            for pause, number in scenario.signals:
                over.wait(pause)
                if not running.is_over:
                    running.signal(number)
            if scenario.broker_fault is not None:
                node = self._victim(scenario.broker_fault.victim, scenario.seed)
                touched.append(node)
                if scenario.broker_fault.is_killed:
                    self._kafka.kill(node)
                else:
                    self._kafka.pause(node)
                    over.wait(scenario.broker_fault.seconds)
                    self._kafka.resume(node)

        thread = Thread(target=disturb, daemon=True)
        if scenario.signals or scenario.broker_fault is not None:
            thread.start()
        try:
            yield
        finally:
            over.set()
            if thread.ident is not None:
                thread.join()
            for node in touched:
                if scenario.broker_fault is not None and scenario.broker_fault.is_killed:
                    self._kafka.restart(node)

    def _victim(self, victim: Victim, seed: int) -> int:
        used = self._proxy.node
        if victim is Victim.CONTROLLER:
            return find_controller(self._servers)
        others = [node for node in range(1, len(self._servers) + 1) if node != used]
        return used if victim is Victim.USED else Random(seed).choice(others)

    def _revert(self, scenario: Scenario, repository: Repository) -> Iterator[str]:
        """Put back what the apply changed, as its receipt says: then everything is as before."""
        planned = repository("plan", "--revert", "receipt.json", "--out", "revert.json", "-q", *_ALLOWED)
        done = planned if planned.code else repository("apply", "revert.json", "-q")
        if done.code:
            yield f"the revert ends with {done.code}: {done.said[-300:]}"
        elif read_settled(self._servers) != scenario.before:
            yield "the revert left entities that are not as before"

    def _finish(self, scenario: Scenario, repository: Repository) -> Iterator[str]:
        """Plan and apply what is left: then everything is as declared, and there is nothing left to do."""
        rest = repository("apply", "--auto-approve", "-q", *_ALLOWED)
        if rest.code:
            yield f"a second apply ends with {rest.code}: {rest.said[-300:]}"
        live = read_settled(self._servers)
        if live != scenario.after:
            yield "a second apply left entities that are not as declared"
        again = repository("plan", "--detailed-exitcode", "-q")
        if again.code:
            yield f"after a second apply a plan ends with {again.code}: {again.said[-300:]}"


def _read_receipt(repository: Repository) -> Mapping[str, Any] | None:
    with suppress(FileNotFoundError):
        receipt: dict[str, Any] = json.loads(repository.read("receipt.json"))
        return receipt
    return None
