"""Laws that hold for every plan, drift and prune, whatever the cluster holds.

The files say what files can say; the cluster holds what anybody may have written: NaN, infinities, fractions of bytes,
keys and entity types of a later Kafka.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from math import inf, isnan
from typing import Any

from hypothesis import event, given
from hypothesis import strategies as st
from msgspec import Struct, structs
from msgspec.structs import replace

from quotaform.apply.freshness import check_fresh
from quotaform.desired.writer import is_out_of_reach, is_removable
from quotaform.drift.drift import Drift, make_drift
from quotaform.model.finding import Location
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import (
    Action,
    Base,
    Cause,
    Change,
    DeclaredBase,
    Desired,
    Entry,
    Quotas,
    same_values,
)
from quotaform.model.scope import ALL, FULL_SCOPE, Scope, Selection
from quotaform.model.settings import PruneMode
from quotaform.plan.difference import diff, make_plan, prune, removable_entities, removals
from quotaform.plan.plan import ChangeOrigin, Plan, PlanOptions
from quotaform.plan.records import load_plan
from quotaform.resolve.effect import Direction
from tests.builder import HEADER, after_apply, declare, dumped_plan, guarded
from tests.strategies import SCOPES, SELECTIONS, desired, live_quotas


def plan_of(files: Desired, actual: Quotas, scope: Scope = FULL_SCOPE, selection: Selection = ALL) -> Plan:
    options = PlanOptions(select=tuple(selection.select), exclude=tuple(selection.exclude))
    header = replace(HEADER, options=options)
    return make_plan(diff(files, actual), files, actual, header, scope=scope, selection=selection)


def within(files: Desired, scope: Scope) -> Desired:
    """What is left of files for a scope: the loader refuses the rest."""
    return {entity: entry for entity, entry in files.items() if scope.contains(entity)}


def unknown_part(values: Mapping[str, float]) -> dict[str, float]:
    return {key: value for key, value in values.items() if key not in QUOTA_KEYS}


def spelled(value: Any) -> Any:
    """Return a value so that it can be compared: any NaN is like any other."""
    if isinstance(value, float) and isnan(value):
        return "NaN"
    if is_dataclass(value) and not isinstance(value, type):
        return type(value), [spelled(getattr(value, each.name)) for each in fields(value) if each.compare]
    if isinstance(value, Struct):
        return type(value), spelled(structs.asdict(value))
    if isinstance(value, Mapping):
        return {key: spelled(each) for key, each in value.items()}
    return [spelled(each) for each in value] if isinstance(value, tuple | list) else value


@given(live_quotas())
def test_a_cluster_whose_every_known_value_is_declared_has_an_empty_plan(actual: Quotas) -> None:
    said = {entity: {key: values[key] for key in values if key in QUOTA_KEYS} for entity, values in actual.items()}
    again = {entity: {key: float(repr(value)) for key, value in values.items()} for entity, values in said.items()}
    assert plan_of(declare(again), actual).changes == ()


@given(desired(), live_quotas(), SCOPES)
def test_applying_a_plan_gives_what_the_files_say_within_scope_and_leaves_the_rest_alone(
    files: Desired, actual: Quotas, scope: Scope
) -> None:
    files = within(files, scope)
    plan = plan_of(files, actual, scope)
    after = after_apply(plan, actual)
    assert after.keys() == {e for e in actual if e not in files or unknown_part(actual[e])} | {
        e for e, entry in files.items() if entry.values
    }
    for entity, values in after.items():
        live = actual.get(entity, {})
        if entity in files:
            assert scope.contains(entity)
            assert same_values(values, {**unknown_part(live), **files[entity].values})
        else:
            assert values is live
    assert plan_of(files, after, scope).changes == ()
    assert {item.entity: item.in_scope for item in plan.unmanaged} == {
        entity: scope.contains(entity) for entity in actual if entity not in files
    }
    assert plan.in_scope == sum(scope.contains(entity) for entity in actual)


@given(desired(), live_quotas(), SELECTIONS)
def test_a_part_of_a_plan_is_that_part_of_the_whole(files: Desired, actual: Quotas, selection: Selection) -> None:
    whole, part = plan_of(files, actual), plan_of(files, actual, selection=selection)
    assert spelled(part.rows) == spelled(tuple(row for row in whole.rows if selection.contains(row.entity)))
    assert part.unmanaged == tuple(item for item in whole.unmanaged if selection.contains(item.entity))
    assert part.unchanged + len(part.changes) == sum(map(selection.contains, files))
    assert part.is_complete is not selection.is_partial
    after = after_apply(part, actual)
    left = plan_of(files, after)
    assert {change.entity for change in left.changes} == {
        change.entity for change in whole.changes if not selection.contains(change.entity)
    }


@given(desired(), live_quotas())
def test_every_change_says_what_is_before_and_after_it(files: Desired, actual: Quotas) -> None:
    for change in plan_of(files, actual).changes:
        live = actual.get(change.entity, {})
        assert change.before is live or change.before == live
        assert same_values(change.after, {**unknown_part(live), **files[change.entity].values})
        assert change.changes
        assert all(row.key in QUOTA_KEYS for row in change.changes), "an unknown key was touched"
        assert (change.action is Action.CREATE) == (not live)
        assert (change.action is Action.DELETE) == (bool(live) and not change.after)


@given(desired(), live_quotas(), SCOPES, st.randoms(use_true_random=False))
def test_a_plan_does_not_depend_on_the_order_of_what_it_is_made_of(
    files: Desired, actual: Quotas, scope: Scope, chance: random.Random
) -> None:
    def shuffled(mapping: Mapping[Any, Any]) -> dict[Any, Any]:
        items = [(key, shuffled(value) if isinstance(value, dict) else value) for key, value in mapping.items()]
        chance.shuffle(items)
        return dict(items)

    again = plan_of(shuffled(files), shuffled(actual), scope)
    assert dumped_plan(again) == dumped_plan(plan_of(files, actual, scope))


@given(desired(), desired(), live_quotas(), SELECTIONS, st.sampled_from(PruneMode))
def test_a_plan_file_reads_back_as_the_plan(
    base: Desired, files: Desired, actual: Quotas, selection: Selection, mode: PruneMode
) -> None:
    plan = guarded(plan_of(files, actual, selection=selection))
    for made in (plan, guarded(pruning_plan(base, files, actual, mode))):
        again = load_plan(dumped_plan(made), "plan.json")
        assert spelled(again.changes) == spelled(made.changes)
        assert again.plan_id == made.plan_id
        assert dumped_plan(again) == dumped_plan(made)
    assert spelled(load_plan(dumped_plan(plan), "plan.json")) == spelled(plan)


@given(desired(), live_quotas())
def test_a_fresh_plan_is_pending_and_an_applied_one_is_done(files: Desired, actual: Quotas) -> None:
    plan = load_plan(dumped_plan(guarded(plan_of(files, actual))), "plan.json")
    assert check_fresh(plan.changes, actual).pending == plan.changes
    assert check_fresh(plan.changes, after_apply(plan, actual)).applied == plan.changes


@given(desired(), live_quotas(), live_quotas())
def test_a_plan_for_one_state_is_pending_done_or_stale_on_any_other(
    files: Desired, actual: Quotas, other: Quotas
) -> None:
    plan = plan_of(files, actual)
    fresh = check_fresh(plan.changes, other)
    assert sorted(map(id, (*fresh.pending, *fresh.applied, *fresh.stale))) == sorted(map(id, plan.changes))
    for change in fresh.stale:
        assert spelled(other.get(change.entity, {})) not in (spelled(change.before), spelled(change.after))


@given(desired(), live_quotas())
def test_the_plan_id_says_what_is_done_and_nothing_else(files: Desired, actual: Quotas) -> None:
    plan = plan_of(files, actual)
    moved = {
        entity: Entry(
            entity=entity, values=entry.values, location=Location("elsewhere.yaml"), owner="me", cause=entry.cause
        )
        for entity, entry in files.items()
    }
    elsewhere = {entity: values for entity, values in actual.items() if entity in files}
    assert plan_of(moved, elsewhere).plan_id == plan.plan_id


@given(desired(), desired(), live_quotas())
def test_plans_that_do_different_things_have_different_ids(one: Desired, two: Desired, actual: Quotas) -> None:
    first, second = plan_of(one, actual), plan_of(two, actual)
    is_same = spelled(sorted(first.rows, key=repr)) == spelled(sorted(second.rows, key=repr))
    assert (first.plan_id == second.plan_id) == is_same


def size(key: str, value: float | None) -> float:
    """How much a value lets through: no quota and the maximum of its key let everything through."""
    return inf if value is None or value >= QUOTA_KEYS[key].maximum else value


@given(desired(), live_quotas())
def test_direction_compares_effective_values(files: Desired, actual: Quotas) -> None:
    for change in plan_of(files, actual).changes:
        for row, effect in zip(change.changes, change.effects, strict=True):
            before, after = size(row.key, effect.before.value), size(row.key, effect.after.value)
            if isnan(before) or isnan(after):
                event("NaN has no direction")
                expected = Direction.NONE
            else:
                expected = (
                    Direction.LOOSEN if after > before else Direction.TIGHTEN if after < before else Direction.NONE
                )
            assert effect.direction(row.key) is expected
            assert effect.becomes_unlimited(row.key) == (after == inf and before != inf)


@given(desired(), live_quotas())
def test_what_wins_after_a_plan_is_what_it_sets_unless_it_says_who_else(files: Desired, actual: Quotas) -> None:
    for change in plan_of(files, actual).changes:
        for row, effect in zip(change.changes, change.effects, strict=True):
            if effect.shadowed_by(change.entity, row.after) is None and row.after is not None:
                assert effect.after.value == row.after
                assert effect.after.source == change.entity


BASE = Base(ref="origin/main", commit="a91be02")


def drift_of(head: Desired, live: Quotas, base: Desired | None = None) -> Drift:
    agreed = None if base is None else DeclaredBase(BASE, base)
    return make_drift(make_plan(diff(head, live), head, live, HEADER, base=agreed))


@given(desired(), desired(), live_quotas())
def test_drift_and_pending_are_the_plan_seen_from_the_other_side(base: Desired, head: Desired, live: Quotas) -> None:
    plan, drift = plan_of(head, live), drift_of(head, live, base)
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
    plan, drift = plan_of(head, live), drift_of(head, live)
    assert drift.pending == ()
    keys = [(each.entity, key) for each in drift.entities if each.is_declared for key in each.keys]
    assert [Change(entity, key.key, key.actual, key.desired) for entity, key in keys] == [
        row for change in sorted(plan.changes, key=lambda change: change.entity.address) for row in change.changes
    ]


@given(desired(), live_quotas())
def test_files_that_did_not_move_have_nothing_pending(head: Desired, live: Quotas) -> None:
    drift = drift_of(head, live, head)
    assert drift.pending == ()
    assert drift.summary == drift_of(head, live).summary


@given(desired(), desired(), live_quotas())
def test_once_the_plan_is_applied_no_declared_entity_differs(base: Desired, head: Desired, live: Quotas) -> None:
    after = drift_of(head, after_apply(plan_of(head, live), live), base)
    left = {each.entity for each in after.entities} | {each.entity for each in after.pending}
    assert not left & head.keys()


@given(desired(), desired())
def test_a_cluster_that_is_as_the_baseline_says_has_no_drift(base: Desired, head: Desired) -> None:
    live = {entity: entry.values for entity, entry in base.items() if entry.values}
    drift = drift_of(head, live, base)
    assert drift.status == "in-sync"
    assert all(change.key in QUOTA_KEYS for each in drift.pending for change in each.keys)


MODES = st.sampled_from(PruneMode)


def pruning_plan(
    base: Desired, files: Desired, actual: Quotas, mode: PruneMode = PruneMode.REPORT, scope: Scope = FULL_SCOPE
) -> Plan:
    declared = DeclaredBase(BASE, base)
    pruned = prune(list(removable_entities(files, actual, scope)), mode, declared)
    header = replace(HEADER, source=structs.replace(HEADER.source, base=BASE), options=PlanOptions(prune=mode))
    rows = [*diff(files, actual), *removals(pruned, actual)]
    return make_plan(rows, files, actual, header, scope=scope, base=declared, pruned=pruned)


@given(desired(), desired(), live_quotas())
def test_every_row_has_one_origin_and_an_entity_has_theirs(base: Desired, files: Desired, actual: Quotas) -> None:
    for change in pruning_plan(base, files, actual).changes:
        origins = [change.origin_of(row) for row in change.changes]
        assert None not in origins
        assert change.origin is (origins[0] if len(set(origins)) == 1 else ChangeOrigin.BOTH)
        event(f"origin {change.origin}")


@given(desired(), desired(), live_quotas(), MODES, SCOPES)
def test_what_is_pruned_is_live_in_scope_declared_by_no_file_and_was_declared_unless_everything_is_meant(
    base: Desired, files: Desired, actual: Quotas, mode: PruneMode, scope: Scope
) -> None:
    files = within(files, scope)
    plan = pruning_plan(base, files, actual, mode, scope)
    pruned = [change for change in plan.changes if change.cause is Cause.UNDECLARED]
    for change in pruned:
        event(f"pruned in mode {mode}")
        assert mode is not PruneMode.REPORT
        assert change.entity not in files
        assert scope.contains(change.entity)
        assert is_removable(change.entity, actual[change.entity])
        assert change.reason
        assert all(row.after is None and row.key in QUOTA_KEYS for row in change.changes)
        if mode is PruneMode.REMOVED:
            assert base[change.entity].cause is Cause.ENTRY
    expected = {
        entity
        for entity, values in actual.items()
        if entity not in files and scope.contains(entity) and is_removable(entity, values)
    }
    if mode is PruneMode.SCOPE:
        assert {change.entity for change in pruned} == expected
    if mode is PruneMode.REMOVED:
        was = {entity for entity in expected if entity in base and base[entity].cause is Cause.ENTRY}
        assert {change.entity for change in pruned} == was


@given(desired(), desired(), live_quotas(), MODES)
def test_pruning_changes_nothing_about_the_entities_that_files_declare(
    base: Desired, files: Desired, actual: Quotas, mode: PruneMode
) -> None:
    def declared_rows(plan: Plan) -> set[object]:
        return {row for change in plan.changes if change.cause is not Cause.UNDECLARED for row in change.changes}

    plan, report = pruning_plan(base, files, actual, mode), pruning_plan(base, files, actual)
    assert spelled(sorted(map(repr, declared_rows(plan)))) == spelled(sorted(map(repr, declared_rows(report))))
    assert plan.unchanged == report.unchanged
    assert plan.declared == report.declared


@given(desired(), desired(), live_quotas(), MODES)
def test_a_plan_after_the_apply_prunes_nothing_more(
    base: Desired, files: Desired, actual: Quotas, mode: PruneMode
) -> None:
    after = after_apply(pruning_plan(base, files, actual, mode), actual)
    assert pruning_plan(base, files, after, mode).changes == ()
