"""Who is throttled at this moment, by which entity's quota: measurements of buckets against live quotas.

| state | a bucket |
| --- | --- |
| throttled | whose requests were delayed in the last 30 to 60 seconds, which a broker's throttle time covers |
| close | that uses 80 % of its limit or more |
| below | of any other |

Source: org.apache.kafka.server.quota.ClientQuotaManager (`throttle-time`, a Rate of two samples of 30 s).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from quotaform.core.resolve.bucket import shared_by
from quotaform.core.resolve.entry import NOT_LIMITED, Resolved
from quotaform.core.resolve.index import QuotaIndex
from quotaform.core.resolve.request import request_of
from quotaform.core.resolve.resolver import Resolver
from quotaform.core.usage.headroom import CLOSE_RATIO
from quotaform.core.usage.record.recording import UsageRow
from quotaform.model.entity import CLIENT_ID, IP, USER, Entity
from quotaform.model.quota_key import QUOTA_KEYS, key_order
from quotaform.model.quotas import Quotas
from quotaform.model.units import is_unlimited


class BucketState(StrEnum):
    """How close a bucket is to its limit."""

    THROTTLED = "throttled"
    CLOSE = "close"
    BELOW = "below"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopBucket:
    """A bucket on a broker at this moment.

    Attributes:
        broker: The broker; `None` if the source does not say.
        entity: Whom the bucket is for, as the broker measures it.
        rate: In the unit of the key; `None` if it is not measured.
        throttle_ms: The average delay of the throttled requests of the last 30 to 60 s; `None` if there were none.
        resolved: What limits it; nothing if no quota does, or the quotas are not known.
    """

    broker: str | None
    entity: Entity
    key: str
    rate: float | None
    throttle_ms: float | None
    resolved: Resolved = NOT_LIMITED

    @property
    def limit(self) -> float | None:
        """The limit; `None` if nothing limits it, also where a value says so."""
        value = self.resolved.value
        return None if is_unlimited(QUOTA_KEYS.get(self.key), value) else value

    @property
    def ratio(self) -> float | None:
        """The rate as a share of the limit."""
        return self.rate / self.limit if self.rate is not None and self.limit else None

    @property
    def state(self) -> BucketState:
        """How close it is to its limit."""
        if self.throttle_ms:
            return BucketState.THROTTLED
        return BucketState.CLOSE if (self.ratio or 0.0) >= CLOSE_RATIO else BucketState.BELOW

    @property
    def shared_by(self) -> str | None:
        """Which requests share the bucket, in words; `None` if nothing limits it."""
        level = self.resolved.level
        return None if level is None else shared_by(level, self.entity)


@dataclass(frozen=True, slots=True)
class Unread:
    """What could not be read.

    Attributes:
        what: What it is: a broker, Prometheus, the quotas.
        problem: Why, as the rest of a sentence.
    """

    what: str
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Top:
    """Who is throttled on a cluster.

    Attributes:
        buckets: All buckets that were measured: the throttled ones first, those close to their limit, then the others.
        has_limits: Whether the quotas are known.
    """

    cluster: str
    at: datetime
    buckets: tuple[TopBucket, ...]
    unread: tuple[Unread, ...] = ()
    has_limits: bool = True

    def count(self, state: BucketState) -> int:
        """Return how many buckets are in a state."""
        return sum(bucket.state is state for bucket in self.buckets)

    @property
    def brokers(self) -> int:
        """How many brokers measured any of them."""
        return len({bucket.broker for bucket in self.buckets})


def make_top(
    cluster: str, at: datetime, rows: Iterable[UsageRow], quotas: Quotas | None, unread: Iterable[Unread] = ()
) -> Top:
    """Return who is throttled.

    `rows` is what was measured; of several rows of a bucket, or of a client that measured itself, the last one counts.
    `quotas` are all quotas of the cluster; `None` if they are not known.
    """
    resolver = Resolver(QuotaIndex(quotas or {}))
    latest: dict[tuple[object, ...], dict[str | None, UsageRow]] = {}
    for row in sorted(rows, key=lambda row: row.ts):
        latest.setdefault((row.broker, row.key, row.user, row.client_id, row.ip), {})[row.instance] = row
    buckets = [_bucket(_together(list(each.values())), resolver) for each in latest.values()]
    return Top(
        cluster=cluster,
        at=at,
        buckets=tuple(sorted(buckets, key=_order)),
        unread=tuple(unread),
        has_limits=quotas is not None,
    )


def _together(rows: list[UsageRow]) -> UsageRow:
    """Return what clients of the same names measured as one row: their limit is one of all of them."""
    if len(rows) == 1:
        return rows[0]
    rates = [row.rate for row in rows if row.rate is not None]
    throttle_times = [row.throttle_ms for row in rows if row.throttle_ms is not None]
    return rows[0]._replace(
        rate=sum(rates) if rates else None, throttle_ms=max(throttle_times, default=None), instance=None
    )


def _bucket(row: UsageRow, resolver: Resolver) -> TopBucket:
    names = {USER: row.user, CLIENT_ID: row.client_id, IP: row.ip}
    entity = Entity({kind: name for kind, name in names.items() if name is not None})
    return TopBucket(
        broker=row.broker,
        entity=entity,
        key=row.key,
        rate=row.rate,
        throttle_ms=row.throttle_ms,
        resolved=resolver.resolve(request_of(entity)).get(row.key, NOT_LIMITED),
    )


_STATES: Final = list(BucketState)


def _order(bucket: TopBucket) -> tuple[object, ...]:
    return (
        _STATES.index(bucket.state),
        -(bucket.throttle_ms or 0.0),
        -(bucket.ratio or 0.0),
        bucket.entity.address,
        key_order(bucket.key),
        bucket.broker or "",
    )
