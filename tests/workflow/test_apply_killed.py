"""An apply that is killed: log and receipt say that it began, its lock is gone, and the same command finishes it."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from quotaform.sandbox import Sandbox
from tests.faults.proxy import Proxy
from tests.waiting import wait_until
from tests.workflow.command import Cluster, Repository
from tests.workflow.held import held_apply

pytestmark = pytest.mark.workflow

MANY = 8_000


def events(repository: Repository) -> list[str]:
    return [json.loads(line)["event"] for line in repository.read("audit.jsonl").splitlines()]


def test_an_apply_that_was_killed_is_finished_by_the_same_command(
    tmp_path: Path, cluster: Cluster, sandbox: Sandbox
) -> None:
    proxy = Proxy([sandbox.bootstrap_servers])
    repository = Repository(tmp_path, proxy.bootstrap_servers)
    names = ", ".join(f"u{number:05}" for number in range(MANY))
    repository.quotas(f"  - match: {{user: [{names}]}}\n    values: {{producer_byte_rate: 1MiB/s}}\n")
    assert repository("plan", "--out", "plan.json", "-q").code == 0
    with held_apply(repository, proxy, "plan.json", "--audit", "audit.jsonl", values=MANY) as running:
        wait_until(cluster.read)
        running.signal(signal.SIGKILL)
        assert running.end().code == -signal.SIGKILL
    assert events(repository) == ["start"]
    (begun,) = repository.receipts
    assert json.loads(begun.read_text())["state"] == "started"
    assert 0 < len(cluster.read()) < MANY

    finished = repository("apply", "plan.json", "--audit", "audit.jsonl")
    assert finished.code == 0, finished.said
    assert "did not finish. Keep its receipt. Apply again to complete it" in finished.err
    assert "already applied)." in finished.last
    assert len(cluster.read()) == MANY
    assert events(repository) == ["start", "start", *["change"] * MANY, "end"]
    (path,) = set(repository.receipts) - {begun}
    results = {item["result"] for item in json.loads(path.read_text())["results"]}
    assert results <= {"applied", "already-applied"}
    allowed = ("--allow", f"delete={MANY}", "--allow", "to-unlimited")
    noted = repository("plan", "--revert", path, *allowed)
    assert "held the planned values before the apply, which did not change them" in noted.out
    reverted = repository("plan", "--revert", begun, *allowed)
    assert reverted.last == f"Plan: 0 to add, 0 to change, {MANY} to destroy."
    proxy.close()
