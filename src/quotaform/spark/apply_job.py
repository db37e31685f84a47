"""Applying the plan of one cluster of many on an executor, by the code of `quotaform.app.apply.apply`.

Spark may run a task more than once: again, when its executor or its Python process was lost; twice at a time, when it
is slow and speculation is on; and a task that Spark has given up may still be running. None of that does harm:

* Every attempt reads the entities of the plan first. One that holds the planned values already counts as
  `already-applied`, and nothing is sent for it. One that holds neither those nor what was there before the plan ends
  the attempt before anything is written.
* An alteration sets values and does not add to them, so that two attempts at the same time leave what one leaves.

When an attempt has ended, Spark begins no other: its outcome is kept (`quotaform.spark.job.kept_rows.final_rows`), and
if that is lost with the executor before the driver has read it, the cluster ends with `ApplyLostError`.

What remains is what remains of every apply: a change by somebody else between the last read of an attempt and its
write is overwritten. An attempt that Spark has given up on and that stalls between the two can
still overwrite a newer value.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from quotaform.app.apply.apply import ClusterPlan, apply_plans
from quotaform.app.apply.receipt_file import start_receipt, write_receipt
from quotaform.app.clock import Clock
from quotaform.app.plan.plan_file import require_plan_id
from quotaform.app.rendering import Document, StoredResult, render
from quotaform.app.run import Applier
from quotaform.core.digest import ReceiptDigest, digest_receipt
from quotaform.core.plan import Plan
from quotaform.core.receipt import Receipt
from quotaform.document.audit import Auditor
from quotaform.document.plan import load_plan
from quotaform.errors import QuotaformError
from quotaform.spark.job.bundle import Bundle
from quotaform.spark.job.cluster_job import Made

if TYPE_CHECKING:
    from quotaform.desired.config import Cluster

_AUDIT: Final = "audit"
_SAVED: Final = "saved"
_LATE: Final = "late"
"""Documents beside those that are asked for: lines of the audit log; where the receipt was written, if it was; an error
that came when everything was done."""


class BundledPlan(NamedTuple):
    """A plan file in a bundle.

    Attributes:
        name: By which the bundle finds it.
        plan_id: The id of the plan that was shown or approved.
    """

    name: str
    plan_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyJob:
    """Applies plans.

    Attributes:
        paths: Where the receipt of each goes, seen from the driver.
        bundle: What has the plan files.
        home: The path of the bundle on the driver: who sees it there sees the driver's folders, too.
    """

    clusters: Sequence[Cluster]
    plans: Sequence[BundledPlan]
    paths: Sequence[Path]
    bundle: Bundle
    home: str
    documents: tuple[Document, ...]
    applier: Applier
    auditor: Auditor | None
    clock: Clock

    @property
    def names(self) -> Sequence[str]:
        """The names of the clusters."""
        return [cluster.name for cluster in self.clusters]

    def run(self, place: int, beside: int | None = None) -> Made:
        """Apply the plan of a cluster, and render the receipt.

        The receipt is written at once where the driver's folders are seen, the started one before the first change is
        sent: it is there even if nobody is left to hear of it. A second attempt writes one of its own.
        """
        cluster = self.clusters[place]
        started: list[Path] = []
        saved: list[str] = []
        late: list[str] = []
        path = self.paths[place]
        # A pipe and `/dev/stdout` are those of the driver.
        is_here = Path(self.home).exists() and (path.is_file() or not path.exists())

        def start(_cluster: Cluster, receipt: Receipt) -> None:
            if is_here and os.access(path.parent, os.W_OK):
                started.extend(filter(None, [start_receipt(path, receipt)]))

        def keep(_cluster: Cluster, receipt: Receipt) -> None:
            if receipt.results and is_here:
                with suppress(OSError, QuotaformError):  # Then the driver writes it.
                    saved.append(str(write_receipt((*started, path)[0], receipt, is_started=bool(started))))

        (outcome,) = apply_plans(
            [ClusterPlan(cluster, self._plan(place))],
            keep,
            start=start,
            report_late=lambda _, error: late.append(str(error)),
            clock=self.clock,
            applier=self.applier,
        )
        receipt = outcome.require()
        documents: dict[str, Iterable[str]] = {each.name: _rendered(each, receipt) for each in self.documents}
        if self.auditor is not None:
            documents[_AUDIT] = self.auditor.ended(receipt)
        documents |= {name: found for name, found in ((_SAVED, saved), (_LATE, late)) if found}
        return Made(digest_receipt(receipt), documents)

    def release(self, place: int) -> None:
        """Nothing of a cluster is kept."""

    def _plan(self, place: int) -> Plan:
        bundled = self.plans[place]
        plan = load_plan(self.bundle.read(bundled.name), f"the plan of {self.clusters[place].name}")
        require_plan_id(plan.plan_id, bundled.plan_id)
        return plan


def _rendered(document: Document, receipt: Receipt) -> Iterator[str]:
    options: dict[str, Any] = dict(document.options)
    return render("receipt", document.format_name, receipt, **options)


def audit_lines(done: StoredResult[ReceiptDigest]) -> Iterator[str]:
    """Yield the lines of the audit log about an apply that ran on an executor."""
    if _AUDIT not in done.documents:
        return
    rest = ""
    for piece in done.documents[_AUDIT]():
        *lines, rest = f"{rest}{piece}".split("\n")
        yield from (f"{line}\n" for line in lines)


def saved_path(done: StoredResult[ReceiptDigest]) -> Path | None:
    """Return where an executor has written the receipt, if it has and the driver sees it there."""
    if _SAVED not in done.documents:
        return None
    path = Path("".join(done.documents[_SAVED]()))
    return path if path.is_file() else None


def late_error(done: StoredResult[ReceiptDigest]) -> QuotaformError | None:
    """Return the error that came when everything was done, if one did."""
    if _LATE not in done.documents:
        return None
    return QuotaformError(*"".join(done.documents[_LATE]()).split("\n"))
