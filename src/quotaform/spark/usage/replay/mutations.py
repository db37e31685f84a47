"""When mutations were asked for: what a gauge of half a minute and more says of them, where it is read often.

Brokers limit mutations with a token bucket, but measure them with the windows of their other metrics: two of 30 s
(`metrics.num.samples`, `metrics.sample.window.ms`), not those of quotas. The rate is N / w, where N is how many there
were, and w how long ago the oldest window began; 30 s more, while that is the only one. So 80 topics that are created
at once are a rate of 2.7/s, which falls to 1.3/s, rises to 2.7/s again, and falls for another half a minute.

While nothing is asked for, N stays and w grows with the time, so that two rates x and y that are D apart are those of
w = D x / (x - y): where this holds for several samples in a row, w and N are known, and before them w is known from
the time that has passed. What N grows by is what was asked for.

Source: kafka.server.ControllerMutationQuotaManager; org.apache.kafka.common.metrics.stats.Rate.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isnan, nan
from typing import Final

import numpy

from quotaform.spark.usage.bucket.bucket_rows import Floats, Integers

LONGEST_STEP_S: Final = 10.0
"""How far apart samples may be so that several of them fall into the time in which a window only grows older."""
_WINDOW_S: Final = 30.0
_OLDEST_S: Final = 3 * _WINDOW_S
"""For how long a window can count: it is kept while its last mutation is less than two windows old."""
_LEAST: Final = 0.97
"""To which part a total may shrink that does not: the times of samples are not quite right."""
_JITTER_S: Final = 1.0
"""By how much a beginning may be wrong that follows from many samples."""
_FEWEST: Final = 4
"""Samples from which anything follows."""
_TOLERANCE_S: Final = 3.0
"""By how much the beginnings of a window that follow from two pairs of samples may differ: the time of a sample is not
quite that at which the broker computed it."""


def asked_rates(at: Integers, rate: Floats) -> Floats:
    """Return how many mutations per second were asked for since the sample before each, as far as that can be known.

    Where it can't, the rate is returned as it is: under steady demand it is what was asked for.

    Args:
        at: Microseconds, in order, at most about `LONGEST_STEP_S` apart.
        rate: The recorded rate of mutations.
    """
    if len(at) < _FEWEST:
        return rate
    time = at / 1e6
    step = numpy.diff(time)
    pace = float(numpy.median(step))
    # A bucket has no rate before its first mutation, nor after an hour without any.
    is_first = numpy.append(True, step > LONGEST_STEP_S + pace)
    step = numpy.where(is_first, pace, numpy.append(pace, step))
    begun = _beginnings(time, step, numpy.append(numpy.nan, rate[:-1]), rate)
    following = _following(time, begun)
    gauge = _Gauge()
    asked = numpy.empty(len(rate))
    for place, values in enumerate(
        zip(time.tolist(), step.tolist(), rate.tolist(), begun.tolist(), following.tolist(), strict=True)
    ):
        if is_first[place]:
            gauge = _Gauge()
        asked[place] = gauge.asked(*values) / step[place]
        if is_first[place] and gauge.age(time[place]) > _WINDOW_S + pace + _TOLERANCE_S:
            # They were asked for before it, nobody knows when.
            asked[place] = rate[place]
    return asked


@dataclass(slots=True)
class _Gauge:
    """What is known of the windows of a rate, from sample to sample.

    Attributes:
        begun: When the oldest window began, or 30 s before that while it is the only one; NaN if that is not known.
        total: How many mutations the windows hold; NaN if that is not known.
    """

    begun: float = nan
    total: float = 0.0

    def asked(self, time: float, step: float, rate: float, begun: float, following: float) -> float:
        """Return how many mutations were asked for since the sample before.

        Args:
            step: The seconds since the one before.
            begun: When the oldest window began, if nothing was asked for since the one before; else NaN.
            following: The same of the next sample of which that is known, if it is near.
        """
        if rate <= 0:
            self.begun, self.total = nan, 0.0
            return 0.0
        if not isnan(begun):
            self.begun, self.total = begun, rate * (time - begun)
            return 0.0
        for candidate in self._candidates(time, step, rate, following):
            total = rate * (time - candidate)
            # What a window held is forgotten as a whole, and then the rate is less than it would have to be.
            if total >= self.total * _LEAST:
                more, self.begun, self.total = max(0.0, total - self.total), candidate, max(total, self.total)
                return more
        # Another window is the oldest one now.
        age = _only_or_not(time - following)
        self.begun, self.total = (time - age, rate * age) if not isnan(age) else (nan, nan)
        return rate * step

    def age(self, time: float) -> float:
        """Return for how many seconds the oldest window counts; NaN if that is not known."""
        return time - self.begun

    def _candidates(self, time: float, step: float, rate: float, following: float) -> Iterator[float]:
        """Yield when the oldest window may have begun, the most likely time first."""
        if isnan(self.total):
            return
        if isnan(self.begun):
            # The first mutations since the sample before, or those that are in the first sample.
            age = _only_or_not(time - following)
            yield time - step / 2 - _WINDOW_S if isnan(age) else time - age
            return
        age = _only_or_not(time - following)
        if abs(rate * age - self.total) <= self.total * (1 - _LEAST):
            # Another window is the oldest one now, of those that hold the same.
            yield time - age
        age = time - self.begun
        # A window that was the only one and is 30 s old no longer counts for 30 s more: the rate is about doubled.
        is_older = 2 * _WINDOW_S - _TOLERANCE_S <= age <= 2 * _WINDOW_S + step + _TOLERANCE_S
        if is_older and rate * (age - _WINDOW_S) >= self.total * _LEAST:
            yield self.begun + _WINDOW_S
        elif age <= _OLDEST_S + _TOLERANCE_S:
            yield self.begun


def _only_or_not(age: float) -> float:
    """Return for how many seconds a window of an age counts."""
    return age + _WINDOW_S if age < _WINDOW_S - _JITTER_S else age


def _following(time: Floats, begun: Floats) -> Floats:
    """Return the next known beginning of each sample, NaN if there is none in the time that a window is kept."""
    places = numpy.where(numpy.isnan(begun), len(begun), numpy.arange(len(begun)))
    next_place = numpy.minimum.accumulate(places[::-1])[::-1]
    is_near = numpy.append(time, numpy.inf)[next_place] - time <= _OLDEST_S
    return numpy.where(is_near, numpy.append(begun, numpy.nan)[next_place], numpy.nan)


def _beginnings(time: Floats, step: Floats, before: Floats, rate: Floats) -> Floats:
    """Return when the oldest window began of each sample since whose predecessor nothing was asked for; else NaN."""
    falls = (rate > 0) & (rate < before)
    with numpy.errstate(divide="ignore", invalid="ignore"):
        age = numpy.where(falls, step * before / (before - rate), numpy.nan)
    age[(age < _WINDOW_S - _TOLERANCE_S) | (age > _OLDEST_S + _TOLERANCE_S)] = numpy.nan
    begun = time - age
    same = numpy.abs(numpy.diff(begun)) <= _TOLERANCE_S
    is_known = numpy.append(same, False) | numpy.append(False, same)
    return _settled(numpy.where(is_known, begun, numpy.nan))


def _settled(begun: Floats) -> Floats:
    """Return one beginning for all samples in a row that have about the same one: their median."""
    known = ~numpy.isnan(begun)
    # A new row begins after an unknown one, and where another window has become the oldest.
    jumps = numpy.append(True, ~(numpy.abs(numpy.diff(begun)) <= 2 * _TOLERANCE_S))
    rows = numpy.cumsum(jumps)
    found = begun.copy()
    for row in numpy.unique(rows[known]):
        of_row = known & (rows == row)
        found[of_row] = numpy.median(begun[of_row])
    return found
