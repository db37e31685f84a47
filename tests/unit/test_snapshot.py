"""Snapshot files: whatever a broker can hold survives one, and whatever somebody changed in one is refused in words.

What they look like, and the words, are in tests/golden/texts-snapshot.txt.
"""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import replace
from json import dumps, loads
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from quotaform.cluster.gateway import SnapshotGateway, dump_snapshot, load_snapshot, read_snapshot
from quotaform.model.alteration import Alteration
from quotaform.model.entity import Entity
from quotaform.model.errors import ClusterError, InvalidFilesError
from quotaform.model.quotas import Snapshot, SnapshotFile, same_values
from quotaform.plan.records import load_plan
from quotaform.plan.report import render_plan
from quotaform.report.text import reading_text
from tests.builder import HEADER, PRODUCER, dumped_plan, plan_of
from tests.loading import load_schema
from tests.unit import test_planfile as mutation

TEXT = st.text(max_size=12) | st.sampled_from(["<default>", "", "a,b=c", 'a"b', "\u2028", "é", "e\u0301", "\U0001f600"])
NAMES = st.dictionaries(st.sampled_from(["user", "client-id", "ip", "group", ""]), st.none() | TEXT, min_size=1)
VALUES = st.dictionaries(
    st.sampled_from([PRODUCER, "request_percentage"]) | TEXT,
    st.floats() | st.integers(0, 2**63).map(float) | st.sampled_from([5e-324, 1e308, 0.1 + 0.2, 2.0**63]),
    min_size=1,
    max_size=4,
)
SNAPSHOTS = st.builds(
    Snapshot,
    cluster_name=TEXT,
    cluster_id=TEXT,
    captured_at=TEXT,
    quotas=st.dictionaries(NAMES.map(Entity), VALUES, max_size=6),
)
SMALL = Snapshot(
    cluster_name="lab",
    cluster_id="3JxQ0v7pT2a",
    captured_at="2026-11-20T09:12:44Z",
    quotas={Entity(user="alice"): {PRODUCER: 1048576.0}, Entity(user=None, client_id="b"): {PRODUCER: float("nan")}},
)
SMALL_TEXT = dump_snapshot(SMALL)
DOCUMENT: dict[str, Any] = loads(SMALL_TEXT)
SCHEMA = jsonschema.Draft7Validator(load_schema("snapshot"))


def refusal(text: str) -> InvalidFilesError:
    with pytest.raises(InvalidFilesError) as caught:
        load_snapshot(text, "lab.json")
    return caught.value


@given(SNAPSHOTS)
def test_a_snapshot_reads_back_as_it_was(snapshot: Snapshot) -> None:
    text = dump_snapshot(snapshot)
    read = load_snapshot(text, "f")
    assert (read.cluster_name, read.cluster_id) == (snapshot.cluster_name, snapshot.cluster_id)
    assert read.quotas.keys() == snapshot.quotas.keys()
    assert all(same_values(read.quotas[entity], values) for entity, values in snapshot.quotas.items())
    assert dump_snapshot(read) == text
    turned = {
        entity: dict(reversed(list(values.items()))) for entity, values in reversed(list(snapshot.quotas.items()))
    }
    assert dump_snapshot(structs.replace(snapshot, quotas=turned)) == text, "neither order shows"


@given(SNAPSHOTS)
def test_a_snapshot_is_json_for_everybody_with_one_line_per_entity(snapshot: Snapshot) -> None:
    text = dump_snapshot(snapshot)

    def refuse(word: str) -> None:
        raise AssertionError(word)

    document = loads(text, parse_constant=refuse)
    SCHEMA.validate(document)
    assert len(document["quotas"]) == len(snapshot.quotas)
    assert len(text.splitlines()) == 7 + len(snapshot.quotas) + (1 if snapshot.quotas else 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "its kind is not"),
        (SMALL_TEXT.replace('"lab"', "[" * 100_000), "nested too deeply"),
        (SMALL_TEXT.replace("1048576", "9" * 5000), "quotas[1].values"),
    ],
)
def test_what_is_too_deep_or_too_long_is_refused(text: str, message: str) -> None:
    assert message in str(refusal(text))


@pytest.mark.parametrize(
    "path", [path for path in mutation.paths(DOCUMENT) if path], ids=lambda path: ".".join(map(str, path))
)
def test_no_value_in_any_place_of_a_snapshot_is_an_internal_error(path: mutation.Path) -> None:
    """Plan files ended in internal errors where a value had another type; snapshots are read with the same care."""
    without = deepcopy(DOCUMENT)
    del mutation.at(without, path[:-1])[path[-1]]
    documents = [without]
    for value in mutation.VALUES:
        documents.append(deepcopy(DOCUMENT))
        mutation.at(documents[-1], path[:-1])[path[-1]] = value
    for document in documents:
        text = dumps(document)
        try:
            snapshot = load_snapshot(text, "lab.json")
        except InvalidFilesError as refused:
            assert all(line.isprintable() and len(line) < 400 for line in str(refused).splitlines()), text  # noqa: PT017
        else:
            assert load_snapshot(dump_snapshot(snapshot), "lab.json").cluster_id == snapshot.cluster_id, text


def test_a_snapshot_answers_as_a_cluster_that_cannot_be_changed(tmp_path: Path) -> None:
    path = tmp_path / "lab.json"
    path.write_text(SMALL_TEXT, encoding="utf-8")
    with SnapshotGateway(read_snapshot(path)) as gateway:
        assert (gateway.name, gateway.cluster_id()) == ("lab", SMALL.cluster_id)
        assert gateway.describe().keys() == SMALL.quotas.keys()
        for alter in (gateway.alter, gateway.alter_chunks):
            with pytest.raises(ClusterError, match=r"^lab is a snapshot, which cannot be changed; choose a running"):
                alter([Alteration(Entity(user="a"), {PRODUCER: 1.0})])
    assert SnapshotGateway(read_snapshot(path), name="prod").name == "prod"


ALICE = Entity(user="alice")
CAPTURED = "2026-11-20T09:12:44Z"


def test_a_plan_file_keeps_its_snapshot() -> None:
    plan = plan_of({ALICE: {PRODUCER: 1.0}}, {})
    plan = replace(plan, header=structs.replace(HEADER, snapshot=SnapshotFile("a.json", CAPTURED)))
    text = dumped_plan(plan)
    assert load_plan(text, "plan.json").header == plan.header
    assert dumped_plan(load_plan(text, "plan.json")) == text
    assert "snapshot" not in json.loads(dumped_plan(replace(plan, header=HEADER)))


def test_what_a_snapshot_says_of_itself_cannot_forge_a_line() -> None:
    hostile = SnapshotFile("a\n::error::x.json", "now\x1b[31m")
    text = "".join(render_plan(replace(plan_of({}, {}), header=structs.replace(HEADER, snapshot=hostile))))
    assert 'Snapshot "a\\n::error::x.json", captured "now\\u001b[31m", 0 entities in scope' in text
    assert reading_text("", SnapshotFile("", "")) == "Snapshot captured at an unknown time"
