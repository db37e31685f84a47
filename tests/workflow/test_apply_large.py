"""Large applies that meet another one, or are cut short: by signals, by a broker that dies, by one of three that dies.

Kafka has no compare-and-set, so that a change between the last check of an apply and its request is overwritten;
docs/apply.md says how to close that window.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from quotaform.cluster.kafka import KafkaGateway
from quotaform.model.entity import Entity
from quotaform.model.quotas import Quotas
from quotaform.sandbox import Sandbox
from tests.broker import SHORT_SESSIONS
from tests.faults.proxy import Action, FrameFault, Moment, Proxy, Side
from tests.faults.raw import ALTER
from tests.faulty_sandbox import FaultySandbox
from tests.waiting import PATIENCE, wait_until
from tests.workflow.command import Cluster, Repository, Running

pytestmark = pytest.mark.workflow

MIB = 1048576.0
MANY = 5_000
"""Two keys each: three requests."""
VALUES = {"producer_byte_rate": MIB, "consumer_byte_rate": MIB}
ALL_OF_THEM: Quotas = {Entity(user=f"u{number:05}"): VALUES for number in range(MANY)}
COMPLETE = f"Apply complete! Resources: {MANY} added, 0 changed, 0 destroyed."
VALUES_AT_ONCE = 4_000
"""How many values an apply sends in one request, in its dry run as in earnest."""


def plan_many(repository: Repository, rate: int = 1) -> None:
    """Declare and plan many entities."""
    names = ", ".join(f"u{number:05}" for number in range(MANY))
    values = f"{{producer_byte_rate: {rate}MiB/s, consumer_byte_rate: {rate}MiB/s}}"
    repository.quotas(f"  - match: {{user: [{names}]}}\n    values: {values}\n")
    planned = repository("plan", "--out", "plan.json", "-q")
    assert planned.last == f"Plan: {MANY} to add, 0 to change, 0 to destroy."


@pytest.fixture
def proxy(sandbox: Sandbox) -> Iterator[Proxy]:
    proxy = Proxy([sandbox.bootstrap_servers])
    yield proxy
    proxy.close()


@pytest.fixture
def behind(tmp_path: Path, proxy: Proxy, cluster: Cluster) -> Repository:
    """A repository that reaches the empty cluster by the proxy, and its plan."""
    repository = Repository(tmp_path / "behind", proxy.bootstrap_servers)
    plan_many(repository)
    return repository


def only_receipt(repository: Repository) -> dict[str, Any]:
    (path,) = repository.receipts
    document: dict[str, Any] = json.loads(path.read_text())
    return document


@contextmanager
def held_apply(repository: Repository, proxy: Proxy, *arguments: str) -> Iterator[Running]:
    """Start an apply of many entities by a proxy; go on when its second request is held until `proxy.released`."""
    dry_run = -(-len(VALUES) * MANY // VALUES_AT_ONCE)
    with proxy.disturbed(FrameFault(moment=Moment(Side.REQUEST, ALTER, dry_run + 1), action=Action.HOLD)):
        running = repository.start("apply", "plan.json", *arguments)
        assert proxy.reached.wait(PATIENCE), running.end()
        yield running


def wait_for_the_first(cluster: Cluster, running: Running) -> None:
    """Wait until the first request of an apply to an empty cluster shows."""

    def shows() -> bool:
        live = cluster.read()
        assert live or not running.is_over, running.end()
        return bool(live)

    wait_until(shows)


def test_a_second_apply_from_the_same_checkout_is_refused_while_the_first_one_runs(
    behind: Repository, proxy: Proxy, cluster: Cluster
) -> None:
    with held_apply(behind, proxy) as first:
        refused = behind("apply", "plan.json")
        proxy.released.set()
        assert first.end().code == 0
    assert refused.code == 1
    assert "another apply to cluster lab is running in this directory, so nothing was written" in refused.err
    assert cluster.read() == ALL_OF_THEM
    again = behind("apply", "plan.json")
    assert again.code == 0
    assert again.last == f"Apply complete! Resources: 0 added, 0 changed, 0 destroyed ({MANY} already applied)."


@pytest.fixture
def second(sandbox: Sandbox, tmp_path: Path) -> Repository:
    """Another checkout of the same files."""
    return Repository(tmp_path / "second", sandbox.bootstrap_servers)


def test_two_different_plans_are_never_applied_half_each(
    repository: Repository, second: Repository, cluster: Cluster
) -> None:
    plan_many(repository)
    plan_many(second, 2)
    first = repository.start("apply", "plan.json")
    wait_for_the_first(cluster, first)
    refused = second("apply", "plan.json")
    assert refused.code == 5
    assert "the cluster has changed since the plan was made" in refused.err
    assert second.receipts == []
    assert first.end().code == 0
    assert cluster.read() == ALL_OF_THEM


def test_one_plan_applied_twice_at_once_is_applied_once(
    repository: Repository, second: Repository, cluster: Cluster
) -> None:
    plan_many(repository)
    second.write("plan.json", repository.read("plan.json"))
    both = [each.start("apply", "plan.json") for each in (repository, second)]
    ends = [each.end() for each in both]
    assert [end.code for end in ends] == [0, 0], ends
    assert cluster.read() == ALL_OF_THEM
    for each in (repository, second):
        assert only_receipt(each)["complete"] is True


def test_an_interrupted_apply_says_what_was_done_and_can_be_finished(
    behind: Repository, proxy: Proxy, cluster: Cluster
) -> None:
    with held_apply(behind, proxy) as running:
        running.signal(signal.SIGINT)
        stopped = running.end()
    assert stopped.code == 130, stopped
    assert "Interrupted by SIGINT." in stopped.out
    assert stopped.last.startswith("Apply incomplete! Resources: ")
    receipt = only_receipt(behind)
    assert (receipt["interrupted_by"], receipt["complete"]) == ("SIGINT", False)
    assert sum(receipt["summary"].values()) == MANY
    assert receipt["summary"]["not-attempted"] > 0
    live = cluster.read()
    assert 0 < len(live) < MANY
    assert all(values == VALUES for values in live.values()), "an entity is written whole or not at all"
    results = {item["address"]: item["result"] for item in receipt["results"]}
    assert all(results[entity.address] != "not-attempted" for entity in live)
    assert {address for address, result in results.items() if result == "applied"} <= {each.address for each in live}

    finished = behind("apply", "plan.json")
    assert finished.code == 0, finished.said
    added = MANY - len(live)
    assert finished.last.endswith(f"{added} added, 0 changed, 0 destroyed ({len(live)} already applied).")
    assert cluster.read() == ALL_OF_THEM


def test_an_apply_that_was_killed_is_finished_by_the_same_command(
    behind: Repository, proxy: Proxy, cluster: Cluster
) -> None:
    """Log and receipt say that it began, and its lock is gone."""

    def events() -> list[str]:
        return [json.loads(line)["event"] for line in behind.read("audit.jsonl").splitlines()]

    with held_apply(behind, proxy, "--audit", "audit.jsonl") as running:
        wait_until(cluster.read)
        running.signal(signal.SIGKILL)
        assert running.end().code == -signal.SIGKILL
    assert events() == ["start"]
    assert only_receipt(behind)["state"] == "started"
    (begun,) = behind.receipts
    assert 0 < len(cluster.read()) < MANY

    finished = behind("apply", "plan.json", "--audit", "audit.jsonl")
    assert finished.code == 0, finished.said
    assert "did not finish. Keep its receipt. Apply again to complete it" in finished.err
    assert "already applied)." in finished.last
    assert cluster.read() == ALL_OF_THEM
    assert events() == ["start", "start", *["change"] * 2 * MANY, "end"]
    (path,) = set(behind.receipts) - {begun}
    assert {item["result"] for item in json.loads(path.read_text())["results"]} <= {"applied", "already-applied"}
    allowed = ("--allow", f"delete={MANY}", "--allow", "to-unlimited")
    noted = behind("plan", "--revert", path, *allowed)
    assert "held the planned values before the apply, which did not change them" in noted.out
    assert behind("plan", "--revert", begun, *allowed).last == f"Plan: 0 to add, 0 to change, {MANY} to destroy."


def test_many_entities_are_applied_held_and_removed(repository: Repository, cluster: Cluster) -> None:
    plan_many(repository)
    done = repository("apply", "plan.json")
    assert (done.code, done.last) == (0, COMPLETE)
    assert cluster.read() == ALL_OF_THEM
    again = repository("plan", "--detailed-exitcode")
    assert (again.code, again.last) == (0, "No changes. Your infrastructure matches the configuration.")
    text = repository.read("quotas.d/quotas.yaml")
    repository.quotas(f"{text.partition('    values')[0]}    state: absent\n")
    gone = repository("apply", "--auto-approve", "--allow", f"delete={MANY}", "--allow", "to-unlimited")
    assert gone.last == f"Apply complete! Resources: 0 added, 0 changed, {MANY} destroyed."
    assert cluster.read() == {}


@pytest.mark.prove
def test_a_broker_that_dies_between_two_requests_leaves_an_honest_account(tmp_path: Path) -> None:
    with FaultySandbox(properties=SHORT_SESSIONS) as kafka, KafkaGateway.connect(kafka.bootstrap_servers) as gateway:
        proxy = Proxy([kafka.bootstrap_servers])
        repository = Repository(tmp_path, proxy.bootstrap_servers)
        plan_many(repository)
        with held_apply(repository, proxy) as running:
            kafka.kill(1)
            proxy.close()
            stopped = running.end()
        assert stopped.code == 6, stopped
        assert stopped.last.startswith("Apply incomplete! Resources: ")
        assert stopped.last.endswith(" not attempted.")
        assert "connection refused" in stopped.out
        receipt = only_receipt(repository)
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
def test_one_of_three_brokers_that_dies_does_not_stop_an_apply(three_brokers: FaultySandbox, tmp_path: Path) -> None:
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
            assert (done.code, done.last) == (0, COMPLETE), done
            assert len(cluster.read()) == MANY
        finally:
            three_brokers.restart(1)
            cluster.wipe()
