"""`quotaform plan --revert`: the way back from an apply, as a user goes it."""

from __future__ import annotations

import json
from pathlib import Path

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


def test_what_somebody_else_changed_since_refuses_the_revert(applied: Repository, cluster: Cluster) -> None:
    cluster.alter({B: {"producer_byte_rate": 7 * MIB}})
    refused = applied("plan", "--revert", "receipt.json", "--out", "revert.json", *ALLOW)
    assert refused.code == 5
    assert "user=b: producer_byte_rate is 7 MiB/s; the apply changed it from 1 MiB/s to 2 MiB/s" in refused.err
    assert not (applied.path / "revert.json").exists()
    rest = applied("plan", "--revert", "receipt.json", "--exclude", "user=b", *ALLOW)
    assert rest.code == 0
    assert rest.last == "Plan: 1 to add, 0 to change, 1 to destroy."


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


def edited(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_a_receipt_that_was_edited_or_cut_is_refused(applied: Repository) -> None:
    path = applied.path / "receipt.json"
    whole = path.read_text()
    edited(path, '"before": 1048576', '"before": 9048576')
    refused = applied("plan", "--revert", "receipt.json")
    assert refused.code == 5
    assert "receipt.json was changed after it was written" in refused.err
    path.write_text(whole[:-50])
    refused = applied("plan", "--revert", "receipt.json")
    assert refused.code == 3
    assert "receipt.json is not a valid receipt file" in refused.err
    refused = applied("plan", "--revert", "quotaform.yaml")
    assert refused.code == 3
    refused = applied("plan", "--revert", "none.json")
    assert refused.code == 1
    assert "none.json cannot be read: No such file or directory" in refused.err


def test_a_receipt_of_another_cluster_is_refused(applied: Repository) -> None:
    from quotaform.document.envelope import sealed_lines
    from quotaform.document.receipt import RECEIPT_LISTS

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


@pytest.mark.parametrize(
    "more", [["--snapshot", "x.json"], ["--engine", "spark"], ["--all"], ["--base", "main"], ["--prune", "scope"]]
)
def test_a_revert_reads_the_cluster_of_its_receipt_only(applied: Repository, more: list[str]) -> None:
    refused = applied("plan", "--revert", "receipt.json", *more)
    assert refused.code == 64
    assert "leave --" in refused.err
