"""Folders in a table in which Spark makes files, before they take their place."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from platform import node
from time import time
from typing import Final
from uuid import uuid4

from quotaform.system.files import take_lock

_PREFIX: Final = "_staged-"
_HOST: Final = "host"
_LONGEST_S: Final = 7 * 24 * 3600


@contextmanager
def staged_folder(table: Path) -> Iterator[Path]:
    """Yield the path of a folder in a table that does not exist yet; it is removed if it is there at the end.

    No reader of Parquet looks there. The folder of the table is made, and what killed processes have left in it goes.
    """
    table.mkdir(parents=True, exist_ok=True)
    remove_dead(table, time())
    staged = table / f"{_PREFIX}{uuid4().hex[:12]}"
    staged.mkdir()
    descriptor = os.open(staged, os.O_RDONLY)
    try:
        if take_lock(descriptor) and _is_locked(staged):
            (staged / _HOST).write_text(node(), encoding="utf-8")
        yield staged / "rows"
    finally:
        shutil.rmtree(staged, ignore_errors=True)
        os.close(descriptor)


def remove_dead(table: Path, now: float) -> None:
    """Remove what processes that were killed have left in a table.

    `now`: the time, in seconds since the epoch.
    """
    for staged in table.glob(f"{_PREFIX}*"):
        # Another process may do the same now, or may not let this one.
        with suppress(OSError):
            host = staged / _HOST
            if host.exists() and host.read_text(encoding="utf-8") == node():
                is_dead = not _is_locked(staged)
            else:
                changed = max(path.lstat().st_mtime for path in (staged, *staged.rglob("*")))
                is_dead = now - changed > _LONGEST_S
            if is_dead:
                shutil.rmtree(staged, ignore_errors=True)


def _is_locked(folder: Path) -> bool:
    """Whether a process holds the lock of a folder; never where there are no locks."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        return not take_lock(descriptor)
    finally:
        os.close(descriptor)
