"""What is on record of applies: a lock while one runs, its receipt before and after it writes, and the audit log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from quotaform.apply.audit import AuditFile
from quotaform.apply.lock import HeldLock, cluster_lock, note_end, note_start, started_receipt
from quotaform.model.errors import QuotaformError, UsageError
from quotaform.model.outcome import digest_of
from quotaform.plan.receipt import Receipt, ReceiptDigest
from quotaform.plan.receipt_file import receipt_path, write_receipt
from quotaform.repository.repository import Repository
from quotaform.system.files import require_writable

if TYPE_CHECKING:
    from quotaform.desired.config import Cluster
    from quotaform.plan.plan import PlanDigest

P = TypeVar("P")
R = TypeVar("R")


class ClusterPlan(NamedTuple, Generic[P]):
    """A plan, which may be `Kept`, and the cluster to apply it to."""

    cluster: Cluster
    plan: P

    @property
    def digest(self) -> PlanDigest:
        """The numbers of the plan, without its changes."""
        made: PlanDigest = digest_of(self.plan)
        return made

    @property
    def is_written(self) -> bool:
        """Whether there is something to write, and nothing blocks it."""
        return bool(self.digest.changes) and self.digest.is_applyable


@dataclass(frozen=True, slots=True)
class Applied(Generic[R]):
    """What an apply did to one cluster, and where that is on record."""

    receipt: R  # A `Receipt`, which may be `Kept`
    path: Path | None = None  # The file of the receipt; `None` when the plan has no changes, or it could not be written
    unsaved: QuotaformError | None = None  # Why the receipt could not be written
    late: tuple[QuotaformError, ...] = ()  # What failed when all was done: noting it in the audit log, disconnecting

    @property
    def digest(self) -> ReceiptDigest:
        """The numbers of the receipt, without its entities."""
        made: ReceiptDigest = digest_of(self.receipt)
        return made


@dataclass(slots=True)
class ReceiptKeeper:
    """Keeps the receipt of one apply: in a file of its own, started before the first change is sent."""

    path: Path | None  # Where it is wanted; `None` if it is not to be kept
    started: Path | None = None  # Where the started receipt is, which that of what was done replaces
    saved: Path | None = None  # Where the receipt of what was done is
    unsaved: QuotaformError | None = None  # Why that could not be written

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
        path = self.started or self.path
        if path is None or not receipt.results:
            return
        try:
            self.saved = write_receipt(path, receipt, is_started=self.started is not None)
        except OSError as error:
            self.unsaved = QuotaformError(f"{path} cannot be written: {error.strerror or error}")
        except QuotaformError as error:
            self.unsaved = error


@dataclass(slots=True)
class _Entry:
    """One cluster whose apply is running."""

    path: Path  # Where the receipt is wanted
    keeper: ReceiptKeeper
    lock: HeldLock = field(default_factory=lambda: HeldLock(None))


class Ledger:
    """Keeps on record what one run does to clusters."""

    def __init__(
        self,
        repository: Repository,
        plans: Sequence[ClusterPlan[Any]],
        receipts: Mapping[str, Path] | None = None,
        audit: AuditFile | None = None,
        *,
        makes_folders: bool = True,
    ) -> None:
        """Make sure that the receipts can be written.

        `receipts` is where each goes, by the name of the cluster; by default in `.quotaform/receipts`.

        Raises `UsageError` if a receipt is there already, since it overwrites nothing, and `QuotaformError` if a folder
        cannot be written to.
        """
        self.audit = AuditFile(None) if audit is None else audit
        self._repository = repository
        self._entries: dict[str, _Entry] = {}
        for each in plans:
            name = each.cluster.name
            path = receipt_path(each.digest, repository) if receipts is None else receipts[name]
            self._entries[name] = _Entry(path, ReceiptKeeper(path))
            if not each.is_written:
                continue
            require_writable(path, makes_folder=makes_folders)
            if receipts is not None and path.is_file():
                raise UsageError(
                    f"the receipt {path} already exists and is never overwritten; nothing was written: "
                    "give another name"
                )

    def path(self, cluster: Cluster) -> Path:
        """Return where the receipt of a cluster is wanted."""
        return self._entries[cluster.name].path

    @contextmanager
    def entered(self, each: ClusterPlan[Any]) -> Iterator[None]:
        """Hold the lock of a cluster, and note in the audit log that its apply begins or is refused.

        Raises `ApplyRunningError`, or `QuotaformError` if the audit log cannot be written: nothing must be applied.
        """
        cluster, plan, entry = each.cluster, each.digest, self._entries[each.cluster.name]
        # A plan without changes settles what an apply that was killed had begun.
        is_locked = each.is_written or (
            plan.is_applyable and started_receipt(self._repository, cluster.name, plan.cluster_id) is not None
        )
        folder, nothing = self._repository.config_path.parent, nullcontext(HeldLock(None))
        lock = cluster_lock(folder, cluster.name, plan.cluster_id) if is_locked else nothing
        with self.audit.refusals([plan]), lock as entry.lock:
            if each.is_written:
                note_start(entry.lock, self._repository, plan.cluster_id, entry.path)
            self.audit.start(plan)
            yield

    def start(self, cluster: Cluster, receipt: Receipt) -> None:
        """Write the started receipt of a cluster; raises `QuotaformError` if it cannot be written."""
        entry = self._entries[cluster.name]
        entry.keeper.start(receipt)
        started = entry.keeper.started
        if started is not None and started != entry.path:
            note_start(entry.lock, self._repository, receipt.plan.header.cluster_id, started)

    def keep(self, cluster: Cluster, receipt: Receipt, saved: Path | None = None) -> Applied[Receipt]:
        """Write the receipt of what was done, and to the audit log that it has ended; raise nothing, as it stays done.

        `saved` is where the receipt is already, if it is.
        """
        entry, done = self._entries[cluster.name], receipt.digest
        keeper = entry.keeper
        if saved is None:
            keeper.keep(receipt)
        else:
            keeper.saved = saved
        if keeper.unsaved is None and done.is_complete:
            note_end(entry.lock, self._repository, done.cluster_id, done.options)
        unaudited = self.audit.finish(receipt)
        return Applied(receipt, keeper.saved, keeper.unsaved, () if unaudited is None else (unaudited,))
