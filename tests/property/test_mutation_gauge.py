"""When mutations were asked for, from the rate that a broker measures over half a minute and more."""

from __future__ import annotations

from random import Random

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quotaform.model.quota_key import CONTROLLER_MUTATION_RATE
from quotaform.usage.replay.replay import asked_rates
from tests.kafka_windows import mutation_rate, recorded_rates
from tests.property.test_series_bucket import replayed

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
