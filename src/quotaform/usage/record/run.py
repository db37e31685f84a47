"""Recording: a thread asks each source, the main one takes up what they answer and writes Parquet files as it goes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib.util import find_spec
from io import BytesIO
from itertools import islice
from math import ceil, inf
from pathlib import Path
from queue import SimpleQueue
from re import compile as regex
from threading import Event, Thread
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from msgspec import Struct, field
from msgspec.structs import replace

from quotaform.model.errors import ArgumentError, EngineError, QuotaformError, first_lines, missing_extra
from quotaform.model.outcome import ClusterOutcome, Progress, no_progress
from quotaform.model.text import inert
from quotaform.system.clock import SYSTEM_CLOCK, Clock
from quotaform.system.files import require_no_way_out, write_atomically, writing
from quotaform.system.process import held_signals
from quotaform.usage.record.reader import Reader, broker_readers, problem_of
from quotaform.usage.record.recording import Gap, Reading, RecordedSource, Recording, explain_no_rows, first_problem
from quotaform.usage.sample import UsageRow, by_reason

if TYPE_CHECKING:
    import pyarrow

    from quotaform.desired.config import Cluster
    from quotaform.model.settings import MetricsSource


_MOST_PROBLEMS: Final = 3
FLUSH_SECONDS: Final = 60.0
"""How often a file is written: what a kill loses at most."""
MOST_ROWS: Final = 500_000
"""A file is also written when there are so many rows; if it cannot be, the recording ends."""
_TICK: Final = 0.2


class _SourceState(Struct):
    """A source, and what became of it so far, as the main thread knows it."""

    cluster: str
    shown: str  # How warnings call it
    reader: Reader
    found: RecordedSource
    rows: list[UsageRow] = []  # What was read and not written yet
    files: int = 0  # How many files have rows of it
    failure: str | None = None  # Why it could not be read the last time; `None` if it could
    is_remarked: bool = False


def next_slot(slot: int, interval: float, ended: float, took: float, failures: int) -> int:
    """Return the slot in which a source is asked next; slot `n` begins `n * interval` seconds after the start.

    | it answered | it is asked again |
    | --- | --- |
    | fast | in the next slot |
    | after `took` seconds | not before as long again has passed: requests take at most half of the source's time |
    | not, several times in a row | after 1, 2, 4, ... slots, but a minute, or one slot, at most |

    `slot`: the last one in which it was asked. `interval`: the length of a slot in seconds. `ended`: when that was
    over, in seconds after the start. `took`: how long it took. `failures`: how many times in a row it failed.
    """
    pause = min(1 << min(max(failures - 1, 0), 30), max(1, int(60.0 / interval)))
    return max(slot + pause, ceil((ended + took) / interval))


class Recorder(Struct, kw_only=True):
    """Records brokers of clusters until the time is over, or a signal comes, after which what was read is written, too.

    Rows that cannot be written are kept for the next file. A recording that cannot write more than `MOST_ROWS` ends,
    and what became of it says so. A cluster of which no source could be read at the beginning failed with
    an error; the others are recorded.
    """

    usage: str  # The directory of the table, as it was given
    readers: Mapping[str, Mapping[str, Reader]]  # What reads each broker of each cluster, by their names
    interval: float  # Seconds between two measurements of a broker
    seconds: float | None  # For how long; `None` until it is interrupted
    write: Callable[[Sequence[UsageRow]], object]
    """Writes rows to a file of the table; the file is there as a whole, or not at all."""
    failed: Sequence[ClusterOutcome[Recording]] = ()  # The clusters of which nothing can be asked
    warn: Callable[[str], None]  # Called with what is urgent
    clock: Clock = SYSTEM_CLOCK
    _sources: list[_SourceState] = field(default_factory=list)
    _answers: SimpleQueue[Callable[[], None]] = field(default_factory=SimpleQueue)  # What takes up what became of slots
    _stops: dict[str, Event] = field(default_factory=dict)  # What ends the threads of each cluster
    _unchecked: list[str] = field(default_factory=list)  # The clusters of which not all sources were asked yet
    _failed: dict[str, QuotaformError] = field(default_factory=dict)
    _failure: str | None = None  # Why rows could not be written the last time
    _started: datetime = datetime.min
    _begun: float = 0.0
    _flushed: float = 0.0

    def __post_init__(self) -> None:
        """Begin."""
        self._started = self.clock.now()
        self._begun = self._flushed = self.clock.monotonic()
        self._unchecked = list(self.readers)
        self._stops = {cluster: Event() for cluster in self.readers}
        for cluster, readers in self.readers.items():
            where = "" if len(self.readers) == 1 else f"cluster {cluster}, "
            for broker, reader in readers.items():
                found = RecordedSource(broker=broker, source=reader.shown)
                shown = f"{where}broker {broker}: {reader.shown}"
                self._sources.append(_SourceState(cluster, shown, reader, found))

    def run(
        self, progress: Callable[[float, int], None] = lambda _seconds, _rows: None
    ) -> list[ClusterOutcome[Recording]]:
        """Record, and return what became of each cluster.

        `progress` is called now and then with the seconds that have passed, and the rows so far.
        """
        # Daemons: an answer that is under way when it ends is not waited for to the end.
        threads = [Thread(target=self._ask, args=(source,), daemon=True) for source in self._sources]
        is_over = False
        try:
            for thread in threads:
                thread.start()
            while not is_over:
                running = [thread for thread in threads if thread.is_alive()]
                if running:
                    running[0].join(_TICK)
                # A signal in the middle would lose what was taken up.
                with held_signals(holds_all=True):
                    is_over = self._is_over(progress) or not running
        except KeyboardInterrupt:
            pass
        finally:
            for stop in self._stops.values():
                stop.set()
        with suppress(KeyboardInterrupt):
            # Answers that are under way are waited for, but not long; another signal ends that.
            deadline = self.clock.monotonic() + 2.0
            for thread in threads:
                thread.join(max(0.0, deadline - self.clock.monotonic()))
            for source in self._sources:
                source.reader.cancel()
        with suppress(KeyboardInterrupt), held_signals(holds_all=True):
            self._take_up_answers()
            self._write()
        return [*map(self._outcome, self.readers), *self.failed]

    def _ask(self, source: _SourceState) -> None:
        """Read a source in its slots, until there are no more or its cluster is to stop; in a thread of its own."""
        clock, stop, interval = self.clock, self._stops[source.cluster], self.interval
        slots = inf if self.seconds is None else max(1, ceil(self.seconds / interval))
        begun = clock.monotonic()
        slot = failures = 0
        while not stop.is_set() and slot < slots:
            asked, missed = clock.monotonic(), "was not asked, as it had been slow"
            try:
                # It is waited for as long as a slot, but 5 seconds at least and 30 at most.
                answer: Reading | str = source.reader.read(min(max(interval, 5.0), 30.0))
                failures = 0
            except Exception as error:
                # An internal error, too, is a gap of this source and not the end of its thread.
                if stop.is_set():
                    return
                answer = missed = problem_of(error)
                failures += 1
            self._answers.put(partial(self._take_up, source, slot, answer))
            ended = clock.monotonic()
            following = int(min(next_slot(slot, interval, ended - begun, ended - asked, failures), slots))
            if stop.wait(max(0.0, following * interval - (ended - begun))):
                following = min(following, int((clock.monotonic() - begun) / interval) + 1)
            if following > slot + 1:
                self._answers.put(partial(self._add_gap, source, slot + 1, following - 1, missed))
            slot = following

    def _add_gap(self, source: _SourceState, first: int, last: int, reason: str) -> None:
        """Take up that slots have no answer."""
        gaps = source.found.gaps
        begin, end = (self._started + timedelta(seconds=slot * self.interval) for slot in (first, last))
        gap = Gap(first=begin, last=end, missed=last - first + 1, reason=reason)
        is_next = gaps and begin - gaps[-1].last < timedelta(seconds=1.5 * self.interval)
        if is_next and gaps[-1].reason == reason:
            gap = replace(gap, first=gaps[-1].first, missed=gaps[-1].missed + gap.missed)
            gaps = gaps[:-1]
        source.found = replace(source.found, gaps=(*gaps, gap))

    def _take_up(self, source: _SourceState, slot: int, answer: Reading | str) -> None:
        """Take up an answer, or why there is none."""
        found = source.found = replace(source.found, asked=source.found.asked + 1)
        if isinstance(answer, str):
            self._add_gap(source, slot, slot, answer)
            # How it began is said of all sources together.
            if source.failure is None and found.asked > 1:
                self.warn(f"{source.shown} {answer}; it is asked again")
            source.failure = answer
            return
        problems, remark = found.problems, explain_no_rows(answer)
        if answer.rejected and first_problem(answer.rejected) not in problems[: _MOST_PROBLEMS - 1]:
            problems = (*problems, first_problem(answer.rejected))[:_MOST_PROBLEMS]
        source.rows += answer.rows
        source.found = replace(
            found,
            read=found.read + 1,
            dropped=dict(Counter(found.dropped) + Counter(by_reason(answer.dropped))),
            rejected=found.rejected + len(answer.rejected),
            problems=problems,
            size=found.size + answer.size,
            seconds=round(found.seconds + answer.seconds, 6),
            longest=round(max(found.longest, answer.seconds), 6),
            remark=remark,
        )
        if remark is not None and not source.is_remarked:
            source.is_remarked = True
            self.warn(f"{source.shown} answers, but {remark}")
        if source.failure is not None:
            self.warn(f"{source.shown} answers again")
        source.failure = None

    def _outcome(self, cluster: str) -> ClusterOutcome[Recording]:
        if cluster in self._failed:
            return ClusterOutcome(cluster, error=self._failed[cluster])
        mine = [source for source in self._sources if source.cluster == cluster]
        unwritten = sum(len(source.rows) for source in mine)
        recording = Recording(
            cluster=cluster,
            usage=self.usage,
            started=self._started,
            ended=self.clock.now(),
            interval=self.interval,
            rows=sum(source.found.rows for source in mine),
            sources=tuple(source.found for source in mine),
            files=max((source.files for source in mine), default=0),
            unwritten=0 if self._failure is None else unwritten,
            failure=self._failure if unwritten else None,
        )
        return ClusterOutcome(cluster, recording)

    def _take_up_answers(self) -> None:
        while not self._answers.empty():
            self._answers.get()()

    def _is_over(self, progress: Callable[[float, int], None]) -> bool:
        """Take up what was answered, write it from time to time, and return whether the recording ends."""
        self._take_up_answers()
        self._unchecked = [cluster for cluster in self._unchecked if not self._is_checked(cluster)]
        now, waiting = self.clock.monotonic(), sum(len(source.rows) for source in self._sources)
        progress(now - self._begun, waiting + sum(source.found.rows for source in self._sources))
        if len(self._failed) == len(self._stops):
            return True
        if now - self._flushed < FLUSH_SECONDS and waiting <= MOST_ROWS:
            return False
        self._flushed = now
        self._write()
        is_full = self._failure is not None and waiting > MOST_ROWS
        if is_full:
            self.warn(f"the recording ends: {waiting:,} rows wait to be written, and no more are kept")
        return is_full

    def _is_checked(self, cluster: str) -> bool:
        """Say which sources of a cluster could not be read, once all were asked; without any, it has failed."""
        mine = [source for source in self._sources if source.cluster == cluster]
        if not all(source.found.asked for source in mine):
            return False
        failing = [source for source in mine if source.failure is not None]
        goes_on = len(failing) < len(mine)
        if goes_on or len(self._stops) > 1:
            then = "it is asked again" if goes_on else "nothing is recorded of its cluster"
            for source in failing:
                self.warn(f"{source.shown} {source.failure}; {then}")
        if not goes_on:
            which = f"none of {len(mine):,} sources" if len(mine) > 1 else "the source"
            problems = [f"broker {each.found.broker}: {each.found.source} {each.failure}" for each in mine]
            self._failed[cluster] = QuotaformError(
                f"{which} of cluster {cluster} can{'' if len(mine) > 1 else 'not'} be read:", *first_lines(problems)
            )
            self._stops[cluster].set()
        return True

    def _write(self) -> None:
        """Write the rows that wait; if they cannot be written, they are kept."""
        rows = [row for source in self._sources for row in source.rows]
        if not rows:
            return
        try:
            self.write(rows)
        except Exception as error:
            problem = str(error) if isinstance(error, QuotaformError) else f"internal error: {type(error).__name__}"
            if self._failure is None and not all(stop.is_set() for stop in self._stops.values()):
                self.warn(f"{problem}; {len(rows):,} rows are kept, and written with the next file")
            self._failure = problem
            return
        if self._failure is not None:
            self.warn(f"{self.usage} is written again, with the rows that were kept")
        self._failure = None
        for source in self._sources:
            source.found = replace(source.found, rows=source.found.rows + len(source.rows))
            # One for each day (UTC).
            source.files += len({row.ts // 86_400 for row in source.rows})
            source.rows = []


def open_recorder(
    clusters: Sequence[Cluster],
    sources: Sequence[MetricsSource],
    usage: Path,
    *,
    interval: float,
    seconds: float | None,
    warn: Callable[[str], None],
    progress: Progress = no_progress,
) -> Recorder:
    """Return what records clusters into a directory; the brokers of a single one may be at `sources`.

    Raises the error of the first cluster if none of them says where its brokers are measured, `UsageError` for sources
    of several clusters, and what `require_usage_directory` raises.
    """
    if sources and len(clusters) > 1:
        raise ArgumentError("{source} is of one cluster; choose it with {cluster}")
    opened = [ClusterOutcome.of(each.name, partial(broker_readers, each, sources, progress)) for each in clusters]
    readers = {each.cluster: each.require() for each in opened if each.error is None}
    if not readers:
        opened[0].require()
    require_usage_directory(usage)
    return Recorder(
        usage=str(usage),
        readers=readers,
        interval=interval,
        seconds=seconds,
        write=partial(write_rows, usage),
        failed=[ClusterOutcome(each.cluster, error=each.error) for each in opened if each.error is not None],
        warn=warn,
    )


# Files of the table of usage that are written without a Spark session, and without Java.
#
# A file is there as a whole or not at all: a kill leaves at most a temporary file, whose name begins with a dot, so
# that readers of the directory pass over it.


def require_usage_directory(path: Path) -> None:
    """Make sure that rows of usage can be written to a directory, which is made if it is not there.

    Raises `EngineError` without pyarrow, `UsageError` if it holds anything else, with which rows would be mixed, and
    `QuotaformError` if it cannot be made or read.
    """
    if find_spec("pyarrow") is None:
        raise EngineError(f"Parquet files cannot be written without pyarrow: {missing_extra('usage')}.")
    from pyarrow import ArrowException, parquet

    problem = None
    with writing(inert(str(path)), "; files written before stay"):
        require_no_way_out(path)
        path.mkdir(parents=True, exist_ok=True)
        others = [each for each in path.iterdir() if not each.name.startswith((".", "_", "date="))]
        files = [each for each in others if each.suffix == ".parquet"]
        files += islice(path.glob("date=*/cluster=*/*.parquet"), 1)
        try:
            names = {"cluster", *(parquet.read_schema(files[0]).names if files else ())}
            missing = [name for name in UsageRow._fields if files and name not in names]
            if (path / "_delta_log").exists():
                problem = "is a Delta Lake table, into which files are ingested"
            elif others and not files:
                problem = "is not empty and no table of usage"
            elif missing:
                problem = f"is no table of usage, as it lacks the column {missing[0]}"
        except ArrowException:
            problem = f"holds {inert(files[0].name)}, which is no Parquet file that can be read"
    if problem:
        raise ArgumentError("{usage} {} {}; give another directory", inert(str(path)), problem)


_SIGNS: Final = regex(r"[\x00-\x1f\x7f\"#%'*/:=?\\{\[\]^]")
"""What Spark spells as the number of the character in the name of a folder (ExternalCatalogUtils.escapePathName)."""


def write_rows(table: Path, rows: Sequence[UsageRow]) -> list[Path]:
    """Write rows to a new file for each day and cluster in the directory of a table, and return the paths.

    The columns are those of `quotaform.usage.table.schema.USAGE`. Raises `QuotaformError` if a file cannot be written.
    """
    from pyarrow import parquet

    by_folder: dict[Path, list[UsageRow]] = {}
    for row in rows:
        day = datetime.fromtimestamp(row.ts, UTC).date()
        escaped = _SIGNS.sub(lambda sign: f"%{ord(sign[0]):02X}", row.cluster or "")
        folder = table / f"date={day}" / f"cluster={escaped or '__HIVE_DEFAULT_PARTITION__'}"
        by_folder.setdefault(folder, []).append(row)
    paths = []
    for folder, own in by_folder.items():
        path, content = folder / f"part-{uuid4()}.parquet", BytesIO()
        parquet.write_table(usage_table(own).drop_columns(["cluster"]), content)
        with writing(inert(str(table)), "; files written before stay"):
            folder.mkdir(parents=True, exist_ok=True)
            write_atomically(path, [content.getvalue()])
        paths.append(path)
    return paths


def usage_table(rows: Sequence[UsageRow]) -> pyarrow.Table:
    """Return rows as a table of Arrow, with the types that Spark reads as those of `USAGE`."""
    import pyarrow

    double, text = pyarrow.float64(), pyarrow.string()
    kinds = {"ts": pyarrow.timestamp("us", "UTC"), "window_s": double, "rate": double, "throttle_ms": double}
    schema = pyarrow.schema([(name, kinds.get(name, text)) for name in UsageRow._fields])
    spelled = (row._asdict() | {"ts": round(row.ts * 1_000_000)} for row in rows)
    return pyarrow.Table.from_pylist(list(spelled), schema=schema)
