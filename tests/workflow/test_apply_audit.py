"""`quotaform apply --audit`: a line for every change, and for what was refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft7Validator

from quotaform.model.entity import Entity
from tests.loading import load_schema
from tests.workflow.command import Cluster, Repository

pytestmark = pytest.mark.workflow

MIB = 1048576.0
ALLOW = ("--allow", "delete=1", "--allow", "to-unlimited")
"""What the guards are asked to let through."""
GITHUB = {
    "GITHUB_ACTIONS": "true",
    "GITHUB_SERVER_URL": "https://github.example",
    "GITHUB_REPOSITORY": "acme/quotas",
    "GITHUB_RUN_ID": "42",
    "GITHUB_ACTOR": "ann",
}


@pytest.fixture
def ready(repository: Repository, cluster: Cluster) -> Repository:
    """A repository with a create, an update and a delete to apply, and a plan of them in `plan.json`."""
    cluster.alter({Entity(user="old"): {"producer_byte_rate": MIB}, Entity(user="b"): {"producer_byte_rate": MIB}})
    repository.quotas(
        "  - match: {user: a}\n    values: {producer_byte_rate: 1MiB/s}\n"
        "  - match: {user: b}\n    values: {producer_byte_rate: 2MiB/s, consumer_byte_rate: 3MiB/s}\n"
        "  - match: {user: old}\n    state: absent\n"
    )
    assert repository("plan", "--out", "plan.json", *ALLOW).code == 0
    return repository


def lines(repository: Repository) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in repository.read("audit.jsonl").splitlines()]
    validator = Draft7Validator(load_schema("audit"))
    assert [error.message for line in found for error in validator.iter_errors(line)] == []
    return found


def test_every_change_has_a_line_that_says_who_did_it_where(ready: Repository) -> None:
    done = ready("apply", "plan.json", "--audit", "audit.jsonl", env=GITHUB)
    assert done.code == 0
    assert [line["event"] for line in lines(ready)] == ["start", "change", "change", "change", "change", "end"]
    changes = {(line["address"], line["key"]): (line["before"], line["after"]) for line in lines(ready)[1:-1]}
    assert changes == {
        ("user=old", "producer_byte_rate"): (MIB, None),
        ("user=b", "producer_byte_rate"): (MIB, 2 * MIB),
        ("user=b", "consumer_byte_rate"): (None, 3 * MIB),
        ("user=a", "producer_byte_rate"): (None, MIB),
    }
    assert {line["result"] for line in lines(ready)[1:-1]} == {"applied"}
    run = {"system": "github", "url": "https://github.example/acme/quotas/actions/runs/42", "actor": "ann"}
    assert all(line["run"] == run for line in lines(ready))
    assert lines(ready)[-1]["outcome"] == "complete"
    (receipt,) = ready.receipts
    document = json.loads(receipt.read_text())
    assert document["run"] == run
    assert {line["plan_id"] for line in lines(ready)} == {document["plan_id"]}
    for words in ("user=old: Destruction complete", "user=b: Modifications complete", "user=a: Creation complete"):
        assert f"{words}\n" in done.out


def test_what_was_refused_is_in_the_log_too(ready: Repository, cluster: Cluster) -> None:
    assert ready("apply", "--audit", "audit.jsonl", *ALLOW, stdin="").code == 4
    assert ready("apply", "plan.json", "--audit", "audit.jsonl", "--expect-plan-id", "0" * 64).code == 5
    cluster.set({"producer_byte_rate": 7 * MIB}, user="b")
    assert ready("apply", "plan.json", "--audit", "audit.jsonl").code == 5
    assert ready("apply", "--auto-approve", "--audit", "audit.jsonl", *ALLOW).code == 0
    found = lines(ready)
    ends = [line for line in found if line["event"] == "end"]
    assert [line["outcome"] for line in ends] == ["refused", "refused", "refused", "complete"]
    assert "there is no terminal to ask for approval" in ends[0]["reason"]
    assert "not the expected" in ends[1]["reason"]
    assert "the cluster has changed since the plan was made" in ends[2]["reason"]
    assert [line["event"] for line in found[:4]] == ["end", "end", "start", "end"]


def test_an_audit_file_that_cannot_be_opened_stops_everything(ready: Repository, cluster: Cluster) -> None:
    before = cluster.read()
    for path in ("none/audit.jsonl", "quotas.d"):
        refused = ready("apply", "plan.json", "--audit", path)
        assert refused.code == 1
        assert f"{path} cannot be written: " in refused.err
        assert "nothing was done" in refused.err
    assert cluster.read() == before
    assert ready.receipts == []
