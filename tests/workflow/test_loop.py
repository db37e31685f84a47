"""The main job: import, edit, validate, plan, apply, drift, repair."""

from __future__ import annotations

import json

import pytest

from tests.workflow.command import Cluster, Repository

pytestmark = pytest.mark.workflow

MIB = 1048576.0


def test_from_quotas_made_by_hand_to_a_repaired_drift(repository: Repository, cluster: Cluster) -> None:
    cluster.set({"producer_byte_rate": 5 * MIB, "request_percentage": 50.0}, user=None)
    cluster.set({"producer_byte_rate": 10 * MIB, "consumer_byte_rate": 20 * MIB}, user="svc-orders")
    cluster.set({"controller_mutation_rate": 5.0}, user="svc-etl", client_id="nightly")

    imported = repository("import")
    assert (imported.code, imported.err) == (0, "")
    assert imported.last == "Imported 3 entities."
    assert "Wrote quotas.d/imported.yaml (3 entities)" in imported.out
    assert repository("plan", "--detailed-exitcode").code == 0

    text = repository.read("quotas.d/imported.yaml")
    text = text.replace("producer_byte_rate: 10MiB/s", "producer_byte_rate: 20MiB/s")
    text += "  - match: {user: svc-search}\n    values: {producer_byte_rate: 2MiB/s}\n    owner: team-search\n"
    text += "  - match: {user: svc-etl, client-id: nightly}\n    state: absent\n"
    repository.quotas(text, "imported.yaml")
    invalid = repository("validate")
    assert invalid.code == 3, invalid.out
    assert "user=svc-etl,client-id=nightly is declared twice" in invalid.out
    first = text.index("  - match: {user: svc-etl, client-id: nightly}")
    text = text[:first] + text[text.index("  - match", first + 1) :]
    repository.quotas(text, "imported.yaml")
    valid = repository("validate")
    assert (valid.code, valid.last) == (0, "Valid: 1 file in quotas.d, 4 entities for lab.")

    planned = repository("plan", "--out", "plan.json", "--detailed-exitcode", "--allow", "to-unlimited")
    assert planned.code == 2
    assert planned.last == "Plan: 1 to add, 1 to change, 1 to destroy."
    headlines = [line.strip("# ") for line in planned.out.splitlines() if " will be " in line]
    assert headlines == [
        "user=svc-etl,client-id=nightly will be destroyed",
        "user=svc-orders will be updated in-place",
        "user=svc-search will be created",
    ]
    assert "~ producer_byte_rate = 10 MiB/s -> 20 MiB/s   (+100%, loosen)" in planned.out
    assert "# (1 unchanged key hidden)" in planned.out
    assert "owner team-search" in planned.out
    assert "(state: absent)" in planned.out or "; state: absent)" in planned.out
    assert cluster.values(user="svc-orders")["producer_byte_rate"] == 10 * MIB, "a plan writes nothing"

    applied = repository("apply", "plan.json")
    assert applied.code == 0, applied.said
    assert applied.last == "Apply complete! Resources: 1 added, 1 changed, 1 destroyed."
    assert cluster.values(user="svc-orders") == {"producer_byte_rate": 20 * MIB, "consumer_byte_rate": 20 * MIB}
    assert cluster.values(user="svc-search") == {"producer_byte_rate": 2 * MIB}
    assert cluster.values(user="svc-etl", client_id="nightly") == {}
    assert cluster.values(user=None) == {"producer_byte_rate": 5 * MIB, "request_percentage": 50.0}

    (receipt_path,) = repository.receipts
    assert f"Receipt: {receipt_path.relative_to(repository.path)}" in applied.err
    receipt = json.loads(receipt_path.read_text())
    assert receipt["kind"] == "quotaform.receipt"
    assert receipt["complete"] is True
    assert receipt["plan_id"] == json.loads(repository.read("plan.json"))["plan_id"]
    assert receipt["cluster"] == {"name": "lab", "id": cluster.id}
    assert receipt["applied_by"]
    assert {item["address"]: (item["action"], item["result"]) for item in receipt["results"]} == {
        "user=svc-etl,client-id=nightly": ("delete", "applied"),
        "user=svc-orders": ("update", "applied"),
        "user=svc-search": ("create", "applied"),
    }

    again = repository("plan", "--detailed-exitcode")
    assert again.code == 0
    assert again.last == "No changes. Your infrastructure matches the configuration."
    assert repository("drift").code == 0

    cluster.set({"producer_byte_rate": 100 * MIB}, user="svc-orders")
    cluster.set({"producer_byte_rate": None, "request_percentage": None}, user=None)
    cluster.set({"producer_byte_rate": MIB}, user="by-hand")
    drifted = repository("drift")
    assert drifted.code == 2
    assert drifted.last == "Drift: 1 modified, 1 missing, 1 unexpected; 2 in sync."
    assert "modified   user=svc-orders" in drifted.out
    assert "producer_byte_rate : 100 MiB/s on the cluster, 20 MiB/s in the files" in drifted.out
    assert "missing    user=<default>" in drifted.out
    assert "unexpected user=by-hand   (not declared in any file)" in drifted.out

    as_json = repository("drift", "--format", "json", "--out", "text=drift.txt")
    assert as_json.code == 2
    document = json.loads(as_json.out)
    assert document["kind"] == "quotaform.drift"
    assert document["status"] == "drift"
    summary = {"modified": 1, "missing": 1, "unexpected": 1, "pending": 0, "ignored": 0, "in_sync": 2}
    assert document["summary"] == summary
    assert {item["address"]: item["class"] for item in document["entities"]} == {
        "user=<default>": "missing",
        "user=by-hand": "unexpected",
        "user=svc-orders": "modified",
    }
    assert repository.read("drift.txt").splitlines()[-1] == drifted.last
    assert repository("drift", "--exit-zero").code == 0
    assert json.loads(repository("drift", "--format", "json").out)["fingerprint"] == document["fingerprint"]

    repaired = repository("apply", "--auto-approve", "--allow", "default-entity")
    assert repaired.code == 0
    assert repaired.last == "Apply complete! Resources: 1 added, 1 changed, 0 destroyed."
    assert cluster.values(user="by-hand") == {"producer_byte_rate": MIB}, "what no file declares is left alone"
    assert repository("plan", "--detailed-exitcode").code == 0
    cluster.set({"producer_byte_rate": None}, user="by-hand")
    assert repository("drift").code == 0
    assert len(repository.receipts) == 2

    noop = repository("apply", "--auto-approve")
    assert (noop.code, noop.last) == (0, "Apply complete! Resources: 0 added, 0 changed, 0 destroyed.")
    assert len(repository.receipts) == 2, "a no-op leaves no receipt"
