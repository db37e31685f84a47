"""All changes of limits as a table of comma-separated values: the rows of `quotaform.core.limit_change.change_row`.

Names are written as `quotaform.views.csv_cell` has it; a name that the principal leaves out is an empty field, and an
empty client-id is `""`.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from io import StringIO

from quotaform.core.limit_change import CHANGE_COLUMNS, Cell, change_row
from quotaform.core.plan import Plan
from quotaform.model.units import plain
from quotaform.views.csv_cell import csv_cell


def render_limit_changes_csv(plan: Plan) -> Iterator[str]:
    """Yield the table in pieces of whole rows: the names of the columns, then one piece per change."""
    buffer = StringIO(newline="")
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(CHANGE_COLUMNS)
    for change in plan.blast_radius.changes if plan.blast_radius else ():
        yield buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()
        writer.writerow(map(_cell, change_row(change).values()))
    yield buffer.getvalue()


def _cell(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, str):
        return csv_cell(cell) or '""'
    return plain(cell)
