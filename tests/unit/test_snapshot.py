"""Snapshot files: what they look like, what is refused and where the problem is said to be."""

from __future__ import annotations

from json import loads
from math import inf, nan
from pathlib import Path

import jsonschema
import pytest

from quotaform.cluster.snapshot import SnapshotGateway, dump_snapshot, load_snapshot, read_snapshot
from quotaform.model.alteration import Alteration
from quotaform.model.entity import Entity
from quotaform.model.errors import ClusterError, InvalidFilesError
from quotaform.model.quotas import Quotas, Snapshot
from tests.loading import load_schema


def snapshot(quotas: Quotas) -> Snapshot:
    return Snapshot(cluster_name="lab", cluster_id="aBc", captured_at="2026-11-20T09:12:44Z", quotas=quotas)


SMALL = snapshot(
    {
        Entity(user="b"): {"consumer_byte_rate": 0.5, "producer_byte_rate": 2.0**63},
        Entity(user="a", client_id=None): {"producer_byte_rate": 1048576.0},
        Entity(ip="10.0.0.1"): {"connection_creation_rate": nan},
        Entity({"group": "g"}): {"new_key": inf},
    }
)

SMALL_TEXT = """\
{
  "format_version": "1.0",
  "kind": "quotaform.snapshot",
  "cluster": {"name": "lab", "id": "aBc"},
  "captured_at": "2026-11-20T09:12:44Z",
  "quotas": [
    {"entity": {"group": "g"}, "values": {"new_key": "Infinity"}},
    {"entity": {"ip": "10.0.0.1"}, "values": {"connection_creation_rate": "NaN"}},
    {"entity": {"user": "a", "client-id": null}, "values": {"producer_byte_rate": 1048576}},
    {"entity": {"user": "b"}, "values": {"producer_byte_rate": 9223372036854775808, "consumer_byte_rate": 0.5}}
  ]
}
"""


def problems(text: str) -> list[str]:
    with pytest.raises(InvalidFilesError) as caught:
        load_snapshot(text, "lab.json")
    return [f"{problem.location}: {problem.message}" for problem in caught.value.problems]


def test_a_snapshot_is_one_entity_per_line_sorted_by_address() -> None:
    assert dump_snapshot(SMALL) == SMALL_TEXT


@pytest.mark.parametrize("content", [SMALL, snapshot({})])
def test_a_snapshot_satisfies_its_schema(content: Snapshot) -> None:
    schema = load_schema("snapshot")
    jsonschema.Draft7Validator.check_schema(schema)
    jsonschema.Draft7Validator(schema).validate(loads(dump_snapshot(content)))


@pytest.mark.parametrize("length", [0, 1, 30, 200, 201, 202, 300, len(SMALL_TEXT) - 2])
def test_a_file_that_was_cut_off_is_told_apart_from_one_that_is_no_json(length: int) -> None:
    [problem] = problems(SMALL_TEXT[:length])
    assert "the file is truncated; take the snapshot again" in problem


def test_what_is_no_json_is_told_with_its_place() -> None:
    hint = "a comma, a colon, a bracket or quotation marks may be missing"
    assert problems("hello") == [f'lab.json:1:1: this is not JSON: unexpected "h"; {hint}']
    assert problems('{\n "kind" 1}') == [f'lab.json:2:9: this is not JSON: unexpected "1"; {hint}']


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "this is not a snapshot: it does not contain a JSON object"),
        ("{}", 'this is not a snapshot: its "kind" is not "quotaform.snapshot"'),
        (
            SMALL_TEXT.replace('"1.0"', '"2.0"'),
            "format_version is '2.0'; this version of quotaform reads 1.0 and later",
        ),
        (SMALL_TEXT.replace('"1.0"', "1.0"), "format_version is missing or not a string"),
        (SMALL_TEXT.replace('"NaN"', "NaN"), 'NaN is not JSON; write it as the string "NaN"'),
        ("[" * 100_000, "nested too deeply"),
        (SMALL_TEXT.replace("1048576", "9" * 5000), "too many digits"),
    ],
)
def test_what_is_no_snapshot_of_this_format_is_refused(text: str, message: str) -> None:
    [problem] = problems(text)
    assert message in problem


def test_a_later_minor_version_with_more_fields_is_read() -> None:
    text = SMALL_TEXT.replace('"1.0"', '"1.7"').replace('"captured_at"', '"new": [1], "captured_at"')
    assert len(load_snapshot(text, "f").quotas) == 4


def test_all_problems_of_a_file_are_told_each_with_its_line() -> None:
    text = """{"format_version": "1.0", "kind": "quotaform.snapshot", "cluster": {"name": "x", "id": 7},
  "captured_at": "now",
  "quotas": [
    {"entity": {"user": "a"}, "values": {"producer_byte_rate": 1}},
    {"entity": {"user": 7}, "values": {"producer_byte_rate": 1}},
    {"entity": {}, "values": {"producer_byte_rate": 1}},
    {"entity": {"user": "b"}, "values": {}}, 5,

    {"entity": {"user": "a"}, "values": {"consumer_byte_rate": 1}},
    {"entity": {"user": "c"}, "values": {"k": true}},
    {"entity": {"user": "d"}, "values": {"k": 9007199254740993}},
    {"entity": {"user": "e"}, "values": {"k": 1e999}},
    {"entity": {"user": "f"}, "values": {"k": "many"}},
    {"entity": {"user": "g", "user": "h"}, "values": {"k": 1, "k": 2}}
  ]
}"""
    number = 'k must be a number that a double can hold, or "NaN", "Infinity"'
    assert problems(text) == [
        "lab.json: cluster.id must be a string",
        "lab.json:5: a name in an entity must be a string, or null for the default",
        "lab.json:6: an item of quotas must have an entity: an object of type to name or null",
        "lab.json:7: an item of quotas must have values: an object of quota key to number",
        "lab.json:7: an item of quotas must have an entity: an object of type to name or null",
        "lab.json:7: an item of quotas must have values: an object of quota key to number",
        "lab.json:9: user=a appears twice, first in line 4",
        f"lab.json:10: {number}",
        f"lab.json:11: {number}",
        f"lab.json:12: {number}",
        f"lab.json:13: {number}",
        "lab.json:14: user appears twice",
        "lab.json:14: k appears twice",
    ]


def test_a_snapshot_answers_as_a_cluster_that_cannot_be_changed(tmp_path: Path) -> None:
    path = tmp_path / "lab.json"
    path.write_text(SMALL_TEXT, encoding="utf-8")
    with SnapshotGateway(read_snapshot(path)) as gateway:
        assert gateway.name == "lab"
        assert not gateway.is_live
        assert gateway.cluster_id() == "aBc"
        assert gateway.describe().keys() == SMALL.quotas.keys()
        for alter in (gateway.alter, gateway.alter_chunks):
            with pytest.raises(ClusterError, match=r"^lab is a snapshot, which cannot be changed; choose a running"):
                alter([Alteration(Entity(user="a"), {"producer_byte_rate": 1.0})])
    assert SnapshotGateway(read_snapshot(path), name="prod").name == "prod"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "there is no such file; quotaform snapshot writes one"),
        (b"\xff\xfe{}", "it is not UTF-8 text"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "lab.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InvalidFilesError) as caught:
        read_snapshot(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_half_a_character_in_a_name_is_refused() -> None:
    """Spark strings are UTF-8, so the two engines disagreed on such a snapshot."""
    quotas = {Entity(user="whole"): {"request_percentage": 5.0}}
    text = dump_snapshot(
        Snapshot(cluster_name="lab", cluster_id="id", captured_at="2026-11-20T09:00:00Z", quotas=quotas)
    )
    with pytest.raises(InvalidFilesError, match=r"lone surrogate"):
        load_snapshot(text.replace('"whole"', '"\\ud800"'), "lab.json")


def test_a_snapshot_of_bad_items_has_a_hundred_problems() -> None:
    """Every item of a snapshot that was wrong was reported, however many there were."""
    header = '{"format_version": "1.0", "kind": "quotaform.snapshot", "cluster": {"name": "lab", "id": "x"}, '
    text = f'{header}"captured_at": "2026-11-20T09:12:44Z", "quotas": [{", ".join(["{}"] * 10_000)}]}}'
    with pytest.raises(InvalidFilesError) as refused:
        load_snapshot(text, "lab.json")
    assert 100 < len(refused.value.problems) < 110
    assert "and more" in str(refused.value.problems[-1])
