"""A plan with a base and with pruning, in which every origin occurs."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

from quotaform.model.entity import Entity
from quotaform.model.quotas import Base, Cause, DeclaredBase, Desired
from quotaform.model.settings import PruneMode
from quotaform.plan.difference import diff, make_plan, prune, removable_entities
from quotaform.plan.plan import Plan, PlanOptions
from tests.builder import declare
from tests.golden.example import MIB, example_plan

BASE = Base("origin/main", "a91be02d41")
NAMES = ("audit", "both", "config", "drifted", "expired", "gone", "keys", "moved", "new", "strange", "tombstone")
AUDIT, BOTH, CONFIG, DRIFTED, EXPIRED, GONE, KEYS, MOVED, NEW, STRANGE, TOMBSTONE = (
    Entity(user=name) for name in NAMES
)


def _rates(producer: float, consumer: float | None = None) -> dict[str, float]:
    both = {"producer_byte_rate": producer * MIB, "consumer_byte_rate": (consumer or 0) * MIB}
    return both if consumer else {"producer_byte_rate": producer * MIB}


AT_BASE: Desired = {
    **declare({GONE: _rates(5, 10), MOVED: _rates(5)}, owner="team-etl"),
    **declare(
        {
            AUDIT: _rates(16),
            BOTH: _rates(1),
            CONFIG: _rates(10, 20),
            DRIFTED: _rates(1, 2),
            KEYS: _rates(1, 1),
            TOMBSTONE: _rates(1),
        }
    ),
    **declare({EXPIRED: {}}, cause=Cause.EXPIRED, expires=date(2026, 11, 1)),
}
LIVE = {
    AUDIT: _rates(80),
    BOTH: _rates(2),
    CONFIG: _rates(10, 20),
    DRIFTED: _rates(1, 9),
    EXPIRED: _rates(3),
    GONE: _rates(5, 10),
    KEYS: _rates(1, 8),
    MOVED: _rates(6),
    STRANGE: _rates(7),
    TOMBSTONE: _rates(1),
}
FILES: Desired = {
    **declare({CONFIG: _rates(20, 20), NEW: _rates(1), TOMBSTONE: {}}, owner="team-a"),
    **declare({AUDIT: _rates(16), BOTH: _rates(3), DRIFTED: _rates(1, 2), KEYS: _rates(2, 1)}),
    **declare({EXPIRED: {}}, cause=Cause.EXPIRED, expires=date(2026, 11, 1)),
}


def based_plan() -> Plan:
    header = example_plan().header
    header = replace(header, source=replace(header.source, base=BASE), options=PlanOptions(prune=PruneMode.SCOPE))
    base = DeclaredBase(BASE, AT_BASE)
    pruned = prune(list(removable_entities(FILES, LIVE)), PruneMode.SCOPE, base)
    return make_plan(diff(FILES, LIVE, pruned), FILES, LIVE, header, base=base, pruned=pruned)
