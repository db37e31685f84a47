"""Files that many tests write: snapshots, and entries of quotas.d."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from re import sub
from typing import Any

from quotaform.cluster.gateway import dump_snapshot
from quotaform.model.entity import Entity
from quotaform.model.quotas import Action, Quotas, Snapshot
from quotaform.model.records.record import ClusterRecord
from quotaform.plan.plan import PlanOptions
from quotaform.plan.receipt import EntityResult, ReceiptSource, Result, RowRecord, SavedReceipt, receipt_lines
from tests.builder import PRODUCER


def write_snapshot(
    path: Path,
    quotas: Quotas,
    cluster: str = "lab",
    cluster_id: str = "3JxQ0v7pT2a",
    captured_at: str = "2026-11-20T09:12:44Z",
) -> Path:
    """Write what a cluster holds."""
    taken = Snapshot(cluster_name=cluster, cluster_id=cluster_id, captured_at=captured_at, quotas=quotas)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dump_snapshot(taken), encoding="utf-8")
    return path


def write_entries(path: Path, entries: list[dict[str, Any]]) -> None:
    """Write a file of quotas.d; JSON is YAML."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"quotas": entries}, ensure_ascii=False)
    # What may not be in a file as it is.
    path.write_text(sub("[\x7f-\x9f\ufffe\uffff]", lambda found: f"\\u{ord(found[0]):04x}", text), encoding="utf-8")


def entry(entity: Entity, values: Mapping[str, object] | None, **more: str) -> dict[str, Any]:
    """One entry of quotas.d; without values it says that the entity must not exist."""
    match = {kind: "<default>" if name is None else {"name": name} for kind, name in entity.parts}
    return {"match": match, **({"state": "absent"} if values is None else {"values": values}), **more}


def write_receipt(folder: Path, finished_at: str) -> None:
    """Write the receipt of an apply that changed one key."""
    folder.mkdir()
    receipt = SavedReceipt(
        plan_id=f"sha256:{'0' * 64}",
        cluster=ClusterRecord(name="lab", id="id-lab"),
        source=ReceiptSource(directory="quotas.d", commit="4f2c1d9", dirty=False),
        options=PlanOptions(),
        applied_by="ana",
        started_at=finished_at,
        finished_at=finished_at,
        declared_addresses=("user=alice",),
        results=(
            EntityResult(
                entity=Entity(user="alice"),
                action=Action.UPDATE,
                result=Result.APPLIED,
                keys=(RowRecord(key=PRODUCER, before=1048576, after=2097152),),
            ),
        ),
    )
    path = folder / "20261101T200000Z-lab-00000000.json"
    path.write_text("".join(receipt_lines(receipt)), encoding="utf-8")
