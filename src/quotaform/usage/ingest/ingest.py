"""The results of an ingest, a stream and a compaction, and their reports."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final

from msgspec import field

from quotaform.model.entity import spell_name
from quotaform.model.moment import spell_moment
from quotaform.model.records.record import ClusterName, Count, Moment, Record, about, derived
from quotaform.model.text import inert, listed, option_of
from quotaform.report.text import PLAIN, Style, counted
from quotaform.usage.sample import DroppedSamples, reason_text


class SampleCounts(Record):
    """The numbers of samples."""

    read: Annotated[Count, about("Samples, and records that could not be read: the sum of the others.")] = derived(
        lambda each: each.written + each.dropped + each.quarantined
    )
    written: Annotated[Count, about("Samples in the table.")]
    dropped: Annotated[Count, about("Samples that were left out.")]
    quarantined: Annotated[Count, about("Records that could not be read.")]

    @property
    def text(self) -> str:
        """The numbers, of which the first is the sum of the others."""
        added = f"{self.written:,} written + {self.dropped:,} dropped + {self.quarantined:,} quarantined"
        return f"{self.read:,} read = {added}"


class RejectedRecords(Record):
    """Records that could not be read, for one reason."""

    file: Annotated[str, about("The first file with such a record.")]
    position: Annotated[Count, about("Where in the file; the reason says what is counted.")]
    reason: Annotated[str, about("What is wrong with the first one.")]


class IngestedCluster(Record):
    """A cluster of which there were samples."""

    name: ClusterName = field(name="cluster")
    is_declared: Annotated[bool | None, about("Whether quotaform.yaml declares it; null if there is none.")] = field(
        name="declared"
    )


class Ingested(Record, document="usage-ingest"):
    """The result of quotaform usage ingest."""

    usage: Annotated[str, about("The usage table, as given.")]
    files: Annotated[Count, about("How many files were read.")]
    empty_files: Annotated[Count, about("How many of them were empty.")]
    summary: SampleCounts
    rows: Annotated[Count, about("How many rows were added: a rate and a throttle time of one time are one.")]
    since: Annotated[Moment | None, about("The earliest time of the rows; null if there are none.")]
    until: Annotated[Moment | None, about("The latest time of the rows; null if there are none.")]
    dropped: DroppedSamples
    clusters: Annotated[tuple[IngestedCluster, ...], about("The clusters of the rows.")]
    quarantine: Annotated[str | None, about("Where the records are that could not be read; null if there are none.")]
    rejected: Annotated[tuple[RejectedRecords, ...], about("The first of these records.")]

    def warnings(self) -> Iterator[tuple[str, bool]]:
        """Yield what needs attention, and whether something failed."""
        if undeclared := [spell_name(each.name) for each in self.clusters if each.is_declared is False]:
            names = listed(undeclared)
            yield f"quotaform.yaml declares no cluster {names}; the rows are in the table nevertheless", False
        if self.quarantine is not None:
            where = f"see the quarantine table {inert(self.quarantine)}"
            yield f"{counted(self.summary.quarantined, 'record')} could not be read; {where}", True

    def failure(self) -> str | None:
        """Return why there are no rows."""
        if self.rows:
            return None
        if not self.summary.read:
            return "the recordings have no samples"
        found = f"the recordings have no samples for the table among the {self.summary.read:,} that were read"
        if self.summary.quarantined:
            return f"{found}; the quarantine table has the reasons"
        return (
            f"{found}; docs/usage-recordings.md lists the metrics and labels that are known; for labels with other "
            f"names, give {option_of('user_label')}, {option_of('client_id_label')} or {option_of('ip_label')}"
        )


class Streamed(Record, document="usage-stream"):
    """The result of quotaform usage ingest --topic."""

    topic: Annotated[str, about("The topic.")]
    usage: Annotated[str, about("The usage table, as given.")]
    batches: Annotated[Count, about("How many batches the run had.")]
    records: Annotated[Count, about("How many records of the topic it read.")]
    duplicate_records: Annotated[Count, about("How many of them were read before.")]
    late_records: Annotated[
        Count, about("How many were left out because the clock went back by more than the watermark.")
    ]
    behind: Annotated[
        Count | None, about("Records not read yet when the last batch ended; null if there was no batch.")
    ]
    summary: SampleCounts
    dropped: DroppedSamples
    quarantine: Annotated[str | None, about("Where the records are that could not be read; null if there are none.")]

    def warnings(self) -> Iterator[tuple[str, bool]]:
        """Yield what needs attention, and whether something failed."""
        counts = self.summary
        if self.quarantine is not None:
            bad = counted(counts.quarantined, "record")
            yield f"{bad} could not be read; see the quarantine table {inert(self.quarantine)}", True
        if self.late_records:
            late = counted(self.late_records, "record")
            remedy = f"give another {option_of('checkpoint')} to read them"
            yield f"{late} left out: the clock of this machine went back; {remedy}", True
        if not counts.written and self.failure() is None:
            found = f"there are no samples for the table among the {counts.read:,} that were read"
            none = f"the topic {inert(self.topic)} had no records that were not read before"
            yield f"nothing was added: {found if counts.read else none}", False

    def failure(self) -> str | None:
        """Return why nothing could be read."""
        if self.summary.quarantined and not self.summary.written:
            return f"no record could be read; see whether {option_of('input_format')} is that of the topic"
        return None


_MOST_CLUSTERS: Final = 20
_MOST_RECORDS: Final = 10


def render_ingested(result: Ingested, style: Style = PLAIN) -> str:
    """Return what became of an ingest as text, ending with one line that has all numbers."""
    span = "no rows"
    if result.since is not None and result.until is not None:
        span = f"rows from {spell_moment(result.since)} to {spell_moment(result.until)}"
    empty = f", {result.empty_files:,} of them empty" if result.empty_files else ""
    lines = [("Read", f"{counted(result.files, 'file')}{empty}")]
    if result.clusters:
        names = (
            f"{spell_name(each.name)}{' (not in quotaform.yaml)' if each.is_declared is False else ''}"
            for each in result.clusters
        )
        lines.append(("Clusters", listed(names, _MOST_CLUSTERS)))
    samples = result.summary.text.replace(" written ", f" written ({counted(result.rows, 'row')}) ")
    return _render(result, span, lines, samples, style)


def render_streamed(result: Streamed, style: Style = PLAIN) -> str:
    """Return what a run has done as text, ending with one line that has all numbers."""
    behind = f", {result.behind:,} not read yet" if result.behind else ""
    batches = "1 batch" if result.batches == 1 else f"{result.batches:,} batches"
    lines = [("Read", f"{counted(result.records, 'record')} in {batches}{behind}")]
    if result.duplicate_records:
        were = "was" if result.duplicate_records == 1 else "were"
        lines.append(("Duplicate", f"{counted(result.duplicate_records, 'record')} that {were} read before"))
    if result.late_records:
        late = counted(result.late_records, "record")
        lines.append(("Late", f"{late} left out, because the clock went back"))
    return _render(result, f"topic {inert(result.topic)}", lines, result.summary.text, style)


def _render(result: Ingested | Streamed, what: str, lines: list[tuple[str, str]], samples: str, style: Style) -> str:
    dropped = sorted(result.dropped.items(), key=lambda each: -each[1])
    lines += [("Dropped", f"{count:,}  {reason_text(name)}") for name, count in dropped]
    rejected: list[str] = []
    if result.quarantine is not None:
        quarantined = result.summary.quarantined
        lines.append(("Quarantine", f"{counted(quarantined, 'record')} in {inert(result.quarantine)}"))
        if isinstance(result, Ingested):
            shown = result.rejected[:_MOST_RECORDS]
            rejected = [f"    {inert(each.file)}: {inert(each.reason)}" for each in shown]
            if (more := quarantined - len(shown)) > 0:
                rejected.append(f"    ... and {more:,} more")
    head = f"Usage  {style.paint(inert(result.usage), 'bold')}   {what}"
    end = style.paint(f"Samples: {samples}.", "bold")
    return "\n".join([head, *(f"  {name:<12}{text}" for name, text in lines), *rejected, "", end]) + "\n"


class Compacted(Record, document="usage-compact"):
    """The result of quotaform usage compact."""

    usage: Annotated[str, about("The usage table, as given.")]
    files: Annotated[Count, about("How many files it had.")]
    replaced: Annotated[Count, about("How many of them were brought together with others of their day and cluster.")]
    written: Annotated[Count, about("How many files were written in their place: one for each day and cluster.")]
    rows: Annotated[Count, about("How many rows those have; what was there twice is there once.")]
    expired: Annotated[Count, about("How many files were removed because all of their rows are too old.")]
    kept_from: Annotated[str | None, about("The first day that is kept (UTC), as YYYY-MM-DD; null if all are.")]


def render_compacted(result: Compacted, style: Style = PLAIN) -> str:
    """Return what became of the files of a table as text."""
    removed = (
        f"  Removed  {counted(result.expired, 'file')} from before {result.kept_from}\n" if result.kept_from else ""
    )
    made = f"{counted(result.replaced, 'file')} became {result.written:,}, with {counted(result.rows, 'row')}"
    end = style.paint(f"Files: {made}; {result.files:,} before.", "bold")
    return f"Usage  {style.paint(inert(result.usage), 'bold')}\n{removed}\n{end}\n"
