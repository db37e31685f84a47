"""Where quotaform keeps what it need not fetch or make twice, and the lock that guards it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from quotaform.errors import SandboxError


def cache_directory() -> Path:
    """Tell the user's cache directory of quotaform; it may not exist yet.

    `QUOTAFORM_CACHE` wins, then the platform's place: `$XDG_CACHE_HOME/quotaform` or
    `~/.cache/quotaform`, on macOS `~/Library/Caches/quotaform`.
    """
    if own := os.environ.get("QUOTAFORM_CACHE"):
        return Path(own).expanduser().absolute()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "quotaform"
    # The XDG base directory specification says that a relative path is to be ignored.
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".cache") / "quotaform"


def make_directory(path: Path) -> Path:
    """Make a directory below the cache and return it.

    Raises:
        SandboxError: It cannot be made.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SandboxError(
            f"The cache directory {path} cannot be made ({error.strerror}); "
            "set QUOTAFORM_CACHE to a writable directory."
        ) from error
    return path


def lock_descriptor(descriptor: int, *, shared: bool = False) -> bool:
    """Take the exclusive (or a shared) lock of an open file without waiting; tell whether it could be had.

    The lock belongs to the open file: it lives in every process that inherited the descriptor and
    goes with the last of them, however that one ends.
    """
    import fcntl

    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def locked(path: Path, *, patience: float) -> Iterator[None]:
    """Hold the exclusive lock of a file, waiting up to `patience` seconds for it.

    Raises:
        SandboxError: Somebody else kept the lock for longer.
    """
    make_directory(path.parent)
    deadline = time.monotonic() + patience
    with path.open("a") as file:
        while not lock_descriptor(file.fileno()):
            if time.monotonic() > deadline:
                raise SandboxError(
                    f"Another process has held {path} for {patience:.0f} seconds; end that process and try again."
                )
            time.sleep(0.1)
        yield
