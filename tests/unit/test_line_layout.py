"""What is read line by line is what the whole text says, or it is not read that way."""

from __future__ import annotations

from json import loads
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quotaform.model.records.document import ItemLines, LayoutError, document_lines, read_lines, sealed_lines

FIELDS: dict[str, Any] = {
    "kind": "any, thing: [",
    "changes": [{"a": [1, {"b": None}]}, "x", 7, "]", '  ],\n  "kind": "other"'],
    "number": 0.5,
    "findings": [],
    "unmanaged": [{}],
}
LISTS = {"changes", "findings", "unmanaged"}
TEXT = "".join(sealed_lines(FIELDS.items(), LISTS))


def whole(document: dict[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, ItemLines) else value for name, value in document.items()}


def test_a_written_document_reads_back_field_by_field_and_item_by_item() -> None:
    document = read_lines(TEXT.encode())
    assert isinstance(document["changes"], ItemLines)
    assert whole(document) == loads(TEXT)
    assert whole(document) == loads(TEXT), "the items of a list can be read again"


def test_a_document_may_end_with_a_long_list() -> None:
    text = "".join(document_lines(list(FIELDS.items())[:2], LISTS))
    assert whole(read_lines(text.encode())) == loads(text)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("{\n", "{"),
        ("    ", "     x"),
        ("{\n", "{\n,\n"),
        ('"x",', '"x"'),
        ('"x",', '"x",,'),
        ('"x",', '"x", '),
        ('"x",', '"\xe4",'),
        ('"x",', "[" * 100_000 + ","),
        ("\n  ]", "]"),
        ("\n  ],", "\n  ], "),
        ("\n}\n", "\n}"),
        ("\n}\n", ",\n}\n"),
        ("\n}\n", "\n}\n\n"),
        ('"number": 0.5', '"number": 0.5}'),
        ('  "changes"', "  7"),
        ('  "changes": [\n', "  7: [\n"),
    ],
)
def test_another_layout_is_not_read_line_by_line(old: str, new: str) -> None:
    text = TEXT.replace(old, new, 1) if old != "\n}\n" else TEXT.removesuffix(old) + new
    assert text != TEXT
    with pytest.raises(LayoutError):
        whole(read_lines(text.encode()))


@given(st.integers(0, len(TEXT) - 1), st.integers(0, 3), st.text(alphabet=' \n,:[]{}"a1', max_size=6))
def test_an_edited_text_is_read_as_json_reads_it_or_not_at_all(start: int, length: int, inserted: str) -> None:
    text = TEXT[:start] + inserted + TEXT[start + length :]
    try:
        document = whole(read_lines(text.encode()))
    except LayoutError:
        return
    assert document == loads(text)
