"""What a plan was compared with, and what its changes are due to, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from quotaform.core.base import Base
from quotaform.core.change import Change
from quotaform.core.entity_change import EntityChange
from quotaform.core.origin import Origin
from quotaform.core.plan import Plan
from quotaform.model.entry import Cause
from quotaform.model.text import inert
from quotaform.views.plan.effect_text import value_text
from quotaform.views.style import PLAIN, Style, counted

DRIFTED: Final = (Origin.DRIFT, Origin.BOTH)
"""The origins of changes of entities in which the cluster differs from the base."""
_MOST_ADDRESSES: Final = 20


def base_text(base: Base) -> str:
    """Return a base as the header of a plan shows it."""
    return inert(base.ref) if base.commit is None else f"{inert(base.ref)} @ {inert(base.commit[:7])}"


def origin_text(change: EntityChange) -> str | None:
    """Return what the changes of an entity are due to; `None` without a base, and when its reason says it."""
    match change.origin:
        case Origin.CONFIG if change.cause is Cause.UNDECLARED:
            return None
        case Origin.CONFIG:
            return "origin: config"
        case Origin.DRIFT:
            return f"origin: drift, not in this change: {drift_reason(change)}"
        case Origin.BOTH:
            return "origin: both, the files and the cluster differ from the base"
        case None:
            return None


def drift_reason(change: EntityChange) -> str:
    """Return why an entity changes although the files say of it what the base says."""
    if change.cause is Cause.EXPIRED:
        return "the entry has expired"
    if change.base is None:
        return "the base does not declare it either"
    if not change.base:
        return "absent in the base too (not applied yet, or made by hand)"
    return "already in the base, but not on the cluster (not applied yet, or edited by hand)"


def three_values_text(change: EntityChange, row: Change) -> str:
    """Return the origin of a row, what the base declares for its key, the live value and what the files declare."""
    declared = (change.base or {}).get(row.key)
    values = (("base", declared), ("live", row.before), ("files", row.after))
    shown = ", ".join(f"{name} {'none' if value is None else value_text(row.key, value)}" for name, value in values)
    return f"{change.origin_of(row)}: {shown}"


def drift_text(number: int) -> str:
    """Return the sentence about the entities that an apply changes though nothing in the change of the files asks it.

    `number` is how many entities have an origin of `DRIFTED`.
    """
    them = "it" if number == 1 else "them"
    return (
        f"Drift: the cluster differs from the base in {counted(number, 'entity', 'entities')} (not applied yet, or "
        f"edited by hand); this apply would change {them}."
    )


def render_reverted_drift(plan: Plan, style: Style = PLAIN) -> Iterator[str]:
    """Yield the entities in which the cluster differs from the base, apart from the changes of the files."""
    reverted = [change for change in plan.changes if change.origin in DRIFTED]
    if not reverted:
        return
    yield drift_text(len(reverted))
    for change in reverted[:_MOST_ADDRESSES]:
        yield f"    {style.action(change.action.glyph, change.action)} {change.entity.address}{_note(change)}"
    if len(reverted) > _MOST_ADDRESSES:
        yield f"    ... and {len(reverted) - _MOST_ADDRESSES:,} more"
    yield ""


def _note(change: EntityChange) -> str:
    if change.origin is Origin.BOTH:
        return "   (the files change it, too)"
    return "   (the entry has expired)" if change.cause is Cause.EXPIRED else ""
