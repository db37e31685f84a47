"""Charts of an example recording, as brokers would have measured it: daily waves, two tenants at their limits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from math import pi, sin
from random import Random
from typing import Final

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
    UsedLimit,
    headroom_parts,
)

MIB: Final = 2.0**20
START: Final = datetime(2026, 11, 9, tzinfo=UTC)
PRODUCER: Final = "producer_byte_rate"
CONSUMER: Final = "consumer_byte_rate"
REQUEST: Final = "request_percentage"
_TEAMS: Final = ("orders", "billing", "search", "fraud", "audit", "shipping", "pricing", "catalog", "ledger", "metrics")
_LIMITS: Final = {PRODUCER: 10 * MIB, CONSUMER: 20 * MIB, REQUEST: 150.0}


@dataclass(frozen=True, slots=True)
class Tenant:
    """A user, what it may use, and how it uses that: as shares of the limit."""

    user: str
    key: str
    limit: float
    base: float
    wave: float
    peak: float

    @property
    def address(self) -> str:
        return f"user={self.user}"


@dataclass(frozen=True, slots=True)
class Sample:
    at: datetime
    tenant: Tenant
    rate: float
    throttle_ms: float | None


def tenants(number: int = 30) -> list[Tenant]:
    """Return so many users: the first two exceed their limits every day, the last one uses nothing."""
    random = Random(7)
    made = []
    for index in range(number):
        key = list(_LIMITS)[index % 3]
        base, wave = random.uniform(0.05, 0.35), random.uniform(0.05, 0.4)
        if index < 2:
            base, wave = 0.6, 0.62 - 0.1 * index
        elif index == number - 1:
            base, wave = 0.0, 0.0
        limit = _LIMITS[key] * random.choice((0.5, 1, 2))
        user = f"svc-{_TEAMS[index % len(_TEAMS)]}{'' if index < len(_TEAMS) else f'-{index // len(_TEAMS) + 1}'}"
        made.append(Tenant(user, key, limit, base, wave, random.uniform(0, 24)))
    return made


def samples(users: list[Tenant], days: float = 7, step_s: int = 60) -> Iterator[Sample]:
    """Yield samples in order of time: a broker lets through the limit and a little more, and delays the rest."""
    random = Random(11)
    for number in range(int(days * 86_400 / step_s)):
        at = START + timedelta(seconds=(number + 1) * step_s)
        hour = at.hour + at.minute / 60
        for tenant in users:
            noise = random.gauss(0, 0.03)
            share = tenant.base + tenant.wave * sin(2 * pi * (hour - tenant.peak) / 24) * (tenant.base > 0)
            wanted = max(0.0, share + noise * (tenant.base > 0))
            delay = (wanted - 1) * 11_000 if wanted > 1 else None
            yield Sample(at, tenant, min(wanted, 1.0 + abs(noise) / 3) * tenant.limit, delay)


def used_limits(users: list[Tenant], found: list[Sample], step_s: int = 60) -> list[UsedLimit]:
    rows = []
    by_user: dict[str, list[Sample]] = {tenant.user: [] for tenant in users}
    for each in found:
        by_user[each.tenant.user].append(each)
    for tenant in users:
        own = by_user[tenant.user]
        rates = sorted(each.rate for each in own)
        p50, p95, p99 = (rates[min(len(rates) - 1, int(share * len(rates)))] for share in (0.5, 0.95, 0.99))
        rows.append(
            UsedLimit(
                bucket=Bucket(cluster="prod-eu", broker="1", key=tenant.key, address=tenant.address),
                limit=tenant.limit,
                p50=p50,
                p95=p95,
                p99=p99,
                max=rates[-1],
                throttled_s=float(step_s * sum(each.throttle_ms is not None for each in own)),
                recorded_s=float(step_s * len(own)),
            )
        )
    return rows


def rate_curve(tenant: Tenant, found: list[Sample], step_s: int = 60) -> Curve:
    own = [each for each in found if each.tenant == tenant]
    return Curve(tuple(each.at for each in own), tuple(each.rate for each in own), step_s)


def delay_curve(tenant: Tenant, found: list[Sample], step_s: int = 60) -> Curve:
    own = [each for each in found if each.tenant == tenant and each.throttle_ms is not None]
    return Curve(tuple(each.at for each in own), tuple(each.throttle_ms or 0.0 for each in own), step_s)


_STEP = 900


@lru_cache(maxsize=1)
def example_samples() -> list[Sample]:
    """A week of thirty users, every ten minutes."""
    return list(samples(tenants(), step_s=_STEP))


def headroom_example(most: int = 20) -> Chart:
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
