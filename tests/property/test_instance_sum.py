"""What clients of the same names measured is added up as an oracle says; and the rate of mutations over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import isnan, nan
from random import Random
from typing import Any, NamedTuple

import numpy
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from quotaform.model.quota_key import CONTROLLER_MUTATION_RATE, QUOTA_WINDOW_S
from quotaform.usage.bucket.rows import BucketRows, bucket_rows
from quotaform.usage.replay.replay import asked_rates
from quotaform.usage.sample import LONGEST_STEP_S
from tests.kafka_windows import mutation_rate, recorded_rates
from tests.property.test_series_bucket import replayed

SECOND = 1_000_000


class Row(NamedTuple):
    """A sample; an instance of 0 is that of a series without one."""

    at: int
    member: int
    instance: int
    rate: float
    window_s: float
    throttle_ms: float


rows_of = st.lists(
    st.builds(
        Row,
        at=st.one_of(st.integers(0, 12), st.integers(0, 40).map(lambda each: each * 60), st.integers(590, 1300)),
        member=st.integers(1, 2),
        instance=st.integers(0, 3),
        rate=st.sampled_from([nan, 0.0, 1.0, 2.5, 4.0, 1024.0]),
        window_s=st.sampled_from([nan, 1.0, 11.5, 60.0, 300.0, 700.0, 1e12]),
        throttle_ms=st.sampled_from([nan, nan, 30.0, 40.0]),
    ),
    min_size=1,
    max_size=40,
    unique_by=lambda row: (row.at, row.member, row.instance),
)


def summed(rows: Sequence[Row]) -> BucketRows:
    columns = list(zip(*rows, strict=True))
    series = [instance << 32 | member for member, instance in zip(columns[1], columns[2], strict=True)]
    numbers = (numpy.array(column, dtype=float) for column in columns[3:])
    names = ("at", "series_id", "rate", "window_s", "throttle_ms")
    return bucket_rows(dict(zip(names, (numpy.array(columns[0]) * SECOND, numpy.array(series), *numbers), strict=True)))


def standing_for(rows: Sequence[Row], at: int) -> tuple[Row, Row | None] | None:
    """The first sample of a series at or after a time, if it stands for it; and the one before it."""
    later = [place for place, row in enumerate(rows) if row.at >= at]
    if not later:
        return None
    row = rows[later[0]]
    before = rows[later[0] - 1] if later[0] else None
    window = QUOTA_WINDOW_S if isnan(row.window_s) else row.window_s
    if row.at == at or (before is not None and row.at - before.at <= LONGEST_STEP_S) or at > row.at - window:
        return row, before
    return None


def expected(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """What is used at each time, by loops."""
    series: dict[tuple[int, int], list[Row]] = {}
    for row in sorted(rows):
        series.setdefault((row.member, row.instance), []).append(row)
    found: list[dict[str, Any]] = []
    for at in sorted({row.at for row in rows}):
        parts: dict[int, dict[int, float]] = {}
        highs: dict[int, dict[int, float]] = {}
        windows, throttle_times, is_new = [], [], False
        for (member, instance), own in series.items():
            rated = standing_for([row for row in own if not isnan(row.rate)], at)
            if rated is not None:
                row, before = rated
                parts.setdefault(member, {})[instance] = row.rate
                window = QUOTA_WINDOW_S if isnan(row.window_s) else min(row.window_s, 1e9)
                windows.append(at - row.at + window)
                is_covered = bool(found) and row.at - window <= found[-1]["at"]
                is_near = before is not None and row.at - before.at <= LONGEST_STEP_S
                rates = [row.rate, before.rate] if before is not None and is_near and not is_covered else [row.rate]
                highs.setdefault(member, {})[instance] = max(rates)
            throttled = standing_for(own, at)
            if throttled is not None and not isnan(throttled[0].throttle_ms):
                row, before = throttled
                throttle_times.append(row.throttle_ms)
                is_new |= before is None or before.throttle_ms != row.throttle_ms
        of_members = {member: _of_member(own) for member, own in parts.items()}
        found.append(
            {
                "at": at,
                "rate": sum(of_members.values()) if of_members else None,
                "rate_high": sum(map(_of_member, highs.values())) if highs else None,
                "window_s": max(0.0, min(windows)) if windows else None,
                "throttle_ms": max(throttle_times, default=None),
                "is_new": is_new,
                "members": of_members,
            }
        )
    return found


def _of_member(rates: Mapping[int, float]) -> float:
    return max(rates.get(0, 0.0), sum(rate for instance, rate in rates.items() if instance))


@given(rows_of)
@example([Row(0, 1, 1, 1.0, 60.0, nan), Row(300, 1, 2, 1.0, 60.0, nan), Row(600, 1, 1, 1.0, 60.0, 30.0)])
@example([Row(0, 1, 1, 1.0, 60.0, nan), Row(300, 1, 2, 1.0, 60.0, nan), Row(601, 1, 1, 1.0, 60.0, 30.0)])
@example([Row(0, 1, 1, 9.0, 60.0, nan), Row(240, 1, 2, 1.0, 60.0, nan), Row(300, 1, 1, 1.0, 60.0, nan)])
def test_the_sum_is_that_of_the_oracle(rows: list[Row]) -> None:
    assume(any(row.instance for row in rows) and len({row[1:3] for row in rows}) > 1)
    found, wanted = summed(rows), expected(rows)
    assert found.rate_high is not None
    assert (found.at // SECOND).tolist() == [each["at"] for each in wanted]
    for name in ("rate", "rate_high", "window_s", "throttle_ms"):
        values = [None if isnan(value) else value for value in getattr(found, name).tolist()]
        assert values == pytest.approx([each[name] for each in wanted]), name
    assert found.is_newly_throttled.tolist() == [each["is_new"] for each in wanted]
    members = sorted({row.member for row in rows})
    assert found.members.tolist() == members
    totals = [sum(each["members"].get(member, 0.0) for each in wanted) for member in members]
    assert found.totals.tolist() == pytest.approx(totals)


@given(rows_of)
def test_each_second_of_a_client_counts_once(rows: list[Row]) -> None:
    """Bytes are kept: without gaps, the sum over steps is the sum over each client's own steps."""
    own = [
        row._replace(at=row.at % 13, rate=0.0 if isnan(row.rate) else row.rate, instance=row.instance or 1)
        for row in rows
    ]
    own = list({(row.at, row.member, row.instance): row for row in own}.values())
    # Each client has a sample at the beginning.
    own = [row for row in own if row.at] + [
        Row(0, member, instance, 0.0, 11.5, nan) for member, instance in {(row.member, row.instance) for row in own}
    ]
    found = summed(own)
    whole = float((found.rate[1:] * numpy.diff(found.at)).sum()) / SECOND
    series: dict[tuple[int, int], list[Row]] = {}
    for row in sorted(own):
        series.setdefault((row.member, row.instance), []).append(row)
    wanted = sum((row.at - before.at) * row.rate for each in series.values() for before, row in pairwise(each))
    assert whole == pytest.approx(wanted)


BURSTS = st.lists(
    st.tuples(st.integers(1, 100), st.floats(0.0, 12.0), st.floats(75.0, 200.0)),
    min_size=1,
    max_size=3,
)
"""How many mutations, in how many seconds, and how long nothing is asked for after them."""


def due_times(bursts: list[tuple[int, float, float]]) -> list[tuple[float, float]]:
    """The times of mutations, after a time without any."""
    due: list[tuple[float, float]] = []
    begin = 100.0
    for count, seconds, quiet in bursts:
        due += [(begin + (number + 0.5) * seconds / count, 1.0) for number in range(count)]
        begin += seconds + quiet
    return due


def asked(gauge: dict[float, float], random: Random) -> tuple[numpy.ndarray, numpy.ndarray]:
    """What was asked for until each time, if samples have a time that is not quite that of the measurement."""
    times = sorted(gauge)
    at = numpy.array([round((time + random.uniform(0.0, 0.02)) * 1e6) for time in times])
    rates = asked_rates(at, numpy.array([gauge[time] for time in times]))
    return numpy.array(times), numpy.cumsum(rates * numpy.diff(at / 1e6, prepend=at[0] / 1e6))


@pytest.mark.parametrize("step", [1.0, 2.0, 5.0])
@given(bursts=BURSTS, seed=st.integers(0, 10))
def test_bursts_are_found_where_they_were(step: float, bursts: list[tuple[int, float, float]], seed: int) -> None:
    due = due_times(bursts)
    gauge = recorded_rates(due, due[-1][0] + 100.0, step, mutation_rate())
    times, until = asked(gauge, Random(seed))
    sent = numpy.array([at for at, _ in due])
    most = max(count for count, *_ in bursts)
    # What was asked for until a step before, and what was until a step after.
    earlier = numpy.searchsorted(sent, times - step, side="right")
    later = numpy.searchsorted(sent, times + step, side="right")
    error = 1.0 + 0.05 * most * len(bursts)
    assert (until >= earlier - error).all()
    assert (until <= later + error).all()


def test_a_burst_is_found_while_an_earlier_one_still_counts() -> None:
    """While the window of the first one was forgotten, a part of the second one was lost."""
    due = due_times([(50, 10.0, 50.0), (50, 10.0, 50.0), (50, 10.0, 50.0)])
    times, until = asked(recorded_rates(due, due[-1][0] + 100.0, 1.0, mutation_rate()), Random(1))
    for number in range(3):
        reached = until[numpy.searchsorted(times, 100.0 + 60.0 * number + 15.0)]
        assert reached == pytest.approx(50 * (number + 1), rel=0.05)


@pytest.mark.parametrize("step", [1.0, 5.0, 10.0])
@pytest.mark.parametrize("rate", [0.2, 3.0])
def test_steady_demand_is_about_as_much(step: float, rate: float) -> None:
    due = [(100.0 + number / rate, 1.0) for number in range(int(300 * rate))]
    _, until = asked(recorded_rates(due, 500.0, step, mutation_rate()), Random(1))
    assert until[-1] == pytest.approx(len(due), rel=0.2)


def test_a_short_recording_is_left_as_it_is() -> None:
    rates = numpy.array([1.0, 2.0, 3.0])
    assert asked_rates(numpy.array([1, 2, 3]) * 1_000_000, rates) is rates


def test_what_a_broker_refuses_is_predicted_from_bursts() -> None:
    """A burst of 80 looked like two mutations per second, which a limit of two lets pass."""
    due = [(100.0 + number / 10, 1.0) for number in range(80)]
    found = replayed(recorded_rates(due, 220.0, 1.0, mutation_rate()), 2.0, CONTROLLER_MUTATION_RATE)
    low, waited, high = (found.waits[variant].waited.sum() for variant in ("_low", "", "_high"))
    # 22 at once and 2 per second: overdrawn from 22 / (10 - 2) s on until (80 - 22) / 2 s.
    assert waited == pytest.approx(29.0 - 2.75, abs=2.0)
    assert low <= waited <= high
