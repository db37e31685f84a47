"""The model of the backtest against Kafka's own windows: open demand that is throttled, and its recording replayed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quotaform.model.quota_key import PRODUCER_BYTE_RATE
from tests.kafka_windows import recorded_rates, throttled_seconds
from tests.spark.backtest_oracle import replay

REQUEST = 0.05
"""The size of a request, of a limit of 1 per second."""
WINDOW_S = 12.0
PHASES = st.lists(
    st.tuples(st.sampled_from([0.0, 0.3, 0.8, 1.2, 2.0, 4.0]), st.sampled_from([2.0, 5.0, 10.0, 20.0])),
    min_size=1,
    max_size=5,
)


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
def test_the_predicted_time_is_that_which_the_windows_of_a_broker_throttle(
    step: float, phases: list[tuple[float, float]]
) -> None:
    due = requests(phases)
    until = 2 * WINDOW_S + sum(seconds for _, seconds in phases) + 2 * WINDOW_S
    found = replay(recorded_rates(due, until, step), 1.0, PRODUCER_BYTE_RATE.name)
    predicted = found.throttled[""] + found.backlog_s
    # The window of a broker is 10 to 12 seconds long and made of samples of a second. So the limit of the model is that
    # of the broker to within 10 %, which decides where a further window is needed for what waits.
    least, most = throttled_seconds(due, 1.1), throttled_seconds(due, 0.9)
    assert least - 2 * step - 1.0 <= predicted <= most + 2 * step + 1.0
