"""`quotaform resolve` as a person types it, on a real broker."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from io import StringIO
from typing import Any

import pytest
from jsonschema import Draft7Validator

from quotaform.model.entity import Entity
from quotaform.sandbox import Sandbox
from tests.loading import load_schema
from tests.workflow.command import QUOTAFORM, Cluster, Repository, environment

pytestmark = pytest.mark.workflow

MIB = 1024.0**2
PRODUCER, CONSUMER = "producer_byte_rate", "consumer_byte_rate"
PAIR = ("--name", "user=alice", "--name", "client-id=app1")


@pytest.fixture
def filled(cluster: Cluster) -> Cluster:
    cluster.alter(
        {
            Entity(user="alice", client_id="app1"): {PRODUCER: 1 * MIB},
            Entity(user="alice"): {PRODUCER: 2 * MIB, CONSUMER: 2.0**63},
            Entity(user=None): {PRODUCER: 5 * MIB, "request_percentage": 50.0},
            Entity(client_id="app1"): {"controller_mutation_rate": 5.0},
            Entity(ip="10.0.0.7"): {"connection_creation_rate": 50.0},
        }
    )
    return cluster


def keys_of(document: dict[str, Any], request: int = 0) -> dict[str, Any]:
    return {key["key"]: key for key in document["requests"][request]["keys"]}


def test_less_can_be_asked_for(repository: Repository, filled: Cluster) -> None:
    short = repository("resolve", *PAIR, "--omit-overridden", "--omit-inherited", "--format", "json")
    keys = keys_of(json.loads(short.out))
    assert keys.keys() == {PRODUCER}
    assert keys[PRODUCER]["overridden"] == []
    one = repository("resolve", *PAIR, "--key", CONSUMER, "--overridden", "--inherited")
    assert [line for line in one.out.splitlines() if " = " in line] == [
        "  consumer_byte_rate = unlimited (explicit) per broker"
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "no request is given; write who makes it, as in user=U,client-id=C"),
        (("--name", "user=a", "--from", "x.csv"), "an entity and --from cannot be combined"),
        (("--name", "user"), "is not TYPE=NAME"),
        (("--name", "user=a", "--name", "user=b"), "is given twice"),
        (("--name", "user="), "the name of the user is empty"),
        (("--name", "user=<default>"), "requests have a name; leave user out"),
        (("--name", "group=a"), '"group" is not an entity type. The types are user, client-id, ip'),
        (
            ("--name", "user=a", "--name", "ip=10.0.0.1"),
            "is not the source of a request: give a user, a client-id, both, or an ip",
        ),
        (("--name", "user=a", "--key", "producer_rate"), '"producer_rate" is not a known quota key'),
        (("--name", "user=a", "--key", "connection_creation_rate"), "is only valid for ip entities, but no"),
        (("--name", "user=a", "--format", "yaml"), "unknown format 'yaml'; choose text, json, csv or html"),
    ],
)
def test_what_makes_no_sense_is_wrong_usage(
    repository: Repository, cluster: Cluster, arguments: tuple[str, ...], words: str
) -> None:
    done = repository("resolve", *arguments)
    assert (done.code, done.out) == (64, "")
    assert words in done.err


def test_a_plan_is_shown_as_if_it_were_applied(repository: Repository, filled: Cluster) -> None:
    repository.quotas(
        "  - match: {user: alice, client-id: app1}\n    state: absent\n"
        "  - match: {user: alice}\n    values: {producer_byte_rate: 20MiB/s, consumer_byte_rate: unlimited}\n"
    )
    assert repository("plan", "--out", "plan.json", "--allow", "to-unlimited", "--allow", "change-factor").code == 0
    done = repository("resolve", *PAIR, "--plan", "plan.json", "--key", PRODUCER)
    assert "  producer_byte_rate = 1 MiB/s -> 20 MiB/s per broker   (x20, loosen)\n" in done.out
    assert "      before: 1 MiB/s from user=alice,client-id=app1 (level 1, ClientInUser)\n" in done.out
    document = json.loads(repository("resolve", *PAIR, "--plan", "plan.json", "--format", "json").out)
    Draft7Validator(load_schema("resolve")).validate(document)
    assert document["plan_id"] == json.loads(repository.read("plan.json"))["plan_id"]
    planned = keys_of(document)
    assert (planned[PRODUCER]["value"], planned[PRODUCER]["before"]["value"]) == (20971520, 1048576)

    assert repository("apply", "plan.json").code == 0
    applied = keys_of(json.loads(repository("resolve", *PAIR, "--format", "json").out))
    for key in planned.values():
        key["before"] = None
    assert applied == planned


def test_a_plan_for_another_cluster_or_a_changed_one_is_refused(repository: Repository, filled: Cluster) -> None:
    repository.quotas("  - match: {user: bob}\n    values: {producer_byte_rate: 1MiB/s}\n")
    repository("snapshot", "--output", "lab.json")
    repository.write("other.json", repository.read("lab.json").replace(filled.id, "other"))
    repository("plan", "--out", "plan.json", "--snapshot", "other.json")
    done = repository("resolve", *PAIR, "--plan", "plan.json")
    assert (done.code, done.out) == (5, "")
    repository.write("plan.json", repository.read("plan.json").replace("1048576", "1048577"))
    assert repository("resolve", *PAIR, "--plan", "plan.json").code == 5
    assert repository("resolve", *PAIR, "--plan", "absent.json").code == 1


class TestMany:
    CSV = 'client_id,user,ip\napp1,alice,\n,alice,\napp1,,\n,,10.0.0.7\nzzz,bob,\n"""""",bob,\n'

    def test_files_and_stdin_csv_and_json_lines_say_the_same(self, repository: Repository, filled: Cluster) -> None:
        rows = [
            {name: "" if text == '""' else text for name, text in row.items() if text}
            for row in csv.DictReader(StringIO(self.CSV))
        ]
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        repository.write("asked.jsonl", lines)
        first = repository("resolve", "--from", "-", "--format", "json", stdin=self.CSV)
        documents = [
            json.loads(first.out),
            json.loads(repository("resolve", "--from", "asked.jsonl", "--format", "json").out),
            json.loads(repository("resolve", "--from", "-", "--format", "json", stdin=lines).out),
        ]
        Draft7Validator(load_schema("resolve")).validate(documents[0])
        assert len(first.out.splitlines()) == len(documents[0]["requests"]) + 11
        assert all(document["requests"] == documents[0]["requests"] for document in documents)
        for number, row in enumerate(rows):
            names = [part for kind, name in row.items() for part in ("--name", f"{kind.replace('_', '-')}={name}")]
            alone = json.loads(repository("resolve", *names, "--format", "json").out)
            assert alone["requests"] == [documents[0]["requests"][number]]

    def test_every_bad_row_is_told_before_anything_is_asked(self, repository: Repository) -> None:
        repository.config("clusters: {lab: {bootstrap_servers: ['127.0.0.1:1']}}")
        repository.write("asked.csv", "user,client_id,ip\n,,\nalice,app1\nbob,x,\nbob,x,10.0.0.1\n")
        done = repository("resolve", "--from", "asked.csv")
        assert (done.code, done.out) == (3, "")
        assert [line.partition(" error: ")[0] for line in done.err.splitlines()[:2]] == [
            "asked.csv:3:",
            "asked.csv:5:",
        ]
        assert "2 problems found" in done.err
        assert repository("resolve", "--from", "-", stdin="").err.startswith("stdin: error: the file is empty")

    def test_a_hundred_thousand_requests_take_no_memory(self, offline: Repository) -> None:
        quotas = ",".join(
            f'{{"entity": {{"user": "u{number}"}}, "values": {{"producer_byte_rate": 1}}}}' for number in range(1000)
        )
        offline.write(
            "lab.json",
            '{"format_version": "1.0", "kind": "quotaform.snapshot", "cluster": {"name": "lab", "id": "x"}, '
            f'"captured_at": "", "quotas": [{quotas}]}}',
        )
        offline.write("few.csv", "user,client_id\nu1,c1\n")
        offline.write("many.csv", "user,client_id\n" + "".join(f"u{n % 2000},c{n}\n" for n in range(100_000)))
        peaks = {}
        for name in ("few.csv", "many.csv"):
            done = measured(offline, "--from", name)
            assert done[0] == 0
            peaks[name] = done[1]
        assert offline.read("out.csv").count("\n") == 100_001
        assert peaks["many.csv"] - peaks["few.csv"] < 40_000 * 1024


PEAK = """
import resource, subprocess, sys
with open("out.csv", "w") as out:
    done = subprocess.run(sys.argv[1:], stdout=out)
print(done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def measured(repository: Repository, *arguments: str) -> tuple[int, int]:
    """Run the command below another process that knows its peak, and return its exit code and that in bytes."""
    command = [QUOTAFORM, "resolve", "--snapshot", "lab.json", "--format", "csv", "--key", PRODUCER, *arguments]
    done = subprocess.run(
        [sys.executable, "-c", PEAK, *command],
        cwd=repository.path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    status, peak = map(int, done.stdout.split())
    return status, peak * (1 if sys.platform == "darwin" else 1024)


def test_without_the_right_to_read_nothing_is_said_of_quotas(secured_sandbox: Sandbox, offline: Repository) -> None:
    offline.write("tenant.properties", secured_sandbox.client_properties("SASL_PLAINTEXT", user="tenant"))
    where = ("--bootstrap-server", secured_sandbox.bootstrap_servers, "--command-config", "tenant.properties")
    done = offline("resolve", *PAIR, *where)
    assert (done.code, done.out) == (1, "")
    assert "DESCRIBE_CONFIGS" in done.err
