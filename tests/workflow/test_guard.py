"""What nobody applies by accident: mass deletions, slips of a unit, an emptied directory, and what allows them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from quotaform.model.entity import Entity
from tests.workflow.command import Cluster, Repository

pytestmark = pytest.mark.workflow

MIB = 1048576.0
USERS = [f"u{number}" for number in range(9)]


def entries(*users: str, value: str = "1MiB/s") -> str:
    return "".join(f"  - match: {{user: {user}}}\n    values: {{producer_byte_rate: {value}}}\n" for user in users)


def absent(*users: str) -> str:
    return "".join(f"  - match: {{user: {user}}}\n    state: absent\n" for user in users)


@pytest.fixture
def managed(repository: Repository, cluster: Cluster) -> Repository:
    """A repository that declares the nine users of a cluster, where all others are limited, too."""
    cluster.alter({Entity(user=user): {"producer_byte_rate": MIB} for user in USERS})
    cluster.alter({Entity(user=None): {"producer_byte_rate": MIB}})
    repository.quotas(entries(*USERS) + "  - match: {user: <default>}\n    values: {producer_byte_rate: 1MiB/s}\n")
    assert repository("plan", "--detailed-exitcode").code == 0
    return repository


def approve(repository: Repository, rule: str, address: str, *, days: int = 10, more: str = "") -> None:
    day = datetime.now(UTC).date() + timedelta(days=days)
    repository.write(
        "approvals.yaml",
        f"- {{rule: {rule}, address: '{address}', reason: agreed, approver: carol, expires: {day}{more}}}\n",
    )


def test_eight_of_nine_deletions_are_shown_and_refused_until_their_number_is_given(
    managed: Repository, cluster: Cluster
) -> None:
    default = "  - match: {user: <default>}\n    values: {producer_byte_rate: 1MiB/s}\n"
    managed.quotas(entries(USERS[0]) + absent(*USERS[1:]) + default)
    before = cluster.read()
    planned = managed("plan", "--out", "plan.json")
    assert planned.code == 4
    assert planned.last == "Plan: 0 to add, 0 to change, 8 to destroy."
    blocked = planned.out.index("Blocked (nothing will be applied until resolved):\n")
    assert planned.out.index("# user=u8 will be destroyed") < blocked < planned.out.index("Effect: ")
    assert (
        "  delete  8 of 10 managed entities would be deleted (limit 5, or 20 %, or all)   Allow: --allow delete=8\n"
        in planned.out
    )
    for arguments in (["plan.json"], ["--auto-approve"], ["--auto-approve", "--allow", "delete=7"]):
        refused = managed("apply", *arguments)
        assert refused.code == 4
        assert "the plan is blocked and nothing was written:\n  delete: 8 of 10 managed" in refused.err
    assert cluster.read() == before
    assert managed("apply", "plan.json", "--allow", "delete=8").code == 64
    assert managed("plan", "--allow", "delete=8", "--out", "plan.json").code == 0
    shown = managed("show", "plan.json").out
    assert "\nAllowed: delete=8\n" in shown
    assert "Allowed by: --allow delete=8" in shown
    done = managed("apply", "plan.json", "--receipt", "receipt.json")
    assert (done.code, done.last) == (0, "Apply complete! Resources: 0 added, 0 changed, 8 destroyed.")
    assert json.loads(managed.read("receipt.json"))["allowances"] == ["delete=8"]


@pytest.mark.parametrize("prune", ["report", "scope"])
def test_an_emptied_directory_deletes_nothing(managed: Repository, cluster: Cluster, prune: str) -> None:
    text = managed.read("quotaform.yaml")
    managed.write("quotaform.yaml", text + f"scope: {{include: [{{user: '*'}}]}}\nprune: {prune}\n")
    before = cluster.read()
    (managed.path / "quotas.d" / "quotas.yaml").unlink()
    for missing in (False, True):
        if missing:
            (managed.path / "quotas.d").rmdir()
        problem = "does not exist" if missing else "contains no YAML file"
        refused = managed("apply", "--auto-approve")
        assert refused.code == 4
        assert f"the quotas directory quotas.d {problem}   Allow: --allow empty\n" in refused.out
        assert cluster.read() == before
        assert managed("drift").code == 3
    if prune == "scope":
        allowed = managed("plan", "--allow", "empty")
        assert allowed.code == 4, "that nothing is declared does not allow that all is deleted"
        assert "--allow delete=9" in allowed.out
    else:
        assert managed("plan", "--allow", "empty").code == 0


def test_an_approval_is_used_recorded_and_of_one_rule_address_and_time(managed: Repository, cluster: Cluster) -> None:
    text = managed.read("quotaform.yaml")
    managed.write("quotaform.yaml", text + "protect: [{user: 'u0'}]\n")
    managed.quotas(entries("u0", value="256KiB/s") + entries(*USERS[1:]))
    refused = managed("plan")
    assert refused.code == 4
    assert "Allow: an approval in approvals.yaml\n" in refused.out
    assert managed("plan", "--allow", "protect").code == 64
    approve(managed, "protect", "user=u1")
    other = managed("plan")
    assert other.code == 4
    assert "user=u1: the approval of protect in approvals.yaml lifts nothing" in other.out
    approve(managed, "protect", "user=u0", days=0)
    expired = managed("plan")
    assert expired.code == 4
    assert "user=u0: the approval of protect in approvals.yaml expired on" in expired.out
    approve(managed, "protect", "user=u0", days=31)
    assert managed("plan").code == managed("validate").code == 3
    approve(managed, "protect", "user=u0", days=30)
    assert managed("validate").code == 0
    planned = managed("plan", "--out", "plan.json")
    assert planned.code == 0, planned.said
    assert "\nApproved: protect user=u0 (approval of carol, until " in planned.out
    saved = json.loads(managed.read("plan.json"))
    assert [(each["rule"], each["address"]) for each in saved["approvals"]] == [("protect", "user=u0")]
    (managed.path / "approvals.yaml").unlink()
    other = managed("apply", "plan.json")
    assert other.code == 5
    assert "approvals.yaml does not hold the approval of protect for user=u0" in other.err
    approve(managed, "protect", "user=u0", days=30, more=", to: {producer_byte_rate: 128KiB/s}")
    assert managed("plan").code == 4
    approve(managed, "protect", "user=u0", days=30)
    done = managed("apply", "plan.json", "--receipt", "receipt.json")
    assert done.code == 0, done.said
    assert cluster.values(user="u0") == {"producer_byte_rate": 262144.0}
    assert json.loads(managed.read("receipt.json"))["approvals"] == saved["approvals"]
    assert "unused-approval" in managed("plan").out


def test_drift_has_no_guards(managed: Repository, cluster: Cluster) -> None:
    for user in USERS[1:]:
        cluster.set({"producer_byte_rate": 100 * MIB}, user=user)
    drifted = managed("drift", "--format", "json")
    assert drifted.code == 2
    document = json.loads(drifted.out)
    assert document["status"] == "drift"
    assert document["findings"] == []
