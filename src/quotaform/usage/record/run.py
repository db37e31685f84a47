"""Recording: a thread asks each source, one loop keeps what they answer and writes Parquet files as it goes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from io import BytesIO
from itertools import islice
from math import ceil, inf
from pathlib import Path
from re import compile as regex
from threading import Event, RLock, Thread
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from msgspec import Struct, field

from quotaform.model.errors import ArgumentError, EngineError, NothingReadError, QuotaformError, missing_extra
from quotaform.model.outcome import ClusterOutcome
from quotaform.model.text import inert
from quotaform.system.clock import SYSTEM_CLOCK, Clock
from quotaform.system.files import require_no_way_out, write_bytes_atomically
from quotaform.system.process import held_signals
from quotaform.usage.record.reader import Reader, Reading, problem_of
from quotaform.usage.record.recording import (
    Gap,
    ReadRows,
    RecordedSource,
    Recording,
    explain_no_rows,
    first_problem,
    read_rows,
)
from quotaform.usage.sample import DropReason, UsageRow, by_reason

if TYPE_CHECKING:
    import pyarrow


SHORTEST_WAIT: Final = 5.0
LONGEST_WAIT: Final = 30.0
"""Between these numbers of seconds, and else for the length of a slot, an answer is waited for."""
_MOST_PROBLEMS: Final = 3
_NOT_IN_TIME: Final = "was not asked, as it had been slow"
FLUSH_SECONDS: Final = 60.0
"""How often a file is written: what a kill loses at most."""
MOST_ROWS: Final = 500_000
"""A file is also written when there are so many rows; if it cannot be, the recording ends."""
_TICK: Final = 0.2
_ENDING_SECONDS: Final = 2.0
"""How long answers that are under way are waited for at the end."""


class RecordRequest(Struct, frozen=True, kw_only=True):
    """What is recorded."""

    usage: str  # The directory of the table, as it was given
    readers: Mapping[str, Mapping[str, Reader]]  # What reads each broker of each cluster, by their names
    interval: float  # Seconds between two measurements of a broker
    seconds: float | None  # For how long; `None` until it is interrupted
    write: Callable[[Sequence[UsageRow]], object]
    """Writes rows to a file of the table; the file is there as a whole, or not at all."""
    warn: Callable[[str], None]  # Called with what is urgent
    progress: Callable[[float, int], None] = lambda _seconds, _rows: None
    """Called now and then with the seconds that have passed, and the rows so far."""


class _Source(Struct):
    """A source, and what became of it so far; `lock` is held by whoever looks at that, or changes it."""

    cluster: str
    broker: str
    shown: str  # How warnings call it
    reader: Reader
    warn: Callable[[str], None]
    lock: RLock
    rows: list[UsageRow] = field(default_factory=list)  # What was read and not written yet
    written: int = 0  # How many rows of it are in the table
    files: int = 0  # How many files have rows of it
    failure: str | None = None  # Why it could not be read the last time; `None` if it could
    asked: int = 0
    sizes: list[int] = field(default_factory=list)  # Of its answers
    seconds: list[float] = field(default_factory=list)
    rejected: int = 0
    dropped: Counter[DropReason] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    gaps: list[tuple[int, int, str]] = field(default_factory=list)
    """The first and the last slot, and why there is no answer."""
    remark: str | None = None
    is_remarked: bool = False

    def record(self, request: RecordRequest, clock: Clock, stop: Event) -> None:
        """Read it in its slots, from now on, until there are no more or `stop` is set."""
        interval = request.interval
        slots = inf if request.seconds is None else max(1, ceil(request.seconds / interval))
        begun = clock.monotonic()
        slot = failures = 0
        while not stop.is_set() and slot < slots:
            asked = clock.monotonic()
            problem = None
            try:
                reading = self.reader.read(min(max(interval, SHORTEST_WAIT), LONGEST_WAIT))
                read = read_rows(reading.items)
            except Exception as error:
                # An internal error, too, is a gap of this source and not the end of its thread.
                if stop.is_set():
                    return
                problem, failures = problem_of(error), failures + 1
                self._fail(slot, problem)
            else:
                failures = 0
                self._take_up(reading, read)
            ended = clock.monotonic()
            following = next_slot(slot, interval, ended - begun, ended - asked, failures)
            if stop.wait(max(0.0, following * interval - (ended - begun))):
                following = min(following, int((clock.monotonic() - begun) / interval) + 1)
            following = int(min(following, slots))
            if following > slot + 1:
                self._miss(slot + 1, following - 1, problem or _NOT_IN_TIME)
            slot = following

    def _miss(self, first: int, last: int, problem: str) -> None:
        with self.lock:
            if self.gaps and self.gaps[-1][1:] == (first - 1, problem):
                first = self.gaps.pop()[0]
            self.gaps.append((first, last, problem))

    def _fail(self, slot: int, problem: str) -> None:
        with self.lock:
            self._miss(slot, slot, problem)
            # How it began is said of all sources together.
            if self.failure is None and self.asked:
                self.warn(f"{self.shown} {problem}; it is asked again")
            self.asked += 1
            self.failure = problem

    def _take_up(self, reading: Reading, read: ReadRows) -> None:
        with self.lock:
            self.asked += 1
            self.sizes.append(reading.size)
            self.seconds.append(reading.seconds)
            self.rows += read.rows
            self.rejected += len(read.rejected)
            self.dropped += read.dropped
            if read.rejected and first_problem(read.rejected) not in self.problems[: _MOST_PROBLEMS - 1]:
                self.problems = [*self.problems, first_problem(read.rejected)][:_MOST_PROBLEMS]
            self.remark = explain_no_rows(read)
            if self.remark is not None and not self.is_remarked:
                self.is_remarked = True
                self.warn(f"{self.shown} answers, but {self.remark}")
            if self.failure is not None:
                self.warn(f"{self.shown} answers again")
            self.failure = None

    def report(self, started: datetime, interval: float) -> RecordedSource:
        """Return what was recorded, after the run. `started` is the time of the first slot."""
        return RecordedSource(
            broker=self.broker,
            source=self.reader.shown,
            asked=self.asked,
            read=len(self.sizes),
            rows=self.written,
            dropped=by_reason(self.dropped),
            rejected=self.rejected,
            problems=tuple(self.problems),
            size=sum(self.sizes),
            seconds=round(sum(self.seconds), 6),
            longest=round(max(self.seconds, default=0.0), 6),
            gaps=tuple(
                Gap(
                    first=started + timedelta(seconds=first * interval),
                    last=started + timedelta(seconds=last * interval),
                    missed=last - first + 1,
                    reason=problem,
                )
                for first, last, problem in self.gaps
            ),
            remark=self.remark,
        )


LONGEST_PAUSE_S: Final = 60.0
"""The longest pause in seconds, or one slot, before a source that fails is asked again."""


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


def record(request: RecordRequest, clock: Clock = SYSTEM_CLOCK) -> list[ClusterOutcome[Recording]]:
    """Record until the time is over, or a signal comes, after which what was recorded is written all the same.

    Rows that cannot be written are kept for the next file. A recording that cannot write more than `MOST_ROWS` ends,
    and what became of it says so. A cluster of which no source could be read at the beginning failed with
    `NothingReadError`; the others are recorded.
    """
    return _Recorder(request, clock).run()


class _Recorder:
    def __init__(self, request: RecordRequest, clock: Clock) -> None:
        self._request = request
        self._clock = clock
        self._stops = {cluster: Event() for cluster in request.readers}
        self._failed: dict[str, NothingReadError] = {}
        self._failure: str | None = None
        self._lock = RLock()
        is_one = len(request.readers) == 1
        self._sources = [
            _Source(cluster, broker, f"{where}broker {broker}: {reader.shown}", reader, self._warn, self._lock)
            for cluster, readers in request.readers.items()
            for where in ("" if is_one else f"cluster {cluster}, ",)
            for broker, reader in readers.items()
        ]

    def run(self) -> list[ClusterOutcome[Recording]]:
        started = self._clock.now()
        # Daemons: an answer that is under way when it ends is not waited for to the end.
        threads = [
            Thread(target=each.record, args=(self._request, self._clock, self._stops[each.cluster]), daemon=True)
            for each in self._sources
        ]
        try:
            for thread in threads:
                thread.start()
            self._wait(threads)
        except KeyboardInterrupt:
            pass
        finally:
            for stop in self._stops.values():
                stop.set()
        with suppress(KeyboardInterrupt):
            self._end(threads)
        with suppress(KeyboardInterrupt):
            self._write()
        with self._lock:
            return [self._outcome(cluster, started) for cluster in self._request.readers]

    def _warn(self, text: str) -> None:
        with self._lock:
            self._request.warn(text)

    def _outcome(self, cluster: str, started: datetime) -> ClusterOutcome[Recording]:
        if cluster in self._failed:
            return ClusterOutcome(cluster, error=self._failed[cluster])
        mine = [source for source in self._sources if source.cluster == cluster]
        unwritten = sum(len(source.rows) for source in mine)
        recording = Recording(
            cluster=cluster,
            usage=self._request.usage,
            started=started,
            ended=self._clock.now(),
            interval=self._request.interval,
            rows=sum(source.written for source in mine),
            sources=tuple(source.report(started, self._request.interval) for source in mine),
            files=max((source.files for source in mine), default=0),
            unwritten=0 if self._failure is None else unwritten,
            failure=self._failure if unwritten else None,
        )
        return ClusterOutcome(cluster, recording)

    def _end(self, threads: Sequence[Thread]) -> None:
        """Wait for answers that are under way, but not long; another signal ends that."""
        deadline = self._clock.monotonic() + _ENDING_SECONDS
        for thread in threads:
            thread.join(max(0.0, deadline - self._clock.monotonic()))
        for source in self._sources:
            source.reader.cancel()

    def _wait(self, threads: Sequence[Thread]) -> None:
        begun = written = self._clock.monotonic()
        is_running, unchecked = True, list(self._request.readers)
        while is_running:
            running = [thread for thread in threads if thread.is_alive()]
            is_running = bool(running)
            if running:
                running[0].join(_TICK)
            with self._lock:
                unchecked = [cluster for cluster in unchecked if not self._is_checked(cluster)]
                now = self._clock.monotonic()
                waiting = sum(len(source.rows) for source in self._sources)
                self._request.progress(now - begun, waiting + sum(source.written for source in self._sources))
            if len(self._failed) == len(self._stops):
                return
            if now - written >= FLUSH_SECONDS or waiting > MOST_ROWS:
                written = now
                self._write()
                if self._failure is not None and waiting > MOST_ROWS:
                    self._warn(f"the recording ends: {waiting:,} rows wait to be written, and no more are kept")
                    return

    def _is_checked(self, cluster: str) -> bool:
        """Say which sources of a cluster could not be read, once all were asked; without any, it has failed."""
        mine = [source for source in self._sources if source.cluster == cluster]
        if not all(source.asked for source in mine):
            return False
        failing = [source for source in mine if source.failure is not None]
        goes_on = len(failing) < len(mine)
        if goes_on or len(self._stops) > 1:
            then = "it is asked again" if goes_on else "nothing is recorded of its cluster"
            for source in failing:
                self._warn(f"{source.shown} {source.failure}; {then}")
        if not goes_on:
            problems = {source.broker: f"{source.reader.shown} {source.failure}" for source in mine}
            self._failed[cluster] = NothingReadError(cluster, problems)
            self._stops[cluster].set()
        return True

    def _write(self) -> None:
        # A signal in the middle would lose what was taken.
        with held_signals(holds_all=True):
            with self._lock:
                taken = [(source, source.rows) for source in self._sources if source.rows]
                for source, _ in taken:
                    source.rows = []
            if not taken:
                return
            rows = [row for _, of_source in taken for row in of_source]
            try:
                self._request.write(rows)
            except Exception as error:
                problem = str(error) if isinstance(error, QuotaformError) else f"internal error: {type(error).__name__}"
                if self._failure is None and not all(stop.is_set() for stop in self._stops.values()):
                    self._warn(f"{problem}; {len(rows):,} rows are kept, and written with the next file")
                self._failure = problem
                with self._lock:
                    for source, of_source in taken:
                        source.rows[:0] = of_source
                return
            if self._failure is not None:
                self._warn(f"{self._request.usage} is written again, with the rows that were kept")
            self._failure = None
            for source, of_source in taken:
                source.written += len(of_source)
                # One for each day (UTC).
                source.files += len({row.ts // 86_400 for row in of_source})


# Files of the table of usage that are written without a Spark session, and without Java.
#
# A file is there as a whole or not at all: a kill leaves at most a temporary file, whose name begins with a dot, so
# that readers of the directory pass over it.


class UsageDirectory:
    """Parquet files with the columns of `quotaform.usage.table.schema.USAGE`, in folders by day and cluster."""

    def __init__(self, path: Path) -> None:
        """Make sure that rows can be written to a directory, which is made if it is not there.

        Raises `EngineError` if the extra is missing. Raises `UsageError` if it holds something else. Raises
        `QuotaformError` if it cannot be made or read.
        """
        if find_spec("pyarrow") is None:
            raise EngineError(f"Parquet files cannot be written without pyarrow: {missing_extra('usage')}.")
        self._path = path
        with self._writing():
            require_no_way_out(path)
            path.mkdir(parents=True, exist_ok=True)
            problem = self._problem()
        if problem:
            raise ArgumentError("{usage} {} {}; give another directory", inert(str(path)), problem)

    def write(self, rows: Sequence[UsageRow]) -> list[Path]:
        """Write rows to a new file for each day and cluster, and return the paths.

        Raises `QuotaformError` if one cannot be written; then nothing of it is there.
        """
        from pyarrow import parquet

        by_folder: dict[Path, list[UsageRow]] = {}
        for row in rows:
            day = datetime.fromtimestamp(row.ts, UTC).date()
            by_folder.setdefault(self._path / f"date={day}" / f"cluster={_escaped(row.cluster)}", []).append(row)
        paths = []
        for folder, own in by_folder.items():
            path, content = folder / f"part-{uuid4()}.parquet", BytesIO()
            parquet.write_table(usage_table(own).drop_columns(["cluster"]), content)
            with self._writing():
                folder.mkdir(parents=True, exist_ok=True)
                write_bytes_atomically(path, [content.getvalue()])
            paths.append(path)
        return paths

    def _problem(self) -> str | None:
        """Return why what is there is no table of usage: rows of it and of something else would be mixed."""
        from pyarrow import ArrowException, parquet

        if (self._path / "_delta_log").exists():
            return "is a Delta Lake table, into which files are ingested"
        others = [path for path in self._path.iterdir() if not path.name.startswith((".", "_", "date="))]
        files = [path for path in others if path.suffix == ".parquet"]
        files += islice(self._path.glob("date=*/cluster=*/*.parquet"), 1)
        if not files:
            return "is not empty and no table of usage" if others else None
        try:
            names = {"cluster", *parquet.read_schema(files[0]).names}
        except ArrowException:
            return f"holds {inert(files[0].name)}, which is no Parquet file that can be read"
        # A column with a default came later; files of an earlier version lack it.
        missing = [name for name in UsageRow._fields if name not in {*names, *UsageRow._field_defaults}]
        return f"is no table of usage, as it lacks the column {missing[0]}" if missing else None

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            problem = (
                f"{inert(str(self._path))} cannot be written: {error.strerror or error}; files written before stay"
            )
            raise QuotaformError(problem) from error


_SIGNS: Final = regex(r"[\x00-\x1f\x7f\"#%'*/:=?\\{\[\]^]")
"""What Spark spells as the number of the character in the name of a folder (ExternalCatalogUtils.escapePathName)."""


def _escaped(cluster: str | None) -> str:
    """Return the name of a cluster as Spark has it in the name of a folder.

    >>> _escaped("eu/1"), _escaped(None)
    ('eu%2F1', '__HIVE_DEFAULT_PARTITION__')
    """
    return _SIGNS.sub(lambda sign: f"%{ord(sign[0]):02X}", cluster or "") or "__HIVE_DEFAULT_PARTITION__"


def usage_table(rows: Sequence[UsageRow]) -> pyarrow.Table:
    """Return rows as a table of Arrow, with the types that Spark reads as those of `USAGE`."""
    import pyarrow

    double, text = pyarrow.float64(), pyarrow.string()
    kinds = {"ts": pyarrow.timestamp("us", "UTC"), "window_s": double, "rate": double, "throttle_ms": double}
    schema = pyarrow.schema([(name, kinds.get(name, text)) for name in UsageRow._fields])
    spelled = (row._asdict() | {"ts": round(row.ts * 1_000_000)} for row in rows)
    return pyarrow.Table.from_pylist(list(spelled), schema=schema)
