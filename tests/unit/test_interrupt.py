"""A line that a person types, and signals while it is waited for."""

from __future__ import annotations

import os
import pty
import signal
import threading
from collections.abc import Iterator
from typing import TextIO

import pytest

from quotaform.system.process import held_signals, read_typed_line


@pytest.fixture
def terminal() -> Iterator[tuple[TextIO, int]]:
    """The program's end of a terminal, and the person's."""
    ours, theirs = pty.openpty()
    try:
        with os.fdopen(theirs, encoding="utf-8") as stream:
            yield stream, ours
    finally:
        os.close(ours)


def test_a_typed_line_is_read_whole(terminal: tuple[TextIO, int]) -> None:
    stream, person = terminal
    os.write(person, b"yes\nproduction\n")
    assert read_typed_line(stream) == "yes\n"
    assert read_typed_line(stream) == "production\n"
    os.write(person, b"\x04")
    assert read_typed_line(stream) == ""


def test_an_interrupt_ends_the_wait(terminal: tuple[TextIO, int]) -> None:
    before = signal.set_wakeup_fd(-1)
    timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        read_typed_line(terminal[0])
    timer.join()
    assert signal.set_wakeup_fd(before) == before


def test_a_signal_that_interrupts_nothing_leaves_the_question_open(terminal: tuple[TextIO, int]) -> None:
    stream, person = terminal
    came: list[int] = []

    def resize(number: int, _frame: object) -> None:
        came.append(number)
        os.write(person, b"yes\n")

    before = signal.signal(signal.SIGWINCH, resize)
    timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGWINCH))
    timer.start()
    try:
        assert read_typed_line(stream) == "yes\n"
    finally:
        timer.join()
        signal.signal(signal.SIGWINCH, before)
    assert came == [signal.SIGWINCH]


def test_a_signal_ends_what_the_block_waits_for_and_is_delivered_in_place_of_the_error() -> None:
    waits = threading.Event()
    with pytest.raises(KeyboardInterrupt), held_signals(on_first=waits.set):  # noqa: PT012
        signal.raise_signal(signal.SIGINT)
        assert waits.is_set()
        raise ConnectionError


def test_the_error_stays_where_no_signal_is_the_cause_of_it() -> None:
    with pytest.raises(ConnectionError), held_signals(on_first=threading.Event().set):
        raise ConnectionError


def test_the_error_stays_where_the_handler_of_the_signal_raises_nothing() -> None:
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        with pytest.raises(ConnectionError), held_signals(on_first=threading.Event().set):  # noqa: PT012
            signal.raise_signal(signal.SIGINT)
            raise ConnectionError
    finally:
        signal.signal(signal.SIGINT, before)
    assert came == [signal.SIGINT]
