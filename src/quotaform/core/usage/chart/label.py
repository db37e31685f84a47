"""How pictures and their tables name buckets, keys, values and times."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from quotaform.core.usage.chart.chart import Bucket, UsedLimit
from quotaform.duration import duration_text
from quotaform.model.entity import spell_name
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.text import inert, shorten_middle
from quotaform.model.units import is_decimal, is_unlimited, render_measured, render_value


def bucket_label(bucket: Bucket, longest: int, *, rows: Sequence[Bucket]) -> str:
    """Return the name of a bucket among others, in at most so many characters: what is the same of all is left out.

    >>> from dataclasses import replace
    >>> alice = Bucket(cluster="prod", broker="1", key="producer_byte_rate", address="user=alice")
    >>> bucket_label(alice, 40, rows=[alice]), bucket_label(alice, 40, rows=[alice, replace(alice, broker="2")])
    ('user=alice', 'user=alice (broker 1)')
    """
    parts = []
    if len({each.key for each in rows}) > 1:
        parts.append(inert(bucket.key))
    if len({each.cluster for each in rows}) > 1:
        parts.append(spell_name(bucket.cluster or "unknown cluster"))
    if len({each.broker for each in rows}) > 1 and bucket.broker is not None:
        parts.append(f"broker {inert(bucket.broker)}")
    address = inert(bucket.address)
    where = shorten_middle(f" ({', '.join(parts)})" if parts else "", max(longest * 3 // 5, longest - len(address)))
    return shorten_middle(address, longest - len(where)) + where


def bucket_place(bucket: Bucket) -> str:
    """Return where the limit of a bucket holds.

    >>> bucket_place(Bucket(cluster="prod", broker="1", key="producer_byte_rate", address="user=alice"))
    'cluster prod, broker 1'
    """
    cluster = f"cluster {spell_name(bucket.cluster)}" if bucket.cluster is not None else "unknown cluster"
    return cluster if bucket.broker is None else f"{cluster}, broker {inert(bucket.broker)}"


def key_heading(key: str) -> tuple[str, str]:
    """Return a quota key, and what it limits.

    >>> key_heading("controller_mutation_rate")
    ('controller_mutation_rate', 'Partitions created or deleted per second, per cluster')
    """
    known = QUOTA_KEYS.get(key)
    return inert(key), "" if known is None else f"{known.limits}, per {known.per}"


def value_text(key: str, value: float | None) -> str:
    """Return the limit of a bucket, exact where few digits are.

    >>> value_text("producer_byte_rate", 5e6), value_text("producer_byte_rate", 12345678.0)
    ('5 MB/s', '11.8 MiB/s')
    """
    known = QUOTA_KEYS.get(key)
    if value is None or is_unlimited(known, value):
        return "unlimited"
    exact = render_value(known, value)
    return render_measured(known, value) if "[" in exact or len(exact) > 12 else exact


def rate_text(key: str, value: float, limit: float | None = None) -> str:
    """Return a measured rate, in the units of the limit with which it is compared.

    >>> rate_text("producer_byte_rate", 12345678.0), rate_text("producer_byte_rate", 12345678.0, 10e6)
    ('11.8 MiB/s', '12.3 MB/s')
    """
    known = QUOTA_KEYS.get(key)
    return render_measured(known, value, decimal=is_decimal(known, limit))


def span_text(seconds: float) -> str:
    """Return how long something lasted; a dash for no time at all.

    >>> span_text(0.0), span_text(0.4), span_text(3725.0)
    ('-', '<1s', '1h 2m')
    """
    if seconds <= 0:
        return "-"
    return duration_text(timedelta(seconds=seconds)) if seconds >= 1 else "<1s"


def used_text(row: UsedLimit, decimals: int = 0) -> str:
    """Return which share of its limit a bucket used; behind ≤ if the recording is too coarse to tell."""
    return f"{'≤ ' if row.is_coarse else ''}{100 * row.used:,.{decimals}f}%"


def minute_text(at: datetime | None) -> str:
    """Return a time as tables have it, in UTC: to the minute.

    >>> minute_text(datetime(2026, 11, 20, 9, 12, 44, tzinfo=UTC)), minute_text(None)
    ('2026-11-20 09:12', '-')
    """
    return "-" if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M}"
