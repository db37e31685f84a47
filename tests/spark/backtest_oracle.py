"""What a backtest finds, by loops over one bucket: the recursions from which its arrays follow.

When mutations were asked for is not found here: `tests/property/test_mutation_gauge.py` has what it should be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy

from quotaform.usage.replay.replay import asked_rates

WINDOW = 11.5
GAP = 600.0
BURST = 11.0
ANSWER = 2.0**20
VARIANTS = ("", "_low", "_high")


@dataclass
class Oracle:
    """What happened to one bucket."""

    samples: int = 0
    recorded_s: float = 0.0
    throttled: dict[str, float] = field(default_factory=lambda: dict.fromkeys(VARIANTS, 0.0))
    delay: dict[str, float] = field(default_factory=lambda: dict.fromkeys(VARIANTS, 0.0))
    times: list[float] = field(default_factory=list)
    over_max: float = 0.0
    refused: float = 0.0
    backlog_s: float = 0.0
    waits: dict[str, dict[float, tuple[float, float, float]]] = field(default_factory=lambda: {v: {} for v in VARIANTS})
    """By variant and time: how long requests waited, after which delay, and how long they may if they did before."""


def replay(
    rates: Mapping[float, float], limit: float, key: str, recorded_windows: Mapping[float, float] | None = None
) -> Oracle:
    """Replay the rates of a bucket by time, and how many seconds each covers where that is known."""
    times = sorted(rates)
    found = Oracle(samples=len(times))
    pace = pace_of(times)
    combs = next((n for n in (12, 6, 3, 2) if pace is not None and pace * n <= 1.35 * WINDOW), 1)
    windows = {time: (recorded_windows or {}).get(time, WINDOW) for time in times}
    found.over_max = max(rates.values()) / limit
    if key == "controller_mutation_rate" and pace is not None and pace <= 10:
        at = numpy.array([round(time * 1e6) for time in times])
        rates = dict(zip(times, map(float, asked_rates(at, numpy.array([rates[time] for time in times]))), strict=True))
        steps = [pace, *(after - before for before, after in pairwise(times))]
        windows = dict(zip(times, (step if step <= GAP else pace for step in steps), strict=True))
        combs = 1
    for comb in range(combs):
        _replay_comb(found, times, rates, range(comb, len(times), combs), combs, limit, key, windows, pace)
    for variant, waits in found.waits.items():
        rows = [row for _, row in sorted(waits.items())]
        for place, (waited, delay, longer) in enumerate(rows):
            # When an episode begins and ends is known to a step.
            beside = [row[0] for row in rows[max(0, place - 1) : place] + rows[place + 1 : place + 2]]
            wait = waited
            if variant == "_low" and not all(beside):
                wait = max(0.0, waited - WINDOW)
            if variant == "_high" and waited == 0 and any(beside):
                wait = longer
            found.throttled[variant] += wait
            if wait > 0:
                found.delay[variant] = max(found.delay[variant], delay)
    return found


def pace_of(times: Sequence[float]) -> float | None:
    """Return about how many seconds are between two samples, gaps aside; `None` of a single one."""
    if len(times) < 2:
        return None
    minutes = len({int(time // 60) for time in times})
    return min((times[-1] - times[0]) / (len(times) - 1), minutes * 60 / len(times))


def _replay_comb(
    found: Oracle,
    times: Sequence[float],
    rates: Mapping[float, float],
    places: range,
    combs: int,
    limit: float,
    key: str,
    windows: Mapping[float, float],
    pace: float | None,
) -> None:
    is_connection = key == "connection_creation_rate"
    is_mutation = key == "controller_mutation_rate"
    is_request = key == "request_percentage"
    answer = ANSWER if key == "consumer_byte_rate" else 0.0
    unused = {"": answer / 2, "_low": 0.0, "_high": answer}
    burst = BURST * limit if is_mutation else 0.0
    backlog = dict.fromkeys(VARIANTS, 0.0)
    is_asked = False
    for place in places:
        time, rate, window = times[place], rates[times[place]], windows[times[place]]
        before = rates[times[place - 1]] if place else None
        step = time - times[place - 1] if place else None
        spaced = time - times[place - combs] if place >= combs else window
        seen = min(window, spaced)
        unseen = spaced - seen
        is_gap = spaced > GAP
        counted = step if step is not None and step <= GAP else window if pace is None else min(window, pace)
        found.recorded_s += counted
        if is_connection:
            found.refused += max(0.0, (rate - limit) * counted)
        unseen_rates = {"": rate, "_low": 0.0, "_high": max(rate, rate if before is None else before)}
        for variant in VARIANTS:
            used = max(limit - unused[variant] / WINDOW, limit / 2)
            keeps = not ((is_request or is_connection) and variant == "_low")
            unseen_rate = 0.0 if is_gap else unseen_rates[variant]
            start = backlog[variant] if keeps else 0.0
            first = (
                0.0 if is_gap or unseen <= 0 else _part(start, unseen_rate, unseen, before, used, burst, is_mutation)
            )
            middle = max(0.0, start + (unseen_rate - used) * unseen) if keeps else 0.0
            ahead = unseen_rate if unseen > 0 else before
            second = _part(middle, rate, seen, ahead, used, burst, is_mutation)
            end = max(0.0, middle + (rate - used) * seen)
            wait = min(counted, first + second) if combs == 1 else (counted if end > burst else 0.0)
            reached = max(middle, end) if variant == "_high" else end
            delay = (reached - burst) / used
            if variant == "_high" and is_mutation and rate > 0:
                at_once = (middle + rate * window - burst) / used
                wait, delay = max(wait, min(counted, at_once)), max(delay, at_once)
            if is_request or is_connection:
                delay = min(delay, 1.0)
            if is_connection and variant == "_low":
                wait = min(counted, seen) * max(0.0, 1 - used / rate) if rate else 0.0
            if is_mutation and variant == "_low":
                is_asked = start > burst and (is_asked or rate > 0)
                wait = wait if is_asked else 0.0
            found.waits[variant][time] = (wait, delay, 0.0 if is_gap else min(counted, WINDOW))
            if wait > 0 and not variant:
                found.times.append(time)
            backlog[variant] = end
            if not variant and place == len(times) - 1:
                found.backlog_s = max(0.0, end - burst) / used


def _part(
    backlog: float, rate: float, seconds: float, before: float | None, limit: float, burst: float, is_mutation: bool
) -> float:
    """Return how long requests wait in a time in which the rate is constant."""
    if rate > limit:
        if is_mutation:
            first = (burst - backlog) / (rate - limit)
        elif backlog > 0 or before is None or before >= limit:
            first = 0.0
        else:
            first = (limit - before) / (rate - before) * min(seconds, WINDOW)
        return seconds - min(seconds, max(0.0, first))
    if backlog > burst:
        return seconds if rate == limit else min(seconds, (backlog - burst) / (limit - rate))
    return 0.0
