"""Recording: each source in a thread of its own, and Parquet files written as it goes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from importlib.util import find_spec
from math import ceil
from pathlib import Path
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from quotaform.model.errors import EngineError, NothingReadError, QuotaformError, UsageError, missing_extra
from quotaform.model.text import inert
from quotaform.system.clock import SYSTEM_CLOCK, Clock
from quotaform.system.files import require_no_way_out, write_bytes_atomically
from quotaform.system.process import held_signals
from quotaform.usage.record.reader import Reader, problem_of
from quotaform.usage.record.recording import (
    Gap,
    ReadRows,
    RecordedSource,
    Recording,
    UsageRow,
    explain_no_rows,
    first_problem,
    read_rows,
)
from quotaform.usage.sample import DropReason, by_reason

if TYPE_CHECKING:
    import pyarrow


SHORTEST_WAIT: Final = 5.0
LONGEST_WAIT: Final = 30.0
"""Between these numbers of seconds, and else for the length of a slot, an answer is waited for."""
_MOST_PROBLEMS: Final = 3
_NOT_IN_TIME: Final = "was not asked, as it had been slow"


@dataclass(slots=True)
class SourceRun:
    """Reads one source until it is told to stop."""

    broker: str
    reader: Reader
    interval: float  # The length of a slot in seconds
    slots: int | None  # How many there are; `None` for any number
    clock: Clock
    warn: Callable[[str], None]  # Called with what is urgent
    rows: list[UsageRow] = field(default_factory=list)  # What was read and not taken yet
    written: int = 0  # How many rows of it are in the table
    failure: str | None = None  # Why it could not be read the last time; `None` if it could
    has_begun: Event = field(default_factory=Event)  # Set after the first slot
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
                dropped=by_reason(self._dropped.items()),
                rejected=self._rejected,
                problems=tuple(self._problems),
                size=self._size,
                seconds=round(self._seconds, 6),
                longest=round(self._longest, 6),
                gaps=tuple(
                    Gap(first=at(first), last=at(last), missed=last - first + 1, reason=reason)
                    for first, last, reason in self._gaps
                ),
                remark=self._remark,
            )

    def _ask(self, slot: int, stop: Event) -> None:
        patience = min(max(self.interval, SHORTEST_WAIT), LONGEST_WAIT)
        try:
            reading = self.reader.read(patience)
            read = read_rows(reading.items)
        except Exception as error:
            # An internal error, too, is a gap of this source and not the end of its thread.
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

    `slot`: the last one in which it was asked. `interval`: the length of a slot in seconds. `ended`: when that was
    over, in seconds after the start. `took`: how long it took. `failures`: how many times in a row it failed.
    """
    pause = min(1 << min(max(failures - 1, 0), 30), max(1, int(LONGEST_PAUSE_S / interval)))
    return max(slot + pause, ceil((ended + took) / interval))


FLUSH_SECONDS: Final = 60.0
"""How often a file is written: what a kill loses at most."""
MOST_ROWS: Final = 500_000
"""A file is also written when there are so many rows; if it cannot be, the recording ends."""
_TICK: Final = 0.2
_ENDING_SECONDS: Final = 2.0
"""How long answers that are under way are waited for at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRequest:
    """What is recorded."""

    cluster: str
    usage: str  # The directory of the table, as it was given
    readers: Mapping[str, Reader]  # What reads each broker, by its name
    interval: float  # Seconds between two measurements of a broker
    seconds: float | None  # For how long; `None` until it is interrupted
    write: Callable[[Sequence[UsageRow]], object]
    """Writes rows to a file of the table; the file is there as a whole, or not at all."""
    warn: Callable[[str], None]  # Called with what is urgent
    progress: Callable[[float, int], None] = lambda _seconds, _rows: None
    """Called now and then with the seconds that have passed, and the rows so far."""


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
        sources = tuple(run.report(started) for run in self._runs)
        return Recording(
            cluster=self._request.cluster,
            usage=self._request.usage,
            started=started,
            ended=self._clock.now(),
            interval=self._request.interval,
            rows=sum(each.rows for each in sources),
            sources=sources,
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


# Files of the table of usage that are written without a Spark session, and without Java.
#
# A file is there as a whole or not at all: a kill leaves at most a temporary file, whose name begins with a dot, so
# that readers of the directory pass over it.


class UsageDirectory:
    """A directory of Parquet files with the columns of `quotaform.usage.table.schema.USAGE`."""

    def __init__(self, path: Path) -> None:
        """Make sure that rows can be written to a directory, which is made if it is not there.

        Raises `EngineError` if the extra is missing. Raises `UsageError` if it holds something else. Raises
        `QuotaformError` if it cannot be made or read.
        """
        if find_spec("pyarrow") is None:
            raise EngineError(f"Parquet files cannot be written without pyarrow: {missing_extra('usage')}.")
        self._path = path
        try:
            require_no_way_out(path)
            path.mkdir(parents=True, exist_ok=True)
            self._require_usage()
        except OSError as error:
            raise self._error(error) from error

    def write(self, rows: Sequence[UsageRow]) -> Path:
        """Write rows to a new file, and return its path.

        Raises `QuotaformError` if it cannot be written; then nothing of it is there.
        """
        from pyarrow import BufferOutputStream, parquet

        path = self._path / f"part-{uuid4()}.parquet"
        content = BufferOutputStream()
        parquet.write_table(usage_table(rows), content)
        try:
            write_bytes_atomically(path, [content.getvalue().to_pybytes()])
        except OSError as error:
            raise self._error(error) from error
        return path

    def _require_usage(self) -> None:
        """Make sure that what is there is a table of usage: rows of it and of something else would be mixed."""
        from pyarrow import ArrowException, parquet

        shown = inert(str(self._path))
        if (self._path / "_delta_log").exists():
            raise UsageError(f"--usage {shown} is a Delta Lake table; record to a directory, and ingest that")
        others = [path for path in self._path.iterdir() if not path.name.startswith((".", "_"))]
        if not others:
            return
        files = [path for path in others if path.suffix == ".parquet"]
        if not files:
            raise UsageError(f"--usage {shown} is not empty and no table of usage; give another directory")
        try:
            names = set(parquet.read_schema(files[0]).names)
        except ArrowException as error:
            raise QuotaformError(
                f"{inert(str(files[0]))} is no Parquet file that can be read ({inert(str(error)[:200])}); "
                "give another directory"
            ) from None
        # A column with a default came later; files of an earlier version lack it.
        if missing := [name for name in UsageRow._fields if name not in {*names, *UsageRow._field_defaults}]:
            raise UsageError(
                f"--usage {shown} is no table of usage, as it lacks the column {missing[0]}; give another directory"
            )

    def _error(self, error: OSError) -> QuotaformError:
        return QuotaformError(
            f"{inert(str(self._path))} cannot be written: {error.strerror or error}; files written before stay"
        )


def usage_table(rows: Sequence[UsageRow]) -> pyarrow.Table:
    """Return rows as a table of Arrow, with the types that Spark reads as those of `USAGE`."""
    import pyarrow

    schema = _schema()
    columns: list[Any] = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in schema]
    columns[0] = [round(ts * 1_000_000) for ts in columns[0]]
    return pyarrow.table(
        [pyarrow.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)], schema=schema
    )


def _schema() -> pyarrow.Schema:
    import pyarrow

    double, text = pyarrow.float64(), pyarrow.string()
    names = {"ts": pyarrow.timestamp("us", "UTC"), "window_s": double, "rate": double, "throttle_ms": double}
    return pyarrow.schema([(name, names.get(name, text)) for name in UsageRow._fields])
