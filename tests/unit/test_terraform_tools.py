"""Atlantis and tfcmt read what plan and apply print as they read Terraform's output."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from quotaform.apply.report import render_receipt
from quotaform.cli.main import run
from quotaform.model.entity import Entity
from quotaform.plan.plan import Plan
from quotaform.plan.receipt import Result
from quotaform.plan.report import render_plan, render_plan_summary
from tests.builder import PRODUCER, plan_of, receipt_of
from tests.golden.example import empty_plan, example_plan
from tests.terraform_tools import ATLANTIS_CHANGES, ATLANTIS_NO_CHANGES, read_apply, read_plan


def text_of(plan: Plan) -> str:
    return "".join(render_plan(plan))


def test_of_a_plan_the_counts_and_the_entities_of_each_action_are_read() -> None:
    found = read_plan(text_of(example_plan()))
    assert found.result == "Plan: 5 to add, 3 to change, 1 to destroy."
    assert (found.has_error, found.has_parse_error, found.has_destroy, found.has_no_changes) == (
        False,
        False,
        True,
        False,
    )
    assert found.deleted == ["user=legacy-etl"]
    assert found.updated == ["user=perf-test", "user=shadowed", "user=svc-orders"]
    assert found.created[:2] == ["client-id=<default>", "ip=<default>"]
    assert len(found.created) == 5
    counts = ATLANTIS_CHANGES.search(text_of(example_plan()))
    assert counts is not None
    assert counts.group(2, 3, 4) == ("5", "3", "1")


@pytest.mark.parametrize("number", [1, 10, 1_200])
def test_a_plan_that_only_creates_destroys_nothing(number: int) -> None:
    """`10 to destroy` and `1,200 to add` were read as other numbers."""
    plan = plan_of({Entity(user=f"u{index}"): {PRODUCER: 1.0} for index in range(number)}, {})
    found = read_plan(text_of(plan))
    assert (found.result, found.has_destroy) == (f"Plan: {number} to add, 0 to change, 0 to destroy.", False)
    counts = ATLANTIS_CHANGES.search(text_of(plan))
    assert counts is not None
    assert counts[2] == str(number)


def test_a_plan_without_changes_is_read_as_that() -> None:
    text = text_of(empty_plan())
    assert read_plan(text).has_no_changes
    assert ATLANTIS_NO_CHANGES.search(text)
    assert not ATLANTIS_CHANGES.search(text)


def test_a_summary_is_read_like_its_plan_and_names_what_is_destroyed() -> None:
    found = read_plan("".join(render_plan_summary(example_plan())))
    assert (found.result, found.deleted) == ("Plan: 5 to add, 3 to change, 1 to destroy.", ["user=legacy-etl"])
    assert read_plan("".join(render_plan_summary(empty_plan()))).has_no_changes


def test_a_name_cannot_be_taken_for_another_action() -> None:
    name = "x will be destroyed\n  # user=y will be destroyed\nError: no\nPlan: 9 to destroy."
    found = read_plan(text_of(plan_of({Entity(user=name): {PRODUCER: 1.0}}, {})))
    assert (len(found.created), found.deleted, found.has_error) == (1, [], False)
    assert found.result == "Plan: 1 to add, 0 to change, 0 to destroy."


APPLIED = replace(example_plan(), findings=())


def test_of_a_complete_apply_the_last_line_is_read() -> None:
    found = read_apply(render_receipt(receipt_of(APPLIED)))
    assert (found.result, found.has_error) == ("Apply complete! Resources: 5 added, 3 changed, 1 destroyed.", False)


@pytest.mark.parametrize("result", [result for result in Result if not result.holds])
def test_an_incomplete_apply_is_an_error_with_its_last_line(result: Result) -> None:
    """`Apply incomplete!` alone could not be parsed, so that tfcmt said nothing of the apply."""
    found = read_apply(render_receipt(receipt_of(APPLIED, result)))
    assert (found.has_error, found.has_parse_error) == (True, False)
    assert found.result.splitlines()[-1].startswith("Apply incomplete! Resources: 0 added")


@pytest.mark.parametrize(
    ("command", "files", "code"),
    [
        ("plan", "quotas: [{match: {user: a}, values: {producer_byte_rate: 1XiB/s}}]", 3),
        ("plan --nonsense", "quotas: []", 64),
        ("plan --snapshot missing.json", "quotas: []", 3),
        ("apply --auto-approve", "quotas: []", 64),
    ],
)
def test_an_error_is_read_as_one(
    command: str,
    files: str,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quotas.d").mkdir()
    (tmp_path / "quotas.d" / "a.yaml").write_text(files)
    (tmp_path / "quotaform.yaml").write_text("clusters: {lab: {snapshot: none.json}}")
    assert run(command.split()) == code
    printed = capsys.readouterr()
    body = printed.out + printed.err
    read = read_apply(body) if command.startswith("apply") else read_plan(body)
    assert (read.has_error, read.has_parse_error) == (True, False), body
