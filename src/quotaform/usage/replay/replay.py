"""What brokers would have done with a recorded demand under other limits: their windows of rates as running minima.

Let L be the limit, W the window (11.5 s), O the recorded rate of a window, and A(t) what was asked for until t. A
broker admits what keeps the sum of its window within L x W, and lets requests wait otherwise. What it has served is

    S(t) = min over k = 0, 1, 2, ... of A(t - k W) + k L W

so that the backlog is the largest of A(t) - A(t - k W) - k L W. The difference is the sum of W x O at t, t - W, ...,
t - (k - 1) W, which is what was recorded: the backlog is a running sum of (O - L) x W over times that are W apart, less
its running minimum. `Enforcement` has what is special of each quota key.

How a recording is read:

| samples are | replayed as |
| --- | --- |
| closer than W | up to twelve interleaved recordings, in each of which they are about W apart |
| further apart than W | one recording, where a sample stands for the step D since the one before it |
| further apart than `LONGEST_STEP_S` | the same, and in between nothing was asked for: a backlog drains |

Of a step longer than the window that a rate covers, the rest is not known. `_low` takes it as idle, `_high` as the
larger of the two samples around it, and the estimate as the sample. Within a step, rates are constant and the window of
the broker follows within W, so that a step in which the limit is passed counts from when its window is over the limit.
When requests began and ended to wait is known to a step, or to W if that is shorter: at both ends, each episode is that
much shorter in `_low`, and longer in `_high`.
The bounds are also those of what else is not known: how long request time has a backlog (`_low`: none), whether refused
connections come again (`_low`: none does), whether mutations come at once (`_high`) or spread over a window, and
whether those of a step are one request, which is admitted as a whole (`_low`). When they came is known where samples
are close enough (`asked_rates`). An answer to a consumer is sent once all of it fits: of a window, nothing stays unused
(`_low`), half an answer, or a whole one (`_high`).

Source: KIP-13, KIP-124, KIP-599, KIP-612; org.apache.kafka.common.metrics.stats.Rate, SampledStat and TokenBucket;
org.apache.kafka.server.quota.QuotaUtils.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isnan, nan
from typing import Final

import numpy
from msgspec import Struct

from quotaform.model.quota_key import QUOTA_WINDOW_S, Enforcement
from quotaform.usage.bucket.bucket import Booleans, Floats, Integers
from quotaform.usage.sample import LONGEST_STEP_S

# When mutations were asked for: what a gauge of half a minute and more says of them, where it is read often.
#
# Brokers limit mutations with a token bucket, but measure them with two windows of 30 s (`metrics.num.samples`,
# `metrics.sample.window.ms`). The rate is N / w, where N is how many there were, and w how long ago the oldest window
# began; 30 s more, while that is the only one.
#
# While nothing is asked for, N stays and w grows with the time, so that two rates x and y that are D apart are those of
# w = D x / (x - y): where this holds for several samples in a row, w and N are known, and before them w is known from
# the time that has passed. What N grows by is what was asked for.
#
# Source: kafka.server.ControllerMutationQuotaManager; org.apache.kafka.common.metrics.stats.Rate.

LONGEST_GAUGE_STEP_S: Final = 10.0
"""How far apart samples may be so that several of them fall into the time in which a window only grows older."""
_WINDOW_S: Final = 30.0
_OLDEST_S: Final = 3 * _WINDOW_S
"""For how long a window can count: it is kept while its last mutation is less than two windows old."""
_LEAST: Final = 0.97
"""To which part a total may shrink that does not: the times of samples are not quite right."""
_TOLERANCE_S: Final = 3.0
"""By how much the beginnings of a window that follow from two pairs of samples may differ: the time of a sample is not
quite that at which the broker computed it."""


def asked_rates(at: Integers, rate: Floats) -> Floats:
    """Return how many mutations per second were asked for since the sample before each, as far as that can be known.

    Where it can't, the rate is returned as it is: under steady demand it is what was asked for.

    `at`: microseconds, in order, at most about `LONGEST_GAUGE_STEP_S` apart. `rate`: the recorded rate of mutations.
    """
    if len(at) < 4:
        return rate  # Nothing follows from so few samples.
    time = at / 1e6
    step = numpy.diff(time)
    pace = float(numpy.median(step))
    # A bucket has no rate before its first mutation, nor after an hour without any.
    is_first = numpy.append(True, step > LONGEST_GAUGE_STEP_S + pace)
    step = numpy.where(is_first, pace, numpy.append(pace, step))
    begun = _beginnings(time, step, numpy.append(numpy.nan, rate[:-1]), rate)
    # The next known beginning of each sample, if there is one in the time that a window is kept.
    places = numpy.where(numpy.isnan(begun), len(begun), numpy.arange(len(begun)))
    next_place = numpy.minimum.accumulate(places[::-1])[::-1]
    is_near = numpy.append(time, numpy.inf)[next_place] - time <= _OLDEST_S
    ages = numpy.where(is_near, time - numpy.append(begun, numpy.nan)[next_place], numpy.nan)
    # For how many seconds a window counts: for 30 s more, while it is the only one. Its beginning is known to a second.
    ages = numpy.where(ages < _WINDOW_S - 1.0, ages + _WINDOW_S, ages)
    asked = numpy.empty(len(rate))
    # When the oldest window began, or 30 s before that while it is the only one, and how many mutations the windows
    # hold; NaN where that is not known.
    since, total = nan, 0.0
    columns = (each.tolist() for each in (is_first, time, step, rate, begun, ages))
    for place, (is_begin, now, seconds, measured, known, age) in enumerate(zip(*columns, strict=True)):
        if is_begin or measured <= 0:
            since, total = nan, 0.0
        more = 0.0
        if measured > 0 and not isnan(known):
            # Nothing was asked for since the one before.
            since, total = known, measured * (now - known)
        elif measured > 0:
            if isnan(since) and not isnan(total):
                # The first mutations since the sample before, or those that are in the first sample.
                since = now - seconds / 2 - _WINDOW_S if isnan(age) else now - age
            elif now - since >= 2 * _WINDOW_S - _TOLERANCE_S and measured * (now - since - _WINDOW_S) >= total * _LEAST:
                # What was the only one and is 30 s old no longer counts for 30 s more: the rate is about doubled.
                since += _WINDOW_S
            held = measured * (now - since)
            if held >= total * _LEAST:
                more, total = max(0.0, held - total), max(total, held)
            else:
                # What a window held is forgotten as a whole: another one is the oldest now.
                since, total, more = now - age, measured * age, measured * seconds
        if is_begin and now - since > _WINDOW_S + pace + _TOLERANCE_S:
            # They were asked for before it; when is unknown.
            more = measured * seconds
        asked[place] = more / seconds
    return asked


def _beginnings(time: Floats, step: Floats, before: Floats, rate: Floats) -> Floats:
    """Return when the oldest window began of each sample since whose predecessor nothing was asked for; else NaN."""
    falls = (rate > 0) & (rate < before)
    with numpy.errstate(divide="ignore", invalid="ignore"):
        age = numpy.where(falls, step * before / (before - rate), numpy.nan)
    age[(age < _WINDOW_S - _TOLERANCE_S) | (age > _OLDEST_S + _TOLERANCE_S)] = numpy.nan
    begun = time - age
    same = numpy.abs(numpy.diff(begun)) <= _TOLERANCE_S
    is_known = numpy.append(same, False) | numpy.append(False, same)
    return numpy.where(is_known, begun, numpy.nan)


VARIANTS: Final = ("", "_low", "_high")
"""The estimate, and what bounds it, as the columns of a table name them."""
_INTERLEAVED: Final = (12, 6, 3, 2)
"""Into how many interleaved recordings one may be taken apart."""
_WIDEST: Final = 1.35 * QUOTA_WINDOW_S
"""How far apart samples of an interleaved recording may be, as those of real recordings are not quite regular."""


def _pace(at: Integers) -> float:
    """Return the seconds between two samples: of short recordings the mean step, and of others that of the minutes in
    which there are samples, so that gaps do not count; NaN of a single one."""
    if len(at) < 2:
        return float("nan")
    minutes = at // 60_000_000
    number = 1 + int(numpy.count_nonzero(minutes[1:] != minutes[:-1]))
    return min(float(at[-1] - at[0]) / 1e6 / (len(at) - 1), number * 60 / len(at))


class Wait(Struct, frozen=True, eq=False):
    """How long requests would have waited, by time, in seconds."""

    waited: Floats  # Of the step up to a time, those in which requests waited
    delay: Floats  # How long what was asked for in it waited at most


class Replay(Struct, frozen=True, eq=False):
    """What would have happened to a bucket on a broker, by time."""

    step_s: Floats  # How many seconds up to a time it stands for
    waits: Mapping[str, Wait]  # The estimate and its bounds, by `VARIANTS`
    backlog_s: Floats  # Seconds until nothing waits any more, if nothing else comes
    episode_s: Floats  # For how long requests had waited without an end; NaN where they did not


def replay(
    at: Integers,
    rate: Floats,
    window_s: Floats,
    limit: float,
    enforcement: Enforcement,
    rate_high: Floats | None = None,
) -> Replay:
    """Replay what was asked of a bucket, in the order of time; it is not empty.

    `at`: microseconds since 1970, each once. `rate`: in the unit of the key. `window_s`: how many seconds up to a time
    the rate covers; NaN if that is not known. `limit`: NaN if there is none. `rate_high`: the most that the rate was
    where windows do not cover it; `None` for that of the samples around it.
    """
    pace_s = _pace(at)
    if enforcement.burst_s and pace_s <= LONGEST_GAUGE_STEP_S:
        # When mutations were asked for: each rate covers the time since the sample before. Without a pace it is one
        # recording, however close its samples are.
        since = (at - _before(at, 1)) / 1e6
        window_s = numpy.where(since <= LONGEST_STEP_S, since, pace_s)
        rate, rate_high, pace_s = asked_rates(at, rate), None, numpy.nan
    steps = _Steps(at, rate, window_s, rate_high, pace_s)
    # How much of a limit can be used, where answers are sent as a whole: of a window a part of one stays unused into
    # which the next does not fit. No answer is larger than a window.
    unused = enforcement.answer / QUOTA_WINDOW_S
    limits = {
        variant: max(limit - part * unused, limit / 2) for variant, part in zip(VARIANTS, (0.5, 0.0, 1.0), strict=True)
    }
    least = 0.0 if enforcement.burst_s else limits["_high"]
    if not (steps.rate_high > least).any() or numpy.isnan(limit):
        none = numpy.zeros(len(at))
        return Replay(steps.step_s, dict.fromkeys(VARIANTS, Wait(none, none)), none, numpy.full(len(none), numpy.nan))
    waits, ends = {}, {}
    for variant, used in limits.items():
        waits[variant], ends[variant] = _wait(steps, variant, used, enforcement)
    # An episode may have begun a step later and ended a step sooner, or the other way round.
    low, high = waits["_low"].waited, waits["_high"].waited
    least_waited = numpy.where(_is_beside(low == 0), numpy.fmax(0.0, low - QUOTA_WINDOW_S), low)
    is_next = (high == 0) & _is_beside(high > 0) & ~steps.is_gap
    most_waited = numpy.where(is_next, numpy.fmin(steps.step_s, QUOTA_WINDOW_S), high)
    waits |= {"_low": Wait(least_waited, waits["_low"].delay), "_high": Wait(most_waited, waits["_high"].delay)}
    end, burst = ends[""], enforcement.burst_s * limit
    left = numpy.fmax(0.0, divided(end - burst, limits[""]))
    return Replay(steps.step_s, waits, left, _episodes(steps, waits[""].waited, end <= burst))


def divided(number: Floats, by: Floats | float) -> Floats:
    """Return a quotient; NaN where the divisor is 0."""
    with numpy.errstate(divide="ignore", invalid="ignore"):
        return numpy.where(by == 0.0, numpy.nan, number / by)


class _Steps:
    """How long each sample stands for, and which of the interleaved recordings it belongs to."""

    def __init__(self, at: Integers, rate: Floats, window_s: Floats, rate_high: Floats | None, pace_s: float) -> None:
        self.at = at
        self.rate = rate
        # How many interleaved recordings there are.
        self.interleaved = next((number for number in _INTERLEAVED if pace_s * number <= _WIDEST), 1)
        # The seconds that its rate covers, those since the sample before it, and since the one before it in its
        # recording. After a gap a sample stands for as long as others do, but not for more than it covers.
        self.window_s = numpy.where(numpy.isnan(window_s), QUOTA_WINDOW_S, window_s)
        since, spaced = ((at - _before(at, places)) / 1e6 for places in (1, self.interleaved))
        self.step_s = numpy.where(since <= LONGEST_STEP_S, since, numpy.fmin(self.window_s, pace_s))
        self.spaced_s = numpy.where(numpy.isnan(spaced), self.window_s, spaced)
        self.is_gap = self.spaced_s > LONGEST_STEP_S
        # What of that the rate covers, and what comes before it.
        self.seen_s = numpy.minimum(self.window_s, self.spaced_s)
        self.unseen_s = self.spaced_s - self.seen_s
        # The rate of the sample before it, NaN if there is none, and the most that the rate was in `unseen_s`.
        self.rate_before = _before(rate, 1)
        self.rate_high = numpy.fmax(rate, self.rate_before)
        if rate_high is not None:
            self.rate_high = numpy.fmax.reduce(
                [rate_high, *(_before(rate_high, each) for each in range(1, self.interleaved))]
            )

    def unseen_rate(self, variant: str) -> Floats:
        """Return the rate in the part of a step that was not recorded."""
        if variant == "_low":
            return numpy.zeros(len(self.rate))
        rate = self.rate_high if variant == "_high" else self.rate
        return numpy.where(self.is_gap, 0.0, rate)

    def apart(self, values: Floats) -> Floats:
        """Return values with a column for each interleaved recording; what is missing at the end is 0."""
        rows = -(-len(values) // self.interleaved)
        return numpy.append(values, numpy.zeros(rows * self.interleaved - len(values))).reshape(rows, self.interleaved)

    def together(self, values: Floats) -> Floats:
        """Return what `apart` took apart."""
        return values.ravel()[: len(self.at)]


def _before(values: Floats | Integers, places: int) -> Floats:
    """Return the value so many places before each; NaN if there is none."""
    found = numpy.full(len(values), numpy.nan)
    found[places:] = values[:-places]
    return found


def _backlog(steps: _Steps, variant: str, limit: float, enforcement: Enforcement) -> tuple[Floats, Floats, Floats]:
    """Return the backlogs of a variant at the beginning of each step, before its recorded part, and at its end.

    They are Lindley's recursion, as a running sum less its running minimum.
    """
    seen = (steps.rate - limit) * steps.seen_s
    # Where delays are capped, requests that wait need not be held back.
    if variant == "_low" and enforcement.longest_delay_s is not None:
        none = numpy.zeros(len(seen))
        return none, none, numpy.maximum(0.0, seen)
    unseen = (steps.unseen_rate(variant) - limit) * steps.unseen_s
    sums = numpy.add.accumulate(steps.apart(unseen + seen))
    # A backlog can be gone within a step, before its recorded part begins.
    lowest = numpy.minimum.accumulate(numpy.minimum(sums, sums - steps.apart(seen)))
    start = numpy.zeros_like(sums)
    start[1:] = sums[:-1] - numpy.minimum(0.0, lowest[:-1])
    begin = steps.together(start)
    middle = numpy.maximum(0.0, begin + unseen)
    return begin, middle, numpy.maximum(0.0, middle + seen)


def _wait(steps: _Steps, variant: str, limit: float, enforcement: Enforcement) -> tuple[Wait, Floats]:
    """Return how long requests would have waited in a variant, and the backlog at the end of each step."""
    start, middle, end = _backlog(steps, variant, limit, enforcement)
    burst, is_high = enforcement.burst_s * limit, variant == "_high"
    if steps.interleaved > 1:
        waited = numpy.where(end > burst, steps.step_s, 0.0)
    else:
        has_unseen, unseen_rate, before = steps.unseen_s > 0, steps.unseen_rate(variant), steps.rate_before
        unseen = _part_wait(start, before, unseen_rate, steps.unseen_s, limit, burst)
        before = numpy.where(has_unseen, unseen_rate, before)
        waited = _part_wait(middle, before, steps.rate, steps.seen_s, limit, burst)
        # What happened in a gap is unknown; of a sample after one, the window can be longer than what it stands for.
        waited = numpy.fmin(steps.step_s, waited + numpy.where(has_unseen & ~steps.is_gap, unseen, 0.0))
    if variant == "_low" and enforcement.is_refused:
        # If clients do not retry: a window is full again and again, and in between as many are admitted as leave it.
        share = 1.0 - divided(numpy.minimum(limit, steps.rate), steps.rate)
        waited = numpy.nan_to_num(share) * numpy.fmin(steps.step_s, steps.seen_s)
    reached = numpy.maximum(end, middle) if is_high else end
    cap = numpy.inf if enforcement.longest_delay_s is None else enforcement.longest_delay_s
    delay = numpy.fmax(0.0, numpy.fmin(cap, divided(reached - burst, limit)))
    if variant == "_low" and enforcement.burst_s:
        # What overdraws the bucket is admitted as a whole; only what is asked for while it is overdrawn has to wait.
        is_over, places = start > burst, numpy.arange(len(start))
        last_asked = numpy.maximum.accumulate(numpy.where(is_over & (steps.rate > 0), places, -1))
        last_calm = numpy.maximum.accumulate(numpy.where(is_over, -1, places))
        waited = numpy.where(last_asked > last_calm, waited, 0.0)
    if is_high and enforcement.burst_s:
        at_once = divided(middle + steps.rate * steps.window_s - burst, limit)
        is_used = steps.rate > 0
        waited = numpy.where(is_used, numpy.fmax(waited, numpy.fmin(steps.step_s, at_once)), waited)
        delay = numpy.where(is_used, numpy.fmax(delay, at_once), delay)
    return Wait(waited, delay), end


def _is_beside(found: Booleans) -> Booleans:
    """Return whether something holds for the step before or after each."""
    beside: Booleans = numpy.append(False, found[:-1]) | numpy.append(found[1:], False)
    return beside


def _part_wait(backlog: Floats, before: Floats, rate: Floats, seconds: Floats, limit: float, burst: float) -> Floats:
    """Return how long requests wait in a part of a step.

    `backlog`: that at its beginning. `before`: the rate of the window then, which becomes that of the part. `burst`:
    what is admitted at once beyond the limit; 0 if it is one of windows.
    """
    if burst:
        first = divided(burst - backlog, rate - limit)
    else:
        # After which part of the window its rate passes the limit, on its way to a higher one, if nothing waits yet.
        passed = numpy.where(before < limit, divided(limit - before, rate - before), 0.0)
        first = numpy.where(backlog > 0, 0.0, numpy.nan_to_num(passed) * numpy.minimum(seconds, QUOTA_WINDOW_S))
    rising = seconds - numpy.maximum(0.0, numpy.fmin(seconds, first))
    falling = numpy.where(backlog > burst, numpy.fmin(seconds, divided(backlog - burst, limit - rate)), 0.0)
    return numpy.where(rate > limit, rising, falling)


def _episodes(steps: _Steps, waited: Floats, is_over: Booleans) -> Floats:
    """Return for how long requests had waited at each time; NaN where they did not wait.

    `waited`: how long requests waited in each. `is_over`: whether they no longer wait at its end.
    """
    begins = steps.at - steps.spaced_s * 1e6
    calm = numpy.maximum.accumulate(steps.apart(numpy.where(waited > 0, -numpy.inf, steps.at.astype(numpy.float64))))
    first = numpy.minimum.accumulate(steps.apart(begins))
    since = steps.apart(begins)
    since[1:] = numpy.where(numpy.isinf(calm[:-1]), first[:-1], calm[:-1])
    episode = (steps.at - steps.together(since)) / 1e6
    if steps.interleaved == 1:
        episode = episode - numpy.where(is_over, steps.step_s - waited, 0.0)
    return numpy.where(waited > 0, episode, numpy.nan)
