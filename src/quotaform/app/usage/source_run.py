"""Reading one source of measurements in its slots, and counting what becomes of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import ceil
from threading import Event, Lock
from typing import Final

from quotaform.app.clock import Clock
from quotaform.core.usage.record.recording import (
    Gap,
    ReadRows,
    RecordedSource,
    UsageRow,
    explain_no_rows,
    first_problem,
    read_rows,
)
from quotaform.core.usage.sample.sample import Dropped, DropReason
from quotaform.metrics.reading import Reader, problem_of

SHORTEST_WAIT: Final = 5.0
LONGEST_WAIT: Final = 30.0
"""Between these numbers of seconds, and else for the length of a slot, an answer is waited for."""
_MOST_PROBLEMS: Final = 3
_NOT_IN_TIME: Final = "was not asked, as it had been slow"


@dataclass(slots=True)
class SourceRun:
    """Reads one source until it is told to stop.

    Attributes:
        interval: The length of a slot in seconds.
        slots: How many there are; `None` for any number.
        warn: Called with what somebody should know at once.
        rows: What was read and not taken yet.
        written: How many rows of it are in the table.
        failure: Why it could not be read the last time; `None` if it could.
        has_begun: Set after the first slot.
    """

    broker: str
    reader: Reader
    interval: float
    slots: int | None
    clock: Clock
    warn: Callable[[str], None]
    rows: list[UsageRow] = field(default_factory=list)
    written: int = 0
    failure: str | None = None
    has_begun: Event = field(default_factory=Event)
    _lock: Lock = field(default_factory=Lock)
    _asked: int = 0
    _read: int = 0
    _failures: int = 0
    _size: int = 0
    _seconds: float = 0.0
    _longest: float = 0.0
    _rejected: int = 0
    _dropped: Counter[DropReason] = field(default_factory=Counter)
    _problems: list[str] = field(default_factory=list)
    _gaps: list[tuple[int, int, str]] = field(default_factory=list)
    _remark: str | None = None
    _is_remarked: bool = False

    def run(self, stop: Event) -> None:
        """Read the source in its slots, from now on, until there are no more or `stop` is set."""
        begun = self.clock.monotonic()
        slot = 0
        try:
            while not stop.is_set() and (self.slots is None or slot < self.slots):
                asked = self.clock.monotonic()
                self._ask(slot, stop)
                ended = self.clock.monotonic()
                self.has_begun.set()
                following = next_slot(slot, self.interval, ended - begun, ended - asked, self._failures)
                if stop.wait(max(0.0, following * self.interval - (ended - begun))):
                    following = min(following, int((self.clock.monotonic() - begun) / self.interval) + 1)
                if self.slots is not None:
                    following = min(following, self.slots)
                self._miss(slot + 1, following - 1, self.failure or _NOT_IN_TIME)
                slot = following
        finally:
            self.has_begun.set()

    def take(self) -> list[UsageRow]:
        """Return the rows that were read since the last call."""
        with self._lock:
            rows, self.rows = self.rows, []
        return rows

    def put_back(self, rows: list[UsageRow]) -> None:
        """Keep rows that were taken and could not be written, in front of later ones."""
        with self._lock:
            self.rows[:0] = rows

    def count_written(self, rows: int) -> None:
        """Count rows that are in the table."""
        self.written += rows

    def report(self, started: datetime) -> RecordedSource:
        """Return what was recorded, after the run. `started` is the time of the first slot."""

        def at(slot: int) -> datetime:
            return started + timedelta(seconds=slot * self.interval)

        with self._lock:
            return RecordedSource(
                broker=self.broker,
                source=self.reader.shown,
                asked=self._asked,
                read=self._read,
                rows=self.written,
                dropped=tuple(Dropped(reason, count) for reason, count in self._dropped.items()),
                rejected=self._rejected,
                problems=tuple(self._problems),
                size=self._size,
                seconds=self._seconds,
                longest=self._longest,
                gaps=tuple(Gap(at(first), at(last), last - first + 1, reason) for first, last, reason in self._gaps),
                remark=self._remark,
            )

    def _ask(self, slot: int, stop: Event) -> None:
        patience = min(max(self.interval, SHORTEST_WAIT), LONGEST_WAIT)
        try:
            reading = self.reader.read(patience)
            read = read_rows(reading.items)
        except Exception as error:
            # A mistake of our own, too, is a gap of this source and not the end of its thread.
            if not stop.is_set():
                self._fail(slot, problem_of(error))
            return
        with self._lock:
            self._asked += 1
            self._read += 1
            self._size += reading.size
            self._seconds += reading.seconds
            self._longest = max(self._longest, reading.seconds)
        self._take_up(read)
        if self.failure is not None:
            self.warn(f"broker {self.broker}: {self.reader.shown} answers again")
        self.failure, self._failures = None, 0

    def _fail(self, slot: int, problem: str) -> None:
        with self._lock:
            self._asked += 1
        if self.failure is None and self.has_begun.is_set():
            self.warn(f"broker {self.broker}: {self.reader.shown} {problem}; it is asked again")
        self.failure = problem
        self._failures += 1
        self._miss(slot, slot, problem)

    def _take_up(self, read: ReadRows) -> None:
        remark = explain_no_rows(read)
        with self._lock:
            self.rows += read.rows
            self._rejected += len(read.rejected)
            for reason, count in read.dropped:
                self._dropped[reason] += count
            if read.rejected and len(self._problems) < _MOST_PROBLEMS:
                problem = first_problem(read.rejected)
                if problem not in self._problems:
                    self._problems.append(problem)
            self._remark = None if read.rows else remark
        if remark is not None and not self._is_remarked:
            self._is_remarked = True
            self.warn(f"broker {self.broker}: {self.reader.shown} answers, but {remark}")

    def _miss(self, first: int, last: int, reason: str) -> None:
        if last < first:
            return
        with self._lock:
            if self._gaps and self._gaps[-1][1:] == (first - 1, reason):
                first = self._gaps.pop()[0]
            self._gaps.append((first, last, reason))


LONGEST_PAUSE_S: Final = 60.0
"""After at most how many seconds, or one slot, a source that fails is asked again."""


def next_slot(slot: int, interval: float, ended: float, took: float, failures: int) -> int:
    """Return the slot in which a source is asked next; slot `n` begins `n * interval` seconds after the start.

    | it answered | it is asked again |
    | --- | --- |
    | fast | in the next slot |
    | after `took` seconds | not before as long again has passed: it works for us half of the time at most |
    | not, several times in a row | after 1, 2, 4, ... slots, up to a minute |

    >>> [next_slot(5, 10.0, 50.1, 0.1, 0), next_slot(5, 10.0, 58.0, 8.0, 0), next_slot(5, 10.0, 51.0, 1.0, 3)]
    [6, 7, 9]

    Args:
        slot: The last one in which it was asked.
        interval: The length of a slot in seconds.
        ended: When that was over, in seconds after the start.
        took: How long it took.
        failures: How many times in a row it failed.
    """
    pause = min(1 << min(max(failures - 1, 0), 30), max(1, int(LONGEST_PAUSE_S / interval)))
    return max(slot + pause, ceil((ended + took) / interval))
