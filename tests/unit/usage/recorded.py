"""What recordings hold, in short."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from quotaform.usage.metric_name import Origin
from quotaform.usage.sample import Attribute, Dropped, DropReason, Item, Rejected, Sample, Series

DATA = Path(__file__).parents[2] / "data" / "usage"
ORIGIN = Origin("prod", "1")
TS = 1763676256.0


def samples(items: Iterable[Item]) -> list[Sample]:
    return [item for item in items if isinstance(item, Sample)]


def values(items: Iterable[Item]) -> list[tuple[float, float]]:
    """The times and values of the samples."""
    return [(item.ts, item.value) for item in samples(items)]


def reasons(items: Iterable[Item]) -> list[str]:
    """Why records could not be read."""
    return [item.reason for item in items if isinstance(item, Rejected)]


def dropped(items: Iterable[Item]) -> dict[DropReason, int]:
    """How many samples were dropped, by reason."""
    counts: dict[DropReason, int] = {}
    for item in items:
        if isinstance(item, Dropped):
            counts[item.reason] = counts.get(item.reason, 0) + item.samples
    return counts


def series(
    key: str = "producer_byte_rate",
    *,
    user: str | None = None,
    client_id: str | None = None,
    ip: str | None = None,
    attribute: Attribute = Attribute.RATE,
    instance: str | None = None,
    broker: str | None = "1",
) -> Series:
    return Series("prod", broker, key, user, client_id, ip, attribute, instance)
