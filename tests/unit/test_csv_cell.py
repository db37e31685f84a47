"""Tables of comma-separated values hold names as they are, unless a spreadsheet, a shell or a reader is misled."""

from __future__ import annotations

from csv import reader
from io import StringIO
from json import loads

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quotaform.cluster.report import render_quotas_csv
from quotaform.model.entity import DEFAULT_WORD, Entity
from quotaform.report.text import csv_cell
from tests.builder import PRODUCER


@pytest.mark.parametrize("name", ["CN=a,O=b", 'a"b', "a b", "ü", "::1", "10.0.0.1", "a::b::c"])
def test_a_name_is_written_as_it_is(name: str) -> None:
    """`describe --format csv` put names into JSON quotes inside of CSV quotes, and `resolve` did not."""
    assert csv_cell(name) == name
    [_, row] = reader(StringIO(render_quotas_csv({Entity(user=name): {PRODUCER: 1.0}})))
    assert row[1] == name


@pytest.mark.parametrize(
    "name",
    [
        *("=1+1", "+1", "-1", "@SUM(A1)", " =1", "a;=1+1", "a|@b", "\uff1d1"),
        *("a\nb", "a\rb", "a\tb", "\t=1", "\x1b[31m", "\u202e", '"a"', DEFAULT_WORD),
        *("::error::boom", " ::error::boom", "a##[error]b"),
    ],
)
def test_a_name_that_misleads_is_a_json_string(name: str) -> None:
    """A spreadsheet executed a cell such as `=1+1`, and a runner of GitHub Actions a line such as `::error::boom`."""
    cell = csv_cell(name)
    assert loads(cell) == name
    text = render_quotas_csv({Entity(user=name): {PRODUCER: 1.0}})
    [_, row] = reader(StringIO(text))
    assert row[1] == cell
    assert text.count("\n") == 2
    assert "##[" not in text


@given(st.text())
def test_a_cell_says_exactly_which_name_it_is(name: str) -> None:
    cell = csv_cell(name)
    assert (loads(cell) if cell.startswith('"') else cell) == name
    assert cell.isprintable()
