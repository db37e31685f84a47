"""Ctrl-C and its like, held back for as long as something must not be cut short."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from signal import SIGINT, SIGTERM, Signals, raise_signal, signal
from threading import current_thread, main_thread
from types import FrameType


@contextmanager
def held_signals() -> Iterator[None]:
    """Hold the first Ctrl-C or SIGTERM back until the end; a second one passes at once.

    Afterwards they do what they did before, also where somebody has put another handler meanwhile.
    """
    if current_thread() is not main_thread():
        yield
        return
    came: list[int] = []

    def hold(number: int, frame: FrameType | None) -> None:
        before = handlers[Signals(number)]
        if came and callable(before):
            before(number, frame)
        came.append(number)

    handlers = {number: signal(number, hold) for number in (SIGINT, SIGTERM)}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal(number, handler)
    if came:
        raise_signal(came[0])
