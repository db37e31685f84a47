"""Large applies that meet another one, or are cut short by signals; brokers that die are in `tests/faults`.

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

from quotaform.model.entity import Entity
from quotaform.model.quotas import Quotas
from quotaform.sandbox import Sandbox
from tests.builder import MIB
from tests.faults.proxy import Action, FrameFault, Moment, Proxy, Side
from tests.faults.raw import ALTER
from tests.waiting import PATIENCE, wait_until
from tests.workflow.command import Cluster, Repository, Running

pytestmark = pytest.mark.workflow

MANY = 5_000
"""Two keys each: three requests."""
VALUES = {"producer_byte_rate": MIB, "consumer_byte_rate": MIB}
ALL_OF_THEM: Quotas = {Entity(user=f"u{number:05}"): VALUES for number in range(MANY)}
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


def test_one_plan_applied_twice_at_once_is_applied_once(
    repository: Repository, sandbox: Sandbox, tmp_path: Path, cluster: Cluster
) -> None:
    plan_many(repository)
    second = Repository(tmp_path / "second", sandbox.bootstrap_servers)
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
    """Log and receipt say that it began, and its lock is gone; `story-killed.txt` has how it is reverted."""

    def events() -> list[str]:
        return [json.loads(line)["event"] for line in behind.read("audit.jsonl").splitlines()]

    with held_apply(behind, proxy, "--audit", "audit.jsonl") as running:
        wait_until(cluster.read)
        running.signal(signal.SIGKILL)
        assert running.end().code == -signal.SIGKILL
    assert events() == ["start"]
    assert only_receipt(behind)["state"] == "started"
    assert 0 < len(cluster.read()) < MANY

    finished = behind("apply", "plan.json", "--audit", "audit.jsonl")
    assert finished.code == 0, finished.said
    assert "did not finish. Keep its receipt. Apply again to complete it" in finished.err
    assert "already applied)." in finished.last
    assert cluster.read() == ALL_OF_THEM
    assert events() == ["start", "start", *["change"] * 2 * MANY, "end"]
