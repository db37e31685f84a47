"""`quotaform alter`: one entity by hand, in units, and its fresh state afterwards."""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft7Validator

from quotaform.model.entity import Entity
from quotaform.sandbox import Sandbox
from tests.loading import load_schema
from tests.workflow.command import Cluster, Repository

pytestmark = pytest.mark.workflow

PRODUCE, CONSUME, REQUEST = "producer_byte_rate", "consumer_byte_rate", "request_percentage"


def test_values_are_set_in_units_and_the_fresh_state_is_printed(repository: Repository, cluster: Cluster) -> None:
    cluster.set({PRODUCE: 5242880.0, CONSUME: 1024.0}, user="svc", client_id=None)
    done = repository(
        "alter", "--name", "user=svc", "--default", "client-id",
        "--add", f"{PRODUCE}=10MiB/s,{REQUEST}=150%", "--add", "controller_mutation_rate=unlimited",
        "--delete", CONSUME,
    )  # fmt: skip
    assert (done.code, done.err) == (0, "")
    assert done.out == (
        "Cluster  lab\n\n"
        "user=svc,client-id=<default>\n"
        "  producer_byte_rate        10 MiB/s   (was 5 MiB/s)\n"
        "  request_percentage        150%   (was not set)\n"
        "  controller_mutation_rate  unlimited   (was not set)\n"
        "  consumer_byte_rate is removed   (was 1 KiB/s)\n"
        "\n"
        "Altered user=svc,client-id=<default>.\n"
    )
    assert cluster.values(user="svc", client_id=None) == {
        PRODUCE: 10485760.0, REQUEST: 150.0, "controller_mutation_rate": 2147483647.0
    }  # fmt: skip


def test_what_is_like_this_already_is_told(repository: Repository, cluster: Cluster) -> None:
    cluster.set({PRODUCE: 1024.0}, user="svc")
    done = repository("alter", "--name", "user=svc", "--add", f"{PRODUCE}=1KiB/s", "--delete", CONSUME)
    assert (done.code, done.last) == (0, "No changes: user=svc already has these values.")
    gone = repository("alter", "--name", "user=nobody", "--delete", f"{PRODUCE},{CONSUME}")
    assert (gone.code, gone.out.splitlines()[2]) == (0, "user=nobody has no quotas.")
    assert cluster.read() == {Entity(user="svc"): {PRODUCE: 1024.0}}


def test_the_last_value_takes_the_entity_with_it(repository: Repository, cluster: Cluster) -> None:
    cluster.set({PRODUCE: 1024.0}, user="svc")
    done = repository("alter", "--name", "user=svc", "--delete", PRODUCE)
    assert done.out.splitlines() == [
        "Cluster  lab", "",
        "user=svc has no quotas.", "  producer_byte_rate is removed   (was 1 KiB/s)", "", "Altered user=svc.",
    ]  # fmt: skip
    assert cluster.read() == {}


def test_json_says_what_changed(repository: Repository, cluster: Cluster) -> None:
    cluster.set({PRODUCE: 1024.0, CONSUME: 1.0}, user="svc")
    for more, is_validation in ((["--validate-only"], True), ([], False)):
        done = repository(
            "alter",
            "--name",
            "user=svc",
            "--add",
            f"{PRODUCE}=unlimited",
            "--delete",
            CONSUME,
            "--format",
            "json",
            *more,
        )
        document = json.loads(done.out)
        Draft7Validator(load_schema("alter")).validate(document)
        assert document["validate_only"] is is_validation
        assert document["values"] == {PRODUCE: 2**63}
        assert document["changes"] == [
            {"key": PRODUCE, "before": 1024, "after": 2**63}, {"key": CONSUME, "before": 1, "after": None},
        ]  # fmt: skip
        assert document["cluster"]["id"] == cluster.id


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "no entity is given"),
        (["--name", "user=a"], "no change is given"),
        (["--name", "user=a", "--add", PRODUCE], "is not KEY=VALUE"),
        (["--name", "user=a", "--delete", f"{PRODUCE}=1"], "is not the name of a quota key"),
        (["--name", "user=a", "--add", f"{PRODUCE}=1", "--delete", PRODUCE], f'"{PRODUCE}" is given twice'),
        (["--name", "user=a", "--add", f"{PRODUCE}=NaN"], "write unlimited for no limit"),
        (
            ["--name", "user=a", "--add", "connection_creation_rate=5/s"],
            "connection_creation_rate is not valid for user=a",
        ),
        (["--name", "ip=::ffff:10.0.0.1", "--add", "connection_creation_rate=5/s"], "write 10.0.0.1"),
        (
            ["--name", "user=", "--add", f"{PRODUCE}=1"],
            "the name of user is empty; for the default write 'user=<default>'",
        ),
        (["--name", "user=<default>", "--add", f"{PRODUCE}=1"], "for the default write --default user"),
        (["--name", "user=a", "--add", "future_rate=1MiB/s"], '"future_rate" is not known to this version'),
    ],
    ids=lambda options: " ".join(options)[:60] if isinstance(options, list) else "",
)
def test_what_a_careful_tool_refuses_is_wrong_usage_and_never_sent(
    repository: Repository, cluster: Cluster, options: list[str], words: str
) -> None:
    done = repository("alter", *options)
    assert (done.code, done.out) == (64, ""), done.err
    assert words in done.err
    assert cluster.read() == {}


def test_what_the_broker_refuses_exits_1_in_its_words(repository: Repository, cluster: Cluster) -> None:
    cluster.set({CONSUME: 1.0}, user="a")
    for more in ([], ["--validate-only"]):
        done = repository("alter", "--name", "user=a", "--add", "tomorrow=5", "--delete", CONSUME, *more)
        assert (done.code, done.out) == (1, "")
        assert done.err == (
            "Error: user=a: Invalid configuration key tomorrow; nothing was changed; "
            '"tomorrow" is not known to this version\n'
        )
    assert cluster.read() == {Entity(user="a"): {CONSUME: 1.0}}


def test_the_pin_of_a_cluster_is_checked_first(repository: Repository, cluster: Cluster) -> None:
    text = repository.read("quotaform.yaml")
    repository.config(f"{text}    cluster_id: 3JxQ0v7pT2aXXXXXXXXXXX\n")
    done = repository("alter", "--name", "user=a", "--add", f"{PRODUCE}=1")
    assert (done.code, done.out) == (4, "")
    assert (
        f"is pinned to id 3JxQ0v7pT2aXXXXXXXXXXX, and the live id is {cluster.id}; check the bootstrap servers"
        in done.err
    )
    assert "Nothing was written." in done.err
    assert cluster.read() == {}


def test_an_address_is_not_taken_for_one_name(repository: Repository, cluster: Cluster) -> None:
    """What every result prints was pasted and made a quota of a user of that whole name."""
    done = repository("alter", "--name", "user=alice,client-id=app1", "--add", f"{PRODUCE}=1")
    assert done.code == 64
    assert "write --name user=alice --name client-id=app1, or --name 'user=\"alice,client-id=app1\"'" in done.err
    odd = repository("alter", "--name", 'user="alice,client-id=app1"', "--add", f"{PRODUCE}=1")
    assert odd.code == 0
    assert cluster.read() == {Entity(user="alice,client-id=app1"): {PRODUCE: 1.0}}


def test_a_misspelt_key_is_not_removed_in_silence(repository: Repository, cluster: Cluster) -> None:
    cluster.set({PRODUCE: 1.0}, user="alice")
    done = repository("alter", "--name", "user=alice", "--delete", "producer_bite_rate")
    assert (done.code, done.out) == (64, "")
    assert 'user=alice does not have "producer_bite_rate"' in done.err
    assert f"did you mean {PRODUCE}?" in done.err


def test_a_cluster_that_wants_its_name_typed_is_not_changed_without_a_terminal(
    repository: Repository, cluster: Cluster, sandbox: Sandbox
) -> None:
    """Without a terminal the question was left out, and the change made."""
    repository.config(f"clusters: {{lab: {{bootstrap_servers: ['{sandbox.bootstrap_servers}'], confirm: name}}}}\n")
    refused = repository("alter", "--name", "user=a", "--add", f"{PRODUCE}=1")
    assert (refused.code, refused.out) == (4, "")
    assert "requires typing its name (confirm: name), but there is no terminal" in refused.err
    assert cluster.read() == {}
    assert repository("alter", "--name", "user=a", "--add", f"{PRODUCE}=1", "--auto-approve").code == 0
