"""A task returns what the function that it calls returns here; which function that is, is for other tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from msgspec import structs
from pyspark.sql import DataFrame, SparkSession

from quotaform import api
from quotaform.cluster.gateway import dump_snapshot
from quotaform.drift.records import dump_drift
from quotaform.drift.run import check_drift
from quotaform.fleet.job import kept_rows
from quotaform.fleet.options import LOCAL_SESSION
from quotaform.fleet.run import plan as plan_on_spark
from quotaform.fleet.run import take_snapshots as take_snapshots_on_spark
from quotaform.model.entity import Entity
from quotaform.model.errors import EngineError, QuotaformError
from quotaform.model.outcome import ClusterOutcome, Kept, loaded
from quotaform.model.quotas import Quotas
from quotaform.model.settings import PruneMode
from quotaform.plan.base import BaseChoice
from quotaform.plan.blast_radius import Principals
from quotaform.plan.plan import Plan
from quotaform.plan.principals import PrincipalList
from quotaform.plan.records import limit_change_lines
from quotaform.plan.run import PlanRequest
from quotaform.plan.run import plan as plan_here
from quotaform.repository.repository import Repository, Target
from quotaform.sandbox import Sandbox
from tests.broker import client_properties
from tests.builder import CONSUMER, PRODUCER, REQUEST, dumped_plan
from tests.git_repository import GitRepository
from tests.spark.files import entry, write_entries, write_snapshot

pytestmark = pytest.mark.usefixtures("spark", "same_time")

ALICE, BOB, DEFAULT = Entity(user="alice"), Entity(user="bob"), Entity(user=None)
ODD_NAMES = [
    *("Alice", "alice ", "<default>", "", "x\0y", "x", "\u00c5", "A\u030a", "\u212b", "\U0001f600", 'a"b,c=d', "null"),
    "x" * 32_000,
]
"""Names that something between here and there could take for one another: by case, padding, Unicode form, NUL."""


def take(path: Path, name: str, quotas: Quotas) -> Path:
    """Write the snapshot of a cluster."""
    return write_snapshot(path / f"{name}.json", quotas, name, f"id-{name}")


def write_config(path: Path, clusters: Iterable[str], more: str = "") -> None:
    """Write quotaform.yaml with a snapshot for each cluster."""
    lines = [f"  {name}: {{snapshot: snapshots/{name}.json}}" for name in clusters]
    (path / "quotaform.yaml").write_text("\n".join(["clusters:", *lines, more]) + "\n", encoding="utf-8")


def write_fleet(path: Path) -> None:
    """Write a repository of clusters that differ in every way that matters to an outcome."""
    more = (
        "  down: {bootstrap_servers: ['127.0.0.1:1']}\n  pinned: {snapshot: snapshots/same.json, cluster_id: other}\n"
        "profiles: {gold: {producer_byte_rate: 50MiB/s}}\nscope: {exclude: [{user: svc-*}]}\n"
    )
    write_config(path, ["same", "changed", "own", "invalid", "cut", "missing", "odd"], more)
    root, snapshots = path / "quotas.d", path / "snapshots"
    write_entries(root / "all.yaml", [entry(DEFAULT, {PRODUCER: "1MiB/s"}), entry(ALICE, {REQUEST: 50})])
    gold = {"match": {"user": "carol"}, "profile": "gold"}
    write_entries(root / "own/more.yaml", [entry(ALICE, {REQUEST: 70, CONSUMER: 5}), entry(BOB, None), gold])
    write_entries(root / "invalid/a.yaml", [entry(BOB, {PRODUCER: "ten"}), {"match": {"user": None}}])
    (root / "invalid/b.yaml").write_text("quotas: [{match: {user: a}\n", encoding="utf-8")
    same: Quotas = {DEFAULT: {PRODUCER: 1048576.0}, ALICE: {REQUEST: 50.0}}
    for name in ("same", "invalid"):
        take(snapshots, name, same)
    take(snapshots, "own", {**same, Entity(user="svc-a"): {PRODUCER: 1.0}})
    take(snapshots, "changed", {DEFAULT: {PRODUCER: 1.0}, BOB: {REQUEST: 1.0}})
    cut = take(snapshots, "cut", same)
    cut.write_text(cut.read_text(encoding="utf-8")[:-40], encoding="utf-8")
    odd = {Entity(user=name): {REQUEST: 0.1 + 0.2, "": -0.0} for name in ODD_NAMES}
    take(snapshots, "odd", {**same, **odd, Entity(ip="10.0.0.1"): {"new_key": float("nan"), PRODUCER: 5e-324}})


def request_for(directory: Path, base: BaseChoice | None = None, **target: Any) -> PlanRequest:
    """Ask for the plans of a repository."""
    repository = Repository.at(directory, None)
    config = repository.config()
    return PlanRequest(
        repository=repository, config=config, clusters=repository.clusters(config, Target(**target)), base=base
    )


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PlanRequest:
    """Ask for the plans of all clusters, by relative paths, as a user gives them: an executor has another folder."""
    write_fleet(tmp_path)
    monkeypatch.chdir(tmp_path)
    return request_for(Path(), takes_all=True)


def texts(outcomes: Iterable[ClusterOutcome[Any]], dump: Callable[[Any], str]) -> list[str]:
    """Return the numbers and the document of each cluster, or class, exit code and message of its error."""

    def text(outcome: ClusterOutcome[Any]) -> str:
        try:
            made = outcome.require()
            return f"{getattr(made, 'digest', None)}\n{dump(loaded(made))}"
        except QuotaformError as error:
            return f"{type(error).__name__} {error.exit_code} {error}"

    return list(map(text, outcomes))


def limit_changes(plan: Plan) -> str:
    return "".join(limit_change_lines(plan))


def test_each_cluster_has_the_result_or_the_error_that_it_has_here(fleet: PlanRequest) -> None:
    people = [Entity(user="alice"), Entity(user="bob", client_id="app")]
    fleet = structs.replace(fleet, principals=PrincipalList(known=Principals.of("clients.csv", people)))
    plans, here = plan_on_spark(fleet), list(plan_here(fleet))
    for dump in (dumped_plan, limit_changes):
        assert texts(plans, dump) == texts(here, dump)
    failed = {outcome.cluster: type(outcome.error).__name__ for outcome in plans if outcome.error is not None}
    assert failed == {**dict.fromkeys(("invalid", "cut", "missing"), "InvalidFilesError"), "down": "ConnectError"}
    # One that fails hides no other, and what is in memory does not grow with the entities.
    assert [type(outcome.value) for outcome in plans if outcome.error is None] == [Kept] * 5
    compared = structs.replace(fleet, is_guarded=False, prune=PruneMode.REPORT)
    assert texts(check_drift(compared, plan_on_spark), dump_drift) == texts(check_drift(compared), dump_drift)
    taken = take_snapshots_on_spark(fleet.clusters)
    assert texts(taken, dump_snapshot) == texts(api.snapshot(fleet.repository, fleet.clusters), dump_snapshot)


def test_a_program_gets_what_spark_made_as_it_gets_it_here(fleet: PlanRequest) -> None:
    for use_case, dump in ((api.plan, dumped_plan), (api.snapshot, dump_snapshot)):
        here, there = (use_case(fleet.repository, ["*"], engine=each) for each in (None, LOCAL_SESSION))
        assert texts(there, dump) == texts(here, dump)


def test_the_base_and_the_history_of_each_cluster_count_as_here(tmp_path: Path) -> None:
    git = GitRepository.init(tmp_path / "repository")
    names = ["a", "b", "new"]
    write_config(git.path, names[:2], "prune: removed\n")
    for number, name in enumerate(names):
        take(git.path / "snapshots", name, {ALICE: {REQUEST: 1.0 + number}, BOB: {REQUEST: 2.0}})
        write_entries(git.path / f"quotas.d/{name}/own.yaml", [entry(BOB, {REQUEST: 2})])
    (git.path / "quotas.d/new/own.yaml").unlink()
    write_entries(git.path / "quotas.d/all.yaml", [entry(ALICE, {REQUEST: 1})])
    git.commit()
    write_entries(git.path / "quotas.d/all.yaml", [entry(ALICE, {REQUEST: 3})])
    (git.path / "quotas.d/b/own.yaml").unlink()
    write_config(git.path, names, "prune: removed\n")
    git.commit()
    for base in (None, BaseChoice(refs=("HEAD~1",), is_exact=True)):
        request = request_for(git.path, base=base, takes_all=True)
        assert texts(plan_on_spark(request), dumped_plan) == texts(plan_here(request), dumped_plan)
    lost = request_for(git.path, base=BaseChoice(refs=("nowhere",), is_exact=True), takes_all=True)
    compared = structs.replace(lost, is_guarded=False)
    assert texts(check_drift(compared, plan_on_spark), dump_drift) == texts(check_drift(compared), dump_drift)


def test_a_fleet_is_one_job_whose_error_is_that_of_the_task(
    fleet: PlanRequest, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The results are read while the job runs, so that its error came too late to be noticed."""
    tracker = spark.sparkContext.statusTracker()
    spark.sparkContext.setJobGroup("fleet", "a fleet")
    names = [cluster.name for cluster in fleet.clusters]
    try:
        assert [outcome.cluster for outcome in take_snapshots_on_spark(fleet.clusters)] == names
        assert len(tracker.getJobIdsForGroup("fleet")) == 1
        # Spark limits what the tasks of one job return together.
        monkeypatch.setattr("quotaform.fleet.job._MOST_IN_JOB", 4)
        assert [outcome.cluster for outcome in take_snapshots_on_spark(fleet.clusters)] == names
        assert len(tracker.getJobIdsForGroup("fleet")) == 1 + 3
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", "")
    broken: Any = 5
    with pytest.raises(EngineError, match=r"Spark failed: .*Error: "):
        take_snapshots_on_spark([replace(fleet.clusters[0], snapshot=broken)])


@pytest.mark.kafka
def test_credentials_are_read_where_the_cluster_is_and_shown_nowhere(
    secured_sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    right, wrong = Path("right.properties"), Path("wrong.properties")
    right.write_text(client_properties(secured_sandbox, "SASL_SSL"), encoding="utf-8")
    wrong.write_text(client_properties(secured_sandbox, "SASL_SSL", password="hunter2"), encoding="utf-8")
    write_entries(tmp_path / "quotas.d/all.yaml", [entry(Entity(user="u"), {REQUEST: 5})])
    address = secured_sandbox.listeners["SASL_SSL"]
    # Relative paths, as a user gives them: an executor has a directory of its own.
    good, bad = (request_for(tmp_path, bootstrap_servers=address, command_config=path) for path in (right, wrong))
    assert texts(plan_on_spark(good), dumped_plan) == texts(plan_here(good), dumped_plan)
    [refused] = texts(plan_on_spark(bad), dumped_plan)
    assert [refused] == texts(plan_here(bad), dumped_plan)
    assert refused.startswith("AuthenticationError 1 ")
    assert "hunter2" not in refused


def noted(spark: SparkSession, folder: Path) -> DataFrame:
    """Rows of tasks that each leave a line in a file when they run."""

    def work(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                with (folder / f"task-{number}").open("a", encoding="utf-8") as file:
                    file.write("ran\n")
            yield batch

    return spark.range(0, 3, 1, 3).mapInArrow(work, "id long")


def runs(folder: Path) -> list[int]:
    return [(folder / f"task-{number}").read_text(encoding="utf-8").count("ran") for number in range(3)]


def kept_blocks(spark: SparkSession) -> list[int]:
    """The ids of what is kept."""
    return list(spark.sparkContext._jsc.getPersistentRDDs())


def lose(spark: SparkSession, ids: list[int]) -> None:
    """Remove blocks, as they are gone with an executor."""
    context: Any = spark.sparkContext._jsc.sc()
    for number in ids:
        context.env().blockManager().master().removeRdd(number, True)


def test_tasks_whose_rows_are_repeatable_run_again_when_the_rows_are_lost(spark: SparkSession, tmp_path: Path) -> None:
    before = kept_blocks(spark)
    with kept_rows(noted(spark, tmp_path)) as kept:
        kept.count()
        assert runs(tmp_path) == [1, 1, 1]
        lose(spark, [number for number in kept_blocks(spark) if number not in before])
        assert sorted(row.id for row in kept.toLocalIterator()) == [0, 1, 2]
        assert runs(tmp_path) == [2, 2, 2]
    assert sorted(kept_blocks(spark)) == sorted(before)
