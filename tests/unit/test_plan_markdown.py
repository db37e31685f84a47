"""A plan as a comment: what it says, what it leaves out when there is no room, and that no name breaks out of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import date

import pytest
from msgspec import structs

from quotaform.model.entity import Entity
from quotaform.model.finding import Allowance, Approval, Finding, Severity
from quotaform.model.quotas import Base, DeclaredBase, Desired, Entry, Quotas, Values
from quotaform.model.rule import NO_LONGER_DECLARED
from quotaform.plan.difference import diff, make_plan
from quotaform.plan.plan import Plan, PlanOptions
from quotaform.plan.report_markdown import render_plan_markdown
from quotaform.report.markdown import code_cell, link, words
from tests.builder import HEADER, PRODUCER, declare, plan_of
from tests.golden.example import MIB, example_plan
from tests.markdown_document import read_markdown


def planned(files: Desired, actual: Quotas) -> Plan:
    return make_plan(diff(files, actual), files, actual, HEADER)


def many(number: int, *, live: float | None = None, wanted: float | None = 2.0) -> Plan:
    entities = [Entity(user=f"svc-{index}") for index in range(number)]
    files = declare(
        {entity: {} if wanted is None else {PRODUCER: wanted + index} for index, entity in enumerate(entities)}
    )
    return planned(files, {} if live is None else {entity: {PRODUCER: live} for entity in entities})


def blocked(rule: str, addresses: Iterable[str]) -> tuple[Finding, ...]:
    return tuple(
        Finding(rule=rule, message=f"{address} is blocked.", blocking=True, address=address, override=f"--allow {rule}")
        for address in addresses
    )


def test_the_run_is_linked_when_it_has_an_address() -> None:
    assert "[run](https://ci.example/1)" in render_plan_markdown(example_plan(), run_url="https://ci.example/1")
    for url in ("javascript:x", "https://a b", "https://a)b", "https://a\nb"):
        assert link("run", url) is None


def test_many_changes_are_grouped_and_counted() -> None:
    entities = [Entity(user=f"svc-{index}") for index in range(2_000)]
    text = render_plan_markdown(planned(declare({each: {PRODUCER: MIB} for each in entities}, owner="team-a"), {}))
    assert "| `user=svc-* (2,000)` | create | `producer_byte_rate` | not set | 1 MiB/s |" in text
    assert "The full plan (2,000 entities) is too large for this comment" in text


def test_what_blocks_and_what_is_deleted_is_never_left_out() -> None:
    """2,000 changes in one comment: the deletions are few, so each of them stays."""
    creates = {Entity(user=f"new-{index}"): {PRODUCER: 1.0 + index} for index in range(2_000)}
    gone = [Entity(user=f"old-{index}") for index in range(50)]
    files = declare({**creates, **{each: {} for each in gone}})
    plan = planned(files, {each: {PRODUCER: 1.0} for each in gone})
    text = render_plan_markdown(replace(plan, findings=blocked("delete", ["user=old-1"])))
    assert all(f"| `user=old-{index}` | delete |" in text for index in range(50))
    assert "`delete` `user=old-1`: user=old-1 is blocked. Allow: `--allow delete`" in text
    assert "And 1,940 more entities:\n\n| Entities | Number |" in text
    assert "<sub>Plan id `sha256:" in text


def test_very_many_deletions_are_addresses() -> None:
    plan = many(900, live=1.0, wanted=None)
    plan = replace(plan, findings=blocked("delete", [change.entity.address for change in plan.changes]))
    text = render_plan_markdown(plan)
    assert "Blocked by 900 findings" in text
    assert "#### Deleted: 900 entities" in text
    assert all(f"user=svc-{index}\n" in text for index in range(900))


def test_a_cell_shows_the_same_text_in_every_parser() -> None:
    assert code_cell("a|b") == "`a\\|b`"
    assert code_cell("a\\|b") == "`a\\\\u007cb`"
    assert words("see user=<default>, @x.") == "see `user=<default>`, `@x`."


def based(base: dict[Entity, Values], wanted: dict[Entity, Values], live: dict[Entity, Values]) -> Plan:
    """A plan whose files are compared with what a base declares."""
    declared = DeclaredBase(Base(ref="origin/main", commit="a91be02ff"), declare(base))
    files = declare(wanted)
    header = replace(HEADER, source=structs.replace(HEADER.source, base=declared.base))
    return make_plan(diff(files, live), files, live, header, base=declared)


def test_drift_gives_way_before_creates_and_updates() -> None:
    entities = [Entity(user=f"svc-{index}") for index in range(2_000)]
    values: dict[Entity, Values] = {each: {PRODUCER: 10.0 + index} for index, each in enumerate(entities)}
    live: dict[Entity, Values] = {each: {PRODUCER: 10_000.0 + index} for index, each in enumerate(entities)}
    new = {Entity(user=f"new-{index}"): {PRODUCER: 1.0 + index} for index in range(100)}
    text = render_plan_markdown(based(values, {**values, **new}, live))
    assert text.count("` | create | `producer_byte_rate`") == 100
    assert "Drift, not in this change: 2,000 entities" in text
    assert "And 1,940 more entities:\n\n" in text


def test_allowances_approvals_and_reverts_are_said() -> None:
    approval = Approval(
        rule="protect", entity=Entity(user="a|b"), reason="see @here", approver="@ann", expires=date(2026, 12, 1)
    )
    plan = plan_of({}, {}, header=replace(HEADER, options=PlanOptions(revert="sha256:x")))
    text = render_plan_markdown(replace(plan, allowances=(Allowance("delete", 7),), approvals=(approval,) * 30))
    assert "Allowed: `delete=7`." in text
    assert '- Approved: `protect` `user="a|b"` by `@ann` until 2026-12-01: see `@here`' in text
    assert "- and 10 more approvals" in text
    assert "Puts back what the apply of plan `sha256:x` changed; nothing else." in text
    assert read_markdown(text).references == []


@pytest.mark.exhaustive
def test_equal_blocks_are_shown_in_part_and_leave_room_for_the_changes() -> None:
    """1,500 blocks took all the room, and when they were grouped at last, the changes stayed counted."""
    plan = many(2_000, live=1.0)
    plan = replace(plan, findings=blocked("change-factor", [f"user=svc-{index}" for index in range(1_500)]))
    text = render_plan_markdown(plan)
    assert text.count(">   - `user=svc-") == 10
    assert ">   - and 1,490 more: `user=svc-" in text
    assert text.count("` | update | `producer_byte_rate`") == 60


def test_what_is_counted_is_counted_by_owner() -> None:
    files: dict[Entity, Entry] = {}
    for number in range(3_000):
        wanted: dict[Entity, Values] = {Entity(user=f"svc-{number}"): {PRODUCER: 1.0 + number}}
        files.update(declare(wanted, owner=f"team-{number % 3}"))
    text = render_plan_markdown(planned(files, {}))
    assert "| team-0 | 980 | 980 tightened |" in text


def removed(number: int) -> tuple[Finding, ...]:
    return tuple(
        NO_LONGER_DECLARED.finding("removed from quotas.d/all.yaml in 4f2c1d9; it stays.", address=f"user=old-{index}")
        for index in range(number)
    )


def test_what_was_removed_from_the_files_and_stays_is_not_folded_into_the_notes() -> None:
    """Under `prune: report` the comment of a pull request that removes an entry said so in folded notes only."""
    text = render_plan_markdown(replace(plan_of({}, {}), findings=removed(1)))
    assert (
        "#### Removed from the files, stays on the cluster: 1 entity\n\n"
        "- `user=old-0`: removed from quotas.d/all.yaml in 4f2c1d9; it stays.\n"
    ) in text
    assert "Notes" not in text
    text = render_plan_markdown(replace(many(2_000), findings=removed(1_000)))
    assert "#### Removed from the files, stay on the cluster: 1,000 entities" in text
    assert "- and 990 more (list: `quotaform plan`)" in text


def test_notes_are_as_many_as_their_list_has_lines() -> None:
    """`Notes (3)` stood above two lines of a list and a paragraph."""
    plan = plan_of({}, {Entity(user="a"): {PRODUCER: 1.0}})
    note = Finding(rule="note", message="something", severity=Severity.NOTE)
    text = render_plan_markdown(replace(plan, findings=(note, note)))
    notes = text.partition("<details><summary>Notes (3)</summary>")[2].partition("</details>")[0]
    assert len([line for line in notes.splitlines() if line.startswith("- ")]) == 3
    assert "- Not managed, left unchanged: 1 in scope, 0 out of scope." in notes
