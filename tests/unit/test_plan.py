"""A plan: its id, what blocks it, its notes in a comment, and when one read of a cluster is enough to make it.

`decided-changed.txt`, `rules-change.txt`, `rules-markdown.txt` and `rules-comment.txt` have what it says.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs

from quotaform.cluster.gateway import bulk_of, is_same, read_actual
from quotaform.model.alteration import apply_ops
from quotaform.model.entity import Entity
from quotaform.model.errors import ClusterError
from quotaform.model.finding import Finding, Severity
from quotaform.model.quotas import Quotas
from quotaform.model.records.record import ClusterRecord
from quotaform.model.rule import NO_LONGER_DECLARED
from quotaform.plan.report import render_plan
from quotaform.report.comment import COMMENT_BYTES
from tests.builder import CONSUMER, HEADER, PRODUCER, plan_of
from tests.markdown import markdown_of
from tests.scripted_gateway import Clock, ScriptedGateway

ALICE, BOB = Entity(user="alice"), Entity(user="bob")


def test_what_blocks_comes_first_and_makes_the_plan_not_applyable() -> None:
    findings = [
        Finding(rule="ip-alias", message="", severity=Severity.WARNING, address="ip=::1"),
        Finding(rule="nan-value", message="", severity=Severity.WARNING),
        Finding(rule="cluster-id", message="", blocking=True),
    ]
    plan = plan_of({}, {}, findings=findings)
    assert [finding.rule for finding in plan.findings] == ["cluster-id", "nan-value", "ip-alias"]
    assert (plan.is_applyable, plan.summary["blocked"]) == (False, 1)
    empty = plan_of({}, {})
    assert (empty.is_applyable, set(empty.summary.values())) == (True, {0})


def test_the_plan_id_is_another_on_another_cluster() -> None:
    here, there = (
        plan_of({}, {}, header=structs.replace(HEADER, cluster=ClusterRecord(name="lab", id=name)))
        for name in ("one", "another")
    )
    assert here.plan_id != there.plan_id


def test_the_numbers_that_other_tools_read_have_no_commas() -> None:
    """`1,200 to add` was read as another number."""
    plan = plan_of({Entity(user=f"u{index}"): {PRODUCER: 1.0} for index in range(1_200)}, {})
    assert [*render_plan(plan)][-1] == "Plan: 1200 to add, 0 to change, 0 to destroy.\n"


def test_ops_remove_what_is_there_and_leave_what_they_are_made_on_as_it_is() -> None:
    values = {PRODUCER: 1.0}
    assert apply_ops(values, {PRODUCER: None, CONSUMER: None}) == {}
    assert apply_ops({}, {PRODUCER: None}) == {}
    assert values == {PRODUCER: 1.0}


MANY = 50


def entities(count: int, value: float = 1.0, prefix: str = "u") -> Quotas:
    return {Entity(user=f"{prefix}{number}"): {PRODUCER: value} for number in range(count)}


def actual_of(gateway: ScriptedGateway, clock: Clock | None = None) -> Quotas:
    return read_actual(gateway, clock=clock or Clock())


def test_bulk_is_a_share_of_a_large_cluster() -> None:
    assert bulk_of(199, 10_000) == 0
    assert bulk_of(200, 10_000) == 200
    assert bulk_of(49, 100) == 0
    assert bulk_of(50, 100) == 50


def test_a_cluster_that_keeps_changing_is_given_up_after_a_minute() -> None:
    gateway, clock = ScriptedGateway({}, reads=[entities(MANY, 1.0), entities(MANY, 2.0)] * 650), Clock()
    with pytest.raises(ClusterError, match="the quotas of lab kept changing for 60 s while they were read; wait until"):
        actual_of(gateway, clock)
    assert 1060 <= clock.seconds < 1062


def test_reading_again_is_reported() -> None:
    told: list[str] = []
    read_actual(ScriptedGateway(entities(MANY)), clock=Clock(), progress=lambda what, done, total: told.append(what))
    assert told == ["Reading quotas of lab", "Reading again: many entities differ, a change may be in progress"]


def test_two_reads_with_a_value_that_is_no_number_say_the_same() -> None:
    def live() -> Quotas:
        return {Entity(user="broken"): {PRODUCER: float("nan")}}

    assert is_same(live(), live())
    assert not is_same(live(), {Entity(user="broken"): {PRODUCER: 1.0}})
    assert not is_same(live(), {Entity(user="other"): {PRODUCER: float("nan")}})
    gateway = ScriptedGateway({}, reads=[{**entities(MANY), **live()}, {**entities(MANY), **live()}])
    actual_of(gateway)
    assert gateway.log == ["describe"] * 2


def removed(number: int) -> tuple[Finding, ...]:
    return tuple(
        NO_LONGER_DECLARED.finding("removed from quotas.d/all.yaml in 4f2c1d9; it stays.", address=f"user=old-{index}")
        for index in range(number)
    )


def test_what_was_removed_from_the_files_and_stays_is_not_folded_into_the_notes() -> None:
    """Under `prune: report` the comment of a pull request that removes an entry said so in folded notes only."""
    text = markdown_of("plan", replace(plan_of({}, {}), findings=removed(1)))
    assert (
        "#### Removed from the files, stays on the cluster: 1 entity\n\n"
        "- `user=old-0`: removed from quotas.d/all.yaml in 4f2c1d9; it stays.\n"
    ) in text
    assert "Notes" not in text
    many = plan_of({Entity(user=f"svc-{index}"): {PRODUCER: 2.0 + index} for index in range(2_000)}, {})
    text = markdown_of("plan", replace(many, findings=removed(1_000)))
    assert "#### Removed from the files, stay on the cluster: 1,000 entities" in text
    assert "- and 990 more (list: `quotaform plan`)" in text
    assert len(text.encode()) <= COMMENT_BYTES


def test_notes_are_as_many_as_their_list_has_lines() -> None:
    """`Notes (3)` stood above two lines of a list and a paragraph."""
    note = Finding(rule="note", message="something", severity=Severity.NOTE)
    text = markdown_of("plan", replace(plan_of({}, {}), findings=(note, note)))
    notes = text.partition("<details><summary>Notes (2)</summary>")[2].partition("</details>")[0]
    assert len([line for line in notes.splitlines() if line.startswith("- ")]) == 2
