"""What a command changes of its process for as long as it runs: signals and the garbage collector."""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType
from typing import Final, NoReturn

_OBJECTS_BETWEEN_COLLECTIONS: Final = 1_000_000
"""A plan of 30,000 entities makes fewer, so most runs never look for cycles; garbage cannot grow past these."""


class TerminatedError(KeyboardInterrupt):
    """SIGTERM, or SIGHUP of a closed terminal, so that they take the same careful way out as Ctrl-C."""

    def __init__(self, signal_name: str) -> None:
        self.signal_name = signal_name
        super().__init__(signal_name)


@contextmanager
def signals_raised() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into errors; only the main thread can, and gets them."""

    def terminate(number: int, _frame: FrameType | None) -> NoReturn:
        raise TerminatedError(signal.Signals(number).name)

    numbers = [
        getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)
    ]  # Windows has no SIGHUP
    if current_thread() is not main_thread():
        numbers = []
    handlers = {number: signal.signal(number, terminate) for number in numbers}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            # None is a handler that was not installed from Python, which cannot be put back.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


@contextmanager
def rare_collections() -> Iterator[None]:
    """Look for reference cycles rarely: what a run makes lives until it ends, and looking takes as long as making."""
    thresholds = gc.get_threshold()
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
