"""Cells of tables of comma-separated values, which people open in spreadsheets and programs read line by line.

A text is written as it is, unless one of these holds; then it is a JSON string, in double quotes:

| text | why |
| --- | --- |
| holds a line break or something else that is not printable | every record is one line |
| begins with `"`, or is `<default>` | it would read as a JSON string, or as the default entity |
| begins with `=`, `+`, `-` or `@`, or has one after `;` | a spreadsheet would execute it |
| is like `::error::…`, or holds `##[` | a CI runner would take it for a command |

So a cell that begins with `"` is a JSON string, and any other is the text itself.
"""

from __future__ import annotations

from re import compile as regex
from typing import Final

from quotaform.model.entity import DEFAULT_WORD
from quotaform.model.text import inert, quote

_IS_FORMULA: Final = regex(r"(?:^|[;|])\s*[-=+@\uff1d\uff0b\uff0d\uff20]").search
"""A formula for a spreadsheet, where `;` may separate cells, and which takes wide forms for the same."""


def csv_cell(text: str) -> str:
    r"""Return a cell for a text.

    >>> [csv_cell(text) for text in ("CN=a,O=b", "=1+1", "a\nb", '"a"', "<default>", "::error::a")]
    ['CN=a,O=b', '"=1+1"', '"a\\nb"', '"\\"a\\""', '"<default>"', '"::error::a"']
    """
    is_plain = not text.startswith('"') and text != DEFAULT_WORD and not _IS_FORMULA(text)
    return inert(text) if is_plain else quote(text, len(text))
