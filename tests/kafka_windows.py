"""Kafka's rates and throttling in plain Python, for tests: one connection under one quota.

Source: org.apache.kafka.common.metrics.stats.Rate and SampledStat; org.apache.kafka.server.quota.QuotaUtils.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

SAMPLES = 11
SAMPLE_S = 1.0


@dataclass
class Sample:
    """What was recorded in about a second."""

    start: float
    last: float
    total: float = 0.0


@dataclass
class WindowedRate:
    """The rate over the samples whose last request is less than 11 seconds old, as of Kafka 3.8."""

    samples: list[Sample] = field(default_factory=list)  # what was recorded, the oldest first
    most: int = SAMPLES  # how many samples make a window
    sample_s: float = SAMPLE_S  # how long each is

    def record(self, value: float, now: float) -> None:
        if not self.samples or now - self.samples[-1].start >= self.sample_s:
            self.samples = [*self.samples[-self.most :], Sample(now, now)]
        self.samples[-1].total += value
        self.samples[-1].last = now

    def measure(self, now: float) -> tuple[float, float]:
        """Return the rate, and the seconds that it covers."""
        self.samples = [each for each in self.samples if now - each.last < self.most * self.sample_s]
        elapsed = now - self.samples[0].start if self.samples else 0.0
        full = int(elapsed / self.sample_s)
        if full < self.most - 1:
            elapsed += (self.most - 1 - full) * self.sample_s
        return sum(each.total for each in self.samples) / elapsed, elapsed


def recorded_rates(
    due: Iterable[tuple[float, float]], until: float, step: float, rate: WindowedRate | None = None
) -> dict[float, float]:
    """Return the rates that are read at each step while nothing is throttled.

    `due`: the times and sizes of requests. `until`: the time of the last reading. `step`: the seconds between two.
    `rate`: what is read, if not the rate of a quota.
    """
    rate = WindowedRate() if rate is None else rate
    rates: dict[float, float] = {}
    left = list(due)[::-1]
    for number in range(1, int(until / step) + 1):
        now = number * step
        while left and left[-1][0] <= now:
            at, size = left.pop()
            rate.record(size, at)
        rates[now] = rate.measure(now)[0]
    return rates


def mutation_rate() -> WindowedRate:
    """Return the rate of mutations, which is measured by the windows of all other metrics."""
    return WindowedRate(most=2, sample_s=30.0)


def throttled_seconds(due: Sequence[tuple[float, float]], limit: float, longest: float | None = None) -> float:
    """Return the sum of the delays of requests that a client sends when they are due, or as soon as it may.

    `due`: the times and sizes of requests. `limit`: the limit. `longest`: the longest delay of a request, if there is a
    cap.
    """
    rate = WindowedRate()
    free, total = 0.0, 0.0
    for at, size in due:
        now = max(at, free)
        rate.record(size, now)
        observed, window = rate.measure(now)
        delay = max(0.0, (observed - limit) / limit * window)
        if longest is not None:
            delay = min(delay, longest)
        total += delay
        free = now + delay
    return total
