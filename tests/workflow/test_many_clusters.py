"""Several clusters in one run, on a real broker: what is written where, and that one which is down hides no other."""

from __future__ import annotations

import json
from signal import SIGINT
from socket import create_server
from time import monotonic

import pytest

from quotaform.model.entity import Entity
from quotaform.sandbox import Sandbox
from tests.builder import PRODUCER
from tests.workflow.command import Cluster, Repository

pytestmark = pytest.mark.workflow

ALICE = Entity(user="alice")


@pytest.fixture
def fleet(repository: Repository, sandbox: Sandbox, cluster: Cluster) -> Repository:
    """A repository with the broker under two names and a cluster that is down."""
    address = sandbox.bootstrap_servers
    repository.config(
        f"clusters:\n  eu: {{bootstrap_servers: ['{address}']}}\n  down: {{bootstrap_servers: ['127.0.0.1:1']}}\n"
        f"  us: {{bootstrap_servers: ['{address}']}}\n"
    )
    repository.quotas(f"  - match: {{user: alice}}\n    values: {{{PRODUCER}: 1MiB/s}}\n")
    return repository


def test_a_directory_is_applied_to_every_cluster_that_can_be_reached(fleet: Repository, cluster: Cluster) -> None:
    fleet.quotas(f"  - match: {{user: bob}}\n    values: {{{PRODUCER}: 2MiB/s}}\n", "us/own.yaml")
    result = fleet("apply", "--all", "--auto-approve")
    assert result.code == 1
    assert cluster.read() == {ALICE: {PRODUCER: 2.0**20}, Entity(user="bob"): {PRODUCER: 2.0**21}}
    lines = result.out.splitlines()
    assert lines[-2] == "3 clusters: 2 complete, 1 failed: down."
    # Both names are of one cluster, so that alice is there already when us is applied.
    assert "Apply complete! Resources: 1 added, 0 changed, 0 destroyed (1 already there)." in lines
    assert lines[-1] == "Apply incomplete! Resources: 2 added, 0 changed, 0 destroyed."
    receipts = [json.loads(path.read_text()) for path in fleet.receipts]
    assert sorted(receipt["cluster"]["name"] for receipt in receipts) == ["eu", "us"]


def test_saved_plans_of_several_clusters_are_applied_each_as_it_is(fleet: Repository, cluster: Cluster) -> None:
    assert fleet("plan", "--cluster", "?[us]", "--out", "plans/{cluster}.json").code == 0
    result = fleet("apply", "plans/eu.json", "plans/us.json", "--receipt", "receipts/{cluster}.json")
    assert result.code == 0
    assert result.last == "Apply complete! Resources: 1 added, 0 changed, 0 destroyed."
    assert cluster.values(user="alice") == {PRODUCER: 2.0**20}
    assert json.loads(fleet.read("receipts/us.json"))["summary"]["already-applied"] == 1
    assert fleet("drift", "--cluster", "eu", "--cluster", "us").code == 0


def test_a_stale_plan_does_not_keep_the_others_from_being_applied(fleet: Repository, cluster: Cluster) -> None:
    fleet.quotas(f"  - match: {{user: bob}}\n    values: {{{PRODUCER}: 2MiB/s}}\n", "us/own.yaml")
    assert fleet("plan", "--cluster", "eu", "--cluster", "us", "--out", "plans/{cluster}.json").code == 0
    cluster.set({PRODUCER: 5.0}, user="bob")
    result = fleet("apply", "plans/us.json", "plans/eu.json")
    assert result.code == 5
    assert cluster.values(user="alice") == {PRODUCER: 2.0**20}
    assert cluster.values(user="bob") == {PRODUCER: 5.0}
    assert "Cluster  us\nError: the cluster changed after the plan was made" in result.out


def test_one_document_tells_of_all_clusters(fleet: Repository, cluster: Cluster) -> None:
    result = fleet("apply", "--all", "--auto-approve", "--format", "json")
    assert result.code == 1
    outcomes = {each["cluster"]: each for each in json.loads(result.out)["outcomes"]}
    assert outcomes["eu"]["result"]["complete"]
    assert outcomes["down"]["error"]["exit_code"] == 1
    assert "Traceback" not in result.err


def test_an_interrupt_waits_for_no_cluster(fleet: Repository) -> None:
    with create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(30)
        port = silent.getsockname()[1]
        fleet.config(
            f"clusters: {{a: {{bootstrap_servers: ['127.0.0.1:{port}']}}, b: {{bootstrap_servers: ['127.0.0.1:1']}}}}\n"
        )
        running = fleet.start("plan", "--all")
        connection, _ = silent.accept()
        with connection:
            begun = monotonic()
            running.signal(SIGINT)
            assert running.end(timeout=20).code == 130
            assert monotonic() - begun < 5
