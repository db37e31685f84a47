"""`docs/rules.md`: every rule that a finding can be of, from the table of rules.

`make docs` writes it (`python -m tools.rules_page docs/rules.md`); a test says when it is out of date.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from quotaform.core.check.rule import RULES
from quotaform.model.rule import Rule

_INTRODUCTION: Final = """\
# Rules

<!-- Written by `make docs` from src/quotaform/core/check/rule.py. To change this page, change that. -->

Every finding names its rule, in brackets at the end of a problem or in front of a finding of a plan; in JSON it is the
field `rule`. An *error* in the files stops the command before anything is sent (exit 3). A finding that *blocks* lets a
plan be made and not applied (exit 4) unless its rule can be allowed. Warnings and notes stop nothing.

| rule | severity | what it means | what to do | can be allowed |
| --- | --- | --- | --- | --- |
"""


def main() -> None:
    """Write the page to the path that is given."""
    Path(sys.argv[1]).write_text(render_page(), encoding="utf-8")


def render_page() -> str:
    """Return the page."""
    return _INTRODUCTION + "".join(_rows())


def _rows() -> Iterator[str]:
    for _, row in sorted(RULES.items()):
        cells = f"`{row.id}`", _severity(row), row.summary, row.remedy, _override(row)
        yield f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |\n"


def _severity(row: Rule) -> str:
    return f"{row.severity.value}, blocks" if row.is_blocking else row.severity.value


def _override(row: Rule) -> str:
    if row.override is not None:
        return f"`{row.override}`"
    return "no" if row.is_blocking else "-"


if __name__ == "__main__":
    main()
