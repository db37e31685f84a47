"""Many clusters in one job: each outcome is that of the local engine, whatever becomes of the others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from quotaform.app.base.base import BaseChoice
from quotaform.app.drift.drift import check_drift
from quotaform.app.plan.plan import plan as plan_here
from quotaform.app.rendering import FORMATS, render
from quotaform.app.snapshot import take_snapshots
from quotaform.cli.main import run
from quotaform.cli.outcomes import digests
from quotaform.core.digest import digest_plan
from quotaform.core.fleet_report import make_fleet_report
from quotaform.core.prune import PruneMode
from quotaform.document.drift import dump_drift
from quotaform.document.snapshot import dump_snapshot
from quotaform.errors import QuotaformError
from quotaform.model.entity import Entity
from quotaform.model.quotas import Quotas
from quotaform.model.snapshot import Snapshot
from quotaform.spark.plan import check_drift as check_drift_on_spark
from quotaform.spark.plan import plan as plan_on_spark
from quotaform.spark.snapshot import take_snapshots as take_snapshots_on_spark
from tests.builder import CONSUMER, PRODUCER, REQUEST
from tests.git_repository import GitRepository
from tests.spark.engine import JSON, all_by_local, all_by_spark, request_for
from tests.spark.test_plan import entry, write_entries

if TYPE_CHECKING:
    from quotaform.core.outcome import ClusterOutcome

pytestmark = pytest.mark.usefixtures("spark", "same_time")

ALICE, BOB, DEFAULT = Entity(user="alice"), Entity(user="bob"), Entity(user=None)


def take(path: Path, name: str, quotas: Quotas) -> None:
    """Write the snapshot of a cluster."""
    path.mkdir(exist_ok=True)
    taken = Snapshot(cluster_name=name, cluster_id=f"id-{name}", captured_at="2026-11-20T09:12:44Z", quotas=quotas)
    (path / f"{name}.json").write_text(dump_snapshot(taken), encoding="utf-8")


def write_config(path: Path, clusters: list[str], more: str = "") -> None:
    """Write quotaform.yaml with a snapshot for each cluster."""
    lines = [f"  {name}: {{snapshot: snapshots/{name}.json}}" for name in clusters]
    (path / "quotaform.yaml").write_text("\n".join(["clusters:", *lines, more]) + "\n", encoding="utf-8")


def fleet(path: Path) -> Path:
    """Write a repository of clusters that differ in every way that matters to an outcome."""
    names = ["same", "changed", "own", "invalid", "cut", "missing", "pinned", "odd"]
    more = (
        "  down: {bootstrap_servers: ['127.0.0.1:1']}\n  pinned: {snapshot: snapshots/same.json, cluster_id: other}\n"
    )
    write_config(path, [name for name in names if name != "pinned"], more)
    write_entries(path / "quotas.d/all.yaml", [entry(DEFAULT, {PRODUCER: "1MiB/s"}), entry(ALICE, {REQUEST: 50})])
    write_entries(path / "quotas.d/own/more.yaml", [entry(ALICE, {REQUEST: 70, CONSUMER: 5}), entry(BOB, None)])
    write_entries(path / "quotas.d/invalid/more.yaml", [entry(BOB, {PRODUCER: "ten"})])
    same: Quotas = {DEFAULT: {PRODUCER: 1048576.0}, ALICE: {REQUEST: 50.0}}
    for name in ("same", "invalid", "own"):
        take(path / "snapshots", name, same)
    take(path / "snapshots", "changed", {DEFAULT: {PRODUCER: 1.0}, BOB: {REQUEST: 1.0}})
    take(path / "snapshots", "cut", same)
    cut = path / "snapshots/cut.json"
    cut.write_text(cut.read_text(encoding="utf-8")[:-40], encoding="utf-8")
    odd = {Entity(user="x" * 32_000): {REQUEST: 1.0}, Entity(ip="10.0.0.1"): {"new_key": float("nan")}}
    take(path / "snapshots", "odd", {**same, **odd})
    return path


def test_each_cluster_has_the_plan_file_or_the_error_of_the_local_engine(tmp_path: Path) -> None:
    request = request_for(fleet(tmp_path), takes_all=True)
    by_spark = all_by_spark(request)
    assert by_spark == all_by_local(request)
    failed = {cluster.name: each[0] for cluster, each in zip(request.clusters, by_spark, strict=True) if each[0] != "{"}
    assert failed == {
        "invalid": "InvalidFilesError",
        "cut": "InvalidFilesError",
        "missing": "InvalidFilesError",
        "down": "ConnectError",
    }


def test_what_plans_amount_to_is_what_the_local_engine_finds(tmp_path: Path) -> None:
    request = request_for(fleet(tmp_path), takes_all=True)
    here = [outcome.map(digest_plan) for outcome in plan_here(request)]
    there = [outcome.map(lambda made: made.digest) for outcome in plan_on_spark(request, [JSON])]
    assert [each.value for each in there] == [each.value for each in here]


def test_the_report_of_all_clusters_is_that_of_the_local_engine(tmp_path: Path) -> None:
    """And executors send back nothing else than what plans amount to."""
    request = request_for(fleet(tmp_path), takes_all=True)
    here = [outcome.map(digest_plan) for outcome in plan_here(request)]
    there = list(plan_on_spark(request, []))
    assert all(not outcome.value.documents for outcome in there if outcome.value is not None)
    for name in FORMATS["fleet-report"]:
        texts = ["".join(render("fleet-report", name, make_fleet_report("plan", x))) for x in (here, digests(there))]
        assert texts[0] == texts[1]


def test_drift_is_that_of_the_local_engine(tmp_path: Path) -> None:
    request = replace(request_for(fleet(tmp_path), takes_all=True), is_guarded=False, prune=PruneMode.REPORT)
    here = _texts(check_drift(request, plan_here), dump_drift)
    there = _texts(check_drift_on_spark(request, [JSON]), lambda made: "".join(made.documents["json"]()))
    assert there == here


def test_a_baseline_that_does_not_exist_is_the_outcome_of_each_cluster(tmp_path: Path) -> None:
    git = GitRepository.init(tmp_path / "repository")
    git.write("README", "x")
    git.commit()
    base = BaseChoice(refs=("nowhere",), is_exact=True)
    request = replace(request_for(fleet(git.path), base=base, takes_all=True), is_guarded=False)
    outcomes = list(check_drift_on_spark(request, [JSON]))
    assert [str(each.error) for each in outcomes] == [str(each.error) for each in check_drift(request, plan_here)]
    assert len(outcomes) == len(request.clusters)


def test_the_base_and_the_history_of_each_cluster_count_as_locally(tmp_path: Path) -> None:
    git = GitRepository.init(tmp_path / "repository")
    names = ["a", "b", "new"]
    write_config(git.path, names[:2], "prune: removed\n")
    for number, name in enumerate(names):
        take(
            git.path / "snapshots",
            name,
            {ALICE: {REQUEST: 1.0 + number}, BOB: {REQUEST: 2.0}, DEFAULT: {PRODUCER: 5.0}},
        )
        write_entries(git.path / f"quotas.d/{name}/own.yaml", [entry(BOB, {REQUEST: 2})])
    (git.path / "quotas.d/new/own.yaml").unlink()
    write_entries(git.path / "quotas.d/all.yaml", [entry(ALICE, {REQUEST: 1}), entry(DEFAULT, {PRODUCER: 5})])
    git.commit()
    write_entries(git.path / "quotas.d/all.yaml", [entry(ALICE, {REQUEST: 3})])
    (git.path / "quotas.d/b/own.yaml").unlink()
    write_config(git.path, names, "prune: removed\n")
    git.commit()
    for base in (None, BaseChoice(refs=("HEAD~1",), is_exact=True)):
        request = request_for(git.path, base=base, takes_all=True)
        assert all_by_spark(request) == all_by_local(request)


def test_snapshots_are_those_of_the_local_engine(tmp_path: Path) -> None:
    clusters = request_for(fleet(tmp_path), takes_all=True).clusters
    here = _texts(take_snapshots(clusters), dump_snapshot)
    there = _texts(take_snapshots_on_spark(clusters), lambda made: "".join(made.documents["snapshot"]()))
    assert there == here
    assert sum(text.startswith("{") for text in there) == 5


def test_an_import_writes_what_the_local_engine_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    quotas: Quotas = {ALICE: {REQUEST: 50.0}, DEFAULT: {PRODUCER: 1048576.0}, Entity(ip="nan"): {"x": float("nan")}}
    take(tmp_path, "lab", quotas)
    texts: list[tuple[str, str]] = []
    for engine in ("local", "spark"):
        folder = tmp_path / engine
        words = ["import", "--snapshot", tmp_path / "lab.json", "--output", folder / "quotas.d", "--engine", engine]
        assert run(list(map(str, words))) == 0
        printed = capsys.readouterr().out.replace(str(folder), "")
        texts.append((printed, (folder / "quotas.d/imported.yaml").read_text("utf-8")))
    assert texts[0] == texts[1]


def _texts(outcomes: Iterable[ClusterOutcome[Any]], dump: Any) -> list[str]:
    def text(outcome: ClusterOutcome[Any]) -> str:
        try:
            return str(dump(outcome.require()))
        except QuotaformError as error:
            return f"{type(error).__name__} {error.exit_code} {error}"

    return list(map(text, outcomes))
