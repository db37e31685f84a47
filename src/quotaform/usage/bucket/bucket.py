"""Which bucket each recorded series belongs to under some quotas: a broker measures and limits per bucket.

A broker names a bucket by the user and the client-id that its level distinguishes (`resolve.resolve`), so a series
is resolved like a request, where a name that it lacks is one that no quota mentions. Several series make one bucket
where other quotas join them; a recording cannot be split where other quotas do:

| recorded as | quotas | is_coarse |
| --- | --- | --- |
| user and client-id | any | no: what is recorded is at least as fine as any bucket |
| user alone | each client-id has a bucket, or an entry for a client-id wins that did not win before | yes |
| client-id alone | each user has a bucket, or an entry for a user wins that did not win before | yes |
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from math import isnan
from typing import Final, NamedTuple

from quotaform.model.entity import CLIENT_ID, IP, USER, Entity, address_of
from quotaform.model.precedence import Level, met_level
from quotaform.model.quotas import Quotas
from quotaform.resolve.index import QuotaIndex
from quotaform.resolve.request import UNMENTIONED, Request, RequestName, effective

_ANY: Final = UNMENTIONED
"""Of a series that lacks the other name, too: whatever an entry requires."""
_LevelValues = dict[tuple[Level, bool], float]
"""The least value of entries by their level and whether they are new."""
_NO_PARTS: Final[_LevelValues] = {}


class RecordedSeries(NamedTuple):
    """A recorded series: the columns `SERIES`. `None` is a name that its bucket does not have, or that is not known."""

    cluster: str | None
    broker: str | None
    key: str
    user: str | None
    client_id: str | None
    ip: str | None
    instance: str | None = None

    @property
    def names(self) -> dict[str, str]:
        """The names of the bucket that a broker recorded, by entity type; an ip has one spelling."""
        ip = self.ip if self.ip is None else address_of(self.ip) or self.ip
        found = {USER: self.user, CLIENT_ID: self.client_id, IP: ip}
        return {entity_type: name for entity_type, name in found.items() if name is not None}

    @property
    def request(self) -> Request:
        """The request that has these names."""
        if self.ip is not None:
            return (self.ip,)
        return tuple(UNMENTIONED if name is None else name for name in (self.user, self.client_id))


class SeriesBucket(NamedTuple):
    """The bucket of a series, and its limit."""

    bucket: str
    """The address of the bucket, such as `user=alice,client-id=app`; that of the series if nothing limits it."""
    limit: float | None  # `None` if nothing limits it
    source: str | None  # The name of the level that won
    entity: str | None  # The address of the entity whose value the limit is
    is_coarse: bool
    """Whether the recording cannot tell which part of it is of the bucket: the quotas have finer buckets."""
    member: str  # The address of the series as it was recorded: one of those that share the bucket
    least_limit: float | None
    """The least limit of all parts that the recording cannot tell apart, where new entries make some."""
    before_limit: float | None  # The limit before; that of now if there are no quotas before
    before_bucket: str  # The address of the bucket before


class SeriesBuckets:
    """Finds the buckets of series under the quotas of one cluster.

    `before` holds the quotas while the usage was recorded, if other ones: brokers measured by their buckets.
    """

    def __init__(self, quotas: Quotas, before: Quotas | None = None) -> None:
        self._index: Final = QuotaIndex(quotas)
        self._before: Final = None if before is None else QuotaIndex(before)
        # The parts that entries take from a series, by key and what they require of it.
        self._parts: Final[dict[tuple[str, str, RequestName | None], _LevelValues]] = defaultdict(dict)
        if before is not None:
            for entity, values in quotas.items():
                self._add_parts(entity, values, before.get(entity, {}))

    def of(self, series: RecordedSeries) -> SeriesBucket:
        """Return the bucket of a series.

        >>> quotas = {Entity(user=None): {"producer_byte_rate": 5.0}}
        >>> series = RecordedSeries("prod", "1", "producer_byte_rate", "alice", "app", None)
        >>> found = SeriesBuckets(quotas).of(series)
        >>> found.bucket, found.limit, found.source, found.member
        ('user=alice', 5.0, 'DefaultUser', 'user=alice,client-id=app')
        """
        found = effective(self._index.entries(series.request), series.key)
        before = found if self._before is None else effective(self._before.entries(series.request), series.key)
        taken = [] if self._before is None else self._taken(series, found.level, before.level)
        names = series.names
        # A bucket has a name that the recording lacks.
        is_finer = found.level is not None and not names.keys() >= set(found.level.bucket)
        limits = [value for value in (found.value, *taken) if value is not None]
        return SeriesBucket(
            bucket=_address(names, found.level),
            limit=found.value,
            source=None if found.level is None else found.level.source,
            entity=None if found.source is None else found.source.address,
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
                for required in (names.get(other), _ANY):
                    parts = self._parts[key, lacking, required]
                    parts[place] = _least(value, parts.get(place, value))

    def _taken(self, series: RecordedSeries, limited_by: Level | None, before: Level | None) -> list[float]:
        """Return the least values of entries that take a part of a series.

        An entry takes a part if it is stronger than what limits the series, and was not so before: then the broker
        already measured that part by itself.
        """
        if series.ip is not None:
            return []
        found: list[float] = []
        for lacking, name, other in (
            (CLIENT_ID, series.client_id, series.user),
            (USER, series.user, series.client_id),
        ):
            if name is None:
                # A series without any name has parts of all kinds.
                for required in (_ANY,) if other is None else (None, other):
                    parts = self._parts.get((series.key, lacking, required), _NO_PARTS)
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
