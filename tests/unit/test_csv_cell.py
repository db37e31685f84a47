"""Tables of comma-separated values hold names as they are, unless a spreadsheet, a shell or a reader is misled."""

from __future__ import annotations

from json import loads

from hypothesis import given
from hypothesis import strategies as st

from quotaform.report.text import csv_cell


@given(st.text())
def test_a_cell_says_exactly_which_name_it_is(name: str) -> None:
    cell = csv_cell(name)
    assert (loads(cell) if cell.startswith('"') else cell) == name
    assert cell.isprintable()
