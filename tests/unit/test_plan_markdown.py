"""A plan as a comment: its notes; `rules-markdown.txt` and `rules-comment.txt` have what it says and leaves out."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

from quotaform.model.entity import Entity
from quotaform.model.finding import Allowance, Approval, Finding, Severity
from quotaform.model.rule import NO_LONGER_DECLARED
from quotaform.plan.plan import PlanOptions
from quotaform.report.comment import COMMENT_BYTES
from quotaform.report.markdown import code_cell, link, words
from tests.builder import HEADER, PRODUCER, plan_of
from tests.golden.example import example_plan
from tests.markdown_document import markdown_of, read_markdown


def test_the_run_is_linked_when_it_has_an_address() -> None:
    assert "[run](https://ci.example/1)" in markdown_of("plan", example_plan(), run_url="https://ci.example/1")
    for url in ("javascript:x", "https://a b", "https://a)b", "https://a\nb"):
        assert link("run", url) is None


def test_a_cell_shows_the_same_text_in_every_parser() -> None:
    assert code_cell("a|b") == "`a\\|b`"
    assert code_cell("a\\|b") == "`a\\\\u007cb`"
    assert words("see user=<default>, @x.") == "see `user=<default>`, `@x`."


def test_allowances_approvals_and_reverts_are_said() -> None:
    approval = Approval(
        rule="protect", entity=Entity(user="a|b"), reason="see @here", approver="@ann", expires=date(2026, 12, 1)
    )
    plan = plan_of({}, {}, header=replace(HEADER, options=PlanOptions(revert="sha256:x")))
    text = markdown_of("plan", replace(plan, allowances=(Allowance("delete", 7),), approvals=(approval,) * 30))
    assert "Allowed: delete=7\n" in text
    assert 'Approved: protect `user="a|b"` (approval of `@ann`, until 2026-12-01; see `@here`)' in text
    assert "Puts back what the apply of plan sha256:x changed; nothing else." in text
    assert read_markdown(text).references == []


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
