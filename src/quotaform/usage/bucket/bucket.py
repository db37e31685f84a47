"""Buckets of a recording: which one each recorded series belongs to under some quotas, and its samples as arrays.

A broker measures and limits per bucket, and names a bucket by the user and the client-id that its level distinguishes
(`resolve.resolve`), so a series is resolved like a request, where a name that it lacks is one that no quota mentions.
Several series make one bucket where other quotas join them; a recording cannot be split where other quotas do:

| recorded as | quotas | is_coarse |
| --- | --- | --- |
| user and client-id | any | no: what is recorded is at least as fine as any bucket |
| user alone | each client-id has a bucket, or an entry for a client-id wins that did not win before | yes |
| client-id alone | each user has a bucket, or an entry for a user wins that did not win before | yes |
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from math import isnan
from typing import Any, Final, NamedTuple

import numpy
from msgspec import Struct
from numpy.typing import NDArray

from quotaform.model.entity import CLIENT_ID, USER, Entity
from quotaform.model.precedence import Level, met_level
from quotaform.model.quota_key import QUOTA_KEYS, QUOTA_WINDOW_S
from quotaform.model.quotas import Quotas
from quotaform.resolve.index import UNMENTIONED, QuotaIndex, Request, RequestName, effective
from quotaform.usage.sample import LONGEST_STEP_S, Series


class SeriesBucket(NamedTuple):
    """The bucket of a series, and its limit."""

    bucket: str
    """The address of the bucket, such as `user=alice,client-id=app`; that of the series if nothing limits it."""
    limit: float | None  # `None` if nothing limits it
    source: str | None  # The name of the level that won
    entity_key: str | None  # The address of the entity whose value the limit is
    is_coarse: bool
    """Whether the recording cannot tell which part of it is of the bucket: the quotas have finer buckets."""
    member: str  # The address of the series as it was recorded: one of those that share the bucket
    least_limit: float | None
    """The least limit of all parts that the recording cannot tell apart, where new entries make some."""
    before_limit: float | None  # The limit before; that of now if there are no quotas before
    before_bucket: str  # The address of the bucket before


class SeriesBuckets:
    """Finds the buckets of series under the quotas of one cluster.

    `before` holds the quotas that were in effect while the usage was recorded, if they were others.
    """

    def __init__(self, quotas: Quotas, before: Quotas | None = None) -> None:
        self._index: Final = QuotaIndex(quotas)
        self._before: Final = None if before is None else QuotaIndex(before)
        # The parts that entries take from a series, by key and what they require of it: the least value of entries by
        # their level and whether they are new.
        self._parts: dict[tuple[str, str, RequestName | None], dict[tuple[Level, bool], float]] = defaultdict(dict)
        if before is not None:
            for entity, values in quotas.items():
                self._add_parts(entity, values, before.get(entity, {}))

    def of(self, series: Series) -> SeriesBucket:
        """Return the bucket of a series."""
        parts = (series.user, series.client_id) if series.ip is None else (series.ip,)
        request: Request = tuple(UNMENTIONED if name is None else name for name in parts)
        found = effective(self._index.entries(request), series.key)
        before = found if self._before is None else effective(self._before.entries(request), series.key)
        taken = [] if self._before is None else self._taken(series, found.level, before.level)
        names = series.names
        # A bucket has a name that the recording lacks.
        is_finer = found.level is not None and not names.keys() >= set(found.level.bucket)
        limits = [value for value in (found.value, *taken) if value is not None]
        return SeriesBucket(
            bucket=_address(names, found.level),
            limit=found.value,
            source=None if found.level is None else found.level.source,
            entity_key=None if found.source is None else found.source.address,
            is_coarse=bool(taken) or is_finer,
            member=Entity(names).address,
            least_limit=_least(*limits) if limits else None,
            before_limit=before.value,
            before_bucket=_address(names, before.level),
        )

    def _add_parts(self, entity: Entity, values: Mapping[str, float], before: Mapping[str, float]) -> None:
        level, names = met_level(entity), entity.names
        if level is None:
            return
        for lacking, other in ((CLIENT_ID, USER), (USER, CLIENT_ID)):
            if names.get(lacking) is None:
                continue
            for key, value in values.items():
                place = level, key not in before
                # Of a series that lacks the other name, too, an entry takes a part whatever it requires.
                for required in (names.get(other), UNMENTIONED):
                    parts = self._parts[key, lacking, required]
                    parts[place] = _least(value, parts.get(place, value))

    def _taken(self, series: Series, limited_by: Level | None, before: Level | None) -> list[float]:
        """Return the least values of entries that take a part of a series.

        An entry takes a part if it is stronger than what limits the series, and was not so before: then the broker
        already measured that part by itself.
        """
        if series.ip is not None:
            return []
        found: list[float] = []
        for lacking, name, other in ((CLIENT_ID, series.client_id, series.user), (USER, series.user, series.client_id)):
            if name is None:
                # A series without any name has parts of all kinds.
                for required in (UNMENTIONED,) if other is None else (None, other):
                    parts = self._parts.get((series.key, lacking, required), {})
                    found += [
                        value
                        for (level, is_new), value in parts.items()
                        if level.is_stronger(limited_by) and (is_new or not level.is_stronger(before))
                    ]
        return found


def _least(*values: float) -> float:
    """Return the least of values; a NaN limits nothing."""
    return min(values, key=lambda value: (isnan(value), value))


def _address(names: Mapping[str, str], level: Level | None) -> str:
    """Return the address of the bucket on a level of a series with these names; without a limit that of the series.

    Of a bucket that is finer than what was recorded, the names that are there, as far as they go.
    """
    if level is not None:
        names = {kind: name for kind, name in names.items() if kind in level.bucket} or names
    return Entity(names).address


# What was recorded of each bucket, a row per time, added up over its members.
#
# Brokers measure all their buckets at one time, and are added up time by time. Clients that measure themselves do so
# at times of their own, and their limit is one of all of them. Their sum is made at all times at which any of them
# measured: a client's value at a time is that of its first sample at or after it, if that sample stands for the time;
# otherwise the client adds nothing.
#
# | the sample before it is | a sample stands for the time since |
# | --- | --- |
# | at most `LONGEST_STEP_S` older | the sample before it |
# | older, or there is none | the beginning of its own window, and the sample before it |
#
# So each sample counts for as long as it stands for, whoever else measured meanwhile, and a client that has ended
# counts no more. A series without an instance is one more of them in such a bucket. Where a member is known in both
# ways, as when the same clients were recorded twice, the larger of the two values counts, not their sum.

Floats = NDArray[numpy.float64]
"""Numbers by row; NaN where there is none."""
Integers = NDArray[numpy.int64]
Booleans = NDArray[numpy.bool_]

AT_LIMIT_RATIO: Final = 0.95
"""From this part of the limit on a rate is as high as the limit lets it be: the window of a rate is not exact."""
RECORDED_LIMIT: Final = "before_limit"
"""The column of the limit that held while a series was recorded, before a plan; null if no rate can exceed it."""

MEMBER_BITS: Final = 32
"""How many of the lower bits of `series_id`, the number of a series in its bucket, are that of its member: of those who
have the same names, in the order of their addresses. The others are which of several clients with these names it is; 0
if a broker measured."""
MEMBER: Final = (1 << MEMBER_BITS) - 1
_LONGEST_STEP: Final = round(LONGEST_STEP_S * 1e6)
_NEVER: Final = numpy.iinfo(numpy.int64).min


class BucketRows(Struct, frozen=True, kw_only=True, eq=False):
    """What was recorded of one bucket on one broker, a row per time, of all series together."""

    at: Integers  # Microseconds since 1970, each once
    rate: Floats  # The sum of the rates, in the unit of the key
    rate_high: Floats | None = None
    """Of clients that measured themselves the same, with the larger one of a client's rates before and after where
    neither covers the time since the time before."""
    window_s: Floats  # How many seconds up to a time the rates cover
    throttle_ms: Floats  # The largest average delay of requests that were throttled
    is_newly_throttled: Booleans
    """Whether requests were throttled since the time before, as docs/usage-headroom.md says it.

    A throttle time that stays is an old one, unless the rate is at the limit `RECORDED_LIMIT`: then every delay may be
    as long as the longest that is allowed. Series with different limits are compared with their own, others as the sum.
    """
    members: Integers  # The numbers of the members in their order, see `MEMBER_BITS`
    totals: Floats  # The sum of the rates of each member


def bucket_rows(columns: Mapping[str, NDArray[Any]]) -> BucketRows:
    """Return what was recorded of a bucket on a broker.

    `columns`: `series_id`, `at`, `rate`, `window_s` and `throttle_ms` of its samples, which are in no order, and
    `RECORDED_LIMIT` of the series of each.
    """
    order = numpy.lexsort((columns["series_id"], columns["at"]))
    every = {name: column[order] for name, column in columns.items()}
    series, at = every.pop("series_id"), every.pop("at")
    starts = numpy.flatnonzero(numpy.append(True, (at[1:] != at[:-1]) | (series[1:] != series[:-1])))
    if len(starts) < len(at):
        # Some rows are there twice, and some have the rate apart from the throttle time.
        series, at = series[starts], at[starts]
        every = {name: numpy.fmax.reduceat(column, starts) for name, column in every.items()}
    limit = every.get(RECORDED_LIMIT, numpy.full(len(at), numpy.nan))
    window_s = numpy.minimum(every["window_s"], 1e9)  # As microseconds have 64 bits.
    is_of_clients = bool((series >> MEMBER_BITS).any() and (series != series[0]).any())
    measured = _of_clients if is_of_clients else _of_broker
    return measured(series, at, every["rate"], window_s, every["throttle_ms"], limit)


def starts_of(values: NDArray[Any]) -> Integers:
    """Return where runs of equal values begin."""
    return numpy.flatnonzero(numpy.concatenate(([True], values[1:] != values[:-1]))[: len(values)])


def _of_broker(
    series: Integers, at: Integers, rate: Floats, window_s: Floats, throttle_ms: Floats, limit: Floats
) -> BucketRows:
    """Return what was recorded of series that were measured at common times."""
    starts = starts_of(at)
    is_missing = numpy.isnan(rate)
    sums = numpy.add.reduceat(numpy.where(is_missing, 0.0, rate), starts)
    sums[numpy.logical_and.reduceat(is_missing, starts)] = numpy.nan
    order = numpy.argsort(series, kind="stable")
    is_new = numpy.empty(len(series), bool)
    is_new[order] = numpy.append(True, series[order][1:] != series[order][:-1]) | _is_other(throttle_ms[order])
    is_throttled = ~numpy.isnan(throttle_ms)
    at_limit = limit * AT_LIMIT_RATIO
    least, most = (each.reduceat(at_limit, starts) for each in (numpy.minimum, numpy.maximum))
    of_own = numpy.logical_or.reduceat(rate >= at_limit, starts)
    is_at_limit = numpy.where(least == most, sums >= least, of_own)
    number = series & MEMBER
    members = numpy.flatnonzero(numpy.bincount(number))
    is_any, is_any_new = (numpy.logical_or.reduceat(each, starts) for each in (is_throttled, is_new & is_throttled))
    return BucketRows(
        at=at[starts],
        rate=sums,
        window_s=numpy.fmax.reduceat(window_s, starts),
        throttle_ms=numpy.fmax.reduceat(throttle_ms, starts),
        is_newly_throttled=is_any_new | (is_any & is_at_limit),
        members=members,
        totals=numpy.bincount(number, weights=numpy.nan_to_num(rate))[members].astype(numpy.float64, copy=False),
    )


def _is_other(throttle_ms: Floats) -> Booleans:
    """Return whether each throttle time is another one than that before; after a time without, all of it is new."""
    return numpy.append(True, throttle_ms[1:] != throttle_ms[:-1])


def _of_clients(
    series: Integers, at: Integers, rate: Floats, window_s: Floats, throttle_ms: Floats, limit: Floats
) -> BucketRows:
    """Return what was recorded of series that are partly or all of clients that measured themselves."""
    times = at[starts_of(at)]
    count = len(times)
    before = numpy.append(_NEVER, times[:-1])
    rates, throttle = numpy.zeros((2, count)), numpy.full(count, numpy.nan)
    is_known, is_new, since = numpy.zeros(count, bool), numpy.zeros(count, bool), numpy.full(count, _NEVER)
    window = numpy.where(numpy.isnan(window_s), QUOTA_WINDOW_S, window_s)
    begun = at - numpy.rint(window * 1e6).astype(numpy.int64)
    by_member: dict[int, list[Integers]] = {}
    order = numpy.lexsort((series, series & MEMBER))
    for own in numpy.split(order, starts_of(series[order])[1:]):
        by_member.setdefault(int(series[own[0]] & MEMBER), []).append(own)
    totals = []
    for of_member in by_member.values():
        # As a whole, and by its instances: the rates, and the highest that they may have been.
        ways = numpy.zeros((2, 2, count))
        for own in of_member:
            way = ways[int(series[own[0]] >> MEMBER_BITS > 0)]
            place, sample, stands = _standing(times, at[own], begun[own])
            throttled = throttle_ms[own]
            throttle[place] = numpy.fmax(throttle[place], numpy.where(stands, throttled[sample], numpy.nan))
            is_new[place] |= stands & (~numpy.isnan(throttled) & _is_other(throttled))[sample]
            own = own[~numpy.isnan(rate[own])]
            if not len(own):
                continue
            place, sample, stands = _standing(times, at[own], begun[own])
            # The larger one of a rate and the one before it, if that is near.
            higher = rate[own]
            numpy.fmax(higher[1:], rate[own[:-1]], out=higher[1:], where=numpy.diff(at[own]) <= _LONGEST_STEP)
            own = own[sample]
            way[0, place] += numpy.where(stands, rate[own], 0.0)
            way[1, place] += numpy.where(
                stands, numpy.where(begun[own] > before[place], higher[sample], rate[own]), 0.0
            )
            is_known[place] |= stands
            since[place] = numpy.maximum(since[place], numpy.where(stands, begun[own], _NEVER))
        larger = ways.max(axis=0)
        rates += larger
        totals.append(larger[0].sum())
    rates[:, ~is_known] = numpy.nan
    is_at_limit = rates[0] >= numpy.fmin.reduce(limit) * AT_LIMIT_RATIO
    return BucketRows(
        at=times,
        rate=rates[0],
        rate_high=rates[1],
        window_s=numpy.where(is_known, numpy.maximum(0, times - since) / 1e6, numpy.nan),
        throttle_ms=throttle,
        is_newly_throttled=is_new | (~numpy.isnan(throttle) & is_at_limit),
        members=numpy.array([*by_member]),
        totals=numpy.array(totals),
    )


def _standing(times: Integers, at: Integers, begun: Integers) -> tuple[slice, Integers, Booleans]:
    """Return which times a series is about, its first sample at or after each, and whether that stands for the time.

    `begun`: when the window of each of its samples began.
    """
    since = begun.copy()
    since[1:] = numpy.where(numpy.diff(at) <= _LONGEST_STEP, at[:-1], numpy.maximum(at[:-1], begun[1:]))
    place = slice(int(numpy.searchsorted(times, since[0], "right")), int(numpy.searchsorted(times, at[-1], "right")))
    sample = numpy.searchsorted(at, times[place])
    return place, sample, times[place] > since[sample]


CLUSTER_KEYS: Final = [key.name for key in QUOTA_KEYS.values() if key.per == "cluster"]
"""The quota keys whose limit holds for a whole cluster."""


class RecordedBucket(Struct, frozen=True, eq=False):
    """What was recorded of one bucket on a broker."""

    cluster: str | None
    broker: str | None  # `None` where one limit holds for the whole cluster, and if the recording does not say
    key: str
    bucket: str
    series: Sequence[SeriesBucket]  # Those who share it, by their addresses
    rows: BucketRows

    @property
    def is_sum(self) -> bool:
        """Whether it is of all brokers, each of which has the whole limit, as what clients measure."""
        return self.broker is None and self.key not in CLUSTER_KEYS

    @property
    def is_coarse(self) -> bool:
        """Whether it is of all brokers, or the recording cannot tell which part of it is of whom."""
        return self.is_sum or any(each.is_coarse for each in self.series)

    @property
    def place(self) -> dict[str, str | None]:
        """The columns that say which bucket it is."""
        return {"cluster": self.cluster, "broker": self.broker, "key": self.key, "bucket": self.bucket}


def finite_limit(key: str, limit: float | None) -> float | None:
    """Return a limit; `None` if no rate can exceed it: NaN, the maximum of the key, and more than that."""
    known = QUOTA_KEYS.get(key)
    maximum = float("inf") if known is None else known.maximum
    return limit if limit is not None and limit < maximum else None


def moment_of(micros: float) -> datetime:
    """Return a time that is given in microseconds since 1970."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
