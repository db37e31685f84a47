"""`quotaform explain` as a user calls it: no cluster is asked, and what is wrong is one sentence."""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft7Validator

from tests.loading import load_schema
from tests.workflow.command import Repository

pytestmark = pytest.mark.workflow

CLUSTERS = "clusters:\n  lab: {bootstrap_servers: [b1:9092]}\n  prod: {bootstrap_servers: [b1:9092]}\n"


@pytest.fixture
def declared(offline: Repository) -> Repository:
    offline.config(CLUSTERS)
    offline.write(
        "quotas.d/a.yaml",
        "quotas:\n"
        "  - match: {user: a}\n    values: {producer_byte_rate: 1MiB/s}\n"
        '  - match: {user: "CN=a,O=b"}\n    values: {producer_byte_rate: 2MiB/s}\n',
    )
    offline.write("quotas.d/prod/a.yaml", "quotas:\n  - match: {user: a}\n    values: {producer_byte_rate: 3MiB/s}\n")
    return offline


def test_json_is_what_its_schema_says(declared: Repository) -> None:
    document = json.loads(declared("explain", "user=a", "quotas.d", "--format", "json").out)
    assert list(Draft7Validator(load_schema("explain")).iter_errors(document)) == []
    assert [section["keys"][0]["value"] for section in document["clusters"]] == [1048576, 3145728]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["user=b"], 1, "no file declares user=b"),
        (["user=a\n::error::x"], 64, r'"user=a\n::error::x" is not an address'),
        (["user=a", "nowhere"], 3, "the quotas directory does not exist"),
    ],
)
def test_bad_input_is_one_sentence_and_an_exit_code(
    declared: Repository, arguments: list[str], code: int, words: str
) -> None:
    done = declared("explain", *arguments)
    assert done.code == code, done
    assert words in done.err
    assert done.out == ""


def test_invalid_files_are_told_with_all_their_problems(declared: Repository) -> None:
    declared.write("quotas.d/lab/b.yaml", "quotas:\n  - match: {user: 007}\n    values: {producer_byte_rate: 1}\n")
    done = declared("explain", "user=a")
    assert done.code == 3
    assert done.err.startswith("Error: lab: quotas.d/lab/b.yaml:2:19")
    assert done.out.startswith("Cluster  prod ")
    assert declared("explain", "user=a", "--cluster", "prod").code == 0
