"""What is drift and what is pending, given what was last agreed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from json import loads

from quotaform.drift.drift import Drift, make_drift
from quotaform.drift.records import dump_drift
from quotaform.drift.report import render_drift
from quotaform.model.entity import Entity
from quotaform.model.finding import Finding
from quotaform.model.quotas import Base, DeclaredBase, Quotas, Values
from quotaform.model.scope import Pattern, Scope
from quotaform.plan.difference import diff, make_plan
from tests.builder import HEADER, PRODUCER, declare

ALICE, BOB = Entity(user="alice"), Entity(user="bob")
ONE, TWO, NINE = ({PRODUCER: value} for value in (1.0, 2.0, 9.0))
Files = Mapping[Entity, Values]


def drift_of(
    baseline: Files, live: Quotas, files: Files, *, unvalued: frozenset[Entity] = frozenset(), pruned: bool = False
) -> Drift:
    """The drift of a cluster; `{}` for an entity is a tombstone."""
    agreed = DeclaredBase(Base(ref="origin/main", commit="a91be02c"), declare(baseline), unvalued)
    head = declare(files)
    pruning = [entity for entity in live if entity not in head] if pruned else []
    plan = make_plan(diff(head, live, pruning), head, live, HEADER, base=agreed)
    return make_drift(plan)


def verdict(drift: Drift) -> str:
    """What the one entity of a comparison is."""
    classes = [each.drift_class.value for each in drift.entities]
    classes += [f"pending {each.action}" for each in drift.pending]
    return " and ".join(classes) or "in sync"


def test_what_is_pending_is_not_in_the_fingerprint() -> None:
    before = drift_of({ALICE: ONE, BOB: ONE}, {ALICE: NINE, BOB: ONE}, {ALICE: ONE, BOB: ONE})
    merged = drift_of({ALICE: ONE, BOB: ONE}, {ALICE: NINE, BOB: ONE}, {ALICE: TWO, BOB: TWO})
    assert merged.fingerprint == before.fingerprint
    assert [len(drift.pending) for drift in (before, merged)] == [0, 1]


def test_the_heading_names_a_receipt_that_is_the_baseline() -> None:
    drift = drift_of({ALICE: ONE}, {ALICE: ONE}, {ALICE: ONE})
    receipt = replace(drift, baseline=Base(ref="receipts/1.json", commit=None, is_receipt=True))
    assert render_drift(receipt).splitlines()[1] == "Baseline  receipt receipts/1.json"
    assert loads(dump_drift(receipt))["baseline"] == {"type": "receipt", "ref": "receipts/1.json", "commit": None}


def test_values_that_a_receipt_does_not_hold_are_said() -> None:
    drift = drift_of({}, {ALICE: NINE}, {ALICE: ONE}, unvalued=frozenset({ALICE}))
    assert verdict(drift) == "modified"
    (finding,) = drift.findings
    assert finding.rule == "baseline-values-unknown"
    assert "fetch the git history (fetch-depth: 0)" in finding.message  # It only said to give a git ref.
    assert verdict(drift_of({}, {ALICE: NINE}, {}, unvalued=frozenset({ALICE}))) == "pending delete"


def test_findings_of_guards_are_not_findings_of_drift() -> None:
    """A guard that blocks a plan is about an apply, and drift applies nothing."""
    head = declare({ALICE: ONE})
    guard = Finding(rule="delete", message="too many", blocking=True)
    plan = replace(make_plan(diff(head, {}), head, {}, HEADER), findings=(guard,))
    drift = make_drift(plan)
    assert drift.findings == ()
    assert drift.status == "drift"


def test_entities_are_counted_for_metrics() -> None:
    head = declare({ALICE: ONE, BOB: {}})
    live = {ALICE: ONE, Entity(user="in"): ONE, Entity(user="out"): ONE, Entity(user="out2"): ONE}
    scope = Scope(exclude=(Pattern((("user", "out*"),)),))
    for pruning in ([], [Entity(user="in")]):
        drift = make_drift(make_plan(diff(head, live, pruning), head, live, HEADER, scope=scope))
        assert (drift.managed, drift.unmanaged_in_scope, drift.unmanaged_out_of_scope) == (1, 1, 2)
