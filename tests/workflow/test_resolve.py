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
from quotaform.schema.catalog import load_schema
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


def test_the_ladder_shows_who_wins_and_why(repository: Repository, filled: Cluster) -> None:
    done = repository("resolve", *PAIR)
    assert (done.code, done.err) == (0, "")
    head, *lines = done.out.splitlines()
    assert head.startswith(f"Cluster  lab (id {filled.id})   Live state read 2")
    assert lines == [
        "Per quota key, the first matching entry in order of precedence applies (*).",
        "",
        "user=alice,client-id=app1",
        "  producer_byte_rate = 1 MiB/s per broker",
        "    * 1 ClientInUser  user=alice,client-id=app1  1 MiB/s",
        "      3 User          user=alice                 2 MiB/s   overridden",
        "      6 DefaultUser   user=<default>             5 MiB/s   overridden",
        "      one rate for all requests of alice with client-id app1",
        "  consumer_byte_rate = unlimited (explicit) per broker",
        "    * 3 User          user=alice                 unlimited",
        "  request_percentage = 50% per broker",
        "    * 6 DefaultUser   user=<default>             50%",
        "      one rate for all client-ids of alice without an entry of their own; each other user has its own",
        "  controller_mutation_rate = 5/s per cluster",
        "    * 7 Client        client-id=app1             5/s",
        "      one rate for all users together that send client-id app1",
    ]


def test_json_is_what_its_schema_says(repository: Repository, filled: Cluster) -> None:
    done = repository("resolve", *PAIR, "--format", "json")
    document = json.loads(done.out)
    Draft7Validator(load_schema("resolve")).validate(document)
    assert (document["cluster"], document["plan_id"]) == ({"name": "lab", "id": filled.id}, None)
    keys = keys_of(document)
    producer = keys[PRODUCER]
    assert (producer["value"], producer["source"], producer["source_name"]) == (
        1048576,
        "user=alice,client-id=app1",
        "ClientInUser",
    )
    assert [entry["source"] for entry in producer["overridden"]] == ["user=alice", "user=<default>"]
    assert producer["overridden"][1]["entity"] == {"user": None}
    assert (keys[CONSUMER]["value"], keys[CONSUMER]["unlimited"]) == (9223372036854775808, True)
    assert [key["per"] for key in keys.values()] == ["broker", "broker", "broker", "cluster"]


def test_less_can_be_asked_for(repository: Repository, filled: Cluster) -> None:
    short = repository("resolve", *PAIR, "--omit-overridden", "--omit-inherited", "--format", "json")
    keys = keys_of(json.loads(short.out))
    assert keys.keys() == {PRODUCER}
    assert keys[PRODUCER]["overridden"] == []
    one = repository("resolve", *PAIR, "--key", CONSUMER, "--overridden", "--inherited")
    assert [line for line in one.out.splitlines() if " = " in line] == [
        "  consumer_byte_rate = unlimited (explicit) per broker"
    ]


def test_a_user_alone_is_one_with_a_client_id_that_no_quota_mentions(repository: Repository, filled: Cluster) -> None:
    """It was resolved with an empty client-id, so that a plan and resolve contradicted each other."""
    filled.alter({Entity(client_id=None): {"controller_mutation_rate": 9.0}})
    done = repository("resolve", "--name", "user=alice")
    assert "user=alice   (with a client-id that no quota mentions)\n" in done.out
    assert "  producer_byte_rate = 2 MiB/s per broker\n" in done.out
    assert "  controller_mutation_rate = 9/s per cluster\n" in done.out
    assert done.out.count("      differs for 1 client-id\n") == 2
    document = json.loads(repository("resolve", "--name", "user=alice", "--format", "json").out)
    assert document["requests"][0]["unmentioned"] == ["client-id"]
    assert {key: row["differs"] for key, row in keys_of(document).items() if "differs" in row} == {
        PRODUCER: {"client-id": 1},
        "controller_mutation_rate": {"client-id": 1},
    }
    rows = list(csv.DictReader(StringIO(repository("resolve", "--name", "user=alice", "--format", "csv").out)))
    assert [(row["unmentioned"], row["differing_client_ids"]) for row in rows] == [
        ("client-id", count) for count in ("1", "", "", "1")
    ]


def test_what_a_plan_calls_effective_is_what_resolve_says(repository: Repository, filled: Cluster) -> None:
    """A plan resolved alice with a client-id that no quota mentions, and resolve with an empty one."""
    filled.alter({Entity(user="alice", client_id=None): {PRODUCER: 3 * MIB}})
    repository.quotas("  - match: {user: alice}\n    values: {producer_byte_rate: 20MiB/s}\n")
    assert repository("plan", "--out", "plan.json").code == 4, "a second key of alice becomes unlimited"
    changes = json.loads(repository.read("plan.json"))["changes"]
    change = next(each for each in changes if each["address"] == "user=alice")
    planned = {row["key"]: row["effective"] for row in change["keys"]}
    for side, options in (("before", ()), ("after", ("--plan", "plan.json"))):
        keys = keys_of(json.loads(repository("resolve", "--name", "user=alice", "--format", "json", *options).out))
        for key, effective in planned.items():
            assert {name: keys[key][name] for name in ("value", "source")} == {
                name: effective[side][name] for name in ("value", "source")
            }
    assert planned[PRODUCER]["before"]["source"] == "user=alice,client-id=<default>"


def test_an_empty_client_id_is_asked_for_explicitly(repository: Repository, filled: Cluster) -> None:
    for empty in ("client-id=", 'client-id=""'):
        done = repository("resolve", "--name", empty, "--name", "user=alice")
        assert 'user=alice,client-id=""\n' in done.out
        assert "  producer_byte_rate = 2 MiB/s per broker\n" in done.out
        assert "  controller_mutation_rate = unlimited: no entry applies\n" in done.out
        assert "  empty-client-id  " in done.out
        assert "KAFKA-13341" in done.out
        assert "differs" not in done.out


def test_an_address_meets_its_entry_and_alone(repository: Repository, filled: Cluster) -> None:
    done = repository("resolve", "--name", "ip=::ffff:10.0.0.7")
    assert "* 1 Ip  ip=10.0.0.7  50/s\n" in done.out
    assert "ip-alias" in done.out
    mixed = repository("resolve", "--name", "ip=10.0.0.7", "--name", "user=alice")
    assert (mixed.code, mixed.out) == (64, "")


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
        (("--name", "user=a", "--format", "yaml"), "unknown format 'yaml'; choose text, json or csv"),
    ],
)
def test_what_makes_no_sense_is_wrong_usage(
    repository: Repository, cluster: Cluster, arguments: tuple[str, ...], words: str
) -> None:
    done = repository("resolve", *arguments)
    assert (done.code, done.out) == (64, "")
    assert words in done.err


def test_somebody_really_called_default_can_be_asked_for(repository: Repository, cluster: Cluster) -> None:
    cluster.alter({Entity(user="<default>"): {PRODUCER: 1.0}, Entity(user=None): {PRODUCER: 2.0}})
    done = repository("resolve", "--name", 'user="<default>"', "--name", "client-id=x", "--key", PRODUCER)
    assert '* 3 User         user="<default>"  1 B/s\n' in done.out
    assert "  6 DefaultUser  user=<default>    2 B/s   overridden\n" in done.out


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

    def test_a_file_gives_one_row_per_request_and_key(self, repository: Repository, filled: Cluster) -> None:
        repository.write("asked.csv", self.CSV)
        done = repository("resolve", "--from", "asked.csv", "--format", "csv")
        rows = list(csv.DictReader(StringIO(done.out)))
        assert [len([row for row in rows if row["user"] == user]) for user in ("alice", "bob", "")] == [8, 8, 5]
        assert (rows[0]["value"], rows[0]["source_name"]) == ("1048576", "ClientInUser")
        assert rows[-1]["unlimited"] == "true"
        assert (rows[-1]["client_id"], rows[-1]["unmentioned"]) == ('""', "")
        assert [row["unmentioned"] for row in rows[4:12:4]] == ["client-id", "user"]
        assert "warning: " in done.err
        assert "[empty-client-id]" in done.err
        assert repository("resolve", "--from", "asked.csv", "--format", "csv", "--quiet").err == ""

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
