"""The main job: import, edit, validate, plan, apply, drift, repair; `tests/golden` has what is said of it."""

from __future__ import annotations

import json

import pytest

from tests.builder import MIB
from tests.workflow.command import Cluster, Repository

pytestmark = pytest.mark.workflow


def test_from_quotas_made_by_hand_to_a_repaired_drift(repository: Repository, cluster: Cluster) -> None:
    cluster.set({"producer_byte_rate": 5 * MIB, "request_percentage": 50.0}, user=None)
    cluster.set({"producer_byte_rate": 10 * MIB, "consumer_byte_rate": 20 * MIB}, user="svc-orders")
    cluster.set({"controller_mutation_rate": 5.0}, user="svc-etl", client_id="nightly")

    assert repository("import").last == "Imported 3 entities."
    assert repository("plan", "--detailed-exitcode").code == 0

    text = repository.read("quotas.d/imported.yaml")
    text = text.replace("producer_byte_rate: 10MiB/s", "producer_byte_rate: 20MiB/s")
    text += "  - match: {user: svc-search}\n    values: {producer_byte_rate: 2MiB/s}\n    owner: team-search\n"
    text += "  - match: {user: svc-etl, client-id: nightly}\n    state: absent\n"
    first = text.index("  - match: {user: svc-etl, client-id: nightly}")
    text = text[:first] + text[text.index("  - match", first + 1) :]
    repository.quotas(text, "imported.yaml")
    valid = repository("validate")
    assert (valid.code, valid.last) == (0, "Valid: 1 file in quotas.d, 4 entities for lab.")

    planned = repository("plan", "--out", "plan.json", "--detailed-exitcode", "--allow", "to-unlimited")
    assert planned.code == 2
    assert planned.last == "Plan: 1 to add, 1 to change, 1 to destroy."
    assert cluster.values(user="svc-orders")["producer_byte_rate"] == 10 * MIB, "a plan writes nothing"

    applied = repository("apply", "plan.json")
    assert applied.code == 0, applied.said
    assert applied.last == "Apply complete! Resources: 1 added, 1 changed, 1 destroyed."
    assert cluster.values(user="svc-orders") == {"producer_byte_rate": 20 * MIB, "consumer_byte_rate": 20 * MIB}
    assert cluster.values(user="svc-search") == {"producer_byte_rate": 2 * MIB}
    assert cluster.values(user="svc-etl", client_id="nightly") == {}
    assert cluster.values(user=None) == {"producer_byte_rate": 5 * MIB, "request_percentage": 50.0}

    (receipt_path,) = repository.receipts
    receipt = json.loads(receipt_path.read_text())
    assert receipt["plan_id"] == json.loads(repository.read("plan.json"))["plan_id"]
    assert receipt["cluster"] == {"name": "lab", "id": cluster.id}

    assert repository("plan", "--detailed-exitcode").code == 0
    assert repository("drift").code == 0

    cluster.set({"producer_byte_rate": 100 * MIB}, user="svc-orders")
    cluster.set({"producer_byte_rate": None, "request_percentage": None}, user=None)
    cluster.set({"producer_byte_rate": MIB}, user="by-hand")
    drifted = repository("drift")
    assert drifted.code == 2
    assert drifted.last == "Drift: 1 modified, 1 missing, 1 unexpected; 2 in sync."

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
