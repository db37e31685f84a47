"""`quotaform plan --revert`: the way back from an apply, as a user goes it."""

from __future__ import annotations

import json

import pytest

from quotaform.model.entity import Entity
from tests.workflow.command import Cluster, Repository

pytestmark = pytest.mark.workflow

MIB = 1048576.0
ALLOW = ("--allow", "delete=1", "--allow", "to-unlimited")
"""What the guards are asked to let through."""
A, B, OLD = Entity(user="a"), Entity(user="b"), Entity(user="old")
FILES = (
    "  - match: {user: a}\n    values: {producer_byte_rate: 1MiB/s}\n"
    "  - match: {user: b}\n    values: {producer_byte_rate: 2MiB/s, request_percentage: 33}\n"
    "  - match: {user: old}\n    state: absent\n"
)


@pytest.fixture
def applied(repository: Repository, cluster: Cluster) -> Repository:
    """A repository whose plan was applied: a is new, b was changed and old is gone; the receipt is `receipt.json`."""
    cluster.alter({OLD: {"producer_byte_rate": MIB}, B: {"producer_byte_rate": MIB, "request_percentage": 33.0}})
    repository.quotas(
        FILES.replace("{producer_byte_rate: 2MiB/s}", "{producer_byte_rate: 2MiB/s, request_percentage: 33}")
    )
    assert repository("apply", "--auto-approve", "--receipt", "receipt.json", *ALLOW).code == 0
    return repository


def test_a_revert_is_planned_applied_and_needed_no_more(applied: Repository, cluster: Cluster) -> None:
    applied_id = json.loads(applied.read("receipt.json"))["plan_id"]
    planned = applied("plan", "--revert", "receipt.json", "--out", "revert.json", *ALLOW)
    assert planned.code == 0, planned.err
    assert f"Puts back what the apply of plan {applied_id} changed; nothing else." in planned.out
    assert "revert-differs" in planned.out
    assert planned.last == "Plan: 1 to add, 1 to change, 1 to destroy."
    document = json.loads(applied.read("revert.json"))
    assert document["options"]["revert"] == applied_id
    assert {change["cause"] for change in document["changes"]} == {"revert"}
    done = applied("apply", "revert.json", "--receipt", "back.json")
    assert done.code == 0, done.err
    assert cluster.values(user="a") == {}
    assert cluster.values(user="b") == {"producer_byte_rate": MIB, "request_percentage": 33.0}
    assert cluster.values(user="old") == {"producer_byte_rate": MIB}
    again = applied("plan", "--revert", "receipt.json")
    assert again.code == 0
    assert again.last == "Nothing is left to put back."
    assert "No changes." not in again.out
    # The way back has a receipt too: from there it goes forward again.
    assert applied("plan", "--revert", "back.json", "--out", "forward.json", *ALLOW).code == 0
    assert applied("apply", "forward.json").code == 0
    assert applied("plan", "--detailed-exitcode").code == 0


def test_a_revert_is_possible_when_the_files_are_broken(applied: Repository, cluster: Cluster) -> None:
    applied.quotas("  - match: {user: [a\n")
    assert applied("plan").code == 3
    planned = applied("plan", "--revert", "receipt.json", "--out", "revert.json", *ALLOW)
    assert planned.code == 0, planned.err
    assert "it is not known what the files declare, because the files are invalid" in planned.out
    assert applied("apply", "revert.json").code == 0
    assert cluster.values(user="a") == {}


def test_a_revert_keeps_to_the_scope_the_other_repositories_and_the_policies(
    applied: Repository, cluster: Cluster
) -> None:
    """It changed what is out of scope or declared elsewhere, and set values over a cap, without a finding."""
    other = Repository(applied.path.parent / "other")
    config = applied.read("quotaform.yaml")
    other.config(config)
    other.quotas("  - match: {user: b}\n    values: {producer_byte_rate: 2MiB/s}\n")
    cap = {
        "properties": {"values": {"properties": {"producer_byte_rate": {"maximum": MIB / 2}}}},
        "required": ["owner"],
    }
    applied.write("caps.json", json.dumps(cap))
    applied.quotas("quotas: []\n")
    applied.config(f"{config}scope: {{exclude: [{{user: old}}]}}\nroots: [../other]\npolicies: [caps.json]\n")
    refused = applied("plan", "--revert", "receipt.json", *ALLOW)
    assert refused.code == 4
    assert "revert-unmanaged  user=old is out of scope; leave out with --exclude what should stay" in refused.out
    assert "revert-unmanaged  user=b is declared in another quota repository (roots); leave out" in refused.out
    above = "producer_byte_rate is 1 MiB/s, above the maximum of 512 KiB/s (caps.json)"
    assert {line.split()[1] for line in refused.said.splitlines() if above in line} == {"user=b:", "user=old:"}
    assert "owner" not in refused.out
    rest = applied("plan", "--revert", "receipt.json", "--exclude", "user=b", "--exclude", "user=old", *ALLOW)
    assert rest.code == 0, rest.said
    other.quotas("  - match: {user: [a\n")
    unknown = applied("plan", "--revert", "receipt.json", "--select", "user=a", *ALLOW)
    assert (unknown.code, "because files in roots are invalid" in unknown.out) == (4, True)
    allowed = ("--allow", "revert-unmanaged", "--out", "revert.json")
    assert applied("plan", "--revert", "receipt.json", *ALLOW, *allowed).code == 0
    assert applied("apply", "revert.json").code == 0
    assert cluster.values(user="old") == {"producer_byte_rate": MIB}


def test_a_receipt_of_another_cluster_is_refused(applied: Repository) -> None:
    from quotaform.model.records.document import sealed_lines
    from quotaform.plan.receipt import RECEIPT_LISTS

    document = json.loads(applied.read("receipt.json"))
    del document["digest"]
    own_id, document["cluster"]["id"] = document["cluster"]["id"], "another-id"
    (applied.path / "receipt.json").write_text("".join(sealed_lines(document.items(), RECEIPT_LISTS)))
    refused = applied("plan", "--revert", "receipt.json")
    assert refused.code == 5
    assert f"the receipt is of cluster another-id, but this is cluster {own_id}" in refused.err
    document["cluster"]["name"] = "elsewhere"
    (applied.path / "receipt.json").write_text("".join(sealed_lines(document.items(), RECEIPT_LISTS)))
    refused = applied("plan", "--revert", "receipt.json")
    assert refused.code == 64
    assert "receipt.json is a receipt for cluster elsewhere, which is not in quotaform.yaml" in refused.err


def test_a_revert_reads_the_cluster_of_its_receipt_only(applied: Repository) -> None:
    for more in (["--snapshot", "x.json"], ["--engine", "spark"], ["--all"], ["--base", "main"], ["--prune", "scope"]):
        refused = applied("plan", "--revert", "receipt.json", *more)
        assert (refused.code, "leave --" in refused.err) == (64, True), more
