"""Recording what clients use: every source in a thread of its own, and files written as it goes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import ceil
from threading import Event, Thread
from typing import Final

from quotaform.app.clock import SYSTEM_CLOCK, Clock
from quotaform.app.usage.source_run import SourceRun
from quotaform.core.usage.record.recording import Recording, UsageRow
from quotaform.errors import NothingReadError, QuotaformError
from quotaform.interrupt import held_signals
from quotaform.metrics.reading import Reader

FLUSH_SECONDS: Final = 60.0
"""How often a file is written: what a kill loses at most."""
MOST_ROWS: Final = 500_000
"""A file is also written when there are so many rows; if it cannot be, the recording ends."""
_TICK: Final = 0.2
_ENDING_SECONDS: Final = 2.0
"""How long answers that are under way are waited for at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRequest:
    """What is recorded.

    Attributes:
        usage: The directory of the table, as it was given.
        readers: What reads each broker, by its name.
        interval: Seconds between two measurements of a broker.
        seconds: For how long; `None` until it is interrupted.
        write: Writes rows to a file of the table; the file is there as a whole, or not at all.
        warn: Called with what somebody should know at once.
        progress: Called now and then with the seconds that have passed, and the rows so far.
    """

    cluster: str
    usage: str
    readers: Mapping[str, Reader]
    interval: float
    seconds: float | None
    write: Callable[[Sequence[UsageRow]], object]
    warn: Callable[[str], None]
    progress: Callable[[float, int], None] = lambda _seconds, _rows: None


def record(request: RecordRequest, clock: Clock = SYSTEM_CLOCK) -> Recording:
    """Record until the time is over, or a signal comes, after which what was recorded is written all the same.

    Rows that cannot be written are kept for the next file. A recording that cannot write more than `MOST_ROWS` ends,
    and what became of it says so. Raises `NothingReadError` if no source could be read at the beginning.
    """
    return _Recorder(request, clock).run()


class _Recorder:
    def __init__(self, request: RecordRequest, clock: Clock) -> None:
        self._request = request
        self._clock = clock
        self._stop = Event()
        self._files = 0
        self._failure: str | None = None
        slots = None if request.seconds is None else max(1, ceil(request.seconds / request.interval))
        self._runs = [
            SourceRun(broker, reader, request.interval, slots, clock, request.warn)
            for broker, reader in request.readers.items()
        ]

    def run(self) -> Recording:
        started = self._clock.now()
        # Daemons: an answer that is under way when it ends is not waited for to the end.
        threads = [Thread(target=run.run, args=(self._stop,), daemon=True) for run in self._runs]
        try:
            for thread in threads:
                thread.start()
            self._wait(threads)
        except KeyboardInterrupt:
            pass
        finally:
            self._stop.set()
        with suppress(KeyboardInterrupt):
            self._end(threads)
        with suppress(KeyboardInterrupt):
            self._write()
        return Recording(
            cluster=self._request.cluster,
            usage=self._request.usage,
            started=started,
            ended=self._clock.now(),
            interval=self._request.interval,
            sources=tuple(run.report(started) for run in self._runs),
            files=self._files,
            unwritten=0 if self._failure is None else sum(len(run.rows) for run in self._runs),
            failure=self._failure,
        )

    def _end(self, threads: Sequence[Thread]) -> None:
        """Wait for answers that are under way, but not long; another signal ends that."""
        deadline = self._clock.monotonic() + _ENDING_SECONDS
        for thread in threads:
            thread.join(max(0.0, deadline - self._clock.monotonic()))
        for reader in self._request.readers.values():
            reader.cancel()

    def _wait(self, threads: Sequence[Thread]) -> None:
        begun = written = self._clock.monotonic()
        is_checked = False
        while any(thread.is_alive() for thread in threads):
            self._clock.sleep(_TICK)
            if not is_checked and all(run.has_begun.is_set() for run in self._runs):
                self._require_any()
                is_checked = True
            now = self._clock.monotonic()
            waiting = sum(len(run.rows) for run in self._runs)
            self._request.progress(now - begun, waiting + sum(run.written for run in self._runs))
            if now - written >= FLUSH_SECONDS or waiting > MOST_ROWS:
                written = now
                self._write()
                if self._failure is not None and waiting > MOST_ROWS:
                    self._request.warn(f"the recording ends: {waiting:,} rows wait to be written, and no more are kept")
                    return
        if not is_checked:
            self._require_any()

    def _require_any(self) -> None:
        problems = {run.broker: f"{run.reader.shown} {run.failure}" for run in self._runs if run.failure is not None}
        if len(problems) == len(self._runs):
            raise NothingReadError(self._request.cluster, problems)
        for broker, problem in problems.items():
            self._request.warn(f"broker {broker}: {problem}; it is asked again")

    def _write(self) -> None:
        # A signal in the middle would lose what was taken.
        with held_signals(holds_all=True):
            taken = [(run, run.take()) for run in self._runs]
            count = sum(len(each) for _, each in taken)
            if not count:
                return
            try:
                self._request.write([row for _, each in taken for row in each])
            except Exception as error:
                for run, each in taken:
                    run.put_back(each)
                self._fail(error, count)
                return
            if self._failure is not None:
                self._request.warn(f"{self._request.usage} is written again, with the rows that were kept")
            self._failure = None
            self._files += 1
            for run, each in taken:
                run.count_written(len(each))

    def _fail(self, error: Exception, rows: int) -> None:
        problem = str(error) if isinstance(error, QuotaformError) else f"internal error: {type(error).__name__}"
        if self._failure is None and not self._stop.is_set():
            self._request.warn(f"{problem}; {rows:,} rows are kept, and written with the next file")
        self._failure = problem
