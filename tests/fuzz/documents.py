"""Fuzzed: plan files and receipts, as they are and sealed again, snapshots, and what drift remembers between runs."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any, Final

from quotaform.cluster.snapshot import dump_snapshot, load_snapshot
from quotaform.drift.alert import Receiver
from quotaform.drift.event import ClusterState, Notified
from quotaform.drift.metric import RunFacts, merge_run
from quotaform.drift.prometheus import parse_metrics, render_metrics
from quotaform.drift.records import dump_notify_state, load_notify_state
from quotaform.model.entity import Entity
from quotaform.model.errors import PlanFileChangedError, QuotaformError
from quotaform.model.quotas import Snapshot
from quotaform.model.records.document import digest, sealed_lines
from quotaform.plan.receipt import RECEIPT_LISTS, Receipt, Result, Run, load_receipt
from quotaform.plan.records import PLAN_LISTS, load_plan
from quotaform.plan.report import render_plan
from tests.builder import guarded, result_of
from tests.dumped import dumped_plan, dumped_receipt
from tests.fuzz.target import Target, round_trip
from tests.golden.drift_example import example_drift
from tests.golden.example import ACTUAL, empty_plan, example_plan


def _plans() -> Sequence[str]:
    plans = guarded(example_plan()), guarded(example_plan(with_findings=False)), empty_plan()
    return [dumped_plan(plan) for plan in plans]


def _read_plan(document: bytes) -> None:
    plan = load_plan(document, "plan.json")
    round_trip(lambda text: load_plan(text, "plan.json"), dumped_plan)(document)
    for line in "".join(render_plan(plan)).splitlines():
        assert line.isprintable(), line


def _sealed(document: bytes, line_lists: Collection[str] = PLAN_LISTS) -> bytes:
    """Return a document whose digest is right, as somebody gives it who wants it to be believed."""
    try:
        tree: Any = json.loads(document)
        tree.pop("digest", None)
        lists = {name for name in line_lists if isinstance(tree.get(name), list)}
        return "".join(sealed_lines(tree.items(), lists)).encode()
    except (ValueError, RecursionError, AttributeError):
        return document


def _read_sealed_plan(document: bytes) -> None:
    """Read a plan file whose digest is right, and whose id is right, too, if the rest makes one."""
    sealed = _sealed(document)
    try:
        _read_plan(sealed)
    except PlanFileChangedError as error:
        if error.mismatch == "digest":  # of what is no JSON, which nobody can seal
            raise
        tree = json.loads(sealed)
        tree["plan_id"] = _plan_id(tree)
        _read_plan(_sealed(json.dumps(tree).encode()))


def _plan_id(tree: Any) -> str:
    """Return the id of what a plan file says, as the specification of the id has it."""
    rows = sorted(
        [change["address"], row["key"], row["action"], row["before"], row["after"]]
        for change in tree["changes"]
        for row in change["keys"]
    )
    content = {"allowances": tree.get("allowances", []), "changes": rows, "cluster_id": tree["cluster"]["id"]}
    blocking = [finding for finding in tree["findings"] if finding["blocking"]]
    if blocking:
        content["blocked"] = sorted([each["rule"], each["address"] or "", each["key"] or ""] for each in blocking)
    return digest(content)


def _receipts() -> Sequence[str]:
    found = []
    for plan, run in (
        (example_plan(), None),
        (empty_plan(), Run(system="github", url="https://github.example/a/actions/runs/1")),
    ):
        results = tuple(
            result_of(change, list(Result)[index % len(Result)], "no\n::error::" * (index % 2))
            for index, change in enumerate(plan.changes)
        )
        moments: dict[str, Any] = {"started_at": "2026-11-20T09:13:00Z", "finished_at": "2026-11-20T09:13:01Z"}
        found.append(Receipt(plan=plan, results=results, applied_by="alice", run=run, **moments))
    at = "2026-11-20T09:13:00Z"
    found.append(Receipt.started(example_plan(), applied_by="alice", at=at, run=None))
    return [dumped_receipt(receipt) for receipt in found]


_read_receipt: Final = round_trip(lambda text: load_receipt(text, "receipt.json"), dumped_receipt)


def _snapshots() -> Sequence[str]:
    odd = {
        Entity({"user": "a", "group": None}): {"future_rate": 1.5, "producer_byte_rate": float("nan")},
        Entity(user="\n::error", client_id=""): {"producer_byte_rate": float("inf"), "": 5e-324},
        Entity(ip="::ffff:10.0.0.1"): {"connection_creation_rate": 2.0**63},
    }
    moment = "2026-11-20T09:12:44Z"
    found = [
        Snapshot(cluster_name="lab", cluster_id="3JxQ0v7pT2a", captured_at=moment, quotas=quotas)
        for quotas in ({}, ACTUAL, odd)
    ]
    return [dump_snapshot(snapshot) for snapshot in found]


def _states() -> Sequence[str]:
    state = ClusterState(
        cluster_id="3JxQ0v7pT2a",
        first_seen="2026-11-20T09:12:44Z",
        notified={
            "5e2e0260cee25b1e": Notified(fingerprint="sha256:9b1f0c"),
            "9e7bcc4c10636eb3": Notified(is_failure=True),
        },
    )
    return [dump_notify_state({"prod-eu": state, "lab": ClusterState()})]


def _metrics() -> Sequence[str]:
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
    return [render_metrics(merge_run({}, run))]


def _decoded(document: str | bytes) -> str:
    return document if isinstance(document, str) else document.decode("utf-8", "replace")


def _read_url(document: bytes) -> None:
    receiver = Receiver.parse(_decoded(document))
    assert receiver.url.target.strip("/") in ("", "services") or receiver.url.target not in f"{receiver} {receiver!r}"


_read_snapshot: Final = round_trip(lambda text: load_snapshot(_decoded(text), "snapshot.json"), dump_snapshot)
_read_state: Final = round_trip(lambda text: load_notify_state(_decoded(text)), dump_notify_state)
_read_metrics: Final = round_trip(lambda text: parse_metrics(_decoded(text)), render_metrics)

TARGETS: Final = (
    Target("plan", _read_plan, (QuotaformError,), _plans),
    Target("sealed-plan", _read_sealed_plan, (QuotaformError,), _plans),
    Target("receipt", _read_receipt, (QuotaformError,), _receipts),
    Target("sealed-receipt", lambda text: _read_receipt(_sealed(text, RECEIPT_LISTS)), (QuotaformError,), _receipts),
    Target("snapshot", _read_snapshot, (QuotaformError,), _snapshots),
    Target("notify-state", _read_state, (ValueError,), _states),
    Target("metrics", _read_metrics, (ValueError,), _metrics),
    Target("webhook-url", _read_url, (ValueError,)),
)
