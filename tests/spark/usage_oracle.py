"""Usage held against quotas in plain Python: slow, and short enough to be read and believed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from math import ceil, inf, isfinite
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from quotaform.model.entity import Entity, address_of
from quotaform.model.quotas import Quotas
from quotaform.resolve.index import NOT_LIMITED, UNMENTIONED, QuotaIndex, Request, Resolved
from tests.builder import MUTATION, PRODUCER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

START: Final = datetime(2026, 11, 1, tzinfo=UTC)
TYPES = {"user": "user", "client_id": "client-id", "ip": "ip"}


class Sample(NamedTuple):
    """A row of the table `usage`, with the time in seconds."""

    at: float
    window_s: float | None = 11.5
    cluster: str | None = "lab"
    broker: str | None = "1"
    key: str = PRODUCER
    user: str | None = None
    client_id: str | None = None
    ip: str | None = None
    rate: float | None = None
    throttle_ms: float | None = None
    instance: str | None = None


def usage_table(spark: SparkSession, samples: Sequence[Sample], start: datetime = START) -> DataFrame:
    """Return `schemas.USAGE`, with times after a start."""
    from quotaform.fleet.table import make_table
    from quotaform.usage.table.schema import USAGE

    return make_table(spark, USAGE, ((start + timedelta(seconds=at), *rest) for at, *rest in samples))


class FoundBucket(NamedTuple):
    """A row of the table `buckets` without the names of the series."""

    bucket: str
    limit: float | None
    source: str | None
    entity_key: str | None
    is_coarse: bool
    member: str


def address(names: Mapping[str, str | None], types: Iterable[str]) -> str:
    """The address of those of the names that are there and of these types; an ip has one spelling."""
    named = {kind: name for kind, name in names.items() if name is not None and kind in types}
    return Entity({kind: (kind == "ip" and address_of(name)) or name for kind, name in named.items()}).address


def limit_of(quotas: Quotas, names: Mapping[str, str | None], key: str) -> Resolved:
    """What limits a series; a name that it lacks is one that no quota mentions."""
    request: Request
    if names["ip"] is not None and names["user"] is None and names["client-id"] is None:
        request = (names["ip"],)
    else:
        user, client_id = names["user"], names["client-id"]
        request = (UNMENTIONED if user is None else user, UNMENTIONED if client_id is None else client_id)
    return QuotaIndex(quotas).resolve(request).get(key, NOT_LIMITED)


def bucket_of(quotas: Quotas, names: Mapping[str, str | None], key: str) -> FoundBucket:
    """The bucket of a series under quotas of its cluster."""
    found = limit_of(quotas, names, key)
    member = address(names, TYPES.values())
    if found.level is None:
        return FoundBucket(member, None, None, None, False, member)
    bucket = address(names, found.level.bucket) or member
    is_coarse = any(names[kind] is None for kind in found.level.bucket)
    source = found.source.address if found.source else None
    return FoundBucket(bucket, found.value, found.source_name, source, is_coarse, member)


def names_of(sample: Sample) -> dict[str, str | None]:
    """The names of a series by entity type."""
    return {kind: getattr(sample, column) for column, kind in TYPES.items()}


def highest(values: Iterable[float | None], most: float = inf, least: float = 0.0) -> float | None:
    """The highest of those values that are measured: finite numbers from the least to the most."""
    return max((each for each in values if each is not None and isfinite(each) and least <= each <= most), default=None)


def headroom_rows(samples: Sequence[Sample], held: Mapping[str, Quotas]) -> list[dict[str, Any]]:
    """The rows of the table `headroom` that are about buckets."""
    buckets: dict[tuple[Any, ...], dict[str, dict[float, list[Sample]]]] = {}
    about: dict[tuple[Any, ...], list[FoundBucket]] = defaultdict(list)
    for each in samples:
        found = bucket_of(held.get(each.cluster or "", {}), names_of(each), each.key)
        broker = None if each.key == MUTATION else each.broker
        place = (each.cluster, broker, each.key, found.bucket)
        about[place].append(found)
        buckets.setdefault(place, {}).setdefault(found.member, {}).setdefault(each.at, []).append(each)
    return [_row(place, members, about[place]) for place, members in buckets.items()]


def _row(
    place: tuple[Any, ...], members: Mapping[str, Mapping[float, list[Sample]]], found: list[FoundBucket]
) -> dict[str, Any]:
    limit = found[0].limit if found[0].limit is not None and found[0].limit < 2147483647 else None
    rates: list[float] = []
    totals = dict.fromkeys(members, 0.0)
    recorded = throttled = 0.0
    before: float | None = None
    throttle_before: dict[str, float | None] = {}
    delays: list[float] = []
    times = sorted({at for of_member in members.values() for at in of_member})
    for at in times:
        rate: float | None = None
        rows = [row for of_member in members.values() for row in of_member.get(at, ())]
        is_new = False
        for name, of_member in members.items():
            if at in of_member:
                own = highest((row.throttle_ms for row in of_member[at]), least=1e-9)
                is_new |= own is not None and own != throttle_before.get(name)
                throttle_before[name] = own
            used = highest(row.rate for row in of_member.get(at, ()))
            if used is not None:
                rate = (rate or 0.0) + used
                totals[name] += used
        throttle = highest((row.throttle_ms for row in rows), least=1e-9)
        window = max(highest([row.window_s], least=1e-9) or 11.5 for row in rows)
        seconds = at - before if before is not None and at - before <= 600 else window
        recorded += seconds
        if rate is not None:
            rates.append(rate)
        if throttle is not None:
            delays.append(throttle)
            is_at_limit = limit is not None and rate is not None and rate >= limit * 0.95
            if is_new or is_at_limit:
                throttled += seconds
        before = at
    rates.sort()
    top = min(totals, key=lambda name: (-totals[name], name))
    share = totals[top] / sum(totals.values()) if sum(totals.values()) else None
    p50, p95, p99 = (rates[ceil(part * len(rates)) - 1] if rates else None for part in (0.5, 0.95, 0.99))
    cluster, broker, key, bucket = place
    return {
        "cluster": cluster,
        "broker": broker,
        "key": key,
        "bucket": bucket,
        "entity_key": found[0].entity_key,
        "source": found[0].source,
        "limit": found[0].limit,
        "samples": len(rates),
        "first": times[0],
        "last": times[-1],
        "p50": p50,
        "p95": p95,
        "p99": p99,
        "max": rates[-1] if rates else None,
        "used_ratio": p99 / limit if limit is not None and limit > 0 and p99 is not None else None,
        "recorded_s": recorded,
        "throttled_s": throttled,
        "throttle_ms_max": max(delays, default=None),
        "members": len(members),
        "top_member": top,
        "top_member_share": share if len(members) > 1 else 1.0,
        "is_coarse": any(each.is_coarse for each in found) or (broker is None and key != MUTATION),
    }
