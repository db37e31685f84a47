"""Waiting on a busy machine, on which any thread may stand still for seconds."""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import Thread
from time import monotonic, sleep
from typing import Final

import pytest

PATIENCE: Final = 60.0
"""Seconds after which a test gives up; nothing that works takes so long."""
_STEP: Final = 0.2
"""The longest that the connection to a broker waits between two looks at the clock."""


def wait_until(is_so: Callable[[], object], seconds: float = PATIENCE) -> None:
    deadline = monotonic() + seconds
    while not is_so():
        assert monotonic() < deadline
        sleep(0.005)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


class PatientClock:
    """A `monotonic` that leaves out the time in which nobody looked at it, but for a step.

    A time limit that a test makes short is then used up by waiting alone, and not by a process that was not scheduled.
    """

    def __init__(self) -> None:
        self._now = self._seen = monotonic()

    def __call__(self) -> float:
        now = monotonic()
        self._now += min(now - self._seen, _STEP)
        self._seen = now
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += seconds

    @classmethod
    def of_connections(cls, monkeypatch: pytest.MonkeyPatch) -> PatientClock:
        """Return what is the clock of all connections to brokers from now on."""
        clock = cls()
        for module in ("wire.broker_connection", "wire.cluster_connection", "kafka"):
            monkeypatch.setattr(f"quotaform.cluster.{module}.monotonic", clock)
        return clock


def once(is_so: Callable[[], object], act: Callable[[], object]) -> Thread:
    """Do something in another thread as soon as something is so."""

    def work() -> None:
        wait_until(is_so)
        act()

    thread = Thread(target=work)
    thread.start()
    return thread
