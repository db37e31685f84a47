"""Quotas as a table of comma-separated values: one row per entity and quota key.

| column | what it holds |
| --- | --- |
| address | the entity on one line, unique |
| user, client_id, ip | nothing when the type is absent; `<default>`; the name, see `quotaform.views.csv_cell` |
| quota_key | the key |
| value | the exact decimal of the double, without exponent; or `NaN`, `Infinity`, `-Infinity` |
| display | the value in units |

The columns never change; new ones are added at the end. An entity type that is not one of the three is in the address.
"""

from __future__ import annotations

from csv import writer
from io import StringIO
from typing import Final

from quotaform.model.entity import DEFAULT_WORD, ENTITY_TYPES, KNOWN_TYPES, Entity
from quotaform.model.quota_key import QUOTA_KEYS, key_order
from quotaform.model.quotas import Quotas
from quotaform.model.units import plain, render_value
from quotaform.views.csv_cell import csv_cell

COLUMNS: Final = (
    "address",
    *(row.parameter for row in KNOWN_TYPES.values()),
    "quota_key",
    "value",
    "display",
)


def render_quotas_csv(quotas: Quotas) -> str:
    """Return quotas as CSV with a header line, sorted by address and key."""
    text = StringIO()
    table = writer(text, lineterminator="\n")
    table.writerow(COLUMNS)
    for entity, values in sorted(quotas.items(), key=lambda item: item[0].address):
        cells = [csv_cell(entity.address), *_cells(entity)]
        for name in sorted(values, key=key_order):
            value = values[name]
            table.writerow([*cells, csv_cell(name), plain(value), render_value(QUOTA_KEYS.get(name), value)])
    return text.getvalue()


def _cells(entity: Entity) -> list[str]:
    names = entity.names
    return [
        "" if entity_type not in names else DEFAULT_WORD if (name := names[entity_type]) is None else csv_cell(name)
        for entity_type in ENTITY_TYPES
    ]
