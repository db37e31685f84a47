"""`quotaform describe`: filters of KIP-546 and of its draft, in four formats."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping
from io import StringIO
from math import nan

import pytest
from jsonschema import Draft7Validator

from quotaform.model.entity import Entity
from tests.loading import load_schema
from tests.workflow.command import Cluster, Repository

pytestmark = pytest.mark.workflow

PRODUCE, CONSUME, REQUEST = "producer_byte_rate", "consumer_byte_rate", "request_percentage"
CONNECT = "connection_creation_rate"

QUOTAS: Mapping[Entity, Mapping[str, float]] = {
    Entity(user="svc-a"): {PRODUCE: 10485760.0, CONSUME: 5e6},
    Entity(user="svc-b"): {REQUEST: 150.0},
    Entity(user="svc-b", client_id="x"): {PRODUCE: 1.0},
    Entity(user="CN=a b,O=x"): {PRODUCE: 2.0**63},
    Entity(user="<default>"): {PRODUCE: 3.0},
    Entity(user=None): {PRODUCE: 2.0},
    Entity(user=None, client_id="x"): {CONSUME: 2.0},
    Entity(client_id="x"): {"controller_mutation_rate": 5.0},
    Entity(ip="10.0.0.1"): {CONNECT: 50.0},
}


@pytest.fixture
def described(repository: Repository, cluster: Cluster) -> Repository:
    cluster.alter(QUOTAS)
    return repository


@pytest.mark.parametrize(
    ("options", "addresses"),
    [
        ([], sorted(entity.address for entity in QUOTAS)),
        (["--name", "user=svc-b"], ["user=svc-b", "user=svc-b,client-id=x"]),
        (["--name", "user=svc-b", "--strict"], ["user=svc-b"]),
        (["--default", "user"], ["user=<default>", "user=<default>,client-id=x"]),
        (["--default", "user", "--any", "client-id"], ["user=<default>,client-id=x"]),
        (["--prefix", "user=svc-"], ["user=svc-a", "user=svc-b", "user=svc-b,client-id=x"]),
        (["--prefix", "user=svc-", "--prefix", "user=svc-b", "--strict"], ["user=svc-b"]),
        (["--not", "user=svc-b", "--any", "client-id"], ["user=<default>,client-id=x"]),
        (["--name", 'user="CN=a b,O=x"'], ['user="CN=a b,O=x"']),
        (["--name", 'user="<default>"'], ['user="<default>"']),
        (["--quota-type", REQUEST, "--quota-type", CONNECT], ["ip=10.0.0.1", "user=svc-b"]),
        (["--name", "user=nobody"], []),
    ],
    ids=lambda options: " ".join(options) if isinstance(options, list) else "",
)
def test_options_are_anded(described: Repository, options: list[str], addresses: list[str]) -> None:
    done = described("describe", *options, "--format", "json")
    assert (done.code, done.err) == (0, "")
    assert [item["address"] for item in json.loads(done.out)["quotas"]] == addresses


def test_text_has_addresses_and_units(described: Repository) -> None:
    done = described("describe", "--prefix", "user=svc-")
    assert (done.code, done.err) == (0, "")
    head, text = done.out.split("\n\n", 1)
    assert re.fullmatch(r"Cluster  lab   Live state read [0-9T:Z-]{20}", head)
    assert text == (
        "user=svc-a\n"
        "  producer_byte_rate        10 MiB/s\n"
        "  consumer_byte_rate        5 MB/s\n"
        "user=svc-b\n"
        "  request_percentage        150%\n"
        "user=svc-b,client-id=x\n"
        "  producer_byte_rate        1 B/s\n"
        "\n"
        "3 entities, 4 values. Limits are per broker.\n"
    )
    assert described("describe", "--name", "user=nobody").out.endswith("\n\nNo entity matches.\n")


def test_json_is_as_its_schema_says_and_exact(described: Repository, cluster: Cluster) -> None:
    cluster.set({REQUEST: nan}, user="odd")
    done = described("describe", "--any", "user", "--not", "user=svc-a", "--strict", "--format", "json")
    document = json.loads(done.out)
    Draft7Validator(load_schema("describe")).validate(document)
    assert document["cluster"] == {"name": "lab", "id": cluster.id}
    assert document["filter"] == {
        "strict": True,
        "components": [
            {"type": "user", "rule": "any", "match": None},
            {"type": "user", "rule": "not", "match": "svc-a"},
        ],
        "quota_types": None,
    }
    found = {item["address"]: item for item in document["quotas"]}
    assert found["user=<default>"]["entity"] == {"user": None}
    assert found['user="CN=a b,O=x"']["values"] == {PRODUCE: 2**63}
    assert found["user=odd"]["values"] == {REQUEST: "NaN"}


def test_csv_has_one_row_per_value_and_always_the_same_columns(described: Repository) -> None:
    done = described("describe", "--format", "csv")
    assert (done.code, done.err) == (0, "")
    rows = list(csv.DictReader(StringIO(done.out)))
    assert done.out.startswith("address,user,client_id,ip,quota_key,value,display\n")
    assert len(rows) == sum(map(len, QUOTAS.values()))
    [literal] = [row for row in rows if row["address"] == 'user="<default>"']
    [default] = [row for row in rows if row["address"] == "user=<default>"]
    assert (literal["user"], default["user"], default["client_id"]) == ('"<default>"', "<default>", "")
    [unlimited] = [row for row in rows if row["display"] == "unlimited"]
    assert unlimited["value"] == "9223372036854775808"
    assert {float(row["value"]) for row in rows} == {value for values in QUOTAS.values() for value in values.values()}
    assert described("describe", "--name", "user=no", "--format", "csv").out.count("\n") == 1


def test_yaml_is_what_quotas_d_holds(described: Repository, cluster: Cluster) -> None:
    cluster.set({REQUEST: nan}, user="odd")
    done = described("describe", "--format", "yaml")
    assert done.code == 0
    assert "user=odd: request_percentage is NaN" in done.err
    described.quotas(done.out)
    assert described("plan", "--detailed-exitcode").code == 0
    part = described("describe", "--format", "yaml", "--quota-type", PRODUCE)
    assert "Some keys are omitted" in part.err
    assert CONSUME not in part.out


def test_a_snapshot_answers_the_same(described: Repository) -> None:
    assert described("snapshot", "--output", "lab.json").code == 0
    for options in (["--prefix", "user=svc-"], ["--any", "user", "--strict"], ["--format", "csv"]):
        live, stored = described("describe", *options), described("describe", *options, "--snapshot", "lab.json")
        assert stored.code == live.code == 0
        assert without_head(stored.out) == without_head(live.out)


def without_head(text: str) -> str:
    """The text without the line that says which cluster was read and when."""
    return text.partition("\n\n")[2] if text.startswith("Cluster ") else text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--name", "user"], '--name "user" is not TYPE=NAME'),
        (["--name", "user=<default>"], "for the default write --default user; for the literal name <default>"),
        (["--not", "user=<default>"], "to leave it out give --prefix user="),
        (["--name", "user=a", "--name", "user=b"], '"user" is given twice'),
        (["--default", "user=a"], '--default "user=a" is not an entity type'),
        (["--strict"], "give at least one type"),
        (["--format", "xml"], "choose text, json, yaml or csv"),
    ],
    ids=lambda options: " ".join(options)[:40] if isinstance(options, list) else "",
)
def test_wrong_usage_exits_64(offline: Repository, options: list[str], words: str) -> None:
    done = offline("describe", "--bootstrap-server", "127.0.0.1:1", *options)
    assert (done.code, done.out) == (64, "")
    assert words in done.err
