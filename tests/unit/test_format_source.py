"""What a diff of a formatted file shows; `tests/golden/texts-formatted.txt` has how files look."""

from __future__ import annotations

from quotaform.desired.format import format_source
from quotaform.desired.tree import SourceFile
from quotaform.report.text import render_diff


def test_a_diff_of_an_absolute_path_can_be_applied() -> None:
    """It began with `a//`."""
    file = format_source(SourceFile("/repo/quotas.d/a.yaml", "quotas:   []\n"))
    assert list(render_diff(file.name, file.before, file.after))[:2] == [
        "--- a/repo/quotas.d/a.yaml\n",
        "+++ b/repo/quotas.d/a.yaml\n",
    ]


def test_a_diff_shows_what_changes_and_lets_nothing_through() -> None:
    file = format_source(SourceFile("a\x1b.yaml", "quotas:   [] # \u202e::error::x"))
    assert list(render_diff(file.name, file.before, file.after)) == [
        "--- a/a\\u001b.yaml\n",
        "+++ b/a\\u001b.yaml\n",
        "@@ -1 +1 @@\n",
        "-quotas:   [] # \\u202e::error::x\n",
        "\\ No newline at end of file\n",
        "+quotas: []  # \\u202e::error::x\n",
    ]
