"""The model of the backtest against Kafka's own windows; `decided-replayed.txt` has what it says of each quota key."""

from __future__ import annotations

from collections.abc import Mapping

import numpy
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from quotaform.model.quota_key import PRODUCER_BYTE_RATE, QuotaKey
from quotaform.usage.replay.replay import Demand, Replay, replay
from tests.kafka_windows import recorded_rates, throttled_seconds

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
