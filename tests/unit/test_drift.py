"""What is drift; `rules-drift.txt` and `decided-changed.txt` have what is shown of it.

`decided-fingerprint.txt` has its fingerprints.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from json import loads

from quotaform.drift.drift import Drift, make_drift
from quotaform.drift.records import dump_drift
from quotaform.drift.report import render_drift
from quotaform.model import rule
from quotaform.model.entity import Entity
from quotaform.model.finding import Finding
from quotaform.model.quotas import Base, DeclaredBase, Quotas, Values
from quotaform.model.scope import Pattern, Scope
from quotaform.plan.difference import diff, make_plan
from tests.builder import CONNECTION, HEADER, PRODUCER, declare, plan_of

ALICE, BOB, DAVE = (Entity(user=name) for name in ("alice", "bob", "dave"))
ONE, NINE = {PRODUCER: 1.0}, {PRODUCER: 9.0}


def based(
    base: Mapping[Entity, Values],
    live: Quotas,
    files: Mapping[Entity, Values],
    unvalued: frozenset[Entity] = frozenset(),
) -> Drift:
    """The drift from a baseline; `{}` for an entity is a tombstone."""
    agreed = DeclaredBase(Base(ref="origin/main", commit="a91be02c"), declare(base), unvalued)
    head = declare(files)
    return make_drift(make_plan(diff(head, live), head, live, HEADER, base=agreed))


def without(name: str, **parts: str) -> Scope:
    return Scope(exclude=(Pattern(tuple((parts or {"user": name}).items())),))


def test_what_is_out_of_scope_is_no_drift() -> None:
    """A host name as an ip was drift, whatever the scope said."""
    live = {DAVE: ONE, Entity(ip="localhost"): {CONNECTION: 1.0}}
    assert len(make_drift(plan_of({}, live)).entities) == 2
    (drifted,) = make_drift(plan_of({}, live, scope=without("dave"))).entities
    assert drifted.entity != DAVE
    assert [each.entity for each in make_drift(plan_of({}, live, scope=without("", ip="localhost"))).entities] == [DAVE]


def test_a_guard_that_blocks_the_plan_is_no_finding_of_drift_and_another_cluster_is() -> None:
    """Whatever blocked a plan made its drift unknown, and what differs on a cluster that the files are not for came
    first.
    """
    plan = plan_of({Entity(user="a"): ONE}, {Entity(user="b"): ONE})
    guard = Finding(rule="guard", message="no", blocking=True)
    found = make_drift(replace(plan, findings=(guard,)))
    assert (found.status, found.findings) == ("drift", ())
    drift = make_drift(replace(plan, findings=(guard, rule.CLUSTER_ID.finding("another"))))
    assert (drift.status, drift.entities, drift.pending) == ("unknown", (), ())


def test_the_heading_names_a_receipt_that_is_the_baseline() -> None:
    receipt = Base(ref="receipts/1.json", commit=None, is_receipt=True)
    drift = replace(based({ALICE: ONE}, {ALICE: ONE}, {ALICE: ONE}), baseline=receipt)
    assert render_drift(drift).splitlines()[1] == "Baseline  receipt receipts/1.json"
    assert loads(dump_drift(drift))["baseline"] == {"type": "receipt", "ref": "receipts/1.json", "commit": None}


def test_values_that_a_receipt_does_not_hold_are_said() -> None:
    drift = based({}, {ALICE: NINE}, {ALICE: ONE}, frozenset({ALICE}))
    (finding,) = drift.findings
    assert finding.rule == "baseline-values-unknown"
    assert "fetch the git history (fetch-depth: 0)" in finding.message  # It only said to give a git ref.


def test_entities_are_counted_for_metrics() -> None:
    head = declare({ALICE: ONE, BOB: {}})
    live = {ALICE: ONE, Entity(user="in"): ONE, Entity(user="out"): ONE, Entity(user="out2"): ONE}
    for pruning in ([], [Entity(user="in")]):
        drift = make_drift(make_plan(diff(head, live, pruning), head, live, HEADER, scope=without("out*")))
        assert (drift.managed, drift.unmanaged_in_scope, drift.unmanaged_out_of_scope) == (1, 1, 2)
