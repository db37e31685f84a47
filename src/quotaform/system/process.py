"""This process: signals (Ctrl-C, SIGTERM, SIGHUP) that are held back, and rarer collections of garbage."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread, current_thread, main_thread
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future

    from quotaform.model.errors import ExitCode

T = TypeVar("T")

INTERRUPTING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The signals by which people and systems end a command."""


class HeldSignals:
    """Signals that are held back, and the places where they may interrupt all the same.

    A signal is delivered to the handler that was there before. From that moment on the next one is held again, so that
    whatever handles an interrupt is not interrupted. A signal could leave a generator half-way, so this is none.
    """

    def __init__(self, on_first: Callable[[], None] | None, *, holds_all: bool) -> None:
        self._on_first = on_first
        self._before: dict[int, Any] = {}
        self._came: list[int] = []
        self._passes = False
        self._passes_second = not holds_all
        self._is_over = False

    def let_through(self) -> Self:
        """Return a context in which a signal interrupts at once, and so does one that was held back before."""
        return self

    def let_second_through(self) -> None:
        """From now on hold the first signal only; a second one interrupts at once."""
        self._passes_second = True

    def __enter__(self) -> None:
        self._passes = True
        if self._came:
            self._deliver(self._came.pop(0))

    def __exit__(self, *_: object) -> None:
        self._passes = False

    def _arrive(self, number: int, frame: FrameType | None) -> None:
        if self._is_over or self._passes or (self._passes_second and self._came):
            self._deliver(number, frame)
        else:
            self._came.append(number)
            if self._on_first is not None and len(self._came) == 1:
                self._on_first()

    def _deliver(self, number: int, frame: FrameType | None = None) -> None:
        self._passes = False
        before = self._before[number]
        if callable(before):
            before(number, frame)
        else:
            signal.signal(number, before)
            signal.raise_signal(number)


@contextmanager
def held_signals(*, holds_all: bool = False, on_first: Callable[[], None] | None = None) -> Iterator[HeldSignals]:
    """Hold Ctrl-C, SIGTERM and SIGHUP back until the end.

    Afterwards they do what they did before, also where somebody has put another handler meanwhile, and the first one
    that was held back is delivered. Only the main thread gets signals, so that elsewhere this does nothing.

    `holds_all`: whether a second signal is held as well, and does not pass at once. `on_first`: called when the first
    signal is held, to end what the block waits for. An error that the block then raises is a consequence of that, so
    that the signal is delivered in its place.
    """
    held = HeldSignals(on_first, holds_all=holds_all)
    if current_thread() is not main_thread():
        yield held
        return
    consequence: Exception | None = None
    held._before = _handlers()
    try:
        for number in held._before:
            signal.signal(number, held._arrive)
        yield held
    except Exception as error:
        if on_first is None or not held._came:
            raise
        consequence = error
    finally:
        held._is_over = True
        for number, handler in held._before.items():
            signal.signal(number, handler)
    if held._came:
        signal.raise_signal(held._came[0])
    if consequence is not None:  # The handler that was there before raised nothing.
        raise consequence


def in_thread(work: Callable[[], T], name: str = "quotaform") -> Future[T]:
    """Do something in a thread that ends with the process, however long it would take."""
    from concurrent.futures import Future

    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    Thread(target=run, name=name, daemon=True).start()
    return done


def signal_name(interrupt: BaseException) -> str:
    """Return the name of the signal that raised an interrupt.

    >>> signal_name(KeyboardInterrupt())
    'SIGINT'
    """
    return str(getattr(interrupt, "signal_name", "SIGINT"))


_OBJECTS_BETWEEN_COLLECTIONS: Final = 1_000_000
"""A plan of 30,000 entities makes fewer, so most runs never look for cycles; garbage cannot grow past these."""


@contextmanager
def rare_collections() -> Iterator[None]:
    """Look for reference cycles rarely: what a run makes lives until it ends, and looking takes as long as making."""
    thresholds = gc.get_threshold()
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


class TerminatedError(KeyboardInterrupt):
    """SIGTERM, or SIGHUP of a closed terminal, so that they take the same careful way out as Ctrl-C."""

    def __init__(self, signal_name: str) -> None:
        self.signal_name = signal_name
        super().__init__(signal_name)


@contextmanager
def signals_raised() -> Iterator[None]:
    """Turn SIGINT, SIGTERM and SIGHUP into errors in the main thread; one that is ignored (`nohup`) stays so."""

    def terminate(number: int, _frame: FrameType | None) -> NoReturn:
        raise TerminatedError(signal.Signals(number).name)

    handlers = _handlers() if current_thread() is main_thread() else {}
    try:
        for number in handlers:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else terminate)
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def end_on_signals() -> None:
    """Let a signal end the process with its exit code: until the command handles signals, and after that."""
    for number in _handlers():
        signal.signal(number, _end)


def ignore_signals() -> None:
    """Let no signal change the exit code any more: the command is over, and the interpreter puts its handlers away."""
    for number in _handlers():
        signal.signal(number, signal.SIG_IGN)


def interrupt_code(interrupt: KeyboardInterrupt) -> ExitCode:
    """Return the exit code of an interrupt."""
    from quotaform.model.errors import ExitCode

    return ExitCode.TERMINATED if isinstance(interrupt, TerminatedError) else ExitCode.INTERRUPTED


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    # `ExitCode.INTERRUPTED` and `TERMINATED`, which may not be imported yet.
    os._exit(130 if number == signal.SIGINT else 143)


def _handlers() -> dict[int, Any]:
    """Return the handlers of the signals that interrupt.

    What is ignored (nohup) stays so, and a handler that was not installed from Python cannot be put back.
    """
    handlers = {number: signal.getsignal(number) for number in INTERRUPTING}
    return {number: handler for number, handler in handlers.items() if handler not in (None, signal.SIG_IGN)}
