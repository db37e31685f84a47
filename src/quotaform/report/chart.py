"""What a picture of usage shows: a title, and parts that are drawn below each other or stand beside their tables.

What is drawn is here, whatever draws it; `quotaform.plot` makes the pictures, `quotaform.views.usage` the tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final, TypeAlias

from quotaform.model.entity import Entity

MOST_POINTS: Final = 2000
"""How many points a curve has at most: more than a picture has columns of pixels."""

MOST_ROWS: Final = 50
"""How many buckets a picture has at most, all keys together."""

_GAP: Final = 2.5
"""A curve has a gap where two of its points are so many of its steps apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """Who shares one limit, and where it holds."""

    cluster: str | None  # The name of the cluster; `None` if it is not known
    broker: str | None  # The broker; `None` for a key whose limit holds for the whole cluster
    key: str
    address: str  # The address of the bucket, such as `user=alice,client-id=app`


@dataclass(frozen=True, slots=True)
class Curve:
    """Values over time, in order; those between two times are not known."""

    times: tuple[datetime, ...] = ()
    values: tuple[float, ...] = ()  # The highest value of the step that begins at each time
    step_s: float = 60.0  # How long a step is, in seconds

    @property
    def highest(self) -> float:
        """The highest value; 0 if there is none."""
        return max(self.values, default=0.0)

    def with_gaps(self) -> Iterator[tuple[datetime, float | None]]:
        """Yield the points, and one without a value where a gap begins."""
        gap = timedelta(seconds=self.step_s * _GAP)
        step = timedelta(seconds=self.step_s)
        before: datetime | None = None
        for at, value in zip(self.times, self.values, strict=True):
            if before is not None and at - before > gap:
                yield before + step, None
            yield at, value
            before = at


CurveKey: TypeAlias = tuple[str, Entity, str]
"""Whose usage a curve is: cluster, entity and quota key."""


def curve_of(points: Sequence[tuple[datetime, float]], step_s: float) -> Curve:
    """Return a curve through points.

    `points` are times and values, in order. `step_s` is the step in which they were looked for; that of the recording
    may be longer, and is the one they have most often.
    """
    steps = sorted((later - sooner).total_seconds() for (sooner, _), (later, _) in pairwise(points))
    usual = steps[len(steps) // 2] if steps else step_s
    return Curve(tuple(at for at, _ in points), tuple(value for _, value in points), max(step_s, usual))


@dataclass(frozen=True, slots=True)
class Span:
    """A time in which something held, from its start to its end."""

    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedLimit:
    """How much of its limit a bucket used."""

    bucket: Bucket  # The bucket; on the broker where it used the most of its limit
    brokers: int = 1  # On how many brokers it was recorded
    limit: float  # Its limit, above 0
    p50: float  # The median of the rates, in the unit of the key; likewise `p95`, `p99` and `max`
    p95: float
    p99: float
    max: float
    throttled_s: float = 0.0  # How long it was throttled, in seconds
    recorded_s: float = 0.0  # How long it was recorded, in seconds
    is_coarse: bool = False  # Whether the recording cannot tell what the bucket used: it is at most this

    @property
    def used(self) -> float:
        """The share of the limit that the 99th percentile is."""
        return self.p99 / self.limit


@dataclass(frozen=True, slots=True)
class HeadroomPart:
    """How much of their limits the buckets of one key used, the closest to the limit first.

    `left_out` is how many more there are.
    """

    key: str
    rows: tuple[UsedLimit, ...]
    left_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottledTime:
    """How long a bucket would have been throttled under a plan."""

    bucket: Bucket
    before_limit: float | None  # Its limit without the plan; `None` if it has none
    limit: float | None  # Its limit under the plan; `None` if it has none
    throttled_s: float | None  # The estimate in seconds, `None` if there is none; `low_s` and `high_s` bound it
    low_s: float
    high_s: float
    recorded_s: float = 0.0  # How long it was throttled really, as recorded, in seconds
    delay_s: float = 0.0  # The longest wait, in seconds
    hidden_s: float = 0.0  # How long throttling hid a part of the demand from the recording, in seconds
    first: datetime | None = None  # When throttling would have begun; `None` if never
    last: datetime | None = None  # When it would have ended


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySlot:
    """What would have happened to a bucket in a slot of time."""

    at: datetime  # The time of the last sample in it
    rate: float  # The highest rate, in the unit of the key
    throttle_ms: float | None = None  # The highest throttle time that was recorded; `None` if there was none
    waits: Span | None = None  # From when to when requests would have waited; `None` for not at all
    may_wait: Span | None = None  # The same by the upper bound


def replay_part(row: ThrottledTime, slots: Sequence[ReplaySlot], step_s: float) -> ReplayPart:
    """Return the rate of a bucket over time.

    `slots` is what would have happened, in order. `step_s` is how long a slot is.
    """
    rate = curve_of([(slot.at, slot.rate) for slot in slots], step_s)
    recorded = curve_of([(slot.at, slot.throttle_ms) for slot in slots if slot.throttle_ms is not None], step_s)
    gap = timedelta(seconds=rate.step_s)
    return ReplayPart(
        row=row,
        rate=rate,
        throttled=_joined([slot.waits for slot in slots if slot.waits is not None], gap),
        possible=_joined([slot.may_wait for slot in slots if slot.may_wait is not None], gap),
        recorded=recorded,
    )


def _joined(spans: Sequence[Span], gap: timedelta) -> tuple[Span, ...]:
    """Return spans with those as one between which there is less than a step: what is between slots is not known."""
    found: list[Span] = []
    for span in spans:
        if found and span.start - found[-1].end < gap:
            found[-1] = Span(found[-1].start, max(found[-1].end, span.end))
        else:
            found.append(span)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class BacktestPart:
    """How long buckets would have been throttled, the longest first. `left_out` is how many more there are."""

    rows: tuple[ThrottledTime, ...]
    left_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayPart:
    """The rate of one bucket over time, and when it would have been throttled."""

    row: ThrottledTime  # The bucket, and how long it would have been throttled
    rate: Curve  # The recorded rate, in the unit of the key
    throttled: tuple[Span, ...] = ()  # When it would have been throttled
    possible: tuple[Span, ...] = ()  # When it may have been: the higher one of the bounds
    recorded: Curve = field(default_factory=Curve)  # The recorded throttle time, in ms


@dataclass(frozen=True, slots=True)
class Limit:
    """A value of a quota and when it was there; `end` is `None` if it is there still."""

    start: datetime
    end: datetime | None
    value: float
    changed_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitPart:
    """The limit of one entity over time."""

    cluster: str
    address: str  # The entity
    key: str
    limits: tuple[Limit, ...]  # The values, by time; nothing in between is no value of its own
    until: datetime  # The last snapshot
    # What the entity used, the highest of all brokers; without times if it is not known
    usage: Curve = field(default_factory=Curve)


Part: TypeAlias = HeadroomPart | BacktestPart | ReplayPart | LimitPart


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A picture, or a page of pictures and tables."""

    title: str  # What it is about
    about: tuple[str, ...] = ()  # Where the numbers come from: the table, the times
    parts: tuple[Part, ...] = ()  # What is drawn; nothing if there is no data
    nothing: str = "No data."  # Why there are no parts, in a sentence
    notes: tuple[str, ...] = ()  # What a reader must know of the numbers, in sentences


def worst_brokers(rows: Sequence[UsedLimit]) -> list[UsedLimit]:
    """Return each bucket once, as on the broker where it used the most of its limit; that one first of all.

    Those that used as much are in order of their names, so that the result does not depend on that of the rows.
    """
    found: dict[tuple[str | None, str, str], list[UsedLimit]] = {}
    for row in rows:
        found.setdefault((row.bucket.cluster, row.bucket.key, row.bucket.address), []).append(row)
    return sorted((_worst(each) for each in found.values()), key=_by_use)


def _worst(rows: list[UsedLimit]) -> UsedLimit:
    from dataclasses import replace

    throttled = max(row.throttled_s for row in rows)
    return replace(min(rows, key=_by_use), brokers=len(rows), throttled_s=throttled)


def _by_use(row: UsedLimit) -> tuple[float, float, str, str, str, str]:
    bucket = row.bucket
    return -row.used, -row.max / row.limit, bucket.cluster or "", bucket.key, bucket.address, bucket.broker or ""


def headroom_parts(rows: Sequence[UsedLimit], most: int) -> tuple[HeadroomPart, ...]:
    """Return the buckets that are closest to their limits, a part per key; the key with the closest one first.

    `rows` is a row per bucket and broker. `most` is how many buckets are shown, of all keys together.
    """
    worst = worst_brokers(rows)
    shown = worst[:most]
    keys = dict.fromkeys(row.bucket.key for row in shown)
    return tuple(
        HeadroomPart(
            key,
            tuple(row for row in shown if row.bucket.key == key),
            sum(row.bucket.key == key for row in worst[most:]),
        )
        for key in keys
    )
