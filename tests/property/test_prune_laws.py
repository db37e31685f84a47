"""Laws of origins and of pruning, whatever the base, the files and the cluster hold."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import event, given
from hypothesis import strategies as st
from msgspec import structs

from quotaform.desired.writer import is_removable
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import Base, Cause, DeclaredBase, Desired, Quotas
from quotaform.model.scope import FULL_SCOPE, Scope
from quotaform.model.settings import PruneMode
from quotaform.plan.change import Origin
from quotaform.plan.difference import diff, make_plan, prune, removable_entities
from quotaform.plan.plan import Plan, PlanOptions
from quotaform.plan.records import load_plan
from tests.builder import HEADER, altered, dumped_plan, guarded
from tests.property.test_plan_laws import spelled, within
from tests.strategies import SCOPES, desired, live_quotas

BASE = Base(ref="origin/main", commit="a91be02")
MODES = st.sampled_from(PruneMode)


def plan_of(
    base: Desired, files: Desired, actual: Quotas, mode: PruneMode = PruneMode.REPORT, scope: Scope = FULL_SCOPE
) -> Plan:
    declared = DeclaredBase(BASE, base)
    pruned = prune(list(removable_entities(files, actual, scope)), mode, declared)
    header = replace(HEADER, source=structs.replace(HEADER.source, base=BASE), options=PlanOptions(prune=mode))
    return make_plan(diff(files, actual, pruned), files, actual, header, scope=scope, base=declared, pruned=pruned)


@given(desired(), desired(), live_quotas())
def test_every_row_has_one_origin_and_an_entity_has_theirs(base: Desired, files: Desired, actual: Quotas) -> None:
    for change in plan_of(base, files, actual).changes:
        origins = [change.origin_of(row) for row in change.changes]
        assert None not in origins
        assert change.origin is (origins[0] if len(set(origins)) == 1 else Origin.BOTH)
        event(f"origin {change.origin}")


@given(desired(), desired(), live_quotas(), MODES, SCOPES)
def test_what_is_pruned_is_live_in_scope_declared_by_no_file_and_was_declared_unless_everything_is_meant(
    base: Desired, files: Desired, actual: Quotas, mode: PruneMode, scope: Scope
) -> None:
    files = within(files, scope)
    plan = plan_of(base, files, actual, mode, scope)
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

    plan, report = plan_of(base, files, actual, mode), plan_of(base, files, actual)
    assert spelled(sorted(map(repr, declared_rows(plan)))) == spelled(sorted(map(repr, declared_rows(report))))
    assert plan.unchanged == report.unchanged
    assert plan.declared == report.declared


@given(desired(), desired(), live_quotas(), MODES)
def test_a_plan_after_the_apply_prunes_nothing_more(
    base: Desired, files: Desired, actual: Quotas, mode: PruneMode
) -> None:
    after = altered(actual, [change.alteration() for change in plan_of(base, files, actual, mode).changes])
    assert plan_of(base, files, after, mode).changes == ()


@given(desired(), desired(), live_quotas(), MODES)
def test_a_plan_with_a_base_reads_back(base: Desired, files: Desired, actual: Quotas, mode: PruneMode) -> None:
    plan = guarded(plan_of(base, files, actual, mode))
    text = dumped_plan(plan)
    again = load_plan(text, "plan.json")
    assert spelled(again.changes) == spelled(plan.changes)
    assert dumped_plan(again) == text
