"""One apply at a time: a lock per cluster beside the receipts, for those who apply from one directory.

It is advisory and local (`flock`), and the operating system releases it when a process ends, however it ends. It does
not exclude applies from other machines or other checkouts; for those, let only one job apply to a cluster at a time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

from quotaform.app.file_lock import take_lock
from quotaform.app.repository.repository import Repository
from quotaform.errors import ApplyRunningError
from quotaform.files import require_no_way_out

_FLAGS: Final = (
    os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
)


def apply_lock(repository: Repository, cluster: str, cluster_id: str) -> AbstractContextManager[None]:
    """Return what holds the lock of a cluster beside the quotaform.yaml of a repository; see `cluster_lock`."""
    return cluster_lock(repository.config_path.parent, cluster, cluster_id)


@contextmanager
def cluster_lock(folder: Path, cluster: str, cluster_id: str) -> Iterator[None]:
    """Hold the lock of a cluster; where no lock file can be made, there is none.

    Args:
        folder: The folder of quotaform.yaml.
        cluster: What messages call the cluster.
        cluster_id: The id that the cluster gives itself.

    Raises:
        ApplyRunningError: Another process holds it.
    """
    descriptor = _open(folder / ".quotaform" / "locks", cluster_id)
    try:
        if descriptor is not None and not take_lock(descriptor):
            raise ApplyRunningError(cluster)
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _open(folder: Path, cluster_id: str) -> int | None:
    path = folder / f"{sha256(cluster_id.encode()).hexdigest()[:16]}.lock"
    with suppress(OSError):
        require_no_way_out(path)
        folder.mkdir(parents=True, exist_ok=True)
        return os.open(path, _FLAGS, 0o600)
    return None
