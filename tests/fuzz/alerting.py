"""Fuzzed: what drift remembers between runs, metrics of an earlier run, and the places of webhooks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quotaform.drift.alert import Receiver
from quotaform.drift.event import ClusterState, Notified
from quotaform.drift.metric import RunFacts, merge_run
from quotaform.drift.prometheus import parse_metrics, render_metrics
from quotaform.drift.records import dump_notify_state, load_notify_state
from tests.fuzz.target import Target
from tests.golden.drift_example import example_drift

_URLS: Final = (
    "https://hooks.example/services/T0K3N?key=T0K3N",
    "slack=https://[::1]:8443/T0K3N",
    "generic=http://127.0.0.1:8080/",
)


def _states() -> Sequence[bytes]:
    state = ClusterState(
        cluster_id="3JxQ0v7pT2a",
        first_seen="2026-11-20T09:12:44Z",
        notified={"5e2e0260cee25b1e": Notified("sha256:9b1f0c"), "9e7bcc4c10636eb3": Notified(None, is_failure=True)},
    )
    return [dump_notify_state({"prod-eu": state, "lab": ClusterState()}).encode()]


def _read_state(document: bytes) -> None:
    states = load_notify_state(document.decode("utf-8", "replace"))
    text = dump_notify_state(states)
    assert load_notify_state(text) == states, "what was written does not read back"


def _metrics() -> Sequence[bytes]:
    run = RunFacts(
        cluster="prod-eu",
        command="drift",
        version="0.1.0",
        finished_at=1.7e9,
        duration=1.25,
        drift=example_drift(),
        first_seen=1.6e9,
        is_notified=True,
    )
    return [render_metrics(merge_run({}, run)).encode()]


def _read_metrics(document: bytes) -> None:
    samples = parse_metrics(document.decode("utf-8", "replace"))
    text = render_metrics(samples)
    assert render_metrics(parse_metrics(text)) == text, "what was written does not read back"


def _read_url(document: bytes) -> None:
    receiver = Receiver.parse(document.decode("utf-8", "replace"))
    assert receiver.url.target.strip("/") in ("", "services") or receiver.url.target not in f"{receiver} {receiver!r}"


TARGETS: Final = (
    Target("notify-state", _states, _read_state, (ValueError,)),
    Target("metrics", _metrics, _read_metrics, (ValueError,)),
    Target("webhook-url", lambda: [url.encode() for url in _URLS], _read_url, (ValueError,)),
)
