"""What is drift, and its fingerprint; `rules-drift.txt` and `decided-changed.txt` have what is shown of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from json import loads
from typing import Any

import pytest

from quotaform.drift.drift import Drift, make_drift
from quotaform.drift.records import dump_drift
from quotaform.drift.report import render_drift
from quotaform.model import rule
from quotaform.model.entity import Entity
from quotaform.model.finding import Finding
from quotaform.model.quotas import Base, DeclaredBase, Quotas, Values
from quotaform.model.scope import Pattern, Scope
from quotaform.model.settings import Ignore
from quotaform.plan.difference import diff, make_plan
from tests.builder import CONNECTION, CONSUMER, HEADER, PRODUCER, REQUEST, declare, plan_of

ALICE, BOB, CAROL, DAVE, PERF = (Entity(user=name) for name in ("alice", "bob", "carol", "dave", "perf-1"))
ONE, TWO, NINE = ({PRODUCER: value} for value in (1.0, 2.0, 9.0))
FILES: Quotas = {ALICE: ONE, BOB: ONE, CAROL: {}, Entity(user="same"): {REQUEST: 1.0}}
LIVE: Quotas = {
    ALICE: TWO,
    CAROL: {PRODUCER: 3.0},
    DAVE: {CONSUMER: 1.0, PRODUCER: 4.0},
    Entity(user="same"): {REQUEST: 1.0},
}


def drift_of(files: Any, actual: Quotas, **more: object) -> Drift:
    return make_drift(plan_of(files, actual, **more))


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
    assert DAVE not in [drifted.entity for drifted in drift_of(FILES, LIVE, scope=without("dave")).entities]
    live = {Entity(ip="localhost"): {CONNECTION: 1.0}}
    assert drift_of({}, live).status == "drift"
    assert drift_of({}, live, scope=without("", ip="localhost")).status == "in-sync"


def ignoring(live: float, *keys: str) -> Drift:
    ignore = Ignore(
        match=Pattern((("user", "perf-*"),)), keys=frozenset(keys), reason="load test", expires=date(2026, 12, 31)
    )
    plan = plan_of({PERF: {PRODUCER: 1.0, CONSUMER: 1.0}}, {PERF: {PRODUCER: live, CONSUMER: 9.0}})
    return make_drift(plan, ignores=[ignore], today=date(2026, 11, 20))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (
            drift_of(FILES, LIVE),
            drift_of(
                dict(reversed(list(FILES.items()))),
                {entity: dict(reversed(list(values.items()))) for entity, values in reversed(list(LIVE.items()))},
                header=replace(HEADER, created_at="2030-01-01T00:00:00Z", cluster_name="renamed"),
            ),
        ),
        (drift_of(FILES, LIVE), drift_of(declare(FILES, owner="me", reason="why"), LIVE)),
        (ignoring(7.0, PRODUCER), ignoring(9.0, PRODUCER)),
        (
            based({ALICE: ONE, BOB: ONE}, {ALICE: NINE, BOB: ONE}, {ALICE: ONE, BOB: ONE}),
            based({ALICE: ONE, BOB: ONE}, {ALICE: NINE, BOB: ONE}, {ALICE: TWO, BOB: TWO}),
        ),
    ],
    ids=["order and time", "words and places", "ignored", "pending"],
)
def test_the_fingerprint_does_not_depend_on(first: Drift, second: Drift) -> None:
    assert first.fingerprint == second.fingerprint


def test_the_fingerprint_changes_when_the_drift_does() -> None:
    others: list[Quotas] = [
        {},
        FILES,
        {**LIVE, ALICE: ONE},
        {**LIVE, ALICE: {PRODUCER: 5.0}},
        {**LIVE, ALICE: {PRODUCER: 2.0, CONSUMER: 2.0}},
        {**LIVE, BOB: ONE},
        {**LIVE, DAVE: {PRODUCER: 4.0}},
        {**LIVE, Entity(user="eve"): {PRODUCER: 4.0}},
        {**LIVE, ALICE: {PRODUCER: float("nan")}},
    ]
    fingerprints = [drift_of(FILES, live).fingerprint for live in [LIVE, *others]]
    fingerprints.append(drift_of(FILES, LIVE, header=replace(HEADER, cluster_id="another")).fingerprint)
    fingerprints += [ignoring(live, CONSUMER).fingerprint for live in (7.0, 9.0)]
    assert len(set(fingerprints)) == len(fingerprints)


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
    assert [each.drift_class.value for each in drift.entities] == ["modified"]
    (finding,) = drift.findings
    assert finding.rule == "baseline-values-unknown"
    assert "fetch the git history (fetch-depth: 0)" in finding.message  # It only said to give a git ref.
    gone = based({}, {ALICE: NINE}, {}, frozenset({ALICE}))
    assert (gone.entities, [each.action.value for each in gone.pending]) == ((), ["delete"])


def test_entities_are_counted_for_metrics() -> None:
    head = declare({ALICE: ONE, BOB: {}})
    live = {ALICE: ONE, Entity(user="in"): ONE, Entity(user="out"): ONE, Entity(user="out2"): ONE}
    for pruning in ([], [Entity(user="in")]):
        drift = make_drift(make_plan(diff(head, live, pruning), head, live, HEADER, scope=without("out*")))
        assert (drift.managed, drift.unmanaged_in_scope, drift.unmanaged_out_of_scope) == (1, 1, 2)
