"""What is drift, and who is notified of it and when: on change and on resolution, once.

`rules-drift.txt`, `decided-changed.txt` and `decided-fingerprint.txt` have what is shown of it and its fingerprints.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from json import loads
from pathlib import Path

import pytest
from jsonschema import Draft7Validator
from msgspec import structs

from quotaform.drift import alert as drift_alert
from quotaform.drift.alert import DriftReporter, Receiver
from quotaform.drift.drift import Baseline, Drift, make_drift
from quotaform.drift.metric import MetricStore
from quotaform.drift.records import (
    ClusterState,
    NotificationEvent,
    dump_drift,
    load_notify_state,
    make_notification,
)
from quotaform.drift.report import render_drift, render_slack
from quotaform.model import rule
from quotaform.model.entity import Entity
from quotaform.model.errors import HttpError
from quotaform.model.finding import Finding
from quotaform.model.outcome import ClusterOutcome
from quotaform.model.quotas import Base, DeclaredBase, Quotas, Values
from quotaform.model.records.record import ClusterRecord, builtins
from quotaform.model.scope import Pattern, Scope
from quotaform.plan.difference import diff, make_plan, removals
from tests.builder import CONNECTION, HEADER, PRODUCER, declare, plan_of
from tests.golden.example import example_drift
from tests.loading import load_schema
from tests.scripted_gateway import Clock

ALICE = Entity(user="alice")
IN_SYNC = make_drift(plan_of({ALICE: {PRODUCER: 1.0}}, {ALICE: {PRODUCER: 1.0}}))
DRIFTED = make_drift(plan_of({ALICE: {PRODUCER: 1.0}}, {ALICE: {PRODUCER: 2.0}}))
OTHER = make_drift(plan_of({ALICE: {PRODUCER: 1.0}}, {ALICE: {PRODUCER: 3.0}}))
URL = "https://hooks.example/services/x"


class Posts:
    """The events that were posted since the last call of `events`, and whether posts fail."""

    def __init__(self) -> None:
        self.posted: list[str] = []
        self.is_down = False

    def __call__(self, receiver: Receiver, body: bytes, **_: object) -> None:
        if self.is_down:
            raise HttpError(receiver.url.origin, "answered with status 500", status=500)
        self.posted.append(loads(body)["event"])

    def events(self) -> list[str]:
        events, self.posted = self.posted, []
        return events


@pytest.fixture
def posts(monkeypatch: pytest.MonkeyPatch) -> Posts:
    posts = Posts()
    monkeypatch.setattr(drift_alert, "post", posts)
    return posts


def notify(alerts: DriftReporter, drift: Drift, cluster: str = "lab") -> bool:
    alerts.record(cluster, drift)
    return alerts.notify(cluster, drift, None)


def alerts_of(warnings: list[str], path: Path | None = None, clock: Clock | None = None) -> DriftReporter:
    receivers = (Receiver.parse(URL),)
    metrics = MetricStore(lambda _: None, warnings.append)
    return DriftReporter(
        metrics=metrics, receivers=receivers, state_path=path, clock=clock or Clock(), warn=warnings.append
    )


def test_a_receiver_that_is_down_does_not_hold_up_other_clusters(posts: Posts) -> None:
    warnings: list[str] = []
    alerts = alerts_of(warnings, clock=(clock := Clock()))
    posts.is_down = True
    assert [notify(alerts, DRIFTED, name) for name in ("a", "b", "c")] == [False] * 3
    assert len(warnings) == 1
    posts.is_down = False
    assert not notify(alerts, DRIFTED, "a")
    clock.sleep(60)
    assert [notify(alerts, DRIFTED, name) for name in ("a", "b", "c")] == [True] * 3
    assert warnings[1:] == ["https://hooks.example is notified again"]


def test_metrics_are_written_before_anybody_is_notified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that was killed while it notified had written nothing of a comparison that was over."""
    path, written = tmp_path / "q.prom", list[str]()
    monkeypatch.setattr(drift_alert, "post", lambda *_, **__: written.append(path.read_text()))
    reporter = alerts_of([])
    reporter.metrics = MetricStore(lambda _: path, print)
    reporter.report([ClusterOutcome("lab", DRIFTED)], 1.0)
    assert 'quotaform_drift_entities{class="modified",cluster="lab"} 1.0' in written[0]
    assert 'quotaform_last_notify_success{cluster="lab"}' not in written[0]
    assert 'quotaform_last_notify_success{cluster="lab"} 1.0' in path.read_text()


def test_processes_share_a_state_and_lose_nothing_of_each_other(tmp_path: Path, posts: Posts) -> None:
    """Each wrote all of what it had read at its start: another's cluster was forgotten and notified about again."""
    path, warnings = tmp_path / "state.json", list[str]()
    one, two = (alerts_of(warnings, path) for _ in range(2))
    for alerts, cluster in ((one, "a"), (two, "b"), (one, "a"), (two, "a"), (one, "b"), (one, "c"), (two, "c")):
        assert notify(alerts, DRIFTED, cluster)
    assert posts.events() == ["drift.detected"] * 3
    assert set(load_notify_state(path.read_text())) == {"a", "b", "c"}
    two.keep_only(["a", "b"])
    assert notify(two, IN_SYNC, "b")
    assert notify(one, OTHER, "a")
    assert posts.events() == ["drift.resolved", "drift.changed"]
    assert set(load_notify_state(path.read_text())) == {"a", "b"}
    assert warnings == []


@pytest.mark.parametrize("is_writable", [False, True])
def test_what_the_file_does_not_hold_is_remembered_by_the_process(
    tmp_path: Path, posts: Posts, is_writable: bool
) -> None:
    path, warnings = tmp_path / "state" / "state.json", list[str]()
    if is_writable:
        path.parent.mkdir()
    alerts = alerts_of(warnings, path)
    assert notify(alerts, DRIFTED)
    path.unlink(missing_ok=True)
    assert notify(alerts, DRIFTED)
    path.parent.mkdir(exist_ok=True)
    assert notify(alerts, OTHER)
    assert notify(alerts, OTHER)
    assert posts.events() == ["drift.detected", "drift.changed"]
    assert len(warnings) == (not is_writable)
    assert set(load_notify_state(path.read_text())) == {"lab"}


def test_first_seen_lasts_until_the_cluster_is_in_sync() -> None:
    later = structs.replace(OTHER, read_at="2026-11-21T00:00:00Z")
    state = ClusterState().with_drift(DRIFTED).with_drift(later)
    assert state.first_seen == DRIFTED.read_at
    assert state.with_drift(IN_SYNC).first_seen is None
    assert (
        state.with_drift(structs.replace(later, cluster=ClusterRecord(name="lab", id="another"))).first_seen
        == later.read_at
    )


def test_notifications_are_as_their_schema_says() -> None:
    check = Draft7Validator(load_schema("notification"))
    drift = example_drift()
    check.validate(builtins(make_notification(NotificationEvent.DETECTED, "lab", drift)))
    check.validate(builtins(make_notification(NotificationEvent.CHECK_FAILED, "lab", None, error="x" * 9000)))
    many = make_drift(plan_of({Entity(user=f"u{n}"): {PRODUCER: 1.0} for n in range(60)}, {}))
    document = builtins(make_notification(NotificationEvent.DETECTED, "lab", many))
    check.validate(document)
    assert (len(document["items"]), document["truncated"], document["summary"]["missing"]) == (50, True, 60)


def test_no_name_mentions_anybody_in_a_chat() -> None:
    names = ("<!channel>", "@here", "<@U123>", "a & b", "x|y", "\n<!here>", "<https://evil|click>")
    drift = make_drift(plan_of({}, {Entity(user=name): {PRODUCER: 1.0} for name in names}))
    text = loads(render_slack(make_notification(NotificationEvent.DETECTED, "lab", drift)))["text"]
    assert "<" not in text
    assert ">" not in text
    assert not [part for part in text.split("@")[1:] if not part.startswith("\u200b")]
    assert len(text.splitlines()) == 2 + len(names)
    assert "&lt;!channel&gt;" in text


def test_a_message_in_a_chat_is_short() -> None:
    drift = make_drift(plan_of({}, {Entity(user=f"u{n}" + "x" * 5000): {PRODUCER: 1.0} for n in range(60)}))
    text = loads(render_slack(make_notification(NotificationEvent.DETECTED, "lab", drift)))["text"]
    assert len(text) < 8000
    assert text.splitlines()[-1] == "… and 50 more"


BOB, DAVE = Entity(user="bob"), Entity(user="dave")
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
    receipt = Baseline(type="receipt", ref="receipts/1.json")
    drift = structs.replace(based({ALICE: ONE}, {ALICE: ONE}, {ALICE: ONE}), baseline=receipt)
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
        drift = make_drift(
            make_plan([*diff(head, live), *removals(pruning, live)], head, live, HEADER, scope=without("out*"))
        )
        assert (drift.managed, drift.unmanaged_in_scope, drift.unmanaged_out_of_scope) == (1, 1, 2)
