"""Large applies that are cut short: by a signal, by a broker that dies, by one of three that dies."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from quotaform.cluster.kafka import KafkaGateway
from quotaform.model.entity import Entity
from quotaform.sandbox import Sandbox
from tests.broker import SHORT_SESSIONS
from tests.faults.proxy import Proxy
from tests.workflow.command import Cluster, Repository
from tests.workflow.held import held_apply, wait_for_the_first

pytestmark = pytest.mark.workflow

MIB = 1048576.0
MANY = 10_000
"""Two keys each: five requests."""
VALUES = {"producer_byte_rate": MIB, "consumer_byte_rate": 2 * MIB}


def plan_many(repository: Repository) -> None:
    """Declare and plan many entities."""
    names = ", ".join(f"u{number:05}" for number in range(MANY))
    repository.quotas(
        f"  - match: {{user: [{names}]}}\n    values: {{producer_byte_rate: 1MiB/s, consumer_byte_rate: 2MiB/s}}\n"
    )
    planned = repository("plan", "--out", "plan.json", "-q")
    assert planned.last == f"Plan: {MANY} to add, 0 to change, 0 to destroy."


def test_an_interrupted_apply_says_what_was_done_and_can_be_finished(
    tmp_path: Path, cluster: Cluster, sandbox: Sandbox
) -> None:
    proxy = Proxy([sandbox.bootstrap_servers])
    repository = Repository(tmp_path, proxy.bootstrap_servers)
    plan_many(repository)
    with held_apply(repository, proxy, "plan.json", values=2 * MANY) as running:
        running.signal(signal.SIGINT)
        stopped = running.end()
    assert stopped.code == 130, stopped
    assert "Interrupted by SIGINT." in stopped.out
    assert stopped.last.startswith("Apply incomplete! Resources: ")
    assert "Nothing is rolled back." in stopped.out

    (path,) = repository.receipts
    receipt = json.loads(path.read_text())
    assert receipt["interrupted_by"] == "SIGINT"
    assert receipt["complete"] is False
    assert sum(receipt["summary"].values()) == MANY
    assert receipt["summary"]["not-attempted"] > 0
    live = cluster.read()
    assert 0 < len(live) < MANY
    results = {item["address"]: item["result"] for item in receipt["results"]}
    assert all(values == VALUES for values in live.values()), "an entity is written whole or not at all"
    assert all(results[entity.address] != "not-attempted" for entity in live)
    held = {address for address, result in results.items() if result == "applied"}
    assert held <= {entity.address for entity in live}

    finished = repository("apply", "plan.json")
    assert finished.code == 0, finished.said
    added = MANY - len(live)
    assert (
        finished.last
        == f"Apply complete! Resources: {added} added, 0 changed, 0 destroyed ({len(live)} already applied)."
    )
    assert len(cluster.read()) == MANY
    assert repository("plan", "--detailed-exitcode").code == 0
    proxy.close()


def test_many_entities_are_applied_and_held(repository: Repository, cluster: Cluster) -> None:
    plan_many(repository)
    done = repository("apply", "plan.json")
    assert (done.code, done.last) == (0, f"Apply complete! Resources: {MANY} added, 0 changed, 0 destroyed.")
    assert cluster.read() == {Entity(user=f"u{number:05}"): VALUES for number in range(MANY)}
    again = repository("plan", "--detailed-exitcode")
    assert (again.code, again.last) == (0, "No changes. Your infrastructure matches the configuration.")
    text = repository.read("quotas.d/quotas.yaml")
    repository.quotas(text.replace("values: {producer_byte_rate: 1MiB/s, consumer_byte_rate: 2MiB/s}", "state: absent"))
    gone = repository("apply", "--auto-approve", "--allow", f"delete={MANY}", "--allow", "to-unlimited")
    assert gone.last == f"Apply complete! Resources: 0 added, 0 changed, {MANY} destroyed."
    assert cluster.read() == {}


@pytest.mark.prove
@pytest.mark.timeout(300)
def test_a_broker_that_dies_between_two_requests_leaves_an_honest_account(tmp_path: Path) -> None:
    with Sandbox(properties=SHORT_SESSIONS) as kafka, KafkaGateway.connect(kafka.bootstrap_servers) as gateway:
        proxy = Proxy([kafka.bootstrap_servers])
        repository = Repository(tmp_path, proxy.bootstrap_servers)
        plan_many(repository)
        with held_apply(repository, proxy, "plan.json", values=2 * MANY) as running:
            kafka.kill(1)
            proxy.close()
            stopped = running.end()
        assert stopped.code == 6, stopped
        assert stopped.last.startswith("Apply incomplete! Resources: ")
        assert stopped.last.endswith(" not attempted.")
        assert "connection refused" in stopped.out
        (path,) = repository.receipts
        receipt = json.loads(path.read_text())
        assert receipt["complete"] is False
        assert sum(receipt["summary"].values()) == MANY

        kafka.restart(1)
        Repository(tmp_path, kafka.bootstrap_servers)
        live = {entity.address for entity in Cluster(gateway).read()}
        results = {item["address"]: item["result"] for item in receipt["results"]}
        assert {address for address, result in results.items() if result in ("applied", "unconfirmed")} <= live
        assert not live & {address for address, result in results.items() if result == "not-attempted"}
        finished = repository("apply", "plan.json")
        assert finished.code == 0, finished.said
        assert len(Cluster(gateway).read()) == MANY


@pytest.mark.prove
@pytest.mark.timeout(300)
def test_one_of_three_brokers_that_dies_does_not_stop_an_apply(three_brokers: Sandbox, tmp_path: Path) -> None:
    repository = Repository(tmp_path, three_brokers.bootstrap_servers)
    with KafkaGateway.connect(three_brokers.bootstrap_servers) as gateway:
        cluster = Cluster(gateway)
        cluster.wipe()
        plan_many(repository)
        running = repository.start("apply", "plan.json")
        wait_for_the_first(cluster, running)
        three_brokers.kill(1)
        try:
            done = running.end()
            assert done.code == 0, done
            assert done.last == f"Apply complete! Resources: {MANY} added, 0 changed, 0 destroyed."
            assert len(cluster.read()) == MANY
        finally:
            three_brokers.restart(1)
            cluster.wipe()
