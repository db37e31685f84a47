"""docs/rules.md says what the table of rules says."""

from __future__ import annotations

from pathlib import Path

import pytest

from quotaform.model.rule import RULES, FindingRule
from tools import rules_page

PAGE = Path(__file__).parents[2] / "docs" / "rules.md"


def test_the_page_is_current() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == rules_page.render_page(), "docs/rules.md is out of date: run make docs"


def test_the_page_has_a_row_for_every_rule() -> None:
    page = rules_page.render_page()
    for row in RULES.values():
        assert f"\n| `{row.id}` | {row.severity.value}" in page


def test_the_page_says_what_blocks_and_how_it_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    guard = FindingRule("guard", "It blocks.", "Look.", is_blocking=True, is_allowable=True)
    monkeypatch.setattr(rules_page, "RULES", {"guard": guard, "cluster-id": RULES["cluster-id"]})
    page = rules_page.render_page()
    assert "| `guard` | error, blocking | It blocks. | Look. | `--allow guard` |\n" in page
    assert page.splitlines()[-2].endswith("| no |")
