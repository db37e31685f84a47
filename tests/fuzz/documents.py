"""Fuzzed: plan files and receipts, as they are and sealed again, and snapshots."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any, Final

from quotaform.cluster.snapshot import dump_snapshot, load_snapshot
from quotaform.model.entity import Entity
from quotaform.model.errors import PlanFileChangedError, QuotaformError
from quotaform.model.quotas import Snapshot
from quotaform.model.records.document import digest, sealed_lines
from quotaform.plan.receipt import EntityResult, Receipt, Result, Run
from quotaform.plan.receipt_records import RECEIPT_LISTS, load_receipt
from quotaform.plan.records import PLAN_LISTS, load_plan
from quotaform.plan.report import render_plan
from tests.builder import guarded
from tests.dumped import dumped_plan, dumped_receipt
from tests.fuzz.target import Target
from tests.golden.example import ACTUAL, empty_plan, example_plan


def _plans() -> Sequence[bytes]:
    plans = guarded(example_plan()), guarded(example_plan(with_findings=False)), empty_plan()
    return [dumped_plan(plan).encode() for plan in plans]


def _read_plan(document: bytes) -> None:
    plan = load_plan(document, "plan.json")
    text = dumped_plan(plan)
    assert dumped_plan(load_plan(text, "again.json")) == text, "what was written does not read back"
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


def _receipts() -> Sequence[bytes]:
    found = []
    for plan, run in ((example_plan(), None), (empty_plan(), Run("github", "https://github.example/a/actions/runs/1"))):
        results = tuple(
            EntityResult(change.entity, change.action, list(Result)[index % len(Result)], "no\n::error::" * (index % 2))
            for index, change in enumerate(plan.changes)
        )
        moments: dict[str, Any] = {"started_at": "2026-11-20T09:13:00Z", "finished_at": "2026-11-20T09:13:01Z"}
        found.append(Receipt(plan=plan, results=results, applied_by="alice", run=run, **moments))
    at = "2026-11-20T09:13:00Z"
    found.append(Receipt.started(example_plan(), applied_by="alice", at=at, run=None))
    return [dumped_receipt(receipt).encode() for receipt in found]


def _read_receipt(document: bytes) -> None:
    text = dumped_receipt(load_receipt(document, "receipt.json"))
    assert dumped_receipt(load_receipt(text, "again.json")) == text, "what was written does not read back"


def _read_sealed_receipt(document: bytes) -> None:
    _read_receipt(_sealed(document, RECEIPT_LISTS))


def _snapshots() -> Sequence[bytes]:
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
    return [dump_snapshot(snapshot).encode() for snapshot in found]


def _read_snapshot(document: bytes) -> None:
    snapshot = load_snapshot(document.decode("utf-8", "replace"), "snapshot.json")
    text = dump_snapshot(snapshot)
    assert dump_snapshot(load_snapshot(text, "again.json")) == text, "what was written does not read back"


TARGETS: Final = (
    Target("plan", _plans, _read_plan, (QuotaformError,)),
    Target("sealed-plan", _plans, _read_sealed_plan, (QuotaformError,)),
    Target("receipt", _receipts, _read_receipt, (QuotaformError,)),
    Target("sealed-receipt", _receipts, _read_sealed_receipt, (QuotaformError,)),
    Target("snapshot", _snapshots, _read_snapshot, (QuotaformError,)),
)
