"""How close clients are to their quotas as a chart."""

from __future__ import annotations

from quotaform.core.usage.chart.chart import MOST_ROWS, Bucket, Chart, HeadroomPart, UsedLimit, headroom_parts
from quotaform.core.usage.chart.label import minute_text
from quotaform.core.usage.headroom import BucketUse, Headroom
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.text import inert
from quotaform.model.units import is_unlimited


def headroom_chart(found: Headroom) -> Chart:
    """Return a chart of the buckets that are closest to their limits, a part per quota key."""
    used = [row for row in map(_used, found.buckets) if row is not None]
    parts = headroom_parts(used, MOST_ROWS)
    times = f"{minute_text(found.first)} to {minute_text(found.last)} UTC"
    return Chart(
        title="Headroom of client quotas",
        about=(f"Usage {inert(found.usage)}: {times}, {found.samples:,} samples",),
        parts=parts,
        nothing="Nothing that was recorded has a limit and a rate, so that there is nothing to draw.",
        notes=tuple(_notes(found, parts, len(used))),
    )


def _used(row: BucketUse) -> UsedLimit | None:
    """Return what is drawn of a bucket; `None` if it has no rates, or no limit above 0."""
    p50, p95, p99, maximum = row.p50, row.p95, row.p99, row.maximum
    limit = row.limit
    if limit is None or is_unlimited(QUOTA_KEYS.get(row.key), limit) or not limit > 0:
        return None
    if p50 is None or p95 is None or p99 is None or maximum is None:
        return None
    return UsedLimit(
        bucket=Bucket(cluster=row.cluster, broker=row.broker, key=row.key, address=row.bucket),
        limit=limit,
        p50=p50,
        p95=p95,
        p99=p99,
        max=maximum,
        throttled_s=row.throttled_s,
        recorded_s=row.recorded_s,
        is_coarse=row.is_coarse,
    )


def _notes(found: Headroom, parts: tuple[HeadroomPart, ...], used: int) -> list[str]:
    """Return what is not drawn, and what must be known of what is, in sentences."""
    notes = []
    drawn = sum(len(part.rows) for part in parts)
    if used < found.total:
        notes.append(
            f"{drawn:,} buckets are drawn, each as on the broker where it is closest to its limit; {found.total:,} "
            "were recorded, counted on each broker."
        )
    if left_out := len(found.buckets) - used:
        notes.append(f"{left_out:,} of them have no rates, or a limit of 0, and are left out.")
    if any(row.is_coarse for part in parts for row in part.rows):
        notes.append("A ≤ marks a bucket that the recording is too coarse for: it used at most this.")
    return notes
