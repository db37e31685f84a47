"""Locks between processes (`flock`): advisory, local, and released by the operating system when a process ends.

Where the file system or the operating system has none, there is no lock.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_MOST_SECONDS: Final = 10.0
"""How long another process is waited for; anybody who may read a folder can lock it."""
_PAUSE: Final = 0.02


def take_lock(descriptor: int) -> bool:
    """Lock an open file until its descriptor is closed; return whether no other process holds the lock."""
    if fcntl is not None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # A file system without locks.
            pass
    return True


@contextmanager
def update_lock(path: Path) -> Iterator[bool]:
    """Hold the lock under which a file is read and written anew, so that no other process's change is lost meanwhile.

    The folder is locked: the file is replaced by each write, and a lock file beside it would have to stay. After
    `_MOST_SECONDS`, the file is updated without the lock.

    Args:
        path: The file, which need not exist.

    Yields:
        Whether no other process holds the lock.
    """
    descriptor = _open_folder(Path(os.path.realpath(path)).parent)
    try:
        is_free = descriptor is None or take_lock(descriptor)
        deadline = time.monotonic() + _MOST_SECONDS
        while descriptor is not None and not is_free and time.monotonic() < deadline:
            time.sleep(_PAUSE)
            is_free = take_lock(descriptor)
        yield is_free
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _open_folder(folder: Path) -> int | None:
    try:
        return os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0))
    except (OSError, ValueError):
        return None
