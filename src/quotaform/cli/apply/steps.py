"""What is done beside applying a plan: the lock, the audit file, the receipt, and what is printed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from quotaform.app.apply.last_receipt import note_end, note_start
from quotaform.app.apply.lock import HeldLock, apply_lock
from quotaform.app.apply.receipt_file import start_receipt, write_receipt_lines
from quotaform.app.rendering import StoredResult, digest_of, render
from quotaform.cli.documents import STDOUT
from quotaform.cli.outcomes import warn_of_started
from quotaform.errors import QuotaformError
from quotaform.model.text import inert
from quotaform.views.reading_text import cluster_line

if TYPE_CHECKING:
    from quotaform.app.repository.repository import Repository
    from quotaform.cli.apply.settings import ApplySettings
    from quotaform.cli.console import Console
    from quotaform.core.digest import PlanDigest, ReceiptDigest
    from quotaform.core.receipt import Receipt
    from quotaform.desired.config import Cluster

    Done = Receipt | StoredResult[ReceiptDigest]


class ApplySteps:
    """What is done before and after each cluster."""

    def __init__(
        self, settings: ApplySettings, repository: Repository, paths: Mapping[str, Path], clusters: int
    ) -> None:
        """Note what was asked for.

        Args:
            clusters: How many clusters there are; the name of the only one need not be printed.
        """
        self._settings, self._repository = settings, repository
        self.paths = dict(paths)
        """Where the receipt of each cluster goes, or is."""
        self.clusters = clusters
        """How many clusters there are."""
        self._problems: dict[str, QuotaformError] = {}
        self._started: set[str] = set()
        self._locks: dict[str, HeldLock] = {}

    @contextmanager
    def around(self, cluster: Cluster, plan: PlanDigest) -> Iterator[None]:
        """Hold the lock of a cluster, and write to the audit file that its apply begins or is refused.

        A started receipt of an earlier apply is printed.
        """
        is_written = bool(plan.changes) and plan.is_applyable
        has_started = warn_of_started(self._settings.console, self._repository, cluster.name, plan.cluster_id)
        is_locked = is_written or (has_started and plan.is_applyable)
        lock = apply_lock(self._repository, cluster.name, plan.cluster_id) if is_locked else nullcontext(HeldLock(None))
        with self._settings.audit.refusals([plan]), lock as held:
            self._locks[cluster.name] = held
            if is_written:
                note_start(held, self._repository, plan.cluster_id, self.paths[cluster.name])
            self._settings.audit.start(plan)
            yield

    def start(self, cluster: Cluster, receipt: Receipt) -> None:
        """Write the started receipt of a cluster."""
        path = start_receipt(self.paths[cluster.name], receipt)
        if path is not None:
            self._started.add(cluster.name)
            if path != self.paths[cluster.name]:
                note_start(self._locks[cluster.name], self._repository, receipt.plan.header.cluster_id, path)
            self.paths[cluster.name] = path

    def keep(self, cluster: Cluster, done: Done) -> None:
        """Write a receipt, and to the audit file that the apply has ended; a failure is shown later."""
        digest: ReceiptDigest = digest_of(done)
        if digest.wrote_anything:
            self._settings.has_written.set()
        path = self.paths[cluster.name]
        try:
            if digest.entities:
                self.paths[cluster.name] = _written(path, done, is_started=cluster.name in self._started)
            if digest.is_complete:
                note_end(self._locks[cluster.name], self._repository, digest.cluster_id, digest.options)
        except OSError as error:
            self._problems[cluster.name] = QuotaformError(f"{path} cannot be written: {error.strerror or error}")
        except QuotaformError as error:
            self._problems[cluster.name] = error
        unaudited = self._settings.audit.finish(digest.cluster_name, self._audit_lines(done))
        if unaudited is not None:
            self.report_late(cluster, unaudited)

    def show(self, cluster: Cluster, done: Done) -> None:
        """Print what was done, and where the receipt is."""
        console, is_text = self._settings.console, self._settings.is_text
        digest: ReceiptDigest = digest_of(done)
        if is_text and self.clusters > 1:
            console.echo(f"{cluster_line(cluster.name, console.style())}\n")
        if digest.entities:
            _show_receipt(console, self.paths[cluster.name], done, self._problems.get(cluster.name))
        if is_text:
            console.echo(render("receipt", "text", done, style=console.style(), document=STDOUT))
        if is_text and self.clusters > 1:
            console.echo("\n")

    def report_late(self, cluster: Cluster, error: QuotaformError) -> None:
        """Print an error that came when everything was done."""
        self._settings.console.write_stderr(f"Error: {inert(cluster.name)}, when everything was done: {error}\n")

    def _audit_lines(self, done: Done) -> Iterator[str]:
        if isinstance(done, StoredResult):
            from quotaform.spark.apply_job import audit_lines

            return audit_lines(done)
        return self._settings.audit.auditor.ended(done)


def _written(path: Path, done: Done, *, is_started: bool) -> Path:
    """Write a receipt, unless whoever applied the plan has; return where it is.

    Args:
        path: Where it is to be, or is.
    """
    if isinstance(done, StoredResult):
        from quotaform.spark.apply_job import saved_path

        saved = saved_path(done)
        if saved is not None:
            return saved
    return write_receipt_lines(path, partial(render, "receipt", "json", done), is_started=is_started)


def _show_receipt(console: Console, path: Path, done: Done, problem: QuotaformError | None) -> None:
    """Say where the receipt is; what was done stays done when it could not be written, so then it is shown."""
    if problem is None:
        console.warn(f"Receipt: {path}")
        return
    text = "".join(render("receipt", "json", done))
    console.write_stderr(f"Error: {problem}; this is the receipt:\n{text}")
