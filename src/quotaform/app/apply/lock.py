"""One apply at a time: a lock per cluster beside the receipts, for those who apply from one directory.

It is advisory and local (`flock`), and the operating system releases it when a process ends, however it ends. It does
not exclude applies from other machines or other checkouts; for those, let only one job apply to a cluster at a time.

The lock file lists the started receipts of the cluster that no later apply has settled, wherever they are.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from quotaform.app.file_lock import take_lock
from quotaform.app.repository.repository import Repository
from quotaform.errors import ApplyRunningError, FileReadError
from quotaform.files import read_bytes, require_no_way_out

_FLAGS: Final = os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_LIST_LIMIT: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class HeldLock:
    """The lock of a cluster; without a descriptor nothing is locked."""

    descriptor: int | None

    def write(self, receipts: Iterable[Path]) -> None:
        """List receipts, the newest first, in the place of what was listed; only so many as are read."""
        lines = (os.path.abspath(path).encode(errors="surrogateescape") for path in dict.fromkeys(receipts))  # noqa: PTH100
        content = b"\n".join(lines)[:_LIST_LIMIT]
        with suppress(OSError):
            if self.descriptor is not None:
                os.lseek(self.descriptor, 0, os.SEEK_SET)
                os.ftruncate(self.descriptor, os.write(self.descriptor, content))


def apply_lock(
    repository: Repository, cluster: str, cluster_id: str, *, is_made: bool = True
) -> AbstractContextManager[HeldLock]:
    """Return what holds the lock of a cluster beside the quotaform.yaml of a repository; see `cluster_lock`."""
    return cluster_lock(repository.config_path.parent, cluster, cluster_id, is_made=is_made)


@contextmanager
def cluster_lock(folder: Path, cluster: str, cluster_id: str, *, is_made: bool = True) -> Iterator[HeldLock]:
    """Hold the lock of a cluster; where no lock file can be made, nothing is locked.

    Args:
        folder: The folder of quotaform.yaml.
        cluster: What messages call the cluster.
        is_made: Whether a lock file is made where there is none; without one, no apply is running.

    Raises:
        ApplyRunningError: Another process holds it.
    """
    descriptor = _open(_path(folder, cluster_id), is_made=is_made)
    try:
        if descriptor is not None and not take_lock(descriptor):
            raise ApplyRunningError(cluster)
        yield HeldLock(descriptor)
    finally:
        if descriptor is not None:
            os.close(descriptor)


def listed_receipts(folder: Path, cluster_id: str) -> list[Path]:
    """Return the receipts that `HeldLock.write` has listed, the newest first.

    Not all of them need exist, or be started ones: an apply may end before it writes anything, and complete its own.
    """
    with suppress(FileReadError):
        content = read_bytes(_path(folder, cluster_id), _LIST_LIMIT, within=folder)
        return [Path(line) for line in content.decode(errors="surrogateescape").splitlines()]
    return []


def _path(folder: Path, cluster_id: str) -> Path:
    return folder / ".quotaform" / "locks" / f"{sha256(cluster_id.encode()).hexdigest()[:16]}.lock"


def _open(path: Path, *, is_made: bool) -> int | None:
    with suppress(OSError):
        require_no_way_out(path)
        if is_made:
            path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, _FLAGS | (os.O_CREAT if is_made else 0), 0o600)
    return None
