"""A comparison with a baseline that has everything in it."""

from __future__ import annotations

from datetime import date

from quotaform.drift.drift import Drift, make_drift
from quotaform.model.entity import Entity
from quotaform.model.finding import Location
from quotaform.model.quotas import Base, DeclaredBase
from quotaform.model.scope import Pattern
from quotaform.model.settings import Ignore
from quotaform.plan.difference import diff, make_plan
from tests.builder import CONSUMER, HEADER, PRODUCER, declare

MIB = 1024.0**2
ORDERS, AUDIT, BILLING = (Entity(user=f"svc-{name}") for name in ("orders", "audit", "billing"))
OLD, ADHOC, PERF = Entity(user="old-etl"), Entity(user="adhoc"), Entity(user="perf-1")


def example_drift() -> Drift:
    """Drift, pending changes and ignored keys, beside one entity that is in sync."""
    base = {
        ORDERS: {PRODUCER: 10 * MIB},
        AUDIT: {PRODUCER: 5 * MIB, CONSUMER: 16 * MIB},
        BILLING: {PRODUCER: MIB},
        OLD: {CONSUMER: MIB},
        PERF: {PRODUCER: MIB},
        Entity(user=None): {PRODUCER: MIB},
    }
    live = {
        ORDERS: {PRODUCER: 10 * MIB},
        AUDIT: {PRODUCER: 5 * MIB, CONSUMER: 80 * MIB},
        OLD: {CONSUMER: MIB},
        ADHOC: {PRODUCER: 3 * MIB, "future_rate": 1.0},
        PERF: {PRODUCER: 9 * MIB},
        Entity(user=None): {PRODUCER: MIB},
    }
    files = {
        **base,
        ORDERS: {PRODUCER: 20 * MIB},
        AUDIT: {PRODUCER: 5 * MIB, CONSUMER: 32 * MIB},
        Entity(user="new", client_id=None): {PRODUCER: MIB},
    }
    del files[OLD]
    agreed = DeclaredBase(Base(ref="origin/main", commit="a91be02c"), declare(base))
    head = declare(files, owner="team-a")
    plan = make_plan(diff(head, live), head, live, HEADER, base=agreed)
    ignore = Ignore(
        match=Pattern((("user", "perf-*"),)),
        reason="load test",
        expires=date(2026, 12, 31),
        location=Location("quotaform.yaml", 9, 3),
    )
    return make_drift(plan, ignores=[ignore], today=date(2026, 11, 20))
