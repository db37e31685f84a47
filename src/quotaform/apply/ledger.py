"""What is on record of applies: a lock while one runs, its receipt before and after it writes, and the audit log.

One apply runs at a time: there is a lock per cluster, next to the receipts, for all who apply from one directory. It is
advisory and local (`flock`), and the operating system releases it when a process ends, however it ends. It does not
exclude applies from other machines or other checkouts; for those, let only one job apply to a cluster at a time. The
lock file lists the started receipts of the cluster that no later apply has settled, wherever they are.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

from msgspec import Struct

from quotaform.apply.audit import AuditFile
from quotaform.git import GitError
from quotaform.model.entity import spell_name
from quotaform.model.errors import FileReadError, QuotaformError, UsageError
from quotaform.model.outcome import ClusterOutcome, digest_of
from quotaform.model.scope import Selection
from quotaform.model.text import inert, option_of
from quotaform.plan.digest import ClusterDigest, FleetStatus
from quotaform.plan.plan import PlanOptions
from quotaform.plan.receipt import HEAD, Receipt, Result, is_started_head
from quotaform.plan.receipt_file import MOST_READ, committed_names, load_receipt_file, receipt_path, write_receipt
from quotaform.repository.repository import Repository
from quotaform.system.files import read_bytes, require_no_way_out, require_writable, take_lock, writing

if TYPE_CHECKING:
    from quotaform.desired.config import Cluster
    from quotaform.plan.receipt import SavedReceipt


_FLAGS: Final = os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_LIST_LIMIT: Final = 1 << 16


def list_receipts(lock: int | None, receipts: Iterable[Path]) -> None:
    """List receipts in a lock file, the newest first, in the place of what was listed; only so many as are read."""
    with suppress(OSError):
        lines = (os.path.abspath(path).encode(errors="surrogateescape") for path in dict.fromkeys(receipts))  # noqa: PTH100
        content = b"".join(line + b"\n" for line in lines)
        whole = content[: content.rfind(b"\n", 0, _LIST_LIMIT) + 1]
        if lock is not None:
            os.lseek(lock, 0, os.SEEK_SET)
            os.ftruncate(lock, os.write(lock, whole))


@contextmanager
def cluster_lock(folder: Path, cluster: str, cluster_id: str, *, is_made: bool = True) -> Iterator[int | None]:
    """Hold the lock of a cluster, a descriptor; where no lock file can be made, nothing is locked.

    `folder`: the folder of quotaform.yaml. `cluster`: what messages call the cluster. `is_made`: whether a lock file is
    made where there is none; without one, no apply is running.

    Raises `QuotaformError` if another process holds it.
    """
    path, descriptor = _path(folder, cluster_id), None
    with suppress(OSError):
        require_no_way_out(path)
        if is_made:
            path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, _FLAGS | (os.O_CREAT if is_made else 0), 0o600)
    try:
        if descriptor is not None and not take_lock(descriptor):
            raise QuotaformError(
                f"another apply to cluster {cluster} is running in this directory, so nothing was written; wait until "
                "it ends, then make a new plan"
            )
        yield descriptor
    finally:
        if descriptor is not None:
            os.close(descriptor)


def listed_receipts(folder: Path, cluster_id: str) -> list[Path]:
    """Return the receipts that `list_receipts` has listed, the newest first.

    Not all of them need exist, or be started ones: an apply may end before it writes anything, and complete its own.
    """
    with suppress(FileReadError):
        content = read_bytes(_path(folder, cluster_id), _LIST_LIMIT, within=folder)
        return [Path(line) for line in content.decode(errors="surrogateescape").splitlines()]
    return []


def _path(folder: Path, cluster_id: str) -> Path:
    return folder / ".quotaform" / "locks" / f"{sha256(cluster_id.encode()).hexdigest()[:16]}.lock"


def started_receipt(repository: Repository, cluster: str, cluster_id: str) -> tuple[Path, SavedReceipt] | None:
    """Return the newest started receipt of a cluster that no later apply has settled, unless an apply is running.

    As in `last_receipt_base`, one that is committed to git does not count. `cluster` is what messages call the cluster.
    """
    folder = repository.config_path.parent
    for path, receipt in _started(folder, cluster_id)[0]:
        with suppress(QuotaformError, GitError):
            if path.name not in committed_names(path.parent):
                with cluster_lock(folder, cluster, cluster_id):  # Held by an apply that runs.
                    return path, receipt
    return None


def note_start(lock: int | None, repository: Repository, cluster_id: str, receipt: Path) -> None:
    """Note where the started receipt of an apply will be, before those that are not settled."""
    started, unread = _started(repository.config_path.parent, cluster_id)
    list_receipts(lock, [receipt, *(path for path, _ in started), *unread])


def note_end(lock: int | None, repository: Repository, cluster_id: str, options: PlanOptions) -> None:
    """Note that a plan with these options is in effect: the started receipts whose entities it covers are settled."""
    selection = Selection(options.select, options.exclude)

    def is_settled(receipt: SavedReceipt) -> bool:
        if options.is_revert and options.revert not in (receipt.plan_id, receipt.options.revert):
            return False
        return all(selection.contains(item.entity) for item in receipt.results if item.result is Result.UNKNOWN)

    started, unread = _started(repository.config_path.parent, cluster_id)
    list_receipts(lock, [*(path for path, receipt in started if not is_settled(receipt)), *unread])


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
        if len(found) == MOST_READ:
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


P = TypeVar("P")
R = TypeVar("R")


class ClusterPlan(NamedTuple, Generic[P]):
    """A plan, which may be `Kept`, and the cluster to apply it to."""

    cluster: Cluster
    plan: P

    @property
    def digest(self) -> ClusterDigest:
        """The numbers of the plan, without its changes."""
        made: ClusterDigest = digest_of(self.plan)
        return made

    @property
    def is_written(self) -> bool:
        """Whether there is something to write, and nothing blocks it."""
        return self.digest.row.status is FleetStatus.CHANGE


class Applied(Struct, Generic[R], frozen=True):
    """What an apply did to one cluster, and where that is on record."""

    receipt: R  # A `Receipt`, which may be `Kept`
    path: Path | None = None  # The file of the receipt; `None` when the plan has no changes, or it could not be written
    unsaved: QuotaformError | None = None  # Why the receipt could not be written
    late: tuple[QuotaformError, ...] = ()  # What failed when all was done: noting it in the audit log, disconnecting

    @property
    def digest(self) -> ClusterDigest:
        """The numbers of the receipt."""
        made: ClusterDigest = digest_of(self.receipt)
        return made


def show_nothing(*arguments: object) -> None:
    """Do nothing with what was applied."""


@dataclass(slots=True)
class ReceiptKeeper:
    """Keeps on record what is done to one cluster: its receipt, in a file of its own, which is started before the first
    change is sent; and in a repository what the lock file and the audit log say of it.
    """

    path: Path | None  # Where the receipt is wanted; `None` if it is not to be kept
    repository: Repository | None = None
    audit: AuditFile = field(default_factory=lambda: AuditFile(None))
    show_applied: Callable[[Applied[Receipt]], None] = show_nothing
    lock: int | None = None  # The descriptor of the lock, while it is held
    started: Path | None = None  # Where the started receipt is, which that of what was done replaces
    done: Applied[Receipt] | None = None  # What was done, once it is known

    @contextmanager
    def entered(self, each: ClusterPlan[Any]) -> Iterator[None]:
        """Hold the lock of the cluster, and note in the audit log that its apply begins or is refused.

        Without a repository, that is done elsewhere. Raises `QuotaformError` if nothing must be applied: another apply
        is running, or the log cannot be written.
        """
        if self.repository is None:
            yield
            return
        cluster, plan, folder = each.cluster.name, each.digest, self.repository.config_path.parent
        # A plan without changes settles what an apply that was killed had begun.
        is_locked = each.is_written or (
            plan.row.status is FleetStatus.UNCHANGED
            and started_receipt(self.repository, cluster, plan.cluster_id) is not None
        )
        lock = cluster_lock(folder, cluster, plan.cluster_id) if is_locked else nullcontext()
        with self.audit.refusals([each.plan]), lock as self.lock:
            if each.is_written and self.path is not None:
                note_start(self.lock, self.repository, plan.cluster_id, self.path)
            self.audit.start(each.plan)
            yield

    def start(self, receipt: Receipt) -> None:
        """Write the started receipt, and note where it is; raises `QuotaformError` if it cannot be written.

        A path that is no regular file (a pipe) takes only the receipt of what was done.
        """
        path = self.path
        if path is None or (path.exists() and not path.is_file()):
            return
        with writing(path, "; nothing was written to the cluster"):
            self.started = write_receipt(path, receipt)
        if self.repository is not None and self.started != path:
            note_start(self.lock, self.repository, receipt.plan.header.cluster.id, self.started)

    def keep(self, receipt: Receipt, saved: Path | None = None) -> Applied[Receipt]:
        """Write the receipt of what was done, if anything was, and that it has ended; raise nothing: it stays done.

        `saved` is where it is already.
        """
        self.done = Applied(receipt, saved)
        path, unsaved = self.started or self.path, None
        if path is not None and saved is None and receipt.results:
            try:
                with writing(path):
                    saved = write_receipt(path, receipt, is_started=self.started is not None)
            except QuotaformError as error:
                unsaved = error
        header = receipt.plan.header
        if self.repository is not None and unsaved is None and receipt.is_complete:
            note_end(self.lock, self.repository, header.cluster.id, header.options)
        unaudited = self.audit.finish(receipt)
        self.done = Applied(receipt, saved, unsaved, () if unaudited is None else (unaudited,))
        return self.done

    def show(self) -> None:
        """Show what was done."""
        if self.done is not None:
            self.show_applied(self.done)


def receipt_keepers(
    repository: Repository,
    plans: Sequence[ClusterPlan[Any]],
    receipts: Mapping[str, Path] | None = None,
    audit: AuditFile | None = None,
    show: Callable[[Cluster, Applied[Receipt]], None] = show_nothing,
    *,
    makes_folders: bool = True,
) -> dict[str, ReceiptKeeper]:
    """Make sure that the receipts of a run can be written; return what keeps on record what is done to each cluster.

    `receipts` is where each goes, by the name of the cluster; by default in `.quotaform/receipts`. `show` is called
    with what was done to a cluster once it is on record.

    Raises `UsageError` if a receipt is there already, since it overwrites nothing, and `QuotaformError` if a folder
    cannot be written to.
    """
    audit = audit or AuditFile(None)
    keepers = {}
    for each in plans:
        name = each.cluster.name
        path = receipt_path(each.digest, repository) if receipts is None else receipts[name]
        keepers[name] = ReceiptKeeper(path, repository, audit, partial(show, each.cluster))
        if not each.is_written:
            continue
        require_writable(path, makes_folder=makes_folders)
        if receipts is not None and path.is_file():
            raise UsageError(
                f"the receipt {path} already exists and is never overwritten; nothing was written: give another name"
            )
    return keepers
