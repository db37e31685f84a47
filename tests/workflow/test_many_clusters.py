"""Several clusters in one run, on a real broker: what is written where, and that one which is down hides no other."""

from __future__ import annotations

import json

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
    # Something was written, so it is not 1, which says that nothing was.
    assert result.code == 6
    assert cluster.read() == {ALICE: {PRODUCER: 2.0**20}, Entity(user="bob"): {PRODUCER: 2.0**21}}
    lines = result.out.splitlines()
    assert lines[-2] == "3 clusters: 2 complete, 1 failed: down."
    # Both names are of one cluster, so that alice is there already when us is applied.
    assert "Apply complete! Resources: 1 added, 0 changed, 0 destroyed (1 already applied)." in lines
    assert lines[-1] == "Apply incomplete! Resources: 2 added, 0 changed, 0 destroyed (1 already applied)."
    receipts = [json.loads(path.read_text()) for path in fleet.receipts]
    assert sorted(receipt["cluster"]["name"] for receipt in receipts) == ["eu", "us"]


def test_saved_plans_of_several_clusters_are_applied_each_as_it_is(fleet: Repository, cluster: Cluster) -> None:
    assert fleet("plan", "--cluster", "?[us]", "--out", "plans/{cluster}.json").code == 0
    result = fleet("apply", "plans/eu.json", "plans/us.json", "--receipt", "receipts/{cluster}.json")
    assert result.code == 0
    assert result.last == "Apply complete! Resources: 1 added, 0 changed, 0 destroyed (1 already applied)."
    assert cluster.values(user="alice") == {PRODUCER: 2.0**20}
    assert json.loads(fleet.read("receipts/us.json"))["summary"]["already-applied"] == 1
    assert fleet("drift", "--cluster", "eu", "--cluster", "us").code == 0


def test_a_stale_plan_does_not_keep_the_others_from_being_applied(fleet: Repository, cluster: Cluster) -> None:
    fleet.quotas(f"  - match: {{user: bob}}\n    values: {{{PRODUCER}: 2MiB/s}}\n", "us/own.yaml")
    assert fleet("plan", "--cluster", "eu", "--cluster", "us", "--out", "plans/{cluster}.json").code == 0
    cluster.set({PRODUCER: 5.0}, user="bob")
    result = fleet("apply", "plans/us.json", "plans/eu.json")
    assert result.code == 6
    assert cluster.values(user="alice") == {PRODUCER: 2.0**20}
    assert cluster.values(user="bob") == {PRODUCER: 5.0}
    assert "Cluster  us\nError: the cluster has changed since the plan was made" in result.out


def test_a_saved_plan_is_applied_to_its_own_cluster_only(fleet: Repository, cluster: Cluster) -> None:
    """`--cluster` beside a saved plan was ignored: a plan for us was applied although the command said eu."""
    assert fleet("plan", "--cluster", "us", "--out", "us.json").code == 0
    refused = fleet("apply", "us.json", "--cluster", "eu")
    assert refused.code == 64
    assert "us.json is a plan for cluster us, not eu; leave --cluster out" in refused.err
    for_all = fleet("apply", "us.json", "--all")
    assert for_all.code == 64
    assert "us.json is a plan for cluster us; leave --all out" in for_all.err
    assert cluster.read() == {}
    assert fleet("apply", "us.json", "--cluster", "us").code == 0


def test_a_snapshot_among_the_clusters_is_planned_and_left_out_of_an_apply(
    fleet: Repository, cluster: Cluster, sandbox: Sandbox
) -> None:
    """Nothing was applied to any cluster when one of the plans was for a snapshot."""
    assert fleet("snapshot", "--cluster", "eu", "--output", "eu.snapshot").code == 0
    address = sandbox.bootstrap_servers
    fleet.config(f"clusters: {{eu: {{bootstrap_servers: ['{address}']}}, past: {{snapshot: eu.snapshot}}}}\n")
    assert fleet("plan", "--all", "--out", "plans/{cluster}.json").code == 0
    result = fleet("apply", "plans/eu.json", "plans/past.json")
    assert (result.code, result.last) == (0, "Apply complete! Resources: 1 added, 0 changed, 0 destroyed.")
    assert "Not applied: plans/past.json is a plan for cluster past, a snapshot\n" in result.err
    again = fleet("apply", "--all", "--auto-approve")
    assert again.code == 0
    assert "Not applied: past, as a snapshot can only be planned\n" in again.err
    assert cluster.values(user="alice") == {PRODUCER: 2.0**20}
    assert fleet("apply", "--cluster", "past", "--auto-approve").code == 64


def test_a_request_is_resolved_as_planned_on_the_cluster_of_the_plan(fleet: Repository) -> None:
    """`resolve --plan` asked for `--cluster`, although the plan names its cluster."""
    assert fleet("plan", "--cluster", "us", "--out", "us.json").code == 0
    result = fleet("resolve", "--name", "user=alice", "--plan", "us.json")
    assert (result.code, "Cluster  us" in result.out, "1 MiB/s" in result.out) == (0, True, True)
