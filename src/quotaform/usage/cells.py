"""Cells that reports about usage share."""

from __future__ import annotations

from typing import Final

from quotaform.model.entity import spell_name
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.text import inert, option_of
from quotaform.model.units import is_unlimited
from quotaform.report.report import Column, ColumnKind, Number
from quotaform.report.text import rate_text, short_limit_text, span_text

ALL_ROWS: Final = f"All of them: {option_of('out')} parquet=DIR."
BUCKET_COLUMNS: Final = tuple(Column(name, ColumnKind.NAME) for name in ("bucket", "cluster", "broker", "key"))


def bucket_cells(address: str, cluster: str | None, broker: str | None, key: str) -> tuple[str, str, str, str]:
    """Return `BUCKET_COLUMNS`: who shares a limit, and where."""
    where = "-" if cluster is None else spell_name(cluster)
    return inert(address) or "all requests", where, "-" if broker is None else inert(broker), inert(key)


def limit_cell(key: str, value: float | None) -> Number:
    """Return a limit; none is the highest."""
    size = 1e300 if value is None or is_unlimited(QUOTA_KEYS.get(key), value) else value
    return Number(short_limit_text(key, value), size)


def rate_cell(key: str, rate: float | None, limit: float | None) -> Number:
    """Return a measured rate, in the units of the limit with which it is compared."""
    return Number("-", -1.0) if rate is None else Number(rate_text(key, rate, limit), rate)


def span_cell(seconds: float | None) -> Number:
    """Return how long something lasted."""
    return Number("unknown", -1.0) if seconds is None else Number(span_text(seconds), seconds)
