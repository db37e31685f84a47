"""What a command changes of its process for as long as it runs."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType
from typing import Any, NoReturn

from quotaform.exit_code import ExitCode
from quotaform.interrupt import INTERRUPTING


class TerminatedError(KeyboardInterrupt):
    """SIGTERM, or SIGHUP of a closed terminal, so that they take the same careful way out as Ctrl-C."""

    def __init__(self, signal_name: str) -> None:
        self.signal_name = signal_name
        super().__init__(signal_name)


@contextmanager
def signals_raised() -> Iterator[None]:
    """Turn SIGINT, SIGTERM and SIGHUP into errors; only the main thread can, and gets them.

    A signal that is ignored stays so: `nohup` ignores SIGHUP.
    """

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
    """Let a signal end the process with its exit code: before the command handles signals, and after."""
    for number in _handlers():
        signal.signal(number, _end)


def ignore_signals() -> None:
    """Let no signal change the exit code any more: the command is over, and the interpreter puts its handlers away."""
    for number in _handlers():
        signal.signal(number, signal.SIG_IGN)


def interrupt_code(interrupt: KeyboardInterrupt) -> ExitCode:
    """Return the exit code of an interrupt."""
    return ExitCode.TERMINATED if isinstance(interrupt, TerminatedError) else ExitCode.INTERRUPTED


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    os._exit(ExitCode.INTERRUPTED if number == signal.SIGINT else ExitCode.TERMINATED)


def _handlers() -> dict[int, Any]:
    """Return the handlers of the signals that interrupt, without those that are ignored or not Python's."""
    handlers = {number: signal.getsignal(number) for number in INTERRUPTING}
    return {number: handler for number, handler in handlers.items() if handler not in (None, signal.SIG_IGN)}
