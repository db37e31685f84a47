"""What became of an ingest or a stream, and how people read it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice

from quotaform.model.entity import spell_name
from quotaform.model.errors import ExitCode
from quotaform.model.moment import spell_moment
from quotaform.model.text import inert, listed
from quotaform.report.text import PLAIN, Style, counted
from quotaform.usage.sample import DropReason


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedRecords:
    """Records that could not be read, for one reason."""

    file: str  # The first file with such a record
    position: int  # Where in it; `reason` says what it counts
    reason: str  # Why the first one could not be read


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestedCluster:
    """A cluster of which there were samples."""

    name: str  # As the recording, or `--cluster`, names it
    is_declared: bool | None
    """Whether quotaform.yaml declares a cluster of that name; `None` if there is no quotaform.yaml."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingested:
    """What became of an ingest: `read` is `written` + the sum of `dropped` + `quarantined`."""

    usage: str  # The table, as it was given
    files: int  # How many files were read
    empty_files: int  # How many had no bytes
    read: int  # How many samples, and records that could not be read, there were
    written: int  # How many samples are in the table now
    rows: int  # In how many rows: a rate and a throttle time of one time are one
    dropped: Mapping[DropReason, int]  # How many samples were left out, per reason
    quarantined: int  # How many records could not be read
    quarantine: str | None  # Where they are; `None` if there are none
    rejected: tuple[RejectedRecords, ...]  # Some of them
    clusters: tuple[IngestedCluster, ...]  # The clusters of the rows
    since: datetime | None  # The earliest time of the rows; `None` if there are none
    until: datetime | None  # The latest one

    @property
    def undeclared(self) -> tuple[IngestedCluster, ...]:
        """The clusters that quotaform.yaml does not declare."""
        return tuple(each for each in self.clusters if each.is_declared is False)

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of a run that ingests."""
        return ExitCode.DONE if self.rows else ExitCode.ERROR

    def warnings(self) -> Iterator[tuple[str, bool]]:
        """Yield what needs attention, and whether something failed."""
        if self.undeclared:
            names = listed([spell_name(each.name) for each in self.undeclared])
            yield f"quotaform.yaml declares no cluster {names}; the rows are in the table nevertheless", False
        if self.quarantined:
            where = f"see the quarantine table {inert(self.quarantine or '')}"
            yield f"{counted(self.quarantined, 'record')} could not be read; {where}", True

    def failure(self) -> str | None:
        """Return why there are no rows."""
        if self.rows:
            return None
        if not self.read:
            return "the recordings have no samples"
        if self.dropped.get(DropReason.OTHER_METRIC, 0) == self.read:
            return (
                f"none of the {counted(self.read, 'sample')} is of a metric of client quotas; "
                "docs/usage-recordings.md lists the names that are known"
            )
        found = f"the recordings have no samples for the table among the {self.read:,} that were read"
        if self.dropped.get(DropReason.BROKER_TOTAL):
            options = "give --user-label, --client-id-label or --ip-label"
            return f"{found}; if labels with other names say who it was, {options}"
        return f"{found}; the quarantine table has the reasons" if self.quarantined else found


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamCounts:
    """How many samples batches have read, and what became of them: samples = written + dropped + quarantined."""

    batches: int = 0  # How many batches there were
    records: int = 0  # How many records of the topic they had
    samples: int = 0  # How many samples were in those; what cannot be read counts as one
    written: int = 0  # How many are in the table
    dropped: Mapping[DropReason, int] = field(default_factory=dict)  # How many are not, by reason
    quarantined: int = 0  # How many could not be read
    late_records: int = 0  # How many records were late; the quarantine has each of them
    duplicate_records: int = 0  # How many records were there before

    def __add__(self, other: StreamCounts) -> StreamCounts:
        """Return the sums."""
        return StreamCounts(
            batches=self.batches + other.batches,
            records=self.records + other.records,
            samples=self.samples + other.samples,
            written=self.written + other.written,
            dropped=dict(Counter(self.dropped) + Counter(other.dropped)),
            quarantined=self.quarantined + other.quarantined,
            late_records=self.late_records + other.late_records,
            duplicate_records=self.duplicate_records + other.duplicate_records,
        )

    def require_sum(self) -> None:
        """Raise `RuntimeError` if a sample is lost in silence: a mistake of quotaform."""
        dropped = sum(self.dropped.values())
        if self.samples != self.written + dropped + self.quarantined:
            raise RuntimeError(
                f"{self.samples} samples in, but {self.written} written, {dropped} dropped and {self.quarantined} "
                "quarantined"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Streamed:
    """What a run of a stream has done."""

    topic: str
    usage: str  # The table, as it was given
    quarantine: str  # Where the records are that could not be read, or were late
    counts: StreamCounts  # The sums of all batches
    behind: int | None
    """How many records of the topic it had not read when its last batch ended; `None` if there was none."""

    @property
    def has_quarantine(self) -> bool:
        """Whether this run has put records into the quarantine."""
        return bool(self.counts.quarantined or self.counts.late_records)

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of a run that reads a topic."""
        return ExitCode.ERROR if self.failure() is not None else ExitCode.DONE

    def warnings(self) -> Iterator[tuple[str, bool]]:
        """Yield what needs attention, and whether something failed."""
        counts = self.counts
        if self.has_quarantine:
            bad = counted(counts.quarantined + counts.late_records, "record")
            yield f"{bad} could not be read, or came late; see the quarantine table {inert(self.quarantine)}", True
        if not counts.written and self.failure() is None:
            found = f"there are no samples for the table among the {counts.samples:,} that were read"
            none = f"the topic {inert(self.topic)} had no records that were not read before"
            yield f"nothing was added: {found if counts.samples else none}", False

    def failure(self) -> str | None:
        """Return why nothing could be read."""
        if self.counts.quarantined and not self.counts.written:
            return "no record could be read; see whether --input-format is that of the topic"
        return None


_MOST_CLUSTERS = 20
_MOST_RECORDS = 10
_WIDTH = 12


def render_ingested(result: Ingested, style: Style = PLAIN) -> str:
    """Return what became of an ingest as text, ending with one line that has all numbers."""
    return "\n".join(_ingest_lines(result, style)) + "\n"


def _ingest_lines(result: Ingested, style: Style) -> Iterator[str]:
    span = "no rows"
    if result.since is not None and result.until is not None:
        span = f"rows from {spell_moment(result.since)} to {spell_moment(result.until)}"
    yield f"Usage  {style.paint(inert(result.usage), 'bold')}   {span}"
    empty = f", {result.empty_files:,} of them empty" if result.empty_files else ""
    yield _field("Read", f"{counted(result.files, 'file')}{empty}")
    if result.clusters:
        names = (
            f"{spell_name(each.name)}{' (not in quotaform.yaml)' if each.is_declared is False else ''}"
            for each in result.clusters
        )
        yield _field("Clusters", listed(names, _MOST_CLUSTERS))
    for reason, count in sorted(result.dropped.items(), key=lambda each: -each[1]):
        yield _field("Dropped", f"{count:,}  {reason.value}")
    if result.quarantine is not None:
        yield _field("Quarantine", f"{counted(result.quarantined, 'record')} in {inert(result.quarantine)}")
        shown = list(islice(result.rejected, _MOST_RECORDS))
        yield from (f"    {inert(each.file)}: {inert(each.reason)}" for each in shown)
        if result.quarantined > len(shown):
            yield f"    ... and {result.quarantined - len(shown):,} more"
    yield ""
    yield style.paint(total_text(result), "bold")


def _field(name: str, text: str) -> str:
    return f"  {name:<{_WIDTH}}{text}"


def total_text(result: Ingested) -> str:
    """Return the numbers of an ingest, of which the first is the sum of the others."""
    return (
        f"Samples: {result.read:,} read = {result.written:,} written ({counted(result.rows, 'row')}) + "
        f"{sum(result.dropped.values()):,} dropped + {result.quarantined:,} quarantined."
    )


def render_streamed(result: Streamed, style: Style = PLAIN) -> str:
    """Return what a run has done as text, ending with one line that has all numbers."""
    return "\n".join(_stream_lines(result, style)) + "\n"


def _stream_lines(result: Streamed, style: Style) -> Iterator[str]:
    counts = result.counts
    yield f"Usage  {style.paint(inert(result.usage), 'bold')}   topic {inert(result.topic)}"
    behind = f", {result.behind:,} not read yet" if result.behind else ""
    batches = "1 batch" if counts.batches == 1 else f"{counts.batches:,} batches"
    yield _field("Read", f"{counted(counts.records, 'record')} in {batches}{behind}")
    if counts.duplicate_records:
        were = "was" if counts.duplicate_records == 1 else "were"
        yield _field("Duplicate", f"{counted(counts.duplicate_records, 'record')} that {were} read before")
    for reason, count in sorted(counts.dropped.items(), key=lambda each: -each[1]):
        yield _field("Dropped", f"{count:,}  {reason.value}")
    if result.has_quarantine:
        late = f", and {counted(counts.late_records, 'late record')}," if counts.late_records else ""
        yield _field("Quarantine", f"{counted(counts.quarantined, 'record')}{late} in {inert(result.quarantine)}")
    yield ""
    yield style.paint(f"Samples: {sum_text(counts)}.", "bold")


def sum_text(counts: StreamCounts) -> str:
    """Return the numbers of samples, of which the first is the sum of the others.

    >>> sum_text(StreamCounts(samples=1200, written=1200))
    '1,200 read = 1,200 written + 0 dropped + 0 quarantined'
    """
    return (
        f"{counts.samples:,} read = {counts.written:,} written + {sum(counts.dropped.values()):,} dropped + "
        f"{counts.quarantined:,} quarantined"
    )
