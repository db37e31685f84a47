"""How a cluster differs from the files, and when that is something new."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from json import loads

from quotaform.drift.drift import Drift, make_drift
from quotaform.drift.records import dump_drift
from quotaform.drift.report import render_drift
from quotaform.model import rule
from quotaform.model.entity import Entity
from quotaform.model.finding import Finding
from quotaform.model.quotas import Cause, Desired, Quotas
from quotaform.model.scope import Pattern, Scope
from tests.builder import CONNECTION, CONSUMER, HEADER, PRODUCER, REQUEST, declare, plan_of

ALICE, BOB, CAROL, DAVE = (Entity(user=name) for name in ("alice", "bob", "carol", "dave"))
FILES: Quotas = {ALICE: {PRODUCER: 1.0}, BOB: {PRODUCER: 1.0}, CAROL: {}, Entity(user="same"): {REQUEST: 1.0}}
LIVE: Quotas = {
    ALICE: {PRODUCER: 2.0},
    CAROL: {PRODUCER: 3.0},
    DAVE: {CONSUMER: 1.0, PRODUCER: 4.0},
    Entity(user="same"): {REQUEST: 1.0},
}


def drift_of(files: Quotas | Desired, actual: Quotas, **more: object) -> Drift:
    return make_drift(plan_of(files, actual, **more))


def test_an_undeclared_entity_out_of_scope_is_no_drift() -> None:
    scope = Scope(exclude=(Pattern((("user", "dave"),)),))
    assert DAVE not in [drifted.entity for drifted in drift_of(FILES, LIVE, scope=scope).entities]


def test_the_fingerprint_does_not_depend_on_order_or_time() -> None:
    first = drift_of(FILES, LIVE)
    second = drift_of(
        dict(reversed(list(FILES.items()))),
        {entity: dict(reversed(list(values.items()))) for entity, values in reversed(list(LIVE.items()))},
        header=replace(HEADER, created_at="2030-01-01T00:00:00Z", cluster_name="renamed"),
    )
    assert first.fingerprint == second.fingerprint


def test_the_fingerprint_does_not_depend_on_words_or_places() -> None:
    moved = declare(dict(reversed(list(FILES.items()))), owner="me", reason="why")
    assert drift_of(moved, LIVE).fingerprint == drift_of(FILES, LIVE).fingerprint


def test_the_fingerprint_changes_when_the_drift_does() -> None:
    others: list[Quotas] = [
        {},
        FILES,
        {**LIVE, ALICE: {PRODUCER: 1.0}},
        {**LIVE, ALICE: {PRODUCER: 5.0}},
        {**LIVE, ALICE: {PRODUCER: 2.0, CONSUMER: 2.0}},
        {**LIVE, BOB: {PRODUCER: 1.0}},
        {**LIVE, DAVE: {PRODUCER: 4.0}},
        {**LIVE, Entity(user="eve"): {PRODUCER: 4.0}},
        {**LIVE, ALICE: {PRODUCER: float("nan")}},
    ]
    fingerprints = [drift_of(FILES, live).fingerprint for live in [LIVE, *others]]
    fingerprints.append(drift_of(FILES, LIVE, header=replace(HEADER, cluster_id="another")).fingerprint)
    assert len(set(fingerprints)) == len(fingerprints)


def test_a_guard_that_blocks_the_plan_does_not_make_drift_unknown() -> None:
    """Whatever blocked a plan made its drift unknown; only another cluster does."""
    guard = Finding(rule="guard", message="no", blocking=True)
    other_cluster = rule.CLUSTER_ID.finding("another")
    plan = plan_of({}, {})
    assert make_drift(replace(plan, findings=(guard,))).is_known
    assert not make_drift(replace(plan, findings=(guard, other_cluster))).is_known


def test_what_differs_on_another_cluster_than_the_pinned_one_is_not_listed() -> None:
    """The differences of a cluster that the files are not for came first, and that it was another one after them."""
    plan = plan_of({Entity(user="a"): {PRODUCER: 1.0}}, {Entity(user="b"): {PRODUCER: 1.0}})
    drift = make_drift(replace(plan, findings=(rule.CLUSTER_ID.finding("another"),)))
    assert (drift.status, drift.entities, drift.pending) == ("unknown", (), ())
    lines = render_drift(drift).splitlines()
    assert lines[1:] == [
        "",
        "Not compared:",
        "  cluster-id  another",
        "",
        "Unknown: this is not the cluster that the files are for (see above).",
    ]


def test_an_expired_entry_is_told_from_one_that_is_not_declared() -> None:
    """Drift said "not in the files" of an entry that has expired, which plan said right."""
    files = {**declare({ALICE: {}}, cause=Cause.EXPIRED, expires=date(2026, 1, 1)), **declare({BOB: {}})}
    drift = drift_of(files, {ALICE: {PRODUCER: 1.0}, BOB: {PRODUCER: 1.0}, CAROL: {PRODUCER: 1.0}})
    assert [drifted.absent for drifted in drift.entities] == ["expired 2026-01-01", "state: absent", None]
    text = render_drift(drift)
    assert "1 B/s on the cluster, expired 2026-01-01 in the files" in text
    assert "1 B/s on the cluster, state: absent in the files" in text
    assert text.count("not in the files") == 1
    assert loads(dump_drift(drift))["entities"][0]["absent"] == "expired 2026-01-01"


def test_what_files_cannot_declare_can_be_out_of_scope() -> None:
    """A host name as an ip was drift, whatever the scope said."""
    live = {Entity(ip="localhost"): {CONNECTION: 1.0}}
    assert drift_of({}, live).status == "drift"
    assert drift_of({}, live, scope=Scope(exclude=(Pattern((("ip", "localhost"),)),))).status == "in-sync"
