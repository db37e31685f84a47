"""The cache directory of quotaform, and its locks.

Its files are executed (jars) and trusted (process ids), so only this user may have access to it: a
directory that another user owns or can write to is refused, as is anything but a regular file owned by this user.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from stat import S_ISREG, S_IWGRP, S_IWOTH
from typing import BinaryIO, Final

from quotaform.model.errors import SandboxError
from quotaform.system.files import take_lock

_LONGEST: Final = 200


def cache_directory() -> Path:
    """Return the user's cache directory of quotaform; it may not exist yet.

    `QUOTAFORM_CACHE` wins, then the platform's place: `$XDG_CACHE_HOME/quotaform` or
    `~/.cache/quotaform`, on macOS `~/Library/Caches/quotaform`.
    """
    try:
        if own := os.environ.get("QUOTAFORM_CACHE"):
            return Path(own).expanduser().absolute()
        if sys.platform == "darwin":
            return Path.home() / "Library" / "Caches" / "quotaform"
        # The XDG base directory specification says that a relative path is to be ignored.
        base = os.environ.get("XDG_CACHE_HOME", "")
        return (Path(base) if base.startswith("/") else Path.home() / ".cache") / "quotaform"
    except (RuntimeError, OSError) as error:
        raise SandboxError(
            "The cache directory is not known, because there is no home directory or no current one; "
            "set QUOTAFORM_CACHE to a writable directory."
        ) from error


def make_directory(path: Path) -> Path:
    """Make a directory of the cache, to which only this user may write, and return it."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.stat()
    except OSError as error:
        raise SandboxError(
            f"The cache directory {shown(path)} cannot be made ({error.strerror}); "
            "set QUOTAFORM_CACHE to a writable directory."
        ) from error
    if status.st_uid != os.geteuid():
        raise SandboxError(
            f"The cache directory {shown(path)} belongs to another user, who could change what the sandbox runs; "
            "set QUOTAFORM_CACHE to a directory of your own."
        )
    if status.st_mode & (S_IWGRP | S_IWOTH):
        raise SandboxError(
            f"Other users may write to the cache directory {shown(path)} and could change what the sandbox runs; "
            "run chmod go-w on it, or set QUOTAFORM_CACHE to another directory."
        )
    return path


def open_own_file(path: Path, *, creates: bool) -> BinaryIO:
    """Open a file of the cache; never waits for what is no regular file.

    With `creates` it is made if it is not there, to be appended to; otherwise it is only read, and raises
    `FileNotFoundError`. Raises `SandboxError` for something else than a regular file of this user.
    """
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT if creates else os.O_RDONLY
    try:
        descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _unusable(path, error.strerror) from error
    status = os.fstat(descriptor)
    if not S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
        os.close(descriptor)
        raise _unusable(path, "it is not a regular file of this user")
    return os.fdopen(descriptor, "a+b" if creates else "rb")


def shown(path: Path) -> str:
    """Return a path as messages show it: one line, and not longer than a screen."""
    text = str(path)
    text = text if text.isprintable() else ascii(text)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _unusable(path: Path, reason: str | None) -> SandboxError:
    return SandboxError(
        f"The sandbox cannot use {shown(path)} ({reason}); remove it, or set QUOTAFORM_CACHE to another directory."
    )


@contextmanager
def locked(path: Path, *, patience: float) -> Iterator[None]:
    """Hold the exclusive lock of a file, waiting up to `patience` seconds for it."""
    make_directory(path.parent)
    with open_own_file(path, creates=True) as file:
        if not take_lock(file.fileno(), patience=patience):
            raise SandboxError(
                f"Another process has held {shown(path)} for {patience:.0f} seconds; end it and try again."
            )
        yield
