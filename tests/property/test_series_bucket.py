"""Buckets of recorded series against `quotaform.resolve.resolve`, and the backtest against Kafka's own windows."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from random import Random
from typing import Final

import numpy
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from quotaform.model.entity import Entity
from quotaform.model.quota_key import PRODUCER_BYTE_RATE, QuotaKey
from quotaform.model.quotas import Quotas
from quotaform.usage.bucket.bucket import SeriesBucket, SeriesBuckets, SeriesNames
from quotaform.usage.replay.replay import Demand, Replay, replay
from tests.builder import CONNECTION, MUTATION, PRODUCER
from tests.kafka_windows import recorded_rates, throttled_seconds
from tests.spark.usage_oracle import TYPES, bucket_of, limit_of

KEYS: Final = (PRODUCER, MUTATION, CONNECTION)
USERS: Final = ("alice", "bob", "nobody", None)
CLIENTS: Final = ("app", "web", "", None)
SERIES: Final = tuple(
    SeriesNames(*names)
    for names in (
        *product(USERS, CLIENTS, (None,)),
        *((None, None, ip) for ip in ("10.0.0.1", "0:0::1", "no-ip")),
    )
)
ENTITIES: Final = (
    *(Entity(user="alice", client_id="app"), Entity(user="alice", client_id=None), Entity(user="alice")),
    *(Entity(user=None, client_id="app"), Entity(user=None, client_id=None), Entity(user=None)),
    *(Entity(client_id="app"), Entity(client_id=None), Entity(user="bob"), Entity(ip=None), Entity(ip="::1")),
    *(Entity(client_id=""), Entity(user="alice", client_id=""), Entity(user="nobody", client_id="web")),
)


def some_quotas(random: Random) -> Quotas:
    chosen = random.sample(ENTITIES, random.randrange(0, 6))
    return {
        entity: {key: float(random.randrange(1, 9)) for key in ([CONNECTION] if "ip" in entity.types else KEYS[:2])}
        for entity in chosen
    }


CHANGES: Final = [(some_quotas(random), some_quotas(random)) for random in map(Random, range(80))]
"""Quotas before and after a change."""


def by_type(names: SeriesNames) -> dict[str, str | None]:
    return dict(zip(TYPES.values(), names, strict=True))


@pytest.mark.parametrize("held", [after for _, after in CHANGES[:30]])
def test_each_series_has_the_bucket_that_resolve_says(held: Quotas) -> None:
    known = SeriesBuckets(held)
    for names, key in product(SERIES, KEYS):
        found, expected = known.of(names, key), bucket_of(held, by_type(names), key)
        assert (found.bucket, found.limit, found.source, found.entity, found.is_coarse, found.member) == expected
        assert (found.before_limit, found.before_bucket, found.least_limit) == (found.limit, found.bucket, found.limit)


def is_split(before: Quotas, after: Quotas, names: SeriesNames, key: str) -> bool:
    """Whether requests that a broker measured as one series, or may have, have buckets by a name that it lacks.

    All clients are tried that there can be: each of a name that quotas mention, and one of a name that none does.
    """
    return bool(parts(before, after, names, key))


def parts(before: Quotas, after: Quotas, names: SeriesNames, key: str) -> list[float | None]:
    """The limits of the parts of a series that have buckets by a name that it lacks."""
    user, client, ip = names
    if ip is not None:
        return []
    found = []
    for each in product((user,) if user is not None else USERS, (client,) if client is not None else CLIENTS):
        asked = by_type(SeriesNames(*each, None))
        measured, limit = limit_of(before, asked, key), limit_of(after, asked, key)
        if measured.level is not None:
            tags = tuple(
                each[place] if kind in measured.level.bucket else None
                for place, kind in enumerate(("user", "client-id"))
            )
            is_of_series = tags == (user, client)
        else:
            is_of_series = True
        lacks = [kind for kind, name in zip(("user", "client-id"), (user, client), strict=True) if name is None]
        if is_of_series and limit.level is not None and set(lacks) & set(limit.level.bucket):
            found.append(limit.value)
    return found


def is_measured(before: Quotas, names: SeriesNames, key: str) -> bool:
    """Whether a broker could measure clients by these names, and no others."""
    level = limit_of(before, by_type(names), key).level
    return level is None or all((kind in level.bucket) == (name is not None) for kind, name in by_type(names).items())


def test_no_series_is_taken_for_whole_that_a_change_splits() -> None:
    """An entry for a client-id that another one overrode was overlooked when the other one was removed."""
    split, possible = set(), set()
    for number, (before, after) in enumerate(CHANGES):
        known = SeriesBuckets(after, before)
        for names, key in product(SERIES, KEYS):
            found: SeriesBucket = known.of(names, key)
            if is_split(before, after, names, key):
                split.add((number, names, key))
                assert found.is_coarse, (before, after, names, key)
            # What an entry takes may have been measured by another one, which is not looked for.
            elif found.is_coarse and is_measured(before, names, key):
                possible.add((number, names, key))
            assert (found.before_limit, found.before_bucket) == bucket_of(before, by_type(names), key)[1::-1]
    assert len(possible) < len(split) / 10


def test_the_least_limit_is_that_of_the_smallest_part() -> None:
    before = {Entity(user="alice"): {PRODUCER: 100.0}}
    new = {Entity(user="alice", client_id="app"): {PRODUCER: 10.0}, Entity(client_id="web"): {PRODUCER: 1.0}}
    found = SeriesBuckets({**before, **new}, before).of(SeriesNames("alice", None, None), PRODUCER)
    # The entry for web is weaker than that of alice.
    assert (found.is_coarse, found.limit, found.least_limit) == (True, 100.0, 10.0)
    whole = SeriesBuckets({**before, **new}, before).of(SeriesNames("alice", "app", None), PRODUCER)
    assert (whole.is_coarse, whole.limit, whole.least_limit) == (False, 10.0, 10.0)


REQUEST = 0.05
"""The size of a request, of a limit of 1 per second."""
WINDOW_S = 12.0
PHASES = st.lists(
    st.tuples(st.sampled_from([0.0, 0.3, 0.8, 1.2, 2.0, 4.0]), st.sampled_from([2.0, 5.0, 10.0, 20.0])),
    min_size=1,
    max_size=5,
)


def replayed(rates: Mapping[float, float], limit: float, key: QuotaKey) -> Replay:
    """Replay the rates of a bucket by time."""
    at, nothing = numpy.array([round(time * 1e6) for time in rates]), numpy.full(len(rates), numpy.nan)
    return replay(Demand(at, numpy.array([*rates.values()]), nothing), limit, key.enforcement)


def requests(phases: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The times and sizes of requests at rates that last for some seconds each, after a time without any."""
    due: list[tuple[float, float]] = []
    begin = 2 * WINDOW_S
    for rate, seconds in phases:
        count = int(rate * seconds / REQUEST)
        due += [(begin + (number + 1) * seconds / count, REQUEST) for number in range(count)]
        begin += seconds
    return due


@pytest.mark.parametrize("step", [1.0, 2.0])
@given(phases=PHASES)
@example(phases=[(4.0, 10.0)])
def test_the_predicted_time_is_that_which_the_windows_of_a_broker_throttle(
    step: float, phases: list[tuple[float, float]]
) -> None:
    due = requests(phases)
    # Until nothing waits any more: what waits at the end is only known to within a window.
    until = 2 * WINDOW_S + sum(seconds for _, seconds in phases) + 1.2 * sum(size for _, size in due) + 2 * WINDOW_S
    found = replayed(recorded_rates(due, until, step), 1.0, PRODUCER_BYTE_RATE)
    predicted = found.waits[""].waited.sum() + found.backlog_s[-1]
    # The window of a broker is 10 to 12 seconds long and made of samples of a second. So the limit of the model is that
    # of the broker to within 10 %, which decides where a further window is needed for what waits.
    least, most = throttled_seconds(due, 1.1), throttled_seconds(due, 0.9)
    assert least - 2 * step - 1.0 <= predicted <= most + 2 * step + 1.0


@pytest.mark.parametrize("step", [1.0, 5.0, 10.0])
@given(phases=st.lists(st.tuples(st.sampled_from([0.0, 0.3, 2.0, 4.0]), st.sampled_from([10.0, 20.0])), min_size=1))
@example(phases=[(2.0, 10.0), (0.3, 20.0)] * 9)
def test_what_the_windows_of_a_broker_throttle_is_within_the_bounds(
    step: float, phases: list[tuple[float, float]]
) -> None:
    """Of samples 10 seconds apart the bounds had no width: all of 8 simulations lay outside.

    An episode that is over between two samples is in none of them; these are longer.
    """
    due = requests(phases)
    until = 2 * WINDOW_S + sum(seconds for _, seconds in phases) + 1.2 * sum(size for _, size in due) + 2 * WINDOW_S
    waits = replayed(recorded_rates(due, until, step), 1.0, PRODUCER_BYTE_RATE).waits
    assert waits["_low"].waited.sum() <= throttled_seconds(due, 0.9)
    assert throttled_seconds(due, 1.1) <= waits["_high"].waited.sum()
