"""Laws of drift: it is the plan seen from the other side, and every entity is in one class."""

from __future__ import annotations

from hypothesis import given

from quotaform.desired.writer import is_out_of_reach
from quotaform.drift.drift import make_drift
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import Base, Change, DeclaredBase, Desired, Quotas
from quotaform.plan.difference import diff, make_plan
from tests.builder import HEADER, altered
from tests.strategies import desired, live_quotas

BASE = Base(ref="origin/main", commit="a91be02")


@given(desired(), desired(), live_quotas())
def test_drift_and_pending_are_the_plan_seen_from_the_other_side(base: Desired, head: Desired, live: Quotas) -> None:
    agreed = DeclaredBase(BASE, base)
    plan = make_plan(diff(head, live), head, live, HEADER, base=agreed)
    drift = make_drift(plan)
    drifted, pending = ([each.entity for each in group] for group in (drift.entities, drift.pending))
    planned = [change.entity for change in plan.changes]
    unmanaged = [item.entity for item in plan.unmanaged if not is_out_of_reach(item.entity)]
    assert sorted(entity.address for entity in drifted + pending) == sorted(
        entity.address for entity in planned + unmanaged
    )
    assert not set(drifted) & set(pending)
    assert drift.in_sync == len(head) - len(planned)


@given(desired(), live_quotas())
def test_without_a_baseline_nothing_is_pending(head: Desired, live: Quotas) -> None:
    plan = make_plan(diff(head, live), head, live, HEADER)
    drift = make_drift(plan)
    assert drift.pending == ()
    keys = [(each.entity, key) for each in drift.entities if each.is_declared for key in each.keys]
    assert [Change(entity, key.key, key.actual, key.desired) for entity, key in keys] == [
        row for change in sorted(plan.changes, key=lambda change: change.entity.address) for row in change.changes
    ]


@given(desired(), live_quotas())
def test_files_that_did_not_move_have_nothing_pending(head: Desired, live: Quotas) -> None:
    agreed = DeclaredBase(BASE, head)
    plan = make_plan(diff(head, live), head, live, HEADER, base=agreed)
    drift = make_drift(plan)
    assert drift.pending == ()
    assert drift.summary == make_drift(make_plan(diff(head, live), head, live, HEADER)).summary


@given(desired(), desired(), live_quotas())
def test_once_the_plan_is_applied_no_declared_entity_differs(base: Desired, head: Desired, live: Quotas) -> None:
    agreed = DeclaredBase(BASE, base)
    plan = make_plan(diff(head, live), head, live, HEADER, base=agreed)
    applied = altered(live, [change.alteration() for change in plan.changes])
    after = make_drift(make_plan(diff(head, applied), head, applied, HEADER, base=agreed))
    left = {each.entity for each in after.entities} | {each.entity for each in after.pending}
    assert not left & head.keys()


@given(desired(), desired())
def test_a_cluster_that_is_as_the_baseline_says_has_no_drift(base: Desired, head: Desired) -> None:
    agreed = DeclaredBase(BASE, base)
    live = {entity: entry.values for entity, entry in base.items() if entry.values}
    drift = make_drift(make_plan(diff(head, live), head, live, HEADER, base=agreed))
    assert drift.status == "in-sync"
    assert all(change.key in QUOTA_KEYS for each in drift.pending for change in each.keys)
