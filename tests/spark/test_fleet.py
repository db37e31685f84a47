"""Many clusters in one job: each outcome is that of the local engine, whatever becomes of the others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from quotaform import api
from quotaform.cli.main import run
from quotaform.cli.present import digests
from quotaform.cluster.snapshot import dump_snapshot
from quotaform.drift.records import dump_drift
from quotaform.drift.run import check_drift
from quotaform.fleet.fleet_report import make_fleet_report
from quotaform.fleet.options import LOCAL_SESSION
from quotaform.fleet.plan import check_drift as check_drift_on_spark
from quotaform.fleet.plan import plan as plan_on_spark
from quotaform.fleet.snapshot import take_snapshots as take_snapshots_on_spark
from quotaform.model.entity import Entity
from quotaform.model.errors import QuotaformError
from quotaform.model.outcome import digest_of
from quotaform.model.quotas import Quotas, Values
from quotaform.model.scope import ALL, Selection
from quotaform.model.settings import PruneMode
from quotaform.plan.base import BaseChoice
from quotaform.plan.run import PlanRequest
from quotaform.plan.run import plan as plan_here
from quotaform.report.format import FORMATS, Document, render
from quotaform.repository.repository import Repository, Target
from quotaform.repository.run import take_snapshots
from quotaform.sandbox import Sandbox
from tests.builder import CONSUMER, PRODUCER, REQUEST
from tests.dumped import dumped_plan
from tests.git_repository import GitRepository
from tests.spark.files import entry, write_entries, write_snapshot
from tests.strategies import ENTITIES, values_for

if TYPE_CHECKING:
    from quotaform.model.outcome import ClusterOutcome

pytestmark = pytest.mark.usefixtures("spark", "same_time")

JSON: Final = Document("json", "json", {})
ALICE, BOB, DEFAULT = Entity(user="alice"), Entity(user="bob"), Entity(user=None)
ODD_NAMES: Final = [
    *("alice", "Alice", "alice ", "<default>", "", "x\0y", "x", "\u00c5", "A\u030a", "\u212b", "\U0001f600"),
    *('a"b,c=d', "null"),
]
"""Names that something between here and there could take for one another: by case, padding, Unicode form, NUL."""
NAMES = st.sampled_from(ODD_NAMES) | st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
ODD_ENTITIES = NAMES.filter(lambda name: name.strip() == name != "").map(lambda name: Entity(user=name))
FLOATS = st.floats() | st.sampled_from([0.0, -0.0, float("nan"), 1.0, 1024.0, 2.0**63, 2147483647.0, 5e-324, 0.1 + 0.2])
LIVE = st.dictionaries(st.sampled_from([PRODUCER, REQUEST, "PRODUCER_BYTE_RATE", "", "new_key"]), FLOATS, min_size=1)
Example = tuple[list[list[dict[str, Any]]], Quotas]


@st.composite
def repositories(draw: st.DrawFn) -> Example:
    """The entries of two files and what a cluster holds, over entities that they share."""
    declared: list[dict[str, Any]] = []
    live: dict[Entity, Values] = {}
    for entity in draw(st.lists(ENTITIES | ODD_ENTITIES, unique=True, min_size=3, max_size=10)):
        values = draw(values_for(entity))
        written = {key: "unlimited" if value >= 2.0**63 else value for key, value in values.items()}
        place = draw(st.sampled_from(["declared", "live", "both", "both", "both"]))
        if place != "declared":
            live[entity] = draw(st.just(values) | values_for(entity) | LIVE)
        if place != "live":
            said = draw(st.sampled_from([written, written, written, None]))
            more = draw(st.sampled_from([{}, {"owner": "team-a", "reason": "because"}, {"expires": "2026-01-01"}]))
            declared.append(entry(entity, said, **(more if said else {})))
    cut = draw(st.integers(0, len(declared)))
    again = draw(st.sampled_from([[]] * 15 + [declared[:1]]))
    return [declared[:cut], declared[cut:] + again], live


def examples(count: int) -> list[Example]:
    """Return the same examples each time: a job per example would take a minute."""
    found: list[Example] = []

    @settings(
        max_examples=count,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(repositories())
    def collect(example: Example) -> None:
        found.append(example)

    collect()
    return found


def take(path: Path, name: str, quotas: Quotas) -> Path:
    """Write the snapshot of a cluster."""
    return write_snapshot(path / f"{name}.json", quotas, name, f"id-{name}")


def write_config(path: Path, clusters: Iterable[str], more: str = "") -> None:
    """Write quotaform.yaml with a snapshot for each cluster."""
    lines = [f"  {name}: {{snapshot: snapshots/{name}.json}}" for name in clusters]
    (path / "quotaform.yaml").write_text("\n".join(["clusters:", *lines, more]) + "\n", encoding="utf-8")


def write_fleet(path: Path) -> None:
    """Write a repository of clusters that differ in every way that matters to an outcome, and of many examples."""
    made = {f"c{number}": example for number, example in enumerate(examples(40))}
    names = ["same", "changed", "own", "invalid", "broken", "cut", "missing", "odd", *made]
    more = (
        "  down: {bootstrap_servers: ['127.0.0.1:1']}\n  pinned: {snapshot: snapshots/same.json, cluster_id: other}\n"
        "profiles: {gold: {producer_byte_rate: 50MiB/s}}\nscope: {exclude: [{user: svc-*}]}\n"
    )
    write_config(path, names, more)
    root, snapshots = path / "quotas.d", path / "snapshots"
    write_entries(root / "all.yaml", [entry(DEFAULT, {PRODUCER: "1MiB/s"}), entry(ALICE, {REQUEST: 50})])
    gold = {"match": {"user": "carol"}, "profile": "gold"}
    write_entries(root / "own/more.yaml", [entry(ALICE, {REQUEST: 70, CONSUMER: 5}), entry(BOB, None), gold])
    write_entries(root / "invalid/more.yaml", [entry(BOB, {PRODUCER: "ten"}), {"match": {"user": None}}])
    write_entries(root / "broken/a.yaml", [entry(BOB, {PRODUCER: "10MiBps"}), entry(Entity(user="x"), {REQUEST: 1})])
    write_entries(root / "broken/b.yaml", [entry(Entity(user="x"), {REQUEST: 1})])
    (root / "broken/c.yaml").write_text("quotas: [{match: {user: a}\n", encoding="utf-8")
    (root / "broken/d.yaml").write_bytes(b"quotas: []\n# \xff\n")
    same: Quotas = {DEFAULT: {PRODUCER: 1048576.0}, ALICE: {REQUEST: 50.0}}
    for name in ("same", "invalid", "broken"):
        take(snapshots, name, same)
    take(snapshots, "own", {**same, Entity(user="svc-a"): {PRODUCER: 1.0}})
    take(snapshots, "changed", {DEFAULT: {PRODUCER: 1.0}, BOB: {REQUEST: 1.0}})
    cut = take(snapshots, "cut", same)
    cut.write_text(cut.read_text(encoding="utf-8")[:-40], encoding="utf-8")
    odd = {Entity(user="x" * 32_000): {REQUEST: 1.0}, Entity(ip="10.0.0.1"): {"new_key": float("nan")}}
    take(snapshots, "odd", {**same, **odd})
    for name, (files, live) in made.items():
        take(snapshots, name, live)
        for number, said in enumerate(files):
            write_entries(root / name / f"{number}.yaml", said)


@pytest.fixture(scope="module")
def fleet_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository."""
    folder = tmp_path_factory.mktemp("fleet")
    write_fleet(folder)
    return folder


@pytest.fixture
def request_of_all(fleet_folder: Path, monkeypatch: pytest.MonkeyPatch) -> PlanRequest:
    """Ask for the plans of all clusters, by relative paths, as a user gives them: an executor has another folder."""
    monkeypatch.chdir(fleet_folder)
    return request_for(Path(), takes_all=True)


def request_for(
    directory: Path, selection: Selection = ALL, base: BaseChoice | None = None, **target: Any
) -> PlanRequest:
    """Ask for the plans of a repository."""
    repository = Repository.at(directory, None)
    config = repository.config()
    clusters = repository.clusters(config, Target(**target))
    return PlanRequest(repository=repository, config=config, clusters=clusters, selection=selection, base=base)


def texts(outcomes: Iterable[ClusterOutcome[Any]], dump: Any) -> list[str]:
    """Return the document of each cluster, or class, exit code and message of its error."""

    def text(outcome: ClusterOutcome[Any]) -> str:
        try:
            return str(dump(outcome.require()))
        except QuotaformError as error:
            return f"{type(error).__name__} {error.exit_code} {error}"

    return list(map(text, outcomes))


def document(name: str) -> Any:
    """Return what reads a document that a task has made."""
    return lambda made: "".join(made.documents[name]())


def by_local(request: PlanRequest) -> list[str]:
    """Return what the local engine makes of each cluster."""
    return texts(plan_here(request), dumped_plan)


def by_spark(request: PlanRequest) -> list[str]:
    """Return what the Spark engine makes of each cluster."""
    return texts(plan_on_spark(request, [JSON]), document("json"))


@pytest.mark.parametrize("selection", [ALL, Selection(select=("*e*",)), Selection(exclude=("*default*",))])
def test_each_cluster_has_the_plan_file_or_the_error_of_the_local_engine(
    request_of_all: PlanRequest, selection: Selection
) -> None:
    request = replace(request_of_all, selection=selection)
    found = dict(zip((cluster.name for cluster in request.clusters), by_spark(request), strict=True))
    assert list(found.values()) == by_local(request)
    failed = {name: each for name, each in found.items() if each[0] != "{" and not name[1:].isdigit()}
    assert {name: each.split()[:2] for name, each in failed.items()} == {
        **{key: ["InvalidFilesError", "3"] for key in ("invalid", "broken", "cut", "missing")},
        "down": ["ConnectError", "1"],
    }
    assert all(f"quotas.d/broken/{name}.yaml" in failed["broken"] for name in "abcd")
    assert failed["cut"].startswith("InvalidFilesError 3 snapshots/cut.json:")
    assert "\n" not in failed["down"]
    assert sum(each[0] == "{" for each in found.values()) > 30


def test_what_plans_amount_to_and_the_report_of_all_are_those_of_the_local_engine(request_of_all: PlanRequest) -> None:
    """And executors send back nothing else than what plans amount to."""
    here = [outcome.map(digest_of) for outcome in plan_here(request_of_all)]
    there = list(plan_on_spark(request_of_all, []))
    assert all(not outcome.value.documents for outcome in there if outcome.value is not None)
    assert [each.value and each.value.digest for each in there] == [each.value for each in here]
    for name in FORMATS["fleet-report"]:
        reports = ["".join(render("fleet-report", name, make_fleet_report("plan", x))) for x in (here, digests(there))]
        assert reports[0] == reports[1]


def test_drift_is_that_of_the_local_engine(request_of_all: PlanRequest) -> None:
    request = replace(request_of_all, is_guarded=False, prune=PruneMode.REPORT)
    here = texts(check_drift(request, plan_here), dump_drift)
    assert texts(check_drift_on_spark(request, [JSON]), document("json")) == here


def test_snapshots_are_those_of_the_local_engine(request_of_all: PlanRequest) -> None:
    clusters = request_of_all.clusters
    here = texts(take_snapshots(clusters), dump_snapshot)
    assert texts(take_snapshots_on_spark(clusters), document("json")) == here
    assert sum(text.startswith("{") for text in here) == len(clusters) - 4


def test_a_program_gets_what_spark_made_as_it_gets_it_here(request_of_all: PlanRequest) -> None:
    for use_case, dump in ((api.plan, dumped_plan), (api.snapshot, dump_snapshot)):
        here, there = (use_case(request_of_all.repository, ["*"], engine=each) for each in (None, LOCAL_SESSION))
        assert texts(there, dump) == texts(here, dump)


def test_the_base_and_the_history_of_each_cluster_count_as_locally(tmp_path: Path) -> None:
    git = GitRepository.init(tmp_path / "repository")
    names = ["a", "b", "new"]
    write_config(git.path, names[:2], "prune: removed\n")
    for number, name in enumerate(names):
        held = {ALICE: {REQUEST: 1.0 + number}, BOB: {REQUEST: 2.0}, DEFAULT: {PRODUCER: 5.0}}
        take(git.path / "snapshots", name, held)
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
        assert by_spark(request) == by_local(request)
    lost = replace(
        request_for(git.path, base=BaseChoice(refs=("nowhere",), is_exact=True), takes_all=True), is_guarded=False
    )
    outcomes = list(check_drift_on_spark(lost, [JSON]))
    assert [str(each.error) for each in outcomes] == [str(each.error) for each in check_drift(lost, plan_here)]
    assert len(outcomes) == len(names)


def test_a_directory_without_files_is_blocked_as_by_the_local_engine(tmp_path: Path) -> None:
    (tmp_path / "quotas.d").mkdir()
    request = request_for(tmp_path, snapshot=take(tmp_path, "lab", {ALICE: {PRODUCER: 1.0}}))
    [planned] = by_spark(request)
    assert [planned] == by_local(request)
    assert '"rule": "empty"' in planned


def test_an_import_writes_what_the_local_engine_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    quotas: Quotas = {ALICE: {REQUEST: 50.0}, DEFAULT: {PRODUCER: 1048576.0}, Entity(ip="nan"): {"x": float("nan")}}
    take(tmp_path, "lab", quotas)
    written: list[tuple[str, str]] = []
    for engine in ("local", "spark"):
        folder = tmp_path / engine
        words = ["import", "--snapshot", tmp_path / "lab.json", "--output", folder / "quotas.d", "--engine", engine]
        assert run(list(map(str, words))) == 0
        printed = capsys.readouterr().out.replace(str(folder), "")
        written.append((printed, (folder / "quotas.d/imported.yaml").read_text("utf-8")))
    assert written[0] == written[1]


@pytest.mark.kafka
def test_credentials_are_read_where_the_cluster_is_and_shown_nowhere(
    secured_sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    right, wrong = Path("right.properties"), Path("wrong.properties")
    right.write_text(secured_sandbox.client_properties("SASL_SSL"), encoding="utf-8")
    wrong.write_text(secured_sandbox.client_properties("SASL_SSL", password="hunter2"), encoding="utf-8")
    write_entries(tmp_path / "quotas.d/all.yaml", [entry(Entity(user="u"), {REQUEST: 5})])
    address = secured_sandbox.listeners["SASL_SSL"]
    # Relative paths, as a user gives them: an executor has a directory of its own.
    good, bad = (request_for(tmp_path, bootstrap_servers=address, command_config=path) for path in (right, wrong))
    assert by_spark(good) == by_local(good)
    [refused] = by_spark(bad)
    assert [refused] == by_local(bad)
    assert refused.startswith("AuthenticationError 1 ")
    assert "hunter2" not in refused
