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

from typing import Final

import numpy

from quotaform.spark.usage.bucket_rows import Floats, Integers

LONGEST_STEP_S: Final = 10.0
"""How far apart samples may be so that several of them fall into the time in which a window only grows older."""
_WINDOW_S: Final = 30.0
_OLDEST_S: Final = 3 * _WINDOW_S
"""For how long a window can count: it is kept while its last mutation is less than two windows old."""
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
    pace = numpy.median(step)
    # A bucket has no rate before its first mutation, nor after an hour without any.
    is_first = numpy.append(True, step > LONGEST_STEP_S + pace)
    step = numpy.where(is_first, pace, numpy.append(pace, step))
    before = numpy.append(numpy.nan, rate[:-1])
    begun = _beginnings(time, step, before, rate)
    age = _ages(time, begun, rate)
    total = numpy.where(rate > 0, rate * age, 0.0)
    # Where it begins to grow older, it may be as old as a window, and its age twice as much or not.
    is_last = numpy.isnan(begun) & ~numpy.isnan(numpy.append(begun[1:], numpy.nan))
    total = numpy.where(is_last, numpy.append(total[1:], numpy.nan), total)
    is_new = is_first & (age <= _WINDOW_S + pace + _TOLERANCE_S)
    grown = total - numpy.where(is_new, 0.0, numpy.where(is_first, numpy.nan, numpy.append(numpy.nan, total[:-1])))
    asked = numpy.where(numpy.isnan(grown), rate, numpy.maximum(0.0, grown) / step)
    # Nothing was asked for while it only grew older; the rest of what it then differs by is the times of the samples.
    return numpy.where(numpy.isnan(begun), asked, 0.0)


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


def _ages(time: Floats, begun: Floats, rate: Floats) -> Floats:
    """Return how old the oldest window was at each sample; NaN where that is not known.

    It is known from the next time at which nothing was asked for, or else from the last one without a rate.
    """
    places = numpy.arange(len(begun))
    following = numpy.minimum.accumulate(numpy.where(numpy.isnan(begun), len(begun), places)[::-1])[::-1]
    known = numpy.append(begun, numpy.nan)[following]
    reached = numpy.append(time, numpy.inf)[following] - time
    idle = numpy.append(numpy.nan, time)[numpy.maximum.accumulate(numpy.where(rate > 0, 0, places + 1))]
    age = numpy.where(reached <= _OLDEST_S, time - known, time - idle)
    # What is younger than a window is the only one, and then counts for one more.
    age = numpy.where(age < _WINDOW_S, age + _WINDOW_S, age)
    return numpy.where((age >= _WINDOW_S) & (age <= _OLDEST_S + _TOLERANCE_S), age, numpy.nan)
