"""What is on record of applies: a lock while one runs, its receipt before and after it writes, and the audit log."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from msgspec import Struct

from quotaform.apply.audit import AuditFile
from quotaform.apply.lock import HeldLock, cluster_lock, note_end, note_start, started_receipt
from quotaform.model.errors import QuotaformError, UsageError
from quotaform.model.outcome import digest_of
from quotaform.plan.digest import ClusterDigest, FleetStatus
from quotaform.plan.receipt import Receipt
from quotaform.plan.receipt_file import receipt_path, write_receipt
from quotaform.repository.repository import Repository
from quotaform.system.files import require_writable

if TYPE_CHECKING:
    from quotaform.desired.config import Cluster

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


@dataclass(slots=True)
class ReceiptKeeper:
    """Keeps the receipt of one apply: in a file of its own, started before the first change is sent."""

    path: Path | None  # Where it is wanted; `None` if it is not to be kept
    started: Path | None = None  # Where the started receipt is, which that of what was done replaces
    receipt: Receipt | None = None  # That of what was done, once it is known
    saved: Path | None = None  # Where it is
    unsaved: QuotaformError | None = None  # Why it could not be written

    def start(self, receipt: Receipt) -> None:
        """Write the started receipt; raises `QuotaformError` if it cannot be written.

        A path that is no regular file (a pipe) takes only the receipt of what was done.
        """
        path = self.path
        if path is None or (path.exists() and not path.is_file()):
            return
        try:
            self.started = write_receipt(path, receipt)
        except OSError as error:
            raise QuotaformError(
                f"{path} cannot be written: {error.strerror or error}; nothing was written to the cluster"
            ) from error

    def keep(self, receipt: Receipt) -> None:
        """Write the receipt of what was done, if anything was; raise nothing, as it stays done."""
        self.receipt = receipt
        path = self.started or self.path
        if path is None or self.saved is not None or not receipt.results:
            return
        try:
            self.saved = write_receipt(path, receipt, is_started=self.started is not None)
        except OSError as error:
            self.unsaved = QuotaformError(f"{path} cannot be written: {error.strerror or error}")
        except QuotaformError as error:
            self.unsaved = error

    def show(self) -> None:
        """Show what was done."""


def show_nothing(*arguments: object) -> None:
    """Do nothing with what was applied."""


@dataclass(slots=True)
class ClusterLedger(ReceiptKeeper):
    """Keeps on record what is done to one cluster."""

    path: Path
    repository: Repository = field(kw_only=True)
    audit: AuditFile = field(kw_only=True)
    show_applied: Callable[[Applied[Receipt]], None] = show_nothing
    lock: HeldLock = field(default_factory=lambda: HeldLock(None))
    late: tuple[QuotaformError, ...] = ()

    def applied(self, receipt: R, problem: QuotaformError | None = None) -> Applied[R]:
        """Return what was done, once it is; `problem` is what failed when that was on record."""
        late = self.late if problem is None else (*self.late, problem)
        return Applied(receipt, self.saved, self.unsaved, late)

    def start(self, receipt: Receipt) -> None:
        """Write the started receipt, and note where it is."""
        ReceiptKeeper.start(self, receipt)
        if self.started is not None and self.started != self.path:
            note_start(self.lock, self.repository, receipt.plan.header.cluster_id, self.started)

    def keep(self, receipt: Receipt) -> None:
        """Write the receipt of what was done, and to the audit log that it has ended; raise nothing."""
        ReceiptKeeper.keep(self, receipt)
        header = receipt.plan.header
        if self.unsaved is None and receipt.is_complete:
            note_end(self.lock, self.repository, header.cluster_id, header.options)
        if (unaudited := self.audit.finish(receipt)) is not None:
            self.late = (unaudited,)

    def show(self) -> None:
        """Show what was done."""
        if self.receipt is not None:
            self.show_applied(self.applied(self.receipt))


class Ledger:
    """Keeps on record what one run does to clusters."""

    def __init__(
        self,
        repository: Repository,
        plans: Sequence[ClusterPlan[Any]],
        receipts: Mapping[str, Path] | None = None,
        audit: AuditFile | None = None,
        show: Callable[[Cluster, Applied[Receipt]], None] = show_nothing,
        *,
        makes_folders: bool = True,
    ) -> None:
        """Make sure that the receipts can be written.

        `receipts` is where each goes, by the name of the cluster; by default in `.quotaform/receipts`. `show` is called
        with what was done to a cluster once it is on record.

        Raises `UsageError` if a receipt is there already, since it overwrites nothing, and `QuotaformError` if a folder
        cannot be written to.
        """
        self.audit = AuditFile(None) if audit is None else audit
        self._repository = repository
        self._records: dict[str, ClusterLedger] = {}
        for each in plans:
            name = each.cluster.name
            path = receipt_path(each.digest, repository) if receipts is None else receipts[name]
            shown = partial(show, each.cluster)
            self._records[name] = ClusterLedger(path, repository=repository, audit=self.audit, show_applied=shown)
            if not each.is_written:
                continue
            require_writable(path, makes_folder=makes_folders)
            if receipts is not None and path.is_file():
                raise UsageError(
                    f"the receipt {path} already exists and is never overwritten; nothing was written: "
                    "give another name"
                )

    def of(self, cluster: Cluster) -> ClusterLedger:
        """Return what is on record of one cluster."""
        return self._records[cluster.name]

    @contextmanager
    def entered(self, each: ClusterPlan[Any]) -> Iterator[None]:
        """Hold the lock of a cluster, and note in the audit log that its apply begins or is refused.

        Raises `QuotaformError` if nothing must be applied: another apply is running, or the log cannot be written.
        """
        cluster, plan, record = each.cluster, each.digest, self.of(each.cluster)
        # A plan without changes settles what an apply that was killed had begun.
        is_locked = each.is_written or (
            plan.row.status is FleetStatus.UNCHANGED
            and started_receipt(self._repository, cluster.name, plan.cluster_id) is not None
        )
        folder, nothing = self._repository.config_path.parent, nullcontext(HeldLock(None))
        lock = cluster_lock(folder, cluster.name, plan.cluster_id) if is_locked else nothing
        with self.audit.refusals([each.plan]), lock as record.lock:
            if each.is_written:
                note_start(record.lock, self._repository, plan.cluster_id, record.path)
            self.audit.start(each.plan)
            yield
