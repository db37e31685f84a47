"""`plan --principals`: the blast radius in every output, the file with all changes, and lists that cannot be used."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent
from typing import Any

import pytest

from quotaform.model.errors import UsageError
from quotaform.plan.blast_radius import CHANGE_COLUMNS, LimitDirection
from quotaform.plan.principals import read_principals
from tests.markdown import ROOT


@pytest.mark.parametrize(
    ("text", "more", "problem"),
    [
        ("people.parquet", {"files": {"eu": "eu.csv"}}, "give principals_out parquet=DIR"),
        ("clients.csv", {"folder": "changed"}, "parquet=DIR is for a table of principals"),
    ],
)
def test_all_changes_are_text_for_a_list_and_parquet_for_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, more: dict[str, Any], problem: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("clients.csv").write_text("user\nsvc-orders\n")
    with pytest.raises(UsageError, match=problem):
        read_principals(text, **more, on_spark=True)


def test_the_example_of_the_page_is_what_is_printed() -> None:
    page = (ROOT / "docs" / "blast-radius.md").read_text(encoding="utf-8")
    shown = page[page.index("Blast radius: ") : page.index("\n...\nPlan: ")]
    assert indent(shown, "  ") in (ROOT / "tests/golden/story-principals.txt").read_text(encoding="utf-8")
    assert all(f"`{column}`" in page for column in CHANGE_COLUMNS)
    assert all(f"| `{direction}` |" in page for direction in LimitDirection)
