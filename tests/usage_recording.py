"""A recording of a cluster as its brokers would have measured it: daily waves, two tenants at their limits, one unused.

    python -m tests.usage_recording FOLDER    writes usage.parquet, and prod-eu.json: the quotas of the users

Equal arguments give equal rows.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import pi, sin
from pathlib import Path
from random import Random
from typing import Final

from quotaform.cluster.snapshot import dump_snapshot
from quotaform.model.entity import Entity
from quotaform.model.quotas import Quotas, Snapshot
from quotaform.report.chart import Bucket, Curve, UsedLimit

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
        """The address of its bucket."""
        return f"user={self.user}"


@dataclass(frozen=True, slots=True)
class Sample:
    """What was measured of a tenant at a time."""

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
    """Return how much of its limit each user used."""
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
    """Return the rate of a user over time."""
    own = [each for each in found if each.tenant == tenant]
    return Curve(tuple(each.at for each in own), tuple(each.rate for each in own), step_s)


def delay_curve(tenant: Tenant, found: list[Sample], step_s: int = 60) -> Curve:
    """Return the throttle time of a user over time, in ms."""
    own = [each for each in found if each.tenant == tenant and each.throttle_ms is not None]
    return Curve(tuple(each.at for each in own), tuple(each.throttle_ms or 0.0 for each in own), step_s)


def write_parquet(path: str) -> None:
    """Write a week as a table of usage."""
    import pyarrow
    from pyarrow import parquet

    rows = list(samples(tenants()))
    columns = {
        "ts": pyarrow.array([row.at for row in rows], pyarrow.timestamp("us", "UTC")),
        "window_s": pyarrow.array([11.5] * len(rows)),
        "cluster": pyarrow.array(["prod-eu"] * len(rows)),
        "broker": pyarrow.array(["1"] * len(rows)),
        "key": pyarrow.array([row.tenant.key for row in rows]),
        "user": pyarrow.array([row.tenant.user for row in rows]),
        "client_id": pyarrow.nulls(len(rows), pyarrow.string()),
        "ip": pyarrow.nulls(len(rows), pyarrow.string()),
        "rate": pyarrow.array([row.rate for row in rows]),
        "throttle_ms": pyarrow.array([row.throttle_ms for row in rows], pyarrow.float64()),
    }
    parquet.write_table(pyarrow.table(columns), path)


def held_quotas() -> Snapshot:
    """Return a snapshot of the cluster: what each user may use, and what others may."""
    quotas: Quotas = {
        **{Entity(user=tenant.user): {tenant.key: tenant.limit} for tenant in tenants()},
        Entity(user=None): {PRODUCER: 5 * MIB, CONSUMER: 5 * MIB},
    }
    return Snapshot(cluster_name="prod-eu", cluster_id="example", captured_at="2026-11-09T00:00:00Z", quotas=quotas)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    write_parquet(str(folder / "usage.parquet"))
    (folder / "prod-eu.json").write_text(dump_snapshot(held_quotas()), encoding="utf-8")
