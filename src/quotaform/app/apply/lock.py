"""One apply at a time: a lock per cluster beside the receipts, for those who apply from one directory.

It is advisory and local (`flock`), and the operating system releases it when a process ends, however it ends. It does
not exclude applies from other machines or other checkouts; for those, let only one job apply to a cluster at a time.

The lock file lists the receipts of the applies that have begun since the last one that was completed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from quotaform.app.file_lock import take_lock
from quotaform.app.repository.repository import Repository
from quotaform.errors import ApplyRunningError, FileReadError
from quotaform.files import read_bytes, require_no_way_out

_FLAGS: Final = (
    os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
)
_LIST_LIMIT: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class HeldLock:
    """The lock of a cluster; without a descriptor it is none."""

    descriptor: int | None

    def add(self, receipt: Path) -> None:
        """Note where the receipt of this apply is, or will be."""
        self._write(f"{os.path.abspath(receipt)}\n".encode(errors="surrogateescape"), os.SEEK_END)  # noqa: PTH100

    def clear(self) -> None:
        """Note that an apply was completed: what has begun before concerns nobody any more."""
        self._write(b"", os.SEEK_SET)

    def _write(self, content: bytes, whence: int) -> None:
        with suppress(OSError):
            if self.descriptor is not None:
                os.ftruncate(self.descriptor, os.lseek(self.descriptor, 0, whence))
                os.write(self.descriptor, content)


def apply_lock(repository: Repository, cluster: str, cluster_id: str) -> AbstractContextManager[HeldLock]:
    """Return what holds the lock of a cluster beside the quotaform.yaml of a repository; see `cluster_lock`."""
    return cluster_lock(repository.config_path.parent, cluster, cluster_id)


@contextmanager
def cluster_lock(folder: Path, cluster: str, cluster_id: str) -> Iterator[HeldLock]:
    """Hold the lock of a cluster; where no lock file can be made, there is none.

    Args:
        folder: The folder of quotaform.yaml.
        cluster: What messages call the cluster.
        cluster_id: The id that the cluster gives itself.

    Raises:
        ApplyRunningError: Another process holds it.
    """
    descriptor = _open(_path(folder, cluster_id))
    try:
        if descriptor is not None and not take_lock(descriptor):
            raise ApplyRunningError(cluster)
        yield HeldLock(descriptor)
    finally:
        if descriptor is not None:
            os.close(descriptor)


def begun_receipts(folder: Path, cluster_id: str) -> list[Path]:
    """Return where the receipts are of applies that have begun since the last one that was completed, newest first.

    Not all of them need exist: an apply may end before it writes anything.
    """
    with suppress(FileReadError):
        content = read_bytes(_path(folder, cluster_id), _LIST_LIMIT, within=folder)
        return [Path(line) for line in reversed(content.decode(errors="surrogateescape").splitlines())]
    return []


def _path(folder: Path, cluster_id: str) -> Path:
    return folder / ".quotaform" / "locks" / f"{sha256(cluster_id.encode()).hexdigest()[:16]}.lock"


def _open(path: Path) -> int | None:
    with suppress(OSError):
        require_no_way_out(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, _FLAGS, 0o600)
    return None
