"""A receipt as the base: what the files declared when it was written, with values as far as it has them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from quotaform.app.git.object_store import find_work_tree
from quotaform.core.base import Base, DeclaredBase
from quotaform.core.change import Action
from quotaform.core.cluster_base import ClusterBase
from quotaform.errors import BaseError, FileReadError, ReceiptFileError
from quotaform.model.entry import Desired, Entry
from quotaform.model.text import inert

if TYPE_CHECKING:
    from quotaform.app.clock import Clock
    from quotaform.app.repository.repository import Repository
    from quotaform.core.receipt import SavedReceipt


def is_receipt(ref: str) -> bool:
    """Whether a base is the path of a receipt, rather than a git revision."""
    return ref.endswith(".json")


@dataclass(frozen=True, slots=True)
class ReceiptBase:
    """What a receipt declares.

    Attributes:
        base: What it declares.
        commit: The commit that was applied; `None` when it does not say.
        is_commit: Whether the files that were applied were those of the commit, as far as is known.
    """

    base: ClusterBase
    commit: str | None
    is_commit: bool


def read_receipt_base(path: str) -> ReceiptBase:
    """Return what the receipt that somebody named as the base declares; it is of one cluster.

    Raises `BaseError` if it cannot be read, is that of a revert or of an apply that did not finish, or does not say
    what the files declared.
    """
    from quotaform.app.apply.last_receipt import STARTED
    from quotaform.app.apply.receipt_file import load_receipt_file

    try:
        receipt = load_receipt_file(Path(path))
    except FileReadError as error:
        raise BaseError(inert(path), error.reason) from None
    except ReceiptFileError as error:
        raise BaseError(inert(path), error.problem) from None
    if receipt.is_revert:
        text = "it is the receipt of a revert, whose values are not those of the files"
        raise BaseError(inert(path), f"{text}; give the receipt of the apply before it, or a git revision")
    if receipt.is_started:
        raise BaseError(inert(path), f"it {STARTED}; complete the apply, or give an earlier receipt or a git revision")
    if receipt.declared is None:
        text = "it is a receipt of an earlier version of quotaform, which does not list what was declared"
        raise BaseError(inert(path), f"{text}; give a git revision")
    desired = _desired(receipt)
    base = Base(path, receipt.source.commit, is_receipt=True)
    declared = DeclaredBase(base, desired, receipt.declared - desired.keys())
    return ReceiptBase(
        ClusterBase(declared=declared, cluster_id=receipt.cluster_id),
        receipt.source.commit,
        receipt.source.dirty is False,
    )


def with_commit(receipt: ReceiptBase, at_commit: ClusterBase) -> ClusterBase:
    """Return a receipt's base with the guards of its commit, and with the values that the receipt does not hold.

    `receipt` is what the receipt declares. `at_commit` is what the files of its commit declare.
    """
    base = replace(
        receipt.base,
        safeguards=at_commit.safeguards,
        safeguards_problem=at_commit.safeguards_problem,
        approvals=at_commit.approvals,
    )
    declared, files = base.declared, at_commit.declared
    if declared is None or files is None or not receipt.is_commit:
        return base
    found = {entity: files.desired[entity] for entity in declared.unvalued if files.declares(entity)}
    valued = replace(declared, desired={**declared.desired, **found}, unvalued=declared.unvalued - found.keys())
    return replace(base, declared=valued)


def last_receipt_base(
    repository: Repository, cluster_id: str, clock: Clock, other_names: Collection[str] = ()
) -> tuple[DeclaredBase | None, str, tuple[str, ...]]:
    """Return what the last receipt of a cluster declares, or why nothing is known, and what was passed over.

    `other_names` are the names of other clusters, whose receipts are not of this one.
    """
    from quotaform.app.apply.last_receipt import last_receipt

    found = last_receipt(repository, cluster_id, clock, other_names=other_names)
    ignored = tuple(str(error) for error in found.ignored)
    if found.last is None:
        why = "there is no base and no receipt of this cluster"
        if found.skipped:
            why += f" that can be used ({found.skipped[0]})"
    elif found.last.declared is None:
        why = f"there is no base, and the receipts up to {found.last.path} do not say it for the whole cluster"
    elif found.skipped:
        why = f"there is no base, and a newer receipt than {found.last.path} cannot be used ({found.skipped[0]})"
    else:
        base = Base(str(found.last.path), found.last.commit, is_receipt=True)
        return DeclaredBase(base, {}, found.last.declared), "", ignored
    remedy = "give the git revision that was applied last: --base REF"
    if find_work_tree(repository.directory) is None:
        remedy = "give the receipt of the last apply (--base RECEIPT), or plan with --prune report"
    return None, f"{why}; {remedy}", ignored


def _desired(receipt: SavedReceipt) -> Desired:
    """Return the entries whose values a receipt holds whole: those of the entities that it created."""
    declared = receipt.declared or frozenset()
    return {
        item.entity: Entry(
            entity=item.entity, values={row.key: row.after for row in item.rows if row.after is not None}
        )
        for item in receipt.results
        if item.action is Action.CREATE and item.result.holds and item.rows and item.entity in declared
    }
