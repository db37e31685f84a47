"""`quotaform apply` on a terminal, and everything that files can declare on a broker.

What needs neither is in `tests/golden/story-applied.txt`.
"""

from __future__ import annotations

import pytest

from quotaform.model.entity import Entity
from tests.builder import MIB
from tests.workflow.command import Cluster, Repository
from tests.workflow.terminal import talk

pytestmark = pytest.mark.workflow

QUESTION = "Enter a value: "


@pytest.fixture
def ready(repository: Repository, cluster: Cluster) -> Repository:
    """A repository with a create, an update and a delete to apply, and a plan of them in `plan.json`."""
    cluster.alter({Entity(user="old"): {"producer_byte_rate": 2.0**63}, Entity(user="b"): {"producer_byte_rate": MIB}})
    repository.quotas(
        "  - match: {user: a}\n    values: {producer_byte_rate: 1MiB/s}\n"
        "  - match: {user: b}\n    values: {producer_byte_rate: 2MiB/s}\n"
        "  - match: {user: old}\n    state: absent\n"
    )
    assert repository("plan", "--out", "plan.json").code == 0
    return repository


def on_terminal(repository: Repository, *arguments: str, typed: str | None) -> tuple[int, str]:
    """Run the command on a terminal; type this when it asks, or expect that it does not."""
    answers = [] if typed is None else [(QUESTION, typed)]
    code, screen = talk("apply", *arguments, cwd=repository.path, answers=answers, hides_answers=False)
    assert (QUESTION in screen) is (typed is not None)
    return code, screen.replace("\r\n", "\n")


def test_yes_on_a_terminal_applies_and_nobody_is_asked_when_there_is_nothing_to_do(
    ready: Repository, cluster: Cluster
) -> None:
    code, screen = on_terminal(ready, "--color", "never", typed="yes\n")
    assert code == 0, screen
    assert "Only 'yes' will be accepted to approve." in screen
    assert "Nothing is rolled back" in screen
    assert screen.index("Plan: 1 to add, 1 to change, 1 to destroy.") < screen.index(QUESTION)
    assert "Apply complete! Resources: 1 added, 1 changed, 1 destroyed." in screen
    assert cluster.values(user="a") == {"producer_byte_rate": MIB}
    assert on_terminal(ready, typed=None)[0] == 0
    ready.config(ready.read("quotaform.yaml") + "    confirm: name\n")
    assert ready("plan", "--out", "plan.json").code == 0
    assert on_terminal(ready, "plan.json", typed=None)[0] == 0


@pytest.mark.parametrize("answer", ["no", "y", "", "YES", "\x04"])
def test_any_other_answer_writes_nothing(ready: Repository, cluster: Cluster, answer: str) -> None:
    before = cluster.read()
    code, screen = on_terminal(ready, typed=f"{answer}\n")
    assert code == 4
    assert "\x1b[" in screen, "a terminal is coloured unless NO_COLOR is set"
    assert "not approved; nothing was written" in screen
    assert cluster.read() == before
    assert ready.receipts == []


def test_a_cluster_can_ask_for_its_name(ready: Repository, cluster: Cluster) -> None:
    before = cluster.read()
    ready.config(ready.read("quotaform.yaml") + "    confirm: name\n")
    for arguments in ([], ["plan.json"]):
        code, screen = on_terminal(ready, *arguments, typed="yes\n")
        assert code == 4
        assert "Only 'lab' will be accepted to approve." in screen
        assert cluster.read() == before
    assert on_terminal(ready, "plan.json", typed="lab\n")[0] == 0
    assert cluster.values(user="old") == {}


def test_an_interrupt_at_the_question_says_on_its_own_line_that_nothing_was_written(
    ready: Repository, cluster: Cluster
) -> None:
    """The error stood behind `Enter a value: ^C`, and did not say whether anything had been written."""
    before = cluster.read()
    code, screen = on_terminal(ready, typed="\x03")
    assert code == 130
    assert screen.endswith("\nError: interrupted; nothing was written\n")
    assert cluster.read() == before
    assert ready.receipts == []


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
