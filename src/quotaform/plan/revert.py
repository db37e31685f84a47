"""Putting back what an apply changed: each key that it wrote gets the value from before, and nothing else is touched.

| live value of a key | what is done |
| --- | --- |
| what the apply wrote | it is put back |
| what was there before | nothing: it is back already, or was never written |
| anything else | the whole revert is refused: it was changed again, on purpose |

An entity that held the planned values before the apply sent anything was not changed by it, and is left alone; so is
one whose change was refused or never sent.
"""

from __future__ import annotations

from dataclasses import replace

from msgspec import Struct, structs

from quotaform.model.entity import Entity
from quotaform.model.errors import StaleError, first_lines
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import NO_VALUES, Cause, Change, Quotas, same_value
from quotaform.model.scope import Selection
from quotaform.model.text import option_of
from quotaform.model.units import is_writable
from quotaform.plan.plan import Plan
from quotaform.plan.receipt import Result, SavedReceipt
from quotaform.resolve.effect import value_text


class Moved(Struct, frozen=True):
    """A key that holds neither what the apply wrote nor what was there before."""

    row: Change  # What the apply did
    live: float | None  # The value now


class Revert(Struct, frozen=True, kw_only=True):
    """What there is to do to put back what an apply changed."""

    receipt: SavedReceipt
    rows: tuple[Change, ...]  # The keys to put back, each with its live value and the one from before
    back: tuple[Entity, ...]  # The entities of which nothing is to be put back
    left: tuple[Entity, ...]  # The entities that held the planned values before the apply, which did not change them
    moved: tuple[Moved, ...]
    unwritable: tuple[Change, ...]  # The keys to put back to a value that no file can declare, as NaN
    files_problem: str | None = None  # Why it is not known what the files declare, if it is not
    claimed: frozenset[Entity] = frozenset()  # What other quota repositories declare for the cluster
    claims_problem: str | None = None  # Why that is not known, if it is not
    policies_problem: str | None = None  # Why the values cannot be checked against the policies, if they cannot

    @property
    def problems(self) -> int:
        """How many keys keep it from being done."""
        return len(self.moved) + len(self.unwritable)


def find_revert(receipt: SavedReceipt, actual: Quotas, selection: Selection) -> Revert:
    """Compare what an apply changed with what the cluster holds now."""
    rows: list[Change] = []
    back: list[Entity] = []
    left: list[Entity] = []
    moved: list[Moved] = []
    unwritable: list[Change] = []
    for item in receipt.results:
        if not selection.contains(item.entity):
            continue
        if item.result is Result.ALREADY_APPLIED:
            left.append(item.entity)
        if not item.result.may_have_written:
            continue
        live = actual.get(item.entity, NO_VALUES)
        is_back = True
        for row in item.rows:
            value = live.get(row.key)
            if same_value(value, row.before):
                continue
            is_back = False
            if not same_value(value, row.after):
                moved.append(Moved(row, value))
            elif row.before is not None and not is_writable(QUOTA_KEYS[row.key], row.before):
                unwritable.append(row)
            else:
                rows.append(Change(row.entity, row.key, row.after, row.before))
        if is_back:
            back.append(item.entity)
    return Revert(
        receipt=receipt,
        rows=tuple(rows),
        back=tuple(back),
        left=tuple(left),
        moved=tuple(moved),
        unwritable=tuple(unwritable),
    )


def require_revertible(revert: Revert) -> None:
    """Make sure that everything can be put back.

    Raises `StaleError` if something has moved on, or was a value that cannot be written.
    """
    problems = []
    for moved in revert.moved:
        row = moved.row
        problems.append(
            f"{row.entity.address}: {row.key} is {value_text(row.key, moved.live)}; the apply changed it from "
            f"{value_text(row.key, row.before)} to {value_text(row.key, row.after)}, and somebody else has changed it "
            "since"
        )
    for row in revert.unwritable:
        was = value_text(row.key, row.before)
        problems.append(f"{row.entity.address}: {row.key} was {was} before the apply, which cannot be written")
    if problems:
        raise StaleError(
            "the apply cannot be reverted, so nothing is planned:",
            *first_lines(problems),
            f"Leave these entities out with {option_of('exclude')}, or declare the values that they are to have.",
        )


def as_revert(plan: Plan, revert: Revert) -> Plan:
    """Return a plan of the rows of a revert as what it is: its changes follow from the receipt, not from the files."""
    reason = f"reverts plan {revert.receipt.plan_id.removeprefix('sha256:')[:12]}"
    return replace(
        plan,
        changes=tuple(
            structs.replace(change, cause=Cause.REVERT, reason=reason, location=None, expires=None)
            for change in plan.changes
        ),
        unchanged=len(revert.back),
        unmanaged=(),
        declared=plan.declared if revert.files_problem is None else None,
    )
