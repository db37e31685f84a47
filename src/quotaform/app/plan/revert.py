"""Planning the way back: what an apply changed, put back as its receipt says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from quotaform.app.actual import bulk_of, read_settled
from quotaform.app.apply.receipt_file import load_receipt_file
from quotaform.app.clock import SYSTEM_CLOCK, Clock, today
from quotaform.app.each_cluster import ClusterWork, Connect
from quotaform.app.plan.cluster_plan import make_cluster_plan
from quotaform.app.plan.request import PlanRequest, Reading
from quotaform.app.repository.gateway import open_gateway
from quotaform.app.repository.source import Source, read_source
from quotaform.app.steps import Steps
from quotaform.cluster.gateway import Gateway, Progress, no_progress
from quotaform.core.claim import Claim
from quotaform.core.outcome import ClusterOutcome
from quotaform.core.plan import Plan, PlanSource
from quotaform.core.prune import PruneMode
from quotaform.core.receipt import SavedReceipt
from quotaform.core.revert import Revert, find_revert, require_receipt_cluster, require_revertible
from quotaform.core.scope import Selection
from quotaform.errors import InvalidFilesError, ReceiptFileError
from quotaform.model.entity import Entity
from quotaform.model.entry import Desired
from quotaform.model.quotas import Quotas

if TYPE_CHECKING:
    from quotaform.desired.config import Cluster


class _Files(NamedTuple):
    """What the files declare for the cluster, if they are valid, and where they come from."""

    desired: Desired
    source: Source
    problem: str | None = None


class _Claims(NamedTuple):
    """What other quota repositories declare, if their files are valid."""

    claims: tuple[Claim, ...] = ()
    problem: str | None = None

    def entities(self, cluster: str, cluster_id: str) -> frozenset[Entity]:
        """Return what they declare for a cluster."""
        return frozenset(
            entity for claim in self.claims if claim.is_of(cluster, cluster_id) for entity in claim.desired
        )


def load_revertible(path: Path) -> SavedReceipt:
    """Read a receipt from which an apply can be reverted.

    Raises:
        FileReadError: It cannot be read.
        ReceiptFileError: It is no valid receipt, or one of an early version, which holds no values.
        ReceiptFileChangedError: It was changed after it was written.
    """
    receipt = load_receipt_file(path)
    if receipt.results and not any(item.rows for item in receipt.results):
        text = "has format version 1.0, which holds no values, so that nothing can be put back from it"
        raise ReceiptFileError(str(path), text)
    return receipt


def plan_revert(
    request: PlanRequest,
    *,
    clock: Clock = SYSTEM_CLOCK,
    progress: Progress = no_progress,
    connect: Connect = open_gateway,
) -> Iterator[ClusterOutcome[Plan]]:
    """Plan to put back what an apply changed.

    The files say only whether the next plan would change it again, so that they may be invalid.

    Args:
        request: What to plan: `revert` is the receipt, and the only cluster is that of the receipt.

    Yields:
        The outcome of the cluster. Its error may be a `ReceiptClusterError` or a `RevertError`.

    Raises:
        ValueError: The request has no receipt.
    """
    receipt = request.revert
    if receipt is None:
        raise ValueError("no receipt to revert")
    request = replace(request, base=None, prune=PruneMode.REPORT)
    steps = Steps(progress)
    files, claims = _read_files(request, clock), _read_claims(request, clock)
    problem = "policies are invalid (quotaform validate shows the problems)" if request.policies.problems else None

    def work(cluster: Cluster, gateway: Gateway) -> Plan:
        cluster_id = gateway.cluster_id()
        require_receipt_cluster(receipt, cluster_id)
        actual, revert = _settle(receipt, request.selection, gateway, clock, steps)
        require_revertible(revert)
        return make_cluster_plan(
            request,
            cluster,
            Reading(cluster_id, actual, gateway.snapshot, request.principals_of(cluster)),
            revert.rows,
            files.desired,
            source=files.source,
            clock=clock,
            revert=replace(
                revert,
                files_problem=files.problem,
                claimed=claims.entities(cluster.name, cluster_id),
                claims_problem=claims.problem,
                policies_problem=problem,
            ),
        )

    with ClusterWork(request.clusters, work, connect) as working:
        yield from working.outcomes({}, steps)


def _settle(
    receipt: SavedReceipt, selection: Selection, gateway: Gateway, clock: Clock, progress: Progress
) -> tuple[Quotas, Revert]:
    """Read a cluster and find out what there is to put back; what has moved on counts only in two equal reads."""

    def make(actual: Quotas) -> tuple[Quotas, Revert]:
        return actual, find_revert(receipt, actual, selection)

    def bulk(made: tuple[Quotas, Revert], actual: Quotas) -> int:
        return made[1].problems or bulk_of(len(made[1].rows), len(actual))

    return read_settled(gateway, make, bulk, clock=clock, progress=progress)


def _read_files(request: PlanRequest, clock: Clock) -> _Files:
    """Read what the files declare; that they are invalid is no reason to leave a bad change where it is."""
    repository, day = request.repository, today(clock)
    source = Source(PlanSource(directory=repository.directory.as_posix()))
    try:
        files = repository.load(request.config, day)
        source = read_source(repository, request.config, files.layout.tree, day)
        return _Files(files.desired(request.clusters[0].name), source)
    except InvalidFilesError:
        return _Files({}, source, "the files are invalid (quotaform validate shows the problems)")


def _read_claims(request: PlanRequest, clock: Clock) -> _Claims:
    """Read what other quota repositories declare; that they are invalid blocks a revert until that is allowed."""
    if not request.config.roots:
        return _Claims()
    from quotaform.app.repository.root import read_claims

    try:
        return _Claims(read_claims(request.repository, request.config, today(clock)))
    except InvalidFilesError:
        return _Claims(problem="files in roots are invalid (quotaform validate shows the problems)")
