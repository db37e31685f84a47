"""A plan as a comment: what it says, what it leaves out when there is no room, and that no name breaks out of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import date

import pytest

from quotaform.model.entity import Entity
from quotaform.model.finding import Allowance, Approval, Finding, Severity
from quotaform.model.quotas import Base, DeclaredBase, Desired, Entry, Quotas, Values
from quotaform.model.rule import CHANGE_FACTOR, DELETE, NO_LONGER_DECLARED, PROTECT
from quotaform.plan.difference import diff, make_plan
from quotaform.plan.plan import Plan, PlanOptions
from quotaform.plan.report import render_plan
from quotaform.plan.report_markdown import render_plan_markdown
from quotaform.report.comment import COMMENT_BYTES
from quotaform.report.markdown import code_cell, link, words
from tests.builder import CONSUMER, HEADER, PRODUCER, declare, plan_of
from tests.golden.example import MIB, example_plan
from tests.markdown_document import read_markdown


def planned(files: Desired, actual: Quotas) -> Plan:
    return make_plan(diff(files, actual), files, actual, HEADER)


def many(number: int, *, live: float | None = None, wanted: float | None = 2.0, name: str = "svc-{}") -> Plan:
    entities = [Entity(user=name.format(index)) for index in range(number)]
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


@pytest.mark.parametrize("number", [300, 2_000])
def test_many_changes_are_grouped_and_counted(number: int) -> None:
    entities = [Entity(user=f"svc-{index}") for index in range(number)]
    plan = planned(declare({each: {PRODUCER: MIB} for each in entities}, owner="team-a"), {})
    text = render_plan_markdown(plan)
    assert len(text.encode()) <= COMMENT_BYTES
    if number > 300:
        assert f"| create | {number:,} of `user=svc-*` | `producer_byte_rate` | not set | 1 MiB/s |" in text
    assert f"The full plan ({number:,} entities) is too large for this comment" in text


def test_what_blocks_and_what_is_deleted_is_never_left_out() -> None:
    """2,000 changes in one comment: the deletions are few, so each of them stays."""
    creates = {Entity(user=f"new-{index}"): {PRODUCER: 1.0 + index} for index in range(2_000)}
    gone = [Entity(user=f"old-{index}") for index in range(50)]
    files = declare({**creates, **{each: {} for each in gone}})
    plan = planned(files, {each: {PRODUCER: 1.0} for each in gone})
    text = render_plan_markdown(replace(plan, findings=blocked("delete", ["user=old-1"])))
    assert len(text.encode()) <= COMMENT_BYTES
    assert all(f"| delete | `user=old-{index}` |" in text for index in range(50))
    assert "`delete` `user=old-1`: user=old-1 is blocked. Allow: `--allow delete`" in text
    assert "And 1,940 more entities:\n\n| Entities | Number |" in text
    assert "<sub>Plan id `sha256:" in text


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (900, "svc-{}"),
        pytest.param(2_000, "@{}|" + "x" * 900, marks=pytest.mark.exhaustive),
        pytest.param(5_000, "svc-{}", marks=pytest.mark.exhaustive),
        pytest.param(5_000, "@{}|" + "x" * 900, marks=pytest.mark.exhaustive),
    ],
)
def test_very_many_deletions_are_addresses_or_counts(number: int, name: str) -> None:
    plan = many(number, live=1.0, wanted=None, name=name)
    plan = replace(plan, findings=blocked("delete", [change.entity.address for change in plan.changes]))
    text = render_plan_markdown(plan)
    assert len(text.encode()) <= COMMENT_BYTES
    assert f"Blocked by {number:,} findings" in text
    assert f"#### Deleted: {number:,} entities" in text
    if number == 900:
        assert all(f"user=svc-{index}\n" in text for index in range(number))


def test_a_cell_shows_the_same_text_in_every_parser() -> None:
    assert code_cell("a|b") == "`a\\|b`"
    assert code_cell("a\\|b") == "`a\\\\u007cb`"
    assert words("see user=<default>, @x.") == "see `user=<default>`, `@x`."


def test_a_change_of_two_keys_names_its_entity_once() -> None:
    plan = plan_of({Entity(user="a"): {PRODUCER: 2.0, CONSUMER: 2.0}}, {Entity(user="a"): {PRODUCER: 1.0}})
    lines = [line for line in render_plan_markdown(plan).splitlines() if "byte_rate` |" in line]
    assert lines[0].startswith("| update | `user=a` | `producer_byte_rate` | 1 B/s | 2 B/s | +100%, loosen |")
    assert lines[1].startswith("|  |  | `consumer_byte_rate` | not set | 2 B/s | was unlimited; tighten |")


def test_nothing_to_do_is_one_sentence() -> None:
    text = render_plan_markdown(plan_of({}, {}))
    assert "### Kafka quota plan for `lab`: no changes" in text
    assert "No changes. Your infrastructure matches the configuration." in text
    assert "|" not in text


def based(base: dict[Entity, Values], wanted: dict[Entity, Values], live: dict[Entity, Values]) -> Plan:
    """A plan whose files are compared with what a base declares."""
    declared = DeclaredBase(Base("origin/main", "a91be02ff"), declare(base))
    files = declare(wanted)
    header = replace(HEADER, source=replace(HEADER.source, base=declared.base))
    return make_plan(diff(files, live), files, live, header, base=declared)


def test_the_first_line_counts_what_there_is_to_review_and_not_nothing_where_a_plan_is_blocked() -> None:
    empty = plan_of({}, {})
    assert render_plan_markdown(empty).splitlines()[0].endswith('"changes":0} -->')
    stopped = render_plan_markdown(replace(empty, findings=blocked("cluster-id", [""])))
    assert "changes" not in stopped.splitlines()[0]


def test_drift_that_an_apply_reverts_is_apart_and_a_conflict_shows_three_values() -> None:
    drifted, moved, both, gone = (Entity(user=name) for name in ("drifted", "moved", "both", "gone"))
    base: dict[Entity, Values] = {each: {PRODUCER: 1.0} for each in (drifted, moved, both, gone)}
    wanted: dict[Entity, Values] = {drifted: {PRODUCER: 1.0}, moved: {PRODUCER: 2.0}, both: {PRODUCER: 2.0}, gone: {}}
    live: dict[Entity, Values] = {
        drifted: {PRODUCER: 9.0},
        moved: {PRODUCER: 1.0},
        both: {PRODUCER: 7.0},
        gone: {PRODUCER: 1.0},
    }
    text = render_plan_markdown(based(base, wanted, live))
    changed, _, folded = text.partition("<details><summary>Drift, not in this change: 1 entity</summary>")
    assert "Drift: the cluster differs from the base in 2 entities (not applied yet, or edited by hand)" in changed
    assert "| update | `user=drifted` | `producer_byte_rate` | 9 B/s | 1 B/s |" in folded.partition("</details>")[0]
    assert "user=drifted" not in changed
    assert (
        "| `user=both` | `producer_byte_rate` | 7 B/s | 2 B/s | -71.4%, tighten; conflict: the base declares 1 B/s"
        in changed
    )
    assert "| update | `user=moved` | `producer_byte_rate` | 1 B/s | 2 B/s | +100%, loosen |" in changed
    assert "| delete | `user=gone` |" in changed
    assert "base `origin/main` at `a91be02`" in text


def test_a_deletion_that_the_base_says_too_has_the_reason_of_the_text() -> None:
    # Of an expired entry and of `state: absent` it said "the base does not declare it either".
    absent = Entity(user="absent")
    text = render_plan_markdown(based({absent: {}}, {absent: {}}, {absent: {PRODUCER: 9.0}}))
    reason = "absent in the base too (not applied yet, or made by hand)"
    assert f"no fallback: unlimited; loosen, UNLIMITED; drift: {reason} |" in text
    assert f"origin: drift, not in this change: {reason})" in text


def test_drift_gives_way_before_creates_and_updates() -> None:
    entities = [Entity(user=f"svc-{index}") for index in range(2_000)]
    values: dict[Entity, Values] = {each: {PRODUCER: 10.0 + index} for index, each in enumerate(entities)}
    live: dict[Entity, Values] = {each: {PRODUCER: 10_000.0 + index} for index, each in enumerate(entities)}
    new = {Entity(user=f"new-{index}"): {PRODUCER: 1.0 + index} for index in range(100)}
    text = render_plan_markdown(based(values, {**values, **new}, live))
    assert len(text.encode()) <= COMMENT_BYTES
    assert text.count("| create | `user=new-") == 100
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


def test_a_revert_has_no_mode_of_pruning() -> None:
    """It was shown with prune=report, where quotaform.yaml said `prune: removed`."""
    revert = replace(HEADER, options=PlanOptions(revert="sha256:x"))
    assert " 0 entities in scope. Byte rates are per broker.\n" in "".join(render_plan(plan_of({}, {}, header=revert)))
    assert " 0 entities in scope, prune=report. Byte" in "".join(render_plan(plan_of({}, {}, header=HEADER)))


@pytest.mark.exhaustive
def test_equal_blocks_are_shown_in_part_and_leave_room_for_the_changes() -> None:
    """1,500 blocks took all the room, and when they were grouped at last, the changes stayed counted."""
    plan = many(2_000, live=1.0)
    plan = replace(plan, findings=blocked("change-factor", [f"user=svc-{index}" for index in range(1_500)]))
    text = render_plan_markdown(plan)
    assert text.count(">   - `user=svc-") == 10
    assert ">   - and 1,490 more: `user=svc-" in text
    assert text.count("| update | `user=svc-") == 60


def keys_blocked(rule: str, entities: int, override: str, allowed_by: str | None = None) -> tuple[Finding, ...]:
    return tuple(
        Finding(
            rule=rule,
            message=f"{key} would become unlimited",
            severity=Severity.ERROR if allowed_by is None else Severity.WARNING,
            blocking=allowed_by is None,
            address=f"user=svc-{index}",
            key=key,
            override=override,
            allowed_by=allowed_by,
        )
        for index in range(entities)
        for key in (PRODUCER, CONSUMER)
    )


def test_what_one_allowance_lifts_is_listed_by_entity_with_the_allowance_once() -> None:
    # The comment had a line for each key of each entity, and the same remedy at the end of each.
    text = render_plan_markdown(
        replace(
            many(3), findings=keys_blocked("to-unlimited", 3, "--allow to-unlimited") + blocked("delete", ["user=x"])
        )
    )
    assert (
        "> **Blocked by 7 findings: nothing will be applied until they are resolved.**\n>\n"
        "> - `to-unlimited` 6 findings about 3 entities. Allow: `--allow to-unlimited`\n"
        ">   - `user=svc-0`: producer_byte_rate would become unlimited; consumer_byte_rate would become unlimited\n"
        ">   - `user=svc-1`: producer_byte_rate would become unlimited; consumer_byte_rate would become unlimited\n"
        ">   - `user=svc-2`: producer_byte_rate would become unlimited; consumer_byte_rate would become unlimited\n"
        "> - `delete` `user=x`: user=x is blocked. Allow: `--allow delete`\n\n"
    ) in text


def test_the_lines_for_approvals_yaml_are_there_once() -> None:
    findings = tuple(
        PROTECT.finding("this entity is protected", address=f"user=kafka-{each}", key=PRODUCER) for each in ("`1`", 2)
    )
    text = render_plan_markdown(replace(many(3), findings=findings))
    assert (
        "> - `protect` `user=kafka-2`: this entity is protected. Allow: an approval in approvals.yaml\n"
        ">\n> An approval is an item of approvals.yaml, such as\n>\n> ```yaml\n"
        '> - {rule: protect, address: "user=kafka-`1`", reason: WHY, approver: WHO, expires: YYYY-MM-DD}\n> ```\n\n'
    ) in text
    hostile = (PROTECT.finding("protected", address=f"user={'```' * 300}"),)
    assert "> An approval is an item" not in render_plan_markdown(replace(many(3), findings=hostile))


def test_where_an_approval_would_do_it_is_named_before_the_option_for_all() -> None:
    """Only `--allow change-factor` was offered, to a reader of a pull request who has no command line."""
    findings = (
        CHANGE_FACTOR.finding("x 20", address="user=a", key=PRODUCER, value=1.0),
        DELETE.finding("8 would be deleted", number=8),
    )
    plan = replace(many(3), findings=findings)
    text = render_plan_markdown(plan)
    assert (
        "> - `change-factor` `user=a`: x 20. Allow: an approval in approvals.yaml (one entity), or "
        "`--allow change-factor` (all)\n"
        "> - `delete`: 8 would be deleted. Allow: `--allow delete=8`\n"
        ">\n> In quotaform's CI workflows, the label `quotas-allow:RULE` gives `--allow RULE`.\n\n"
    ) in text
    assert ("x 20   Allow: an approval in approvals.yaml (one entity), or --allow change-factor (all)\n") in "".join(
        render_plan(plan)
    )
    lifted = tuple(replace(each, blocking=False, allowed_by="--allow x") for each in findings)
    assert "quotas-allow" not in render_plan_markdown(replace(plan, findings=lifted))


def test_what_was_lifted_is_not_shown_with_what_would_lift_it() -> None:
    # A note on what `--allow` had lifted ended with "Allow: --allow to-unlimited", as if it were still to be given.
    findings = keys_blocked("to-unlimited", 40, "--allow to-unlimited", "--allow to-unlimited")
    text = render_plan_markdown(replace(many(3), findings=findings))
    assert "<details><summary>Notes (1)</summary>" in text
    assert (
        "- warning: `to-unlimited` 80 findings about 40 entities. Allowed by: `--allow to-unlimited`\n  - `user="
        in text
    )
    assert "  - and 35 more: `user=svc-" in text
    assert "Allow: " not in text


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
    assert len(text.encode()) <= COMMENT_BYTES


def test_notes_are_as_many_as_their_list_has_lines() -> None:
    """`Notes (3)` stood above two lines of a list and a paragraph."""
    plan = plan_of({}, {Entity(user="a"): {PRODUCER: 1.0}})
    note = Finding(rule="note", message="something", severity=Severity.NOTE)
    text = render_plan_markdown(replace(plan, findings=(note, note)))
    notes = text.partition("<details><summary>Notes (3)</summary>")[2].partition("</details>")[0]
    assert len([line for line in notes.splitlines() if line.startswith("- ")]) == 3
    assert "- Not managed, left unchanged: 1 in scope, 0 out of scope." in notes
