"""What limits requests, as a table: one row per request and quota key.

Names are written as `quotaform.views.csv_cell` has it.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from io import StringIO
from typing import Final

from quotaform.core.resolve.bucket import shared_by
from quotaform.core.resolve.entry import Resolved
from quotaform.core.resolve.resolution import KeyResolution, Resolution
from quotaform.model.entity import CLIENT_ID, ENTITY_TYPES, KNOWN_TYPES, USER, Entity
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.units import is_unlimited, plain
from quotaform.views.csv_cell import csv_cell

COLUMNS: Final = (
    *(row.parameter for row in KNOWN_TYPES.values()),
    *("key", "value", "unlimited", "source", "source_name", "level"),
    *("per", "bucket", "shared_by", "overridden", "before_value", "before_source", "before_source_name"),
    *("unmentioned", "differing_users", "differing_client_ids"),
)


def render_resolve_csv(resolutions: Iterable[Resolution]) -> Iterator[str]:
    """Yield the table in pieces of whole rows: the names of the columns, then one piece per request.

    What is not there is an empty field: the value and the source of a key that nothing limits, and what was
    before where no plan is asked about. Overridden entries are `address=value` in order of precedence, with `; `
    between them. A type that the request leaves out is an empty field, and is in `unmentioned` when a name that no
    quota mentions was resolved for it, with the number of names that have another limit in `differing_...`; an empty
    client-id is `""`.
    """
    buffer = StringIO(newline="")
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(COLUMNS)
    for resolution in resolutions:
        yield buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()
        names = resolution.entity.names
        asked = [_name_cell(names.get(entity_type)) for entity_type in ENTITY_TYPES]
        unmentioned = ",".join(resolution.unmentioned)
        writer.writerows(
            [*asked, *_cells(row, resolution.entity), unmentioned, *_differing(row.resolved)] for row in resolution.keys
        )
    yield buffer.getvalue()


def _name_cell(name: str | None) -> str:
    """Return a name, `""` for an empty one, and an empty field for one that is left out."""
    return "" if name is None else csv_cell(name) or '""'


def _cells(row: KeyResolution, asked: Entity) -> Iterator[str]:
    resolved, known = row.resolved, QUOTA_KEYS.get(row.key)
    level = resolved.level
    value, source, source_name = _limit_cells(resolved)
    yield csv_cell(row.key)
    yield value
    yield "true" if is_unlimited(known, resolved.value) else "false"
    yield source
    yield source_name
    yield str(level.number) if level else ""
    yield known.per if known else ""
    yield ",".join(level.bucket) if level else ""
    yield csv_cell(shared_by(level, asked)) if level else ""
    yield "; ".join(
        f"{entry.source.address}={plain(entry.value)}"
        for entry in resolved.overridden
        if entry.source is not None and entry.value is not None
    )
    yield from _limit_cells(row.before) if row.before else ("", "", "")


def _differing(resolved: Resolved) -> Iterator[str]:
    for entity_type in (USER, CLIENT_ID):
        count = resolved.differs.get(entity_type)
        yield str(count) if count else ""


def _limit_cells(resolved: Resolved) -> tuple[str, str, str]:
    if resolved.value is None or resolved.source is None:
        return "", "", ""
    return plain(resolved.value), csv_cell(resolved.source.address), resolved.source_name or ""
