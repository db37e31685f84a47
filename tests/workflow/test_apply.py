"""`quotaform apply` on a terminal; what needs none is in `tests/golden/story-applied.txt`."""

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


def test_an_interrupt_at_the_question_says_on_its_own_line_that_nothing_was_written(
    ready: Repository, cluster: Cluster
) -> None:
    """The error stood behind `Enter a value: ^C`, and did not say whether anything had been written."""
    before = cluster.read()
    code, screen = on_terminal(ready, typed="\x03")
    assert code == 130
    assert "\x1b[" in screen, "a terminal is coloured unless NO_COLOR is set"
    assert screen.endswith("\nError: interrupted; nothing was written\n")
    assert cluster.read() == before
    assert ready.receipts == []
