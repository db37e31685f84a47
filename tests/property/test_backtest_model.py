"""The model of the backtest against Kafka's own windows, and its arrays against loops over the same recording."""

from __future__ import annotations

from collections.abc import Mapping

import numpy
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from quotaform.model.quota_key import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE, QUOTA_KEYS
from quotaform.usage.replay.replay import VARIANTS, Demand, Replay, replay
from tests.kafka_windows import recorded_rates, throttled_seconds
from tests.spark import backtest_oracle

REQUEST = 0.05
"""The size of a request, of a limit of 1 per second."""
WINDOW_S = 12.0
PHASES = st.lists(
    st.tuples(st.sampled_from([0.0, 0.3, 0.8, 1.2, 2.0, 4.0]), st.sampled_from([2.0, 5.0, 10.0, 20.0])),
    min_size=1,
    max_size=5,
)


def replayed(rates: Mapping[float, float], limit: float, key: str, windows: Mapping[float, float]) -> Replay:
    """Replay the rates of a bucket by time, and how many seconds each covers where that is known."""
    pace = backtest_oracle.pace_of(sorted(rates))
    demand = Demand(
        at=numpy.array([round(time * 1e6) for time in rates]),
        rate=numpy.array(list(rates.values())),
        window_s=numpy.array([windows.get(time, numpy.nan) for time in rates]),
        pace_s=numpy.nan if pace is None else pace,
    )
    return replay(demand, limit, QUOTA_KEYS[key].enforcement)


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
    found = replayed(recorded_rates(due, until, step), 1.0, PRODUCER_BYTE_RATE.name, {})
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
    waits = replayed(recorded_rates(due, until, step), 1.0, PRODUCER_BYTE_RATE.name, {}).waits
    assert waits["_low"].waited.sum() <= throttled_seconds(due, 0.9)
    assert throttled_seconds(due, 1.1) <= waits["_high"].waited.sum()


SAMPLES = st.lists(
    st.tuples(
        st.sampled_from([1.0] * 9 + [2.0, 3.0, 700.0]),
        st.sampled_from([0.0, 0.25, 0.875, 1.0, 1.25, 2.0, 6.0]),
        st.sampled_from([11.5, 11.5, 60.0, 0.5, None]),
    ),
    min_size=1,
    max_size=40,
)
"""Samples: how many steps after the one before, the rate as a part of the limit, and what it covers."""


@pytest.mark.parametrize("key", QUOTA_KEYS)
@given(step=st.sampled_from([1.0, 2.0, 3.0, 5.0, 7.0, 10.0, 15.0, 60.0, 300.0]), samples=SAMPLES)
def test_a_replay_is_what_a_loop_over_the_samples_finds(
    key: str, step: float, samples: list[tuple[float, float, float | None]]
) -> None:
    # Of these numbers, sums and differences are exact, so that both agree on what is equal to the limit.
    limit = 65_536.0 if key == CONSUMER_BYTE_RATE.name else 8.0
    rates: dict[float, float] = {}
    windows: dict[float, float] = {}
    time = 0.0
    for steps, share, window in samples:
        time += steps * step
        rates[time] = share * limit
        if window is not None:
            windows[time] = window
    found = replayed(rates, limit, key, windows)
    for wait in found.waits.values():
        # After a gap it was as long as the window, of a sample that stood for less.
        assert (wait.waited <= found.step_s + 1e-6).all()
    wanted = backtest_oracle.replay(rates, limit, key, windows)
    assert found.step_s.sum() == pytest.approx(wanted.recorded_s)
    assert found.backlog_s[-1] == pytest.approx(wanted.backlog_s, abs=1e-6)
    for variant in VARIANTS:
        wait = found.waits[variant]
        assert wait.waited.sum() == pytest.approx(wanted.throttled[variant], abs=1e-6), variant
        longest = wait.delay[wait.waited > 0].max(initial=0.0)
        assert longest == pytest.approx(wanted.delay[variant], abs=1e-6), variant
    times = [at for at, waited in zip(rates, found.waits[""].waited, strict=True) if waited > 0]
    assert times == sorted(wanted.times)
