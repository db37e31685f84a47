"""One apply at a time: a lock per cluster, next to the receipts, for all who apply from one directory.

It is advisory and local (`flock`), and the operating system releases it when a process ends, however it ends. It does
not exclude applies from other machines or other checkouts; for those, let only one job apply to a cluster at a time.

The lock file lists the started receipts of the cluster that no later apply has settled, wherever they are.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from quotaform.git import GitError
from quotaform.model.entity import spell_name
from quotaform.model.errors import FileReadError, QuotaformError
from quotaform.model.outcome import ClusterOutcome
from quotaform.model.scope import Selection
from quotaform.model.text import inert, option_of
from quotaform.plan.plan import PlanOptions
from quotaform.plan.receipt import HEAD, Result, is_started_head
from quotaform.plan.receipt_file import committed_names, load_receipt_file
from quotaform.repository.repository import Repository
from quotaform.system.files import read_bytes, require_no_way_out, take_lock

if TYPE_CHECKING:
    from quotaform.plan.receipt import SavedReceipt

_FLAGS: Final = os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_LIST_LIMIT: Final = 1 << 16


class HeldLock(Struct, frozen=True):
    """The lock of a cluster; without a descriptor nothing is locked."""

    descriptor: int | None

    def write(self, receipts: Iterable[Path]) -> None:
        """List receipts, the newest first, in the place of what was listed; only so many as are read."""
        with suppress(OSError):
            lines = (os.path.abspath(path).encode(errors="surrogateescape") for path in dict.fromkeys(receipts))  # noqa: PTH100
            content = b"".join(line + b"\n" for line in lines)
            whole = content[: content.rfind(b"\n", 0, _LIST_LIMIT) + 1]
            if self.descriptor is not None:
                os.lseek(self.descriptor, 0, os.SEEK_SET)
                os.ftruncate(self.descriptor, os.write(self.descriptor, whole))


@contextmanager
def cluster_lock(folder: Path, cluster: str, cluster_id: str, *, is_made: bool = True) -> Iterator[HeldLock]:
    """Hold the lock of a cluster; where no lock file can be made, nothing is locked.

    `folder`: the folder of quotaform.yaml. `cluster`: what messages call the cluster. `is_made`: whether a lock file is
    made where there is none; without one, no apply is running.

    Raises `QuotaformError` if another process holds it.
    """
    descriptor = _open(_path(folder, cluster_id), is_made=is_made)
    try:
        if descriptor is not None and not take_lock(descriptor):
            raise QuotaformError(
                f"another apply to cluster {cluster} is running in this directory, so nothing was written; wait until "
                "it ends, then make a new plan"
            )
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


_MOST_READ: Final = 20
"""How many receipts of one cluster are read."""


def started_receipt(repository: Repository, cluster: str, cluster_id: str) -> tuple[Path, SavedReceipt] | None:
    """Return the newest started receipt of a cluster that no later apply has settled, unless an apply is running.

    As in `last_receipt`, one that is committed to git does not count. `cluster` is what messages call the cluster.
    """
    folder = repository.config_path.parent
    for path, receipt in _started(folder, cluster_id)[0]:
        with suppress(QuotaformError, GitError):
            if path.name not in committed_names(path.parent):
                with cluster_lock(folder, cluster, cluster_id):  # Held by an apply that runs.
                    return path, receipt
    return None


def note_start(lock: HeldLock, repository: Repository, cluster_id: str, receipt: Path) -> None:
    """Note where the started receipt of an apply will be, before those that are not settled."""
    started, unread = _started(repository.config_path.parent, cluster_id)
    lock.write([receipt, *(path for path, _ in started), *unread])


def note_end(lock: HeldLock, repository: Repository, cluster_id: str, options: PlanOptions) -> None:
    """Note that a plan with these options is in effect: the started receipts whose entities it covers are settled."""
    started, unread = _started(repository.config_path.parent, cluster_id)
    lock.write([*(path for path, receipt in started if not _settles(options, receipt)), *unread])


def _settles(options: PlanOptions, started: SavedReceipt) -> bool:
    if options.is_revert and options.revert not in (started.plan_id, started.options.revert):
        return False
    selection = Selection(options.select, options.exclude)
    return all(selection.contains(item.entity) for item in started.results if item.result is Result.UNKNOWN)


def _started(folder: Path, cluster_id: str) -> tuple[list[tuple[Path, SavedReceipt]], list[Path]]:
    """Return the listed receipts that are started ones of a cluster, the newest first, and those that were not read.

    A bounded number is read. The list lies in the repository: what it names must be a regular file, and not a link to
    somewhere else.
    """
    found = []
    listed = list(dict.fromkeys(listed_receipts(folder, cluster_id)))
    for read, path in enumerate(listed, 1):
        with suppress(QuotaformError):
            if is_started_head(read_bytes(path, HEAD, within=path.parent, is_start=True)):
                receipt = load_receipt_file(path, within=path.parent)
                if receipt.is_started and receipt.cluster.id == cluster_id:
                    found.append((path, receipt))
        if len(found) == _MOST_READ:
            return found, listed[read:]
    return found, []


def started_warnings(
    repository: Repository, found: Iterable[ClusterOutcome[Any]], reverted: SavedReceipt | None = None
) -> Iterator[str]:
    """Yield what to do about applies from this directory that were killed and left a started receipt.

    `found` has the digest of each cluster. An apply that is being reverted is left out.
    """
    for outcome in found:
        started = started_receipt(repository, outcome.cluster, outcome.require().cluster_id)
        if started is None or started[1] == reverted:
            continue
        path, receipt = started
        with suppress(ValueError):
            path = path.relative_to(Path.cwd())
        yield (
            f"the apply to cluster {spell_name(outcome.cluster)} of {receipt.started_at} did not finish. Keep its "
            f"receipt. Apply again to complete it, or undo what it changed: quotaform plan {option_of('revert')} "
            f"{inert(str(path))}"
        )
