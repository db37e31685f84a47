"""`quotaform apply --engine spark` on a real broker, in comparison with the local engine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from re import sub
from typing import Any

import pytest

from quotaform.cluster.kafka import KafkaGateway
from quotaform.model.entity import Entity
from quotaform.sandbox import Sandbox
from tests.builder import PRODUCER
from tests.workflow.command import Cluster, Repository, Result

pytestmark = [pytest.mark.kafka, pytest.mark.usefixtures("spark")]

MIB = 2.0**20
ALICE, BOB, CAROL = (Entity(user=name) for name in ("alice", "bob", "carol"))
SPARK = ("--engine", "spark")
ALLOWED = ("--allow", "delete=9", "--allow", "to-unlimited", "--allow", "change-factor")


@pytest.fixture
def cluster(sandbox: Sandbox) -> Iterator[Cluster]:
    """The shared broker, empty before and after."""
    with KafkaGateway.connect(sandbox.bootstrap_servers) as gateway:
        cluster = Cluster(gateway)
        cluster.wipe()
        yield cluster
        cluster.wipe()


@pytest.fixture
def fleet(tmp_path: Path, sandbox: Sandbox, cluster: Cluster) -> Repository:
    """A repository with the broker under two names and a cluster that is down; one plan is saved for each name."""
    repository = Repository(tmp_path / "repository")
    address = sandbox.bootstrap_servers
    repository.config(
        f"clusters:\n  eu: {{bootstrap_servers: ['{address}']}}\n  down: {{bootstrap_servers: ['127.0.0.1:1']}}\n"
        f"  us: {{bootstrap_servers: ['{address}']}}\n"
    )
    repository.quotas(
        f"  - match: {{user: alice}}\n    values: {{{PRODUCER}: 1MiB/s}}\n"
        "  - match: {user: carol}\n    state: absent\n"
    )
    repository.quotas(f"  - match: {{user: bob}}\n    values: {{{PRODUCER}: 2MiB/s}}\n", "us/own.yaml")
    cluster.alter({BOB: {PRODUCER: MIB}, CAROL: {PRODUCER: 4 * MIB}})
    planned = repository("plan", "--cluster", "?[us]", "--out", "plans/{cluster}.json", "-q", *ALLOWED)
    assert planned.code == 0, planned.said
    return repository


def timeless(text: str) -> str:
    """Return a text without what two applies do not have in common: times, and the digest over them."""
    text = sub(r"\d{8}T\d{6}Z", "TIME", text)
    text = sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME", text)
    return sub(r'"digest": ?"[^"]*"', '"digest": ""', text)


def traces(repository: Repository, done: Result) -> dict[str, Any]:
    """Return all that an apply left, without times: what it printed, its receipts and its audit log."""
    audit = repository.path / "audit.jsonl"
    left = {
        "done": (done.code, timeless(done.out), timeless(done.err)),
        "receipts": {timeless(path.name): timeless(path.read_text(encoding="utf-8")) for path in repository.receipts},
        "audit": sorted(timeless(audit.read_text(encoding="utf-8")).splitlines()) if audit.exists() else [],
    }
    for path in repository.receipts:
        path.unlink()
    audit.unlink(missing_ok=True)
    return left


def reset(cluster: Cluster) -> None:
    cluster.wipe()
    cluster.alter({BOB: {PRODUCER: MIB}, CAROL: {PRODUCER: 4 * MIB}})


@pytest.mark.parametrize("format_name", ["text", "json"])
def test_saved_plans_leave_what_the_local_engine_leaves(fleet: Repository, cluster: Cluster, format_name: str) -> None:
    arguments = ("apply", "plans/eu.json", "plans/us.json", "--audit", "audit.jsonl", "--format", format_name)
    local = traces(fleet, fleet(*arguments))
    held = cluster.read()
    reset(cluster)
    assert traces(fleet, fleet(*arguments, *SPARK)) == local
    assert cluster.read_until(held) == held == {ALICE: {PRODUCER: MIB}, BOB: {PRODUCER: 2 * MIB}}
    assert local["done"][0] == 0
    assert len(local["receipts"]) == 2


def test_a_directory_is_applied_to_every_cluster_that_can_be_reached(fleet: Repository, cluster: Cluster) -> None:
    arguments = ("apply", "--all", "--auto-approve", *ALLOWED)
    local = traces(fleet, fleet(*arguments))
    reset(cluster)
    assert traces(fleet, fleet(*arguments, *SPARK)) == local
    # Something was written, so it is not 1, which says that nothing was.
    assert local["done"][0] == 6
    assert "3 clusters: 2 complete, 1 failed: down." in local["done"][1]


def test_a_stale_plan_is_the_same_refusal(fleet: Repository, cluster: Cluster) -> None:
    cluster.set({PRODUCER: 3 * MIB}, user="bob")
    arguments = ("apply", "plans/us.json", "--audit", "audit.jsonl")
    spark = traces(fleet, fleet(*arguments, *SPARK))
    assert traces(fleet, fleet(*arguments)) == spark
    assert spark["done"][0] == 5
    assert spark["receipts"] == {}
    assert [json.loads(line).get("outcome") for line in spark["audit"]] == ["refused", None]
