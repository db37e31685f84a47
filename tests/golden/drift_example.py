"""A comparison with a baseline that has everything in it."""

from __future__ import annotations

from datetime import date

from quotaform.drift.drift import Drift, make_drift
from quotaform.model.finding import Location
from quotaform.model.quotas import Base, DeclaredBase
from quotaform.model.scope import Pattern
from quotaform.model.settings import Ignore
from quotaform.plan.difference import diff, make_plan
from tests.builder import HEADER
from tests.golden.example import example_entries, example_quotas


def example_drift() -> Drift:
    """Drift, pending changes and ignored keys, beside one entity that is in sync."""
    base = DeclaredBase(Base(ref="origin/main", commit="a91be02c"), example_entries("drift_base"))
    head, live = example_entries("drift_files"), example_quotas("drift_live")
    plan = make_plan(diff(head, live), head, live, HEADER, base=base)
    ignore = Ignore(
        match=Pattern((("user", "perf-*"),)),
        reason="load test",
        expires=date(2026, 12, 31),
        location=Location("quotaform.yaml", 9, 3),
    )
    return make_drift(plan, ignores=[ignore], today=date(2026, 11, 20))
