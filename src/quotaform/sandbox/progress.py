"""Reports the progress of starting a sandbox."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Final, TypeAlias

Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with the current step, the amount done and the total (0 if unknown)."""

_INTERVAL: Final = 0.5


def no_progress(what: str, done: int, total: int) -> None:
    """Report nothing."""


@contextmanager
def growth_reported(directory: Path, total: int, what: str, progress: Progress) -> Iterator[None]:
    """Report how many bytes a directory holds while it is being filled.

    Args:
        directory: The directory.
        total: How many bytes there will be.
        what: What is being done.
        progress: Called with how far it is.
    """
    done = Event()

    def watch() -> None:
        while not done.wait(_INTERVAL):
            progress(what, min(_size(directory), total), total)

    progress(what, 0, total)
    watcher = Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def _size(directory: Path) -> int:
    """Return the size of all files; one that goes meanwhile counts for nothing."""
    size = 0
    for path in directory.rglob("*.jar*"):
        try:
            size += path.lstat().st_size
        except OSError:
            continue
    return size
