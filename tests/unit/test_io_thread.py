"""Work on kafka-python's event loop that somebody waits for, or no longer."""

from __future__ import annotations

from collections.abc import Iterator
from signal import SIGINT, raise_signal
from threading import Event, Timer
from time import monotonic, sleep
from typing import Any

import pytest

from quotaform.cluster.wire.io_thread import Call, CrashError, GivenUpError, IoThread, OverdueError


@pytest.fixture
def net() -> Any:
    from kafka.net.selector import NetworkSelector

    return NetworkSelector(slow_task_threshold_secs=0)


@pytest.fixture
def thread(net: Any) -> Iterator[IoThread]:
    made = IoThread(net, "kafka-io-test")
    yield made
    made.close(lambda: None)


def test_what_comes_of_work_is_returned_or_raised(thread: IoThread) -> None:
    async def answer(call: Call) -> int:
        return 42

    async def fail(call: Call) -> None:
        raise ZeroDivisionError

    assert thread.run(answer, 5) == 42
    with pytest.raises(ZeroDivisionError):
        thread.run(fail, 5)


@pytest.mark.parametrize("is_sent", [False, True])
def test_work_that_takes_too_long_is_cancelled(thread: IoThread, net: Any, is_sent: bool) -> None:
    """It lived on, and its request could go out after its caller had been told that there was no answer."""
    steps: list[str] = []
    over = Event()

    async def work(call: Call) -> None:
        if is_sent:
            call.begin_sending()
        try:
            await net.sleep(0.3)
            steps.append("woke up")
        finally:
            over.set()

    with pytest.raises(OverdueError) as caught:
        thread.run(work, 0.1)
    assert caught.value.is_sent is is_sent
    assert over.wait(5)
    sleep(0.4)
    assert steps == []


def test_work_of_which_an_interrupt_let_go_is_cancelled(thread: IoThread, net: Any) -> None:
    over = Event()

    async def work(call: Call) -> None:
        try:
            await net.sleep(60)
        finally:
            over.set()

    timer = Timer(0.2, raise_signal, (SIGINT,))
    timer.start()
    begin = monotonic()
    with pytest.raises(KeyboardInterrupt):
        thread.run(work, 60)
    assert over.wait(5)
    assert monotonic() - begin < 2


def test_nothing_is_sent_for_a_call_that_was_given_up() -> None:
    async def work(call: Call) -> None: ...

    call = Call(work)
    assert call.give_up() is False
    with pytest.raises(GivenUpError):
        call.begin_sending()
    sent = Call(work)
    sent.begin_sending()
    assert sent.give_up() is True


def test_a_loop_that_crashes_is_told_at_once(thread: IoThread, net: Any) -> None:
    def crash(events: object) -> None:
        del net._process_events
        raise OSError("no more")

    async def work(call: Call) -> None:
        net._process_events = crash
        while True:
            await net.sleep(0.1)

    begin = monotonic()
    with pytest.raises(CrashError) as caught:
        thread.run(work, 60)
    assert not caught.value.is_sent
    assert str(caught.value.__cause__) == "no more"
    assert monotonic() - begin < 5


def test_a_loop_that_crashes_after_sending_leaves_the_outcome_open(thread: IoThread, net: Any) -> None:
    """It was told as a bare error, and what may have been done was called not attempted."""

    def crash(events: object) -> None:
        del net._process_events
        raise OSError("no more")

    async def work(call: Call) -> None:
        call.begin_sending()
        net._process_events = crash
        while True:
            await net.sleep(0.1)

    with pytest.raises(CrashError) as caught:
        thread.run(work, 60)
    assert caught.value.is_sent
