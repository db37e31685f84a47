"""Whether a plan still fits the cluster it was made for."""

from __future__ import annotations

from dataclasses import dataclass

from quotaform.core.change import NO_VALUES
from quotaform.core.entity_change import EntityChange
from quotaform.core.plan import Plan
from quotaform.errors import PlanClusterError, StaleEntitiesError
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import Quotas, Values, same_value, same_values
from quotaform.model.text import inert
from quotaform.model.units import render_value


@dataclass(frozen=True, slots=True)
class Freshness:
    """The changes of a plan, sorted by what the cluster holds now.

    Attributes:
        pending: The cluster holds `before`: to be made.
        applied: The cluster holds `after` already.
        stale: The cluster holds something else: somebody changed it.
        live: What the cluster holds of each of those that are stale.
    """

    pending: tuple[EntityChange, ...]
    applied: tuple[EntityChange, ...]
    stale: tuple[EntityChange, ...]
    live: tuple[Values, ...] = ()


def check_fresh(changes: tuple[EntityChange, ...], actual: Quotas) -> Freshness:
    """Sort changes by what the cluster holds now."""
    pending, applied, stale, held = [], [], [], []
    for change in changes:
        live = actual.get(change.entity, NO_VALUES)
        if same_values(live, change.before):
            pending.append(change)
        elif same_values(live, change.after):
            applied.append(change)
        else:
            stale.append(change)
            held.append(live)
    return Freshness(tuple(pending), tuple(applied), tuple(stale), tuple(held))


def describe_difference(change: EntityChange, live: Values) -> str:
    """Return the values in which an entity differs from what a plan wants of it, in words.

    `live` is what the entity holds.
    """
    keys = dict.fromkeys([*live, *change.after])
    different = [key for key in keys if not same_value(live.get(key), change.after.get(key))]
    return "it has " + ", ".join(
        f"{inert(key)} = {render_value(QUOTA_KEYS.get(key), live[key])}" if key in live else f"no {inert(key)}"
        for key in different
    )


def require_cluster(plan: Plan, cluster_id: str) -> None:
    """Raise `PlanClusterError` unless a plan is for this cluster."""
    if plan.header.cluster_id != cluster_id:
        raise PlanClusterError(expected=plan.header.cluster_id, found=cluster_id)


def require_fresh(freshness: Freshness) -> None:
    """Raise `StaleEntitiesError` if somebody changed what a plan is about."""
    if freshness.stale:
        pairs = zip(freshness.stale, freshness.live, strict=True)
        raise StaleEntitiesError({change.entity: _moved(change, live) for change, live in pairs})


def _moved(change: EntityChange, live: Values) -> list[str]:
    """Return for each key that differs what was found, what the plan was made of, and what the plan wants."""
    before, after = change.before, change.after
    keys = [key for key in dict.fromkeys([*before, *live]) if not same_value(before.get(key), live.get(key))]
    return [
        f"{inert(key)} is {_value(key, live)}; it was {_value(key, before)} when the plan was made, "
        f"which {_aim(key, before, after)}"
        for key in keys
    ]


def _aim(key: str, before: Values, after: Values) -> str:
    if same_value(before.get(key), after.get(key)):
        return "does not change it"
    return f"sets {_value(key, after)}" if key in after else "removes it"


def _value(key: str, values: Values) -> str:
    return render_value(QUOTA_KEYS.get(key), values[key]) if key in values else "not set"
