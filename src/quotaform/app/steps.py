"""What is being done, reported again and again: a step that takes long must not look like a halt."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import Final

from quotaform.cluster.gateway import Progress, no_progress

REPORT_INTERVAL: Final = 0.25
"""Seconds after which progress is reported again while a cluster is waited for."""


class Steps:
    """Progress of the work on one cluster, to be reported again."""

    def __init__(self, progress: Progress = no_progress) -> None:
        self._progress = progress
        self._last = ("", 0, 0)

    def __call__(self, what: str, done: int, total: int) -> None:
        """Report a step."""
        self._last = (what, done, total)
        self._progress(what, done, total)

    def repeat(self) -> None:
        """Report the last step again."""
        self._progress(*self._last)


@contextmanager
def repeated(progress: Progress, what: str) -> Iterator[Steps]:
    """Report the last step again and again while the block waits for a cluster; nothing else may be printed in it.

    `progress` is called with what is being done, from a thread of its own.
    """
    steps = Steps(progress)
    steps(what, 0, 0)
    is_over = Event()

    def repeat() -> None:
        with suppress(Exception):  # What cannot be shown is no reason to end the work.
            while not is_over.wait(REPORT_INTERVAL):
                steps.repeat()

    thread = Thread(target=repeat, name="quotaform-progress", daemon=True)
    thread.start()
    try:
        yield steps
    finally:
        is_over.set()
        thread.join()
