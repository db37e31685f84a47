"""Fuzzed: plan files and receipts, as they are and sealed again, snapshots, and what drift remembers between runs."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any, Final

from quotaform.cluster.gateway import dump_snapshot, load_snapshot
from quotaform.drift.alert import Receiver
from quotaform.drift.metric import parse_metrics, render_metrics
from quotaform.drift.records import dump_notify_state, load_notify_state
from quotaform.model.errors import QuotaformError, SavedFileChangedError
from quotaform.model.records.document import digest, sealed_lines
from quotaform.plan.receipt import RECEIPT_LISTS, load_receipt
from quotaform.plan.records import PLAN_LISTS, load_plan
from quotaform.plan.report import render_plan
from tests.builder import dumped_plan, dumped_receipt
from tests.fuzz.target import Target, round_trip


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
    except SavedFileChangedError as error:
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
    blocking = [finding for finding in tree["findings"] if finding.get("blocking")]
    if blocking:
        content["blocked"] = sorted(
            [each["rule"], each.get("address") or "", each.get("key") or ""] for each in blocking
        )
    return digest(content)


_read_receipt: Final = round_trip(lambda text: load_receipt(text, "receipt.json"), dumped_receipt)


def _decoded(document: str | bytes) -> str:
    return document if isinstance(document, str) else document.decode("utf-8", "replace")


def _read_url(document: bytes) -> None:
    receiver = Receiver.parse(_decoded(document))
    assert receiver.url.target.strip("/") in ("", "services") or receiver.url.target not in f"{receiver} {receiver!r}"


_read_snapshot: Final = round_trip(lambda text: load_snapshot(_decoded(text), "snapshot.json"), dump_snapshot)
_read_state: Final = round_trip(lambda text: load_notify_state(_decoded(text)), dump_notify_state)
_read_metrics: Final = round_trip(lambda text: parse_metrics(_decoded(text)), render_metrics)

TARGETS: Final = (
    Target("plan", _read_plan, (QuotaformError,), "golden/plan-[gp]*.json"),
    Target("sealed-plan", _read_sealed_plan, (QuotaformError,), "golden/plan-[gp]*.json"),
    Target("receipt", _read_receipt, (QuotaformError,), "golden/receipt*.json"),
    Target(
        "sealed-receipt",
        lambda text: _read_receipt(_sealed(text, RECEIPT_LISTS)),
        (QuotaformError,),
        "golden/receipt*.json",
    ),
    Target("snapshot", _read_snapshot, (QuotaformError,)),
    Target("notify-state", _read_state, (ValueError,)),
    Target("metrics", _read_metrics, (ValueError,), "golden/metrics.prom"),
    Target("webhook-url", _read_url, (ValueError,)),
)
