"""`quotaform apply --engine spark` on a real broker, in comparison with the local engine."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from re import sub
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from quotaform.api import apply
from quotaform.apply.audit import Applier
from quotaform.apply.ledger import Applied
from quotaform.fleet.job import Bundle
from quotaform.fleet.options import LOCAL_SESSION
from quotaform.fleet.run import PlanToApply, apply_one
from quotaform.model.entity import Entity
from quotaform.model.errors import PlanIdError
from quotaform.plan.receipt import Receipt
from quotaform.plan.receipt_file import load_plan_file
from quotaform.repository.repository import Repository as Files
from quotaform.resolve.spark import packed
from quotaform.sandbox import Sandbox
from quotaform.system.clock import SYSTEM_CLOCK
from tests.builder import MIB, PRODUCER, dumped_receipt
from tests.faults.proxy import Action, FrameFault, Moment, Proxy, Side
from tests.faults.raw import ALTER
from tests.spark.cluster import Standalone, kill_python
from tests.spark.command_process import CommandProcess, without_progress
from tests.waiting import once, wait_until
from tests.workflow.command import Cluster, Repository, Result

pytestmark = [pytest.mark.kafka, pytest.mark.usefixtures("spark")]

ALICE, BOB, CAROL = (Entity(user=name) for name in ("alice", "bob", "carol"))
SPARK = ("--engine", "spark")
ALLOWED = ("--allow", "delete=9", "--allow", "to-unlimited", "--allow", "change-factor")


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
        "done": (done.code, timeless(done.out), timeless(without_progress(done.err))),
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


def test_saved_plans_leave_what_the_local_engine_leaves(fleet: Repository, cluster: Cluster) -> None:
    arguments = ("apply", "plans/eu.json", "plans/us.json", "--audit", "audit.jsonl", "--format", "json")
    local = traces(fleet, fleet(*arguments))
    held = cluster.read()
    reset(cluster)
    assert traces(fleet, fleet(*arguments, *SPARK)) == local
    assert cluster.read_until(held) == held == {ALICE: {PRODUCER: MIB}, BOB: {PRODUCER: 2 * MIB}}
    assert local["done"][0] == 0
    assert len(local["receipts"]) == 2


def test_a_directory_is_applied_to_every_cluster_that_can_be_reached(fleet: Repository, cluster: Cluster) -> None:
    arguments = ("apply", "--all", "--auto-approve", "--report", "report.json", *ALLOWED)
    local = traces(fleet, fleet(*arguments))
    report = fleet.read("report.json")
    reset(cluster)
    assert traces(fleet, fleet(*arguments, *SPARK)) == local
    assert fleet.read("report.json") == report
    assert json.loads(report)["clusters"]["applied"] == 2
    # Something was written, so it is not 1, which says that nothing was.
    assert local["done"][0] == 6
    assert "3 clusters: 2 complete, 1 failed: down." in local["done"][1]


def test_python_gets_receipts_of_spark_as_those_of_its_own(fleet: Repository, cluster: Cluster) -> None:
    plans = [fleet.path / "plans/eu.json", fleet.path / "plans/us.json"]
    outcomes = [*apply(Files.at(fleet.path), plans, engine=LOCAL_SESSION)]
    assert [outcome.cluster for outcome in outcomes] == ["eu", "us"]
    assert all(outcome.require().receipt.is_complete for outcome in outcomes)
    assert sorted(path for outcome in outcomes if (path := outcome.require().path)) == sorted(fleet.receipts)


@pytest.mark.prove
def test_a_directory_is_applied_over_spark_connect(
    fleet: Repository, cluster: Cluster, connect: CommandProcess
) -> None:
    done = connect.run(fleet, "apply", "--all", "--auto-approve", *ALLOWED)
    assert done.code == 6, done.said
    assert "3 clusters: 2 complete, 1 failed: down." in done.out
    assert len(fleet.receipts) == 2
    assert cluster.read() == {ALICE: {PRODUCER: MIB}, BOB: {PRODUCER: 2 * MIB}}


def test_a_stale_plan_is_the_same_refusal(fleet: Repository, cluster: Cluster) -> None:
    cluster.set({PRODUCER: 3 * MIB}, user="bob")
    arguments = ("apply", "plans/us.json", "--audit", "audit.jsonl")
    spark = traces(fleet, fleet(*arguments, *SPARK))
    assert traces(fleet, fleet(*arguments)) == spark
    assert spark["done"][0] == 5
    assert spark["receipts"] == {}
    assert [json.loads(line).get("outcome") for line in spark["audit"]] == ["refused", None]


@pytest.fixture
def proxied(tmp_path: Path, sandbox: Sandbox, cluster: Cluster) -> Iterator[tuple[Repository, Proxy]]:
    """A repository with a saved plan of three entities, and a proxy that keeps the answer to its write."""
    proxy = Proxy([sandbox.bootstrap_servers])
    repository = Repository(tmp_path / "repository", proxy.bootstrap_servers)
    repository.quotas(f"  - match: {{user: [alice, bob, carol]}}\n    values: {{{PRODUCER}: 1MiB/s}}\n")
    planned = repository("plan", "--out", "plan.json", "-q", *ALLOWED)
    assert planned.code == 0, planned.said
    # The first answer is that of the dry run.
    with proxy.disturbed(FrameFault(moment=Moment(Side.ANSWER, ALTER, 1), action=Action.HOLD)):
        yield repository, proxy
    proxy.close()


APPLY: Final = ("apply", "plan.json", "--audit", "audit.jsonl")
START: Final = 200.0
"""Seconds that a session of its own may take to start on a busy machine."""
EVERYBODY: Final = {name: {PRODUCER: MIB} for name in (ALICE, BOB, CAROL)}


@contextmanager
def before_the_answer(proxy: Proxy, act: Callable[[], object]) -> Iterator[None]:
    """Do something as soon as the write of the block is in effect, and only then let its answer go on."""

    def work() -> None:
        try:
            act()
        finally:
            proxy.released.set()

    thread = once(proxy.reached.is_set, work)
    try:
        yield
    finally:
        thread.join()


def test_a_task_that_is_killed_between_write_and_answer_does_no_harm(
    proxied: tuple[Repository, Proxy], cluster: Cluster, standalone_cluster: Standalone, standalone: CommandProcess
) -> None:
    repository, proxy = proxied
    held = []

    def kill() -> None:
        held.append(cluster.read_until(EVERYBODY))
        standalone_cluster.kill_busy_python()

    with before_the_answer(proxy, kill):
        done = standalone.run(repository, *APPLY, *SPARK)
    assert (done.code, done.last) == (
        0,
        "Apply complete! Resources: 0 added, 0 changed, 0 destroyed (3 already applied).",
    )
    assert [cluster.read()] == held == [EVERYBODY]
    begun, receipt = sorted(repository.receipts, key=lambda path: len(path.name))
    assert json.loads(begun.read_text(encoding="utf-8"))["summary"]["unknown"] == 3
    assert json.loads(receipt.read_text(encoding="utf-8"))["summary"]["already-applied"] == 3
    events = [json.loads(line)["event"] for line in repository.read("audit.jsonl").splitlines()]
    assert events == ["start", "change", "change", "change", "end"]


@pytest.mark.prove
def test_an_executor_that_is_killed_between_write_and_answer_does_no_harm(
    proxied: tuple[Repository, Proxy], cluster: Cluster, standalone_cluster: Standalone, standalone: CommandProcess
) -> None:
    """Its Python process goes on, as a task that Spark has given up and that another attempt takes the place of."""
    repository, proxy = proxied
    with before_the_answer(proxy, standalone_cluster.kill_busy_executor):
        done = standalone.run(repository, *APPLY, *SPARK)
    assert done.code == 0, done.said
    assert done.last == "Apply complete! Resources: 0 added, 0 changed, 0 destroyed (3 already applied)."
    assert cluster.read() == EVERYBODY


def test_when_spark_gives_up_it_is_said_that_changes_may_be_in_effect(
    proxied: tuple[Repository, Proxy], spark: SparkSession
) -> None:
    """In a local session no task may fail."""
    repository, proxy = proxied
    address = proxy.bootstrap_servers
    repository.config(
        f"clusters:\n  lab: {{bootstrap_servers: ['{address}']}}\n  us: {{bootstrap_servers: ['{address}']}}\n"
    )
    assert repository("plan", "--cluster", "us", "--out", "us.json", "-q", *ALLOWED).code == 0
    java = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
    # Both names are of one cluster, so that us would be applied when lab is done.
    with before_the_answer(proxy, lambda: kill_python(java)):
        done = repository(*APPLY, "us.json", *SPARK)
    assert done.code == 6
    lab, us = done.out.split("\n\n")[:2]
    assert "Error: Spark failed: " in lab
    assert "it is not known how the apply ended: its changes may be in effect" in lab
    assert "Error: not applied: Spark failed while others were applied; run the same command again" in us
    assert "2 clusters: 0 complete, 2 failed: lab, us." in done.out
    (begun,) = repository.receipts
    assert "what was intended or done is in the receipt " in lab
    again = repository("apply", "plan.json")
    assert again.last.endswith("(3 already applied).")
    assert f"undo what it changed: quotaform plan --revert {begun.relative_to(repository.path)}\n" in again.err


@pytest.mark.prove
def test_a_run_that_is_ended_while_executors_are_at_work_says_that_changes_may_be_in_effect(
    proxied: tuple[Repository, Proxy], cluster: Cluster
) -> None:
    repository, proxy = proxied
    running = repository.start(*APPLY, "--master", "local[1]")
    wait_until(lambda: proxy.reached.is_set() or running.is_over, START)
    assert proxy.reached.is_set(), running.end()
    running.signal(signal.SIGTERM)
    done = running.end()
    assert done.code == 143
    assert "it is not known how the apply ended: its changes may be in effect" in done.err
    assert "nothing was written" not in done.said
    # As after a local apply that was killed: it began, and nobody knows how it ended.
    assert [json.loads(line)["event"] for line in repository.read("audit.jsonl").splitlines()] == ["start"]
    proxy.released.set()
    again = repository("apply", "plan.json")
    assert again.code == 0, again.said
    assert cluster.read() == EVERYBODY


def done_to_us(folder: Path, *, is_here: bool = True, is_other: bool = False) -> Applied[Receipt]:
    """Let a worker apply the saved plan of us, which is in the current folder, or another one in its place."""
    plan = load_plan_file(Path("plans/us.json"))
    sent = replace(plan, changes=plan.changes[:1]) if is_other else plan
    bundle = Bundle(folder / "bundle.zip", is_new=True)
    own = PlanToApply(file=bundle.add(packed(sent)), plan_id=plan.plan_id, receipt=folder / "receipt.json")
    home = str(bundle.path if is_here else folder / "elsewhere.zip")
    who = Applier("ann", None)
    work = partial(apply_one, plans={"us": own}, bundle=bundle, home=home, applier=who, clock=SYSTEM_CLOCK)
    bundle.finish((work, (Files.at(None, None).config().clusters["us"],)))
    opened, (cluster,) = Bundle(bundle.path).job()
    done: Applied[Receipt] = opened(cluster)
    return done


@pytest.mark.parametrize("is_here", [True, False])
def test_a_task_writes_the_receipt_at_once_where_it_sees_the_folders_of_the_driver(
    fleet: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_here: bool
) -> None:
    """When the driver is killed while other clusters are at work, what was done is on record."""
    monkeypatch.chdir(fleet.path)
    done = done_to_us(tmp_path, is_here=is_here)
    path = tmp_path / "receipt.json"
    assert done.path == (path if is_here else None)
    assert path.exists() is is_here
    if is_here:
        assert path.read_text(encoding="utf-8") == dumped_receipt(done.receipt)
    assert (done.receipt.applied_by, done.receipt.is_complete) == ("ann", True)


def test_a_plan_that_is_not_the_approved_one_is_not_applied(
    fleet: Repository, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(fleet.path)
    before = cluster.read()
    with pytest.raises(PlanIdError):
        done_to_us(tmp_path, is_other=True)
    assert cluster.read() == before
