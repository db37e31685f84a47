"""Both engines make one plan file, byte for byte, or fail with one message."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quotaform.app.base.base import BaseChoice
from quotaform.core.scope import ALL, Selection
from quotaform.document.snapshot import dump_snapshot
from quotaform.model.entity import Entity
from quotaform.model.quotas import Quotas, Values
from quotaform.model.snapshot import Snapshot
from tests.builder import CONSUMER, PRODUCER, REQUEST
from tests.git_repository import GitRepository
from tests.spark.engine import by_local, by_spark, planned, refusal, request_for
from tests.strategies import ENTITIES, values_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("spark", "same_time")

NAMES = st.sampled_from(
    [
        "alice",
        "Alice",
        "alice ",
        "<default>",
        "",
        "x\0y",
        "x",
        "\u00c5",
        "A\u030a",
        "\u212b",
        "\U0001f600",
        'a"b,c=d',
        "null",
    ]
) | st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
"""Names that something between here and there could take for one another: by case, padding, Unicode form, NUL."""
FLOATS = st.floats() | st.sampled_from([0.0, -0.0, float("nan"), 1.0, 1024.0, 2.0**63, 2147483647.0, 5e-324, 0.1 + 0.2])
LIVE = st.dictionaries(st.sampled_from([PRODUCER, REQUEST, "PRODUCER_BYTE_RATE", "", "new_key"]), FLOATS, min_size=1)


def write_snapshot(path: Path, quotas: Quotas) -> Path:
    """Write what a cluster holds."""
    text = dump_snapshot(
        Snapshot(cluster_name="lab", cluster_id="3JxQ0v7pT2a", captured_at="2026-11-20T09:12:44Z", quotas=quotas)
    )
    path.write_text(text, encoding="utf-8")
    return path


def write_entries(path: Path, entries: list[dict[str, Any]]) -> None:
    """Write a file of quotas.d; JSON is YAML."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"quotas": entries}, ensure_ascii=False), encoding="utf-8")


def entry(entity: Entity, values: Mapping[str, object] | None, **more: str) -> dict[str, Any]:
    """One entry of quotas.d; without values it says that the entity must not exist."""
    match = {kind: "<default>" if name is None else {"name": name} for kind, name in entity.parts}
    return {"match": match, **({"state": "absent"} if values is None else {"values": values}), **more}


@st.composite
def repositories(draw: st.DrawFn) -> tuple[list[list[dict[str, Any]]], Quotas]:
    """The entries of two files and what a cluster holds, over entities that they share."""
    declared: list[dict[str, Any]] = []
    live: dict[Entity, Values] = {}
    for entity in draw(st.lists(ENTITIES | ODD_ENTITIES, unique=True, min_size=3, max_size=10)):
        values = draw(values_for(entity))
        place = draw(st.sampled_from(["declared", "live", "both", "both", "both"]))
        if place != "declared":
            live[entity] = draw(st.just(values) | values_for(entity) | LIVE)
        if place != "live":
            said = draw(st.sampled_from([values, values, values, None]))
            more = draw(st.sampled_from([{}, {"owner": "team-a", "reason": "because"}, {"expires": "2026-01-01"}]))
            declared.append(entry(entity, said, **(more if said else {})))
    cut = draw(st.integers(0, len(declared)))
    again = draw(st.sampled_from([[]] * 15 + [declared[:1]]))
    return [declared[:cut], declared[cut:] + again], live


ODD_ENTITIES = NAMES.filter(lambda name: name.strip() == name != "").map(lambda name: Entity(user=name))
SELECTIONS = st.sampled_from([ALL, ALL, Selection(select=("*e*",)), Selection(exclude=("*default*",))])


@settings(
    max_examples=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(repository=repositories(), selection=SELECTIONS)
def test_both_engines_make_the_same_plan_file(
    tmp_path: Path, repository: tuple[list[list[dict[str, Any]]], Quotas], selection: Selection
) -> None:
    files, live = repository
    for number, said in enumerate(files):
        write_entries(tmp_path / "quotas.d" / f"{number}.yaml", said)
    request = request_for(tmp_path, selection, snapshot=write_snapshot(tmp_path / "lab.json", live))
    assert by_spark(request) == by_local(request)


def test_layers_profiles_and_scope_count(tmp_path: Path) -> None:
    alice, svc = Entity(user="alice"), Entity(user="svc-a")
    (tmp_path / "quotaform.yaml").write_text(
        "clusters:\n  lab: {snapshot: lab.json, cluster_id: another}\n  prod: {bootstrap_servers: ['127.0.0.1:1']}\n"
        "profiles: {gold: {producer_byte_rate: 50MiB/s}}\nscope: {exclude: [{user: svc-*}]}\n",
        encoding="utf-8",
    )
    write_entries(
        tmp_path / "quotas.d/all.yaml", [entry(alice, {REQUEST: 150}), {"match": {"user": "bob"}, "profile": "gold"}]
    )
    write_entries(tmp_path / "quotas.d/lab/more.yaml", [entry(alice, {CONSUMER: "1MiB/s"})])
    write_entries(tmp_path / "quotas.d/prod/more.yaml", [entry(alice, {PRODUCER: "1MiB/s"})])
    write_snapshot(tmp_path / "lab.json", {svc: {PRODUCER: 1.0}, alice: {PRODUCER: 5.0}})
    request = request_for(tmp_path, clusters=("lab",))
    plan = planned(request)
    assert by_spark(request) == by_local(request)
    assert [change.entity.address for change in plan.changes] == ["user=alice", "user=bob"]
    assert plan.changes[0].after == {REQUEST: 150.0, CONSUMER: 1048576.0}
    assert [(item.entity, item.in_scope) for item in plan.unmanaged] == [(svc, False)]
    assert not plan.is_applyable


@pytest.mark.parametrize("live", [{}, {Entity(user="x"): {PRODUCER: 1.0}}])
def test_files_that_declare_nothing_plan_nothing(tmp_path: Path, live: Quotas) -> None:
    write_entries(tmp_path / "quotas.d/none.yaml", [])
    request = request_for(tmp_path, snapshot=write_snapshot(tmp_path / "lab.json", live))
    assert by_spark(request) == by_local(request)
    assert planned(request).changes == ()


def test_a_cluster_without_any_file_of_its_own_is_planned(tmp_path: Path) -> None:
    (tmp_path / "quotaform.yaml").write_text(
        "clusters:\n  lab: {snapshot: lab.json}\n  prod: {snapshot: lab.json}\n", encoding="utf-8"
    )
    write_entries(tmp_path / "quotas.d/prod/only.yaml", [entry(Entity(user="a"), {PRODUCER: 1})])
    write_snapshot(tmp_path / "lab.json", {})
    request = request_for(tmp_path, clusters=("lab",))
    assert by_spark(request) == by_local(request)


def test_all_problems_of_all_files_are_those_of_the_local_engine(tmp_path: Path) -> None:
    folder = tmp_path / "quotas.d"
    write_entries(
        folder / "b.yaml", [entry(Entity(user="a"), {PRODUCER: "10MiBps"}), entry(Entity(user="twice"), {REQUEST: 1})]
    )
    write_entries(
        folder / "a.yaml",
        [entry(Entity(user="twice"), {REQUEST: 1}), {"match": {"user": None}, "values": {REQUEST: 1}}],
    )
    (folder / "c.yaml").write_text("quotas: [{match: {user: a}\n", encoding="utf-8")
    (folder / "d.yaml").write_bytes(b"quotas: []\n# \xff\n")
    (folder / "e.yaml").write_text("quotas:\n- match: {user: 007}\n  valeus: {}\n", encoding="utf-8")
    request = request_for(tmp_path, snapshot=write_snapshot(tmp_path / "lab.json", {}))
    kind, code, message = refusal(request)
    assert (kind, code) == ("InvalidFilesError", 3)
    assert all(f"{name}.yaml" in message for name in "abcde")


def test_a_directory_without_files_is_blocked_as_by_the_local_engine(tmp_path: Path) -> None:
    (tmp_path / "quotas.d").mkdir()
    request = request_for(tmp_path, snapshot=write_snapshot(tmp_path / "lab.json", {}))
    planned = by_spark(request)
    assert planned == by_local(request)
    assert isinstance(planned, str)
    assert '"rule": "empty"' in planned


def test_a_snapshot_that_is_cut_off_is_refused_as_by_the_local_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_entries(tmp_path / "quotas.d/none.yaml", [])
    write_snapshot(tmp_path / "lab.json", {Entity(user="x"): {PRODUCER: 1.0}}).write_text('{"kind": ', encoding="utf-8")
    (tmp_path / "quotaform.yaml").write_text("clusters: {lab: {snapshot: lab.json}}\n", encoding="utf-8")
    # A relative path: messages must show it as it was given.
    request = request_for(Path())
    assert by_spark(request) == by_local(request)
    assert by_spark(request)[:2] == ("InvalidFilesError", 3)
    assert by_spark(request)[2].startswith("lab.json:1:")


def test_a_broker_that_is_down_is_one_sentence(tmp_path: Path) -> None:
    write_entries(tmp_path / "quotas.d/none.yaml", [])
    request = request_for(tmp_path, bootstrap_servers="127.0.0.1:1")
    kind, code, message = refusal(request)
    assert (kind, code) == ("ConnectError", 1)
    assert "\n" not in message
    assert message.startswith("Cannot connect to 127.0.0.1:1: "), "servers of the command line are named, no cluster"


def test_an_active_session_is_left_open(spark: SparkSession, tmp_path: Path) -> None:
    write_entries(tmp_path / "quotas.d/none.yaml", [])
    planned(request_for(tmp_path, snapshot=write_snapshot(tmp_path / "lab.json", {})))
    assert spark.sql("SELECT 1").collect() == [(1,)]


def test_what_the_base_declares_is_that_of_the_local_engine(tmp_path: Path) -> None:
    git = GitRepository.init(tmp_path / "repository")
    git.write("quotaform.yaml", "clusters: {lab: {snapshot: lab.json}}\nprune: removed\n")
    write_snapshot(git.path / "lab.json", {Entity(user=name): {PRODUCER: 5.0} for name in ("a", "b", "c", "stranger")})
    was = [entry(Entity(user=name), {PRODUCER: 5 if name == "a" else 1}) for name in ("a", "b", "c")]
    write_entries(git.path / "quotas.d/all.yaml", was)
    git.commit()
    now = [entry(Entity(user="a"), {PRODUCER: 2}), entry(Entity(user="b"), {PRODUCER: 1})]
    write_entries(git.path / "quotas.d/all.yaml", now)
    request = request_for(git.path, base=BaseChoice(refs=("main",)))
    assert by_spark(request) == by_local(request)
    found = [(change.entity.address, change.origin) for change in planned(request).changes]
    assert found == [("user=c", "both"), ("user=a", "config"), ("user=b", "drift")]
    lost = request_for(git.path, base=BaseChoice(refs=("gone",)))
    assert refusal(lost)[:2] == ("BaseError", 1)
