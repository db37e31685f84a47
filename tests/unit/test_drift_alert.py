"""Who is notified of what and when: on change and on resolution, once."""

from __future__ import annotations

import hmac
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from json import loads
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from quotaform.drift import alert as drift_alert
from quotaform.drift.alert import AlertOptions, DriftAlerts, MessageFormat, Receiver, sign
from quotaform.drift.drift import Drift
from quotaform.drift.event import ClusterState, Notification, NotificationEvent
from quotaform.drift.records import dump_notification, dump_notify_state, load_notify_state
from quotaform.drift.report import render_slack
from quotaform.model.entity import Entity
from quotaform.model.errors import HttpError
from quotaform.model.text import Secret
from tests.builder import PRODUCER
from tests.golden.drift_example import example_drift
from tests.loading import load_schema
from tests.scripted_gateway import Clock
from tests.unit.test_drift import drift_of

ALICE = Entity(user="alice")
IN_SYNC = drift_of({ALICE: {PRODUCER: 1.0}}, {ALICE: {PRODUCER: 1.0}})
DRIFTED = drift_of({ALICE: {PRODUCER: 1.0}}, {ALICE: {PRODUCER: 2.0}})
OTHER = drift_of({ALICE: {PRODUCER: 1.0}}, {ALICE: {PRODUCER: 3.0}})
TOKEN = "T0K3N"
BAD_TIME = dump_notify_state({"lab": ClusterState(first_seen="yesterday")})
URL = f"https://hooks.example/services/{TOKEN}?key={TOKEN}"


class Posts:
    """What was posted, and whether posts fail."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.is_down = False

    def __call__(self, receiver: Receiver, body: bytes, **_: object) -> None:
        if self.is_down:
            raise HttpError(receiver.url.origin, "answered with status 500", status=500)
        self.bodies.append(loads(body))

    def events(self) -> list[str]:
        """The events since the last call."""
        events = [body.get("event") or body["text"].splitlines()[0] for body in self.bodies]
        self.bodies.clear()
        return events


@pytest.fixture
def posts(monkeypatch: pytest.MonkeyPatch) -> Posts:
    posts = Posts()
    monkeypatch.setattr(drift_alert, "post", posts)
    return posts


def notify(alerts: DriftAlerts, drift: Drift | None, cluster: str = "lab") -> bool:
    if drift is not None:
        alerts.record(cluster, drift)
    return alerts.notify(cluster, drift, "down" if drift is None else None)


class Runs:
    """One run after another, each a process of its own with the same state file."""

    def __init__(self, path: Path | None, *urls: str, **more: bool) -> None:
        self.warnings: list[str] = []
        self.clock = Clock()
        receivers = tuple(map(Receiver.parse, urls or (URL,)))
        self.options = AlertOptions(receivers=receivers, state_path=path, **more)  # type: ignore[arg-type]

    def warn(self, warning: str) -> None:
        self.warnings.append(warning)

    def __call__(self, drift: Drift | None) -> bool:
        alerts = DriftAlerts(options=self.options, clock=self.clock, warn=self.warn)
        return notify(alerts, drift)


def test_a_receiver_that_is_down_does_not_hold_up_other_clusters(posts: Posts) -> None:
    run = Runs(None)
    alerts = DriftAlerts(options=run.options, clock=run.clock, warn=run.warn)
    posts.is_down = True
    assert [notify(alerts, DRIFTED, name) for name in ("a", "b", "c")] == [False] * 3
    assert len(run.warnings) == 1
    posts.is_down = False
    assert not notify(alerts, DRIFTED, "a")
    run.clock.sleep(60)
    assert [notify(alerts, DRIFTED, name) for name in ("a", "b", "c")] == [True] * 3
    assert run.warnings[1:] == ["https://hooks.example is notified again"]


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"kind": "other"}', "[" * 5000, "\0", '{"kind":"quotaform.notify-state"}', BAD_TIME]
)
def test_a_damaged_state_is_reported_and_notifies_once(tmp_path: Path, posts: Posts, content: str) -> None:
    path = tmp_path / "state.json"
    path.write_text(content)
    run = Runs(path)
    run(DRIFTED)
    run(DRIFTED)
    assert posts.events() == ["drift.detected"]
    (warning,) = run.warnings
    assert warning.startswith(f"{path} cannot be used: it is")
    assert warning.endswith("notifications begin anew")


def test_processes_share_a_state_and_lose_nothing_of_each_other(tmp_path: Path, posts: Posts) -> None:
    """Each wrote all of what it had read at its start: another's cluster was forgotten and notified about again."""
    path = tmp_path / "state.json"
    run = Runs(path)
    one, two = (DriftAlerts(options=run.options, clock=run.clock, warn=run.warn) for _ in range(2))
    for alerts, cluster in ((one, "a"), (two, "b"), (one, "a"), (two, "a"), (one, "b"), (one, "c"), (two, "c")):
        assert notify(alerts, DRIFTED, cluster)
    assert posts.events() == ["drift.detected"] * 3
    assert set(load_notify_state(path.read_text())) == {"a", "b", "c"}
    two.keep_only(["a", "b"])
    assert notify(two, IN_SYNC, "b")
    assert notify(one, OTHER, "a")
    assert posts.events() == ["drift.resolved", "drift.changed"]
    assert set(load_notify_state(path.read_text())) == {"a", "b"}
    assert run.warnings == []


@pytest.mark.parametrize("is_writable", [False, True])
def test_what_the_file_does_not_hold_is_remembered_by_the_process(
    tmp_path: Path, posts: Posts, is_writable: bool
) -> None:
    path = tmp_path / "state" / "state.json"
    if is_writable:
        path.parent.mkdir()
    run = Runs(path)
    alerts = DriftAlerts(options=run.options, clock=run.clock, warn=run.warn)
    assert notify(alerts, DRIFTED)
    path.unlink(missing_ok=True)
    assert notify(alerts, DRIFTED)
    path.parent.mkdir(exist_ok=True)
    assert notify(alerts, OTHER)
    assert notify(alerts, OTHER)
    assert posts.events() == ["drift.detected", "drift.changed"]
    assert len(run.warnings) == (not is_writable)
    assert set(load_notify_state(path.read_text())) == {"lab"}


def test_first_seen_lasts_until_the_cluster_is_in_sync() -> None:
    later = replace(OTHER, read_at="2026-11-21T00:00:00Z")
    state = ClusterState().with_drift(DRIFTED).with_drift(later)
    assert state.first_seen == DRIFTED.read_at
    assert state.with_drift(IN_SYNC).first_seen is None
    assert state.with_drift(replace(later, cluster_id="another")).first_seen == later.read_at


def test_notifications_are_as_their_schema_says() -> None:
    check = Draft7Validator(load_schema("notification"))
    drift = example_drift()
    check.validate(loads(dump_notification(Notification(event=NotificationEvent.DETECTED, cluster="lab", drift=drift))))
    check.validate(
        loads(dump_notification(Notification(event=NotificationEvent.CHECK_FAILED, cluster="lab", error="x" * 9000)))
    )
    many = drift_of({Entity(user=f"u{n}"): {PRODUCER: 1.0} for n in range(60)}, {})
    document = loads(dump_notification(Notification(event=NotificationEvent.DETECTED, cluster="lab", drift=many)))
    check.validate(document)
    assert (len(document["items"]), document["truncated"], document["summary"]["missing"]) == (50, True, 60)


def test_no_name_mentions_anybody_in_a_chat() -> None:
    names = ("<!channel>", "@here", "<@U123>", "a & b", "x|y", "\n<!here>", "<https://evil|click>")
    drift = drift_of({}, {Entity(user=name): {PRODUCER: 1.0} for name in names})
    text = loads(render_slack(Notification(event=NotificationEvent.DETECTED, cluster="lab", drift=drift)))["text"]
    assert "<" not in text
    assert ">" not in text
    assert not [part for part in text.split("@")[1:] if not part.startswith("\u200b")]
    assert len(text.splitlines()) == 2 + len(names)
    assert "&lt;!channel&gt;" in text


def test_a_message_in_a_chat_is_short() -> None:
    drift = drift_of({}, {Entity(user=f"u{n}" + "x" * 5000): {PRODUCER: 1.0} for n in range(60)})
    text = loads(render_slack(Notification(event=NotificationEvent.DETECTED, cluster="lab", drift=drift)))["text"]
    assert len(text) < 8000
    assert text.splitlines()[-1] == "… and 50 more"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (URL, MessageFormat.GENERIC),
        (f"generic={URL}", MessageFormat.GENERIC),
        (f"slack={URL}", MessageFormat.SLACK),
    ],
)
def test_a_receiver_is_read_and_never_shown(text: str, expected: MessageFormat) -> None:
    receiver = Receiver.parse(text)
    assert receiver.format is expected
    assert TOKEN not in f"{receiver} {receiver!r} {receiver.id}"


@pytest.mark.parametrize("text", ["", "slack=", f"ftp://x/{TOKEN}", f"https:///{TOKEN}", f"slack:{TOKEN}", f"x={URL}"])
def test_what_is_no_url_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(ValueError, match="it ") as caught:
        Receiver.parse(text)
    assert TOKEN not in str(caught.value)


def test_a_signature_covers_the_time_and_the_body() -> None:
    moment = datetime(2026, 11, 20, tzinfo=UTC)
    signature = sign(b'{"a":1}', Secret("key"), moment)
    expected = hmac.new(b"key", b'1795132800.{"a":1}', sha256).hexdigest()
    assert signature == f"t=1795132800,v1={expected}"
    assert sign(b'{"a":2}', Secret("key"), moment) != signature
