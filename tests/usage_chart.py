"""Charts of an example recording."""

from __future__ import annotations

from datetime import timedelta
from functools import lru_cache

from quotaform.report.chart import (
    BacktestPart,
    Bucket,
    Chart,
    Curve,
    Limit,
    LimitPart,
    ReplayPart,
    Span,
    ThrottledTime,
    headroom_parts,
)
from tests.usage_recording import MIB, PRODUCER, START, Sample, delay_curve, rate_curve, samples, tenants, used_limits

_STEP = 900


@lru_cache(maxsize=1)
def example_samples() -> list[Sample]:
    """A week of thirty users, every ten minutes."""
    return list(samples(tenants(), step_s=_STEP))


def headroom_example(most: int = 20) -> Chart:
    """How close the users are to their limits."""
    rows = used_limits(tenants(), example_samples(), _STEP)
    return Chart(
        title="Headroom of client quotas",
        about=("usage.parquet, 2026-11-09 00:01 to 2026-11-16 00:00 UTC, 30 buckets",),
        parts=headroom_parts(rows, most),
    )


def backtest_example() -> Chart:
    """What a plan would have throttled that gives each of the first four users less."""
    rows, replays = [], []
    for tenant in tenants()[:4]:
        rate = rate_curve(tenant, example_samples(), _STEP)
        after = tenant.limit * (0.8 if tenant.base > 0.5 else 0.5)
        row, replay = _replayed(tenant.address, tenant.key, tenant.limit, after, rate)
        rows.append(row)
        replays.append(
            ReplayPart(
                row=row,
                rate=rate,
                throttled=replay[0],
                possible=replay[1],
                recorded=delay_curve(tenant, example_samples(), _STEP),
            )
        )
    rows.sort(key=lambda row: -(row.throttled_s or 0.0))
    return Chart(
        title="Backtest of quotas.d",
        about=("usage.parquet, 2026-11-09 00:01 to 2026-11-16 00:00 UTC",),
        parts=(BacktestPart(tuple(rows), 26), *replays),
        notes=("Throttling in the recording hid demand for 1d 3h: there, the estimate is a lower bound.",),
    )


def _replayed(
    address: str, key: str, before: float, after: float, rate: Curve
) -> tuple[ThrottledTime, tuple[tuple[Span, ...], tuple[Span, ...]]]:
    """Return when a rate is above a limit, and when it nearly is."""
    spans = []
    for limit in (after, after * 0.97):
        found: list[Span] = []
        for at, value in zip(rate.times, rate.values, strict=True):
            start = at - timedelta(seconds=rate.step_s)
            if value > limit:
                begins = found.pop().start if found and found[-1].end == start else start
                found.append(Span(begins, at))
        spans.append(tuple(found))
    certain, possible = ([(span.end - span.start).total_seconds() for span in each] for each in spans)
    row = ThrottledTime(
        bucket=Bucket(cluster="prod-eu", broker="1", key=key, address=address),
        before_limit=before,
        limit=after,
        throttled_s=sum(certain),
        low_s=0.9 * sum(certain),
        high_s=sum(possible),
        recorded_s=_STEP * 20.0 if sum(certain) > 86_400 else 0.0,
        delay_s=max(certain, default=0.0),
        first=spans[0][0].start if spans[0] else None,
        last=spans[0][-1].end if spans[0] else None,
    )
    return row, (spans[0], spans[1])


def history_example() -> Chart:
    """The limit of one user over a week."""
    tenant = tenants()[0]
    days = [START + timedelta(days=each) for each in range(8)]
    limits = (
        Limit(days[0], days[2], 10 * MIB),
        Limit(days[2], days[3], 12.5 * MIB, "ana, plan 41c84b9e"),
        Limit(days[4], None, 20 * MIB, "ben, plan 77aa01cd"),
    )
    usage = rate_curve(tenant, example_samples(), _STEP)
    part = LimitPart(cluster="prod-eu", address=tenant.address, key=PRODUCER, limits=limits, until=days[7], usage=usage)
    return Chart(title="Limits over time", about=("quota-history",), parts=(part,))
