"""`quotaform apply`: approval, what makes it refuse, and that a refusal writes nothing."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time

import pytest

from quotaform.model.entity import Entity
from tests.workflow.command import QUOTAFORM, Cluster, Repository, Result, environment
from tests.workflow.terminal import talk

pytestmark = pytest.mark.workflow

MIB = 1048576.0
UNLIMITED = 2.0**63


@pytest.fixture
def ready(repository: Repository, cluster: Cluster) -> Repository:
    """A repository with a create, an update and a delete to apply, and a plan of them in `plan.json`."""
    cluster.alter(
        {Entity(user="old"): {"producer_byte_rate": UNLIMITED}, Entity(user="b"): {"producer_byte_rate": MIB}}
    )
    repository.quotas(
        "  - match: {user: a}\n    values: {producer_byte_rate: 1MiB/s}\n"
        "  - match: {user: b}\n    values: {producer_byte_rate: 2MiB/s}\n"
        "  - match: {user: old}\n    state: absent\n"
    )
    assert repository("plan", "--out", "plan.json").code == 0
    return repository


def on_terminal(repository: Repository, *arguments: str, answer: str, prompt: str = "Enter a value: ") -> Result:
    """Run the command on a terminal and type one line when it asks."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [QUOTAFORM, *arguments],
        cwd=repository.path,
        env=environment(),
        stdin=follower,
        stdout=follower,
        stderr=follower,
    )
    os.close(follower)
    seen, typed = b"", False
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if select.select([leader], [], [], 0.1)[0]:
            try:
                seen += os.read(leader, 65536)
            except OSError:
                break
        if not typed and prompt.encode() in seen:
            os.write(leader, f"{answer}\n".encode())
            typed = True
    os.close(leader)
    code = process.wait(timeout=60)
    text = seen.decode().replace("\r\n", "\n")
    assert "Traceback" not in text
    return Result(code, text, "")


def test_without_a_terminal_nobody_can_say_yes(ready: Repository, cluster: Cluster) -> None:
    before = cluster.read()
    for stdin in ("", "yes\n"):
        refused = ready("apply", stdin=stdin)
        assert refused.code == 4
        assert refused.last == "Plan: 1 to add, 1 to change, 1 to destroy."
        assert "--auto-approve" in refused.err
    assert cluster.read() == before
    assert ready.receipts == []


def test_without_a_terminal_there_may_be_nothing_to_approve(ready: Repository) -> None:
    """It ended with 4 before it had looked whether there was anything to do."""
    assert ready("apply", "plan.json").code == 0
    done = ready("apply", stdin="")
    assert done.code == 0
    assert "No changes." in done.out
    assert done.last == "Apply complete! Resources: 0 added, 0 changed, 0 destroyed."


def test_yes_on_a_terminal_applies(ready: Repository, cluster: Cluster) -> None:
    done = on_terminal(ready, "apply", "--color", "never", answer="yes")
    assert done.code == 0, done.out
    assert "Only 'yes' will be accepted to approve." in done.out
    assert "Nothing is rolled back" in done.out
    assert done.out.index("Plan: 1 to add, 1 to change, 1 to destroy.") < done.out.index("Enter a value: ")
    assert "Apply complete! Resources: 1 added, 1 changed, 1 destroyed." in done.out
    assert cluster.values(user="a") == {"producer_byte_rate": MIB}


def test_a_terminal_is_coloured_unless_no_color_is_set(ready: Repository) -> None:
    assert "\x1b[" in on_terminal(ready, "apply", answer="no").out


@pytest.mark.parametrize("answer", ["no", "y", "", "YES", "\x04"])
def test_any_other_answer_writes_nothing(ready: Repository, cluster: Cluster, answer: str) -> None:
    before = cluster.read()
    refused = on_terminal(ready, "apply", answer=answer)
    assert refused.code == 4
    assert "not approved; nothing was written" in refused.out
    assert cluster.read() == before
    assert ready.receipts == []


def test_a_cluster_can_ask_for_its_name(ready: Repository, cluster: Cluster) -> None:
    before = cluster.read()
    ready.config(ready.read("quotaform.yaml") + "    confirm: name\n")
    for arguments in (["apply"], ["apply", "plan.json"]):
        refused = on_terminal(ready, *arguments, answer="yes")
        assert refused.code == 4
        assert "Only 'lab' will be accepted to approve." in refused.out
        assert cluster.read() == before
    assert on_terminal(ready, "apply", "plan.json", answer="lab").code == 0
    assert cluster.values(user="old") == {}


def test_nobody_is_asked_when_there_is_nothing_to_do(ready: Repository) -> None:
    assert ready("apply", "plan.json").code == 0
    done = on_terminal(ready, "apply", answer="never asked")
    assert done.code == 0
    assert "Enter a value" not in done.out
    ready.config(ready.read("quotaform.yaml") + "    confirm: name\n")
    assert ready("plan", "--out", "plan.json").code == 0
    done = on_terminal(ready, "apply", "plan.json", answer="never asked")
    assert done.code == 0
    assert "Enter a value" not in done.out


def test_an_interrupt_at_the_question_says_on_its_own_line_that_nothing_was_written(
    ready: Repository, cluster: Cluster
) -> None:
    """The error stood behind `Enter a value: ^C`, and did not say whether anything had been written."""
    before = cluster.read()
    code, screen = talk("apply", cwd=ready.path, answers=[("Enter a value: ", "\x03")], hides_answers=False)
    assert code == 130
    assert screen.replace("\r\n", "\n").endswith("\nError: interrupted; nothing was written\n")
    assert cluster.read() == before
    assert ready.receipts == []


def test_the_receipt_goes_where_it_is_told(ready: Repository) -> None:
    done = ready("apply", "plan.json", "--receipt", "ci/receipt.json", "--format", "json")
    assert done.code == 0
    assert json.loads(done.out) == json.loads(ready.read("ci/receipt.json"))
    assert "Receipt: ci/receipt.json" in done.err
    assert ready.receipts == []


def test_a_receipt_overwrites_no_file(ready: Repository, cluster: Cluster) -> None:
    """The receipt of an earlier apply was lost."""
    ready.write("receipt.json", "an earlier receipt")
    before = cluster.read()
    refused = ready("apply", "plan.json", "--receipt", "receipt.json")
    assert refused.code == 64
    assert "the receipt receipt.json already exists" in refused.err
    assert cluster.read() == before
    assert ready.read("receipt.json") == "an earlier receipt"


@pytest.mark.parametrize("receipt", ["quotas.d", "quotaform.yaml/receipt.json"], ids=["a-folder", "below-a-file"])
def test_without_a_place_for_the_receipt_nothing_is_written(ready: Repository, cluster: Cluster, receipt: str) -> None:
    before = cluster.read()
    refused = ready("apply", "plan.json", "--receipt", receipt)
    assert refused.code == 1
    assert refused.out == ""
    assert receipt in refused.err
    assert "nothing was done" in refused.err
    assert cluster.read() == before


@pytest.mark.parametrize(("find", "replacement", "code"), [("1048576", "99999999", 5), ('"digest"', '"digest', 3)])
def test_a_plan_file_that_is_not_what_was_written_is_refused(
    ready: Repository, cluster: Cluster, find: str, replacement: str, code: int
) -> None:
    before = cluster.read()
    ready.write("plan.json", ready.read("plan.json").replace(find, replacement))
    for command in ("apply", "show"):
        refused = ready(command, "plan.json")
        assert (refused.code, refused.out) == (code, "")
        assert "plan.json" in refused.err
    assert cluster.read() == before


def test_a_plan_made_from_a_snapshot_applies_to_its_cluster(ready: Repository, cluster: Cluster) -> None:
    (ready.path / "snapshots").mkdir()
    ready("snapshot", "--output", "snapshots/lab.json")
    ready("plan", "--snapshot", "snapshots/lab.json", "--out", "offline.json")
    assert ready("apply", "offline.json").code == 0
    assert cluster.values(user="a") == {"producer_byte_rate": MIB}


def test_all_keys_and_shapes_are_written_as_they_are_declared(repository: Repository, cluster: Cluster) -> None:
    repository.quotas(
        "  - match: {user: <default>}\n    values: {producer_byte_rate: unlimited, controller_mutation_rate: 0.5/s}\n"
        "  - match: {client-id: <default>}\n    values: {consumer_byte_rate: 1B/s}\n"
        "  - match: {user: a}\n    values: {request_percentage: 12.5%}\n"
        "  - match: {client-id: a}\n    values: {request_percentage: unlimited}\n"
        "  - match: {user: a, client-id: a}\n    values: {producer_byte_rate: 9007199254740992}\n"
        "  - match: {user: a, client-id: <default>}\n    values: {producer_byte_rate: 5MB/s}\n"
        "  - match: {user: <default>, client-id: a}\n    values: {producer_byte_rate: 1GiB/s}\n"
        "  - match: {user: <default>, client-id: <default>}\n    values: {producer_byte_rate: 1TiB/s}\n"
        "  - match: {ip: 10.0.0.1}\n    values: {connection_creation_rate: 50/s}\n"
        "  - match: {ip: <default>}\n    values: {connection_creation_rate: unlimited}\n"
        '  - match: {user: {name: "<default>"}}\n    values: {producer_byte_rate: 1MiB/s}\n'
    )
    done = repository("apply", "--auto-approve", "--allow", "default-entity")
    assert done.last == "Apply complete! Resources: 11 added, 0 changed, 0 destroyed."
    assert cluster.read() == {
        Entity(user=None): {"producer_byte_rate": 2.0**63, "controller_mutation_rate": 0.5},
        Entity(client_id=None): {"consumer_byte_rate": 1.0},
        Entity(user="a"): {"request_percentage": 12.5},
        Entity(client_id="a"): {"request_percentage": 2147483647.0},
        Entity(user="a", client_id="a"): {"producer_byte_rate": 2.0**53},
        Entity(user="a", client_id=None): {"producer_byte_rate": 5e6},
        Entity(user=None, client_id="a"): {"producer_byte_rate": 2.0**30},
        Entity(user=None, client_id=None): {"producer_byte_rate": 2.0**40},
        Entity(ip="10.0.0.1"): {"connection_creation_rate": 50.0},
        Entity(ip=None): {"connection_creation_rate": 2147483647.0},
        Entity(user="<default>"): {"producer_byte_rate": MIB},
    }
    assert repository("plan", "--detailed-exitcode").code == 0
    repository.quotas("quotas: []")
    assert repository("plan", "--detailed-exitcode", "--allow", "empty").code == 0, (
        "what is no longer declared is reported, not removed"
    )


def test_a_plan_of_an_expected_id_that_is_done_already_is_no_failure(ready: Repository, cluster: Cluster) -> None:
    """The job of a merge is run again, and there is nothing left to do."""
    plan_id = json.loads(ready.read("plan.json"))["plan_id"]
    for is_done in (False, True):
        done = ready("apply", "quotas.d", "--auto-approve", "--expect-plan-id", plan_id)
        assert done.code == 0
        assert ("Nothing to do: " in done.err) is is_done
    assert done.last == "Apply complete! Resources: 0 added, 0 changed, 0 destroyed."
    assert "Nothing to do: the cluster matches the files. " in done.err
    assert f"The plan {plan_id} is already applied, or its changes came about otherwise.\n" in done.err
    other = ready("apply", "plan.json", "--expect-plan-id", "0" * 64)
    assert other.code == 5


def test_another_plan_than_the_expected_one_is_shown_and_refused(ready: Repository, cluster: Cluster) -> None:
    cluster.alter({Entity(user="a"): {"producer_byte_rate": MIB}})
    before = cluster.read()
    plan_id = json.loads(ready.read("plan.json"))["plan_id"]
    for more, where in (((), "out"), (("--format", "json"), "err")):
        refused = ready("apply", "--auto-approve", "--expect-plan-id", plan_id, *more)
        assert refused.code == 5
        assert "Plan: 0 to add, 1 to change, 1 to destroy." in getattr(refused, where)
        assert f"not the expected {plan_id}, so nothing was written" in refused.err
    assert cluster.read() == before


def test_a_plan_that_is_older_than_allowed_is_refused(ready: Repository, cluster: Cluster) -> None:
    before = cluster.read()
    ready("plan", "--out", "old.json", env={"SOURCE_DATE_EPOCH": "1790000000"})
    refused = ready("apply", "old.json", "--max-age", "24h")
    assert refused.code == 5
    assert "the plan was made at 2026-09-21T" in refused.err
    assert "and may be 1d old at most; nothing was written: make a new plan" in refused.err
    ready("plan", "--out", "future.json", env={"SOURCE_DATE_EPOCH": "4000000000"})
    refused = ready("apply", "future.json", "--max-age", "24h")
    assert refused.code == 5
    assert "in the future: check the clocks" in refused.err
    assert cluster.read() == before
    assert ready("apply", "plan.json", "--max-age", "1h").code == 0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /dev/full")
def test_a_receipt_that_cannot_be_written_is_printed(ready: Repository, cluster: Cluster) -> None:
    """What was done is done, and somebody needs to know what that is."""
    done = ready("apply", "plan.json", "--receipt", "/dev/full")
    assert done.code == 0
    assert done.last == "Apply complete! Resources: 1 added, 1 changed, 1 destroyed."
    problem, _, text = done.err.partition("this is the receipt:\n")
    assert "Error: /dev/full cannot be written: No space left on device; " in problem
    from quotaform.plan.receipt import load_receipt

    assert load_receipt(text, "printed").is_complete
    assert cluster.values(user="a") == {"producer_byte_rate": MIB}
