"""What a recording consists of: samples, what is left out of the table, and what could not be read."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from quotaform.core.usage.sample.series import Series

LONGEST_RECORD: Final = 200
"""The characters of a record that could not be read which are kept."""


class DropReason(StrEnum):
    """Why a sample is not in the table of usage, although it could be read. The value is for people.

    | member | the sample |
    | --- | --- |
    | NAN | is not a number: the metric has no value at that time; a throttle time: nothing was throttled |
    | MISSING | has no value, as an empty cell of a CSV file, or an MBean that is not there |
    | OTHER_METRIC | is of a metric that is not about client quotas |
    | OTHER_ATTRIBUTE | is of a client quota, but neither a rate nor a throttle time, such as `tokens` |
    | BROKER_TOTAL | is of a whole broker or listener, of no user, client-id or ip |
    | DUPLICATE | is there twice, with the same time and value |
    | CONFLICT | has the time of another one of its series, and a smaller value |
    | FIRST_TOTAL | is the first value of a counter, from which no rate follows |
    | COUNTER_RESET | is the first value of a counter after a restart of what counts |
    | LATE | is older than a stream waits for |
    """

    NAN = "not a number"
    MISSING = "no value"
    OTHER_METRIC = "metrics that are not of client quotas"
    OTHER_ATTRIBUTE = "neither a rate nor a throttle time"
    BROKER_TOTAL = "of a whole broker"
    DUPLICATE = "there twice"
    CONFLICT = "another value of the same time"
    FIRST_TOTAL = "first value of a counter"
    COUNTER_RESET = "counter reset"
    LATE = "late"


class Unreadable(NamedTuple):
    """Why a metric of client quotas can't be read, and the remedy."""

    reason: str


class Sample(NamedTuple):
    """One value of one series.

    Attributes:
        series: What it is about.
        ts: The end of what was measured, in seconds since the epoch (UTC).
        value: In the unit of the attribute; finite, and not negative.
        window_s: How many seconds up to `ts` it covers; 0 for a total.
    """

    series: Series
    ts: float
    value: float
    window_s: float


class Dropped(NamedTuple):
    """Samples that are not for the table, and how many."""

    reason: DropReason
    samples: int


class Rejected(NamedTuple):
    """A record that could not be read.

    Attributes:
        position: Where it begins: the line, the element or the byte, as `reason` says.
        reason: What is wrong, and the remedy.
        record: Its first 200 characters; what is not UTF-8 is escaped.
    """

    position: int
    reason: str
    record: str


Item = Sample | Dropped | Rejected


def reject(position: int, reason: str, record: str) -> Rejected:
    """Return a record that could not be read, cut to what is kept of it.

    >>> len(reject(1, "line 1: cut", "a" * 1000).record)
    200
    """
    shown = record[:LONGEST_RECORD]
    return Rejected(position, reason, shown.encode("utf-8", "backslashreplace").decode()[:LONGEST_RECORD])
