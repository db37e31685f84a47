"""The result of a recording: rows, gaps, what reading cost the brokers; and its report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, NamedTuple

from msgspec import field

from quotaform.model.errors import ExitCode, QuotaformError
from quotaform.model.moment import duration_text, spell_second
from quotaform.model.records.record import ClusterName, Count, Moment, Record, about
from quotaform.model.text import inert, option_of
from quotaform.report.text import PLAIN, Style, counted
from quotaform.usage.sample import (
    Attribute,
    Dropped,
    DroppedSamples,
    DropReason,
    Item,
    Rejected,
    Series,
    UsageRow,
    reason_text,
)


class Gap(Record):
    """A time without measurements of a broker."""

    first: Annotated[Moment, about("The first time at which there should be one.")]
    last: Annotated[Moment, about("The last such time.")]
    missed: Annotated[Count, about("How many are missing.")]
    reason: Annotated[str, about("Why, as the rest of a sentence about the source.")]


class RecordedSource(Record):
    """What was recorded of one broker."""

    broker: Annotated[str, about("Its name in the table.")]
    source: Annotated[str, about("Where it was measured.")]
    asked: Annotated[Count, about("How often it was asked.")] = 0
    read: Annotated[Count, about("How often it answered.")] = 0
    rows: Annotated[Count, about("The rows of it in the table.")] = 0
    dropped: DroppedSamples = field(default_factory=dict)
    rejected: Annotated[Count, about("Records that could not be read.")] = 0
    problems: Annotated[tuple[str, ...], about("The first reasons of these.")] = ()
    size: Annotated[Count, about("The bytes of all its answers.")] = field(name="bytes", default=0)
    seconds: Annotated[float, about("The time that all its answers took.")] = 0.0
    longest: Annotated[float, about("The longest of these times.")] = field(name="longest_s", default=0.0)
    gaps: Annotated[tuple[Gap, ...], about("The times without measurements.")] = ()
    remark: Annotated[str | None, about("Why its last answer had no row, or null.")] = None


class Recording(Record, document="usage-record"):
    """The result of quotaform usage record."""

    cluster: ClusterName
    usage: Annotated[str, about("The table, as given.")]
    started: Annotated[Moment, about("When it began.")] = field(name="started_at")
    ended: Annotated[Moment, about("When it ended.")] = field(name="ended_at")
    interval: Annotated[float, about("Seconds between two measurements of a broker.")] = field(name="interval_s")
    rows: Annotated[Count, about("The rows that were added to the table.")]
    files: Annotated[Count, about("The files that were added to the table.")]
    unwritten: Annotated[Count, about("The rows that were measured and could not be written.")]
    failure: Annotated[str | None, about("Why, or null if all were written.")]
    sources: Annotated[tuple[RecordedSource, ...], about("What was recorded of each broker.")]

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of the run."""
        return ExitCode.DONE if self.rows and self.failure is None else ExitCode.ERROR

    def require_written(self) -> None:
        """Raise `QuotaformError` if rows were not written, or there were none."""
        if self.failure is not None:
            raise QuotaformError(f"{self.unwritten:,} rows were not written: {self.failure}")
        if not self.rows:
            raise QuotaformError("nothing was recorded: no answer had a measurement of a client; see the summary")


class Reading(NamedTuple):
    """What one answer of a source holds."""

    rows: list[UsageRow]
    dropped: Counter[DropReason]
    rejected: list[Rejected]
    size: int = 0  # The bytes of the answer
    seconds: float = 0.0  # How long it took until it was there


def read_rows(items: Iterable[Item]) -> Reading:
    """Return the rows of the table of usage in an answer, a rate and a throttle time of one time in one row.

    Of several values of one time, the largest counts. No rate follows from the total of a counter at one moment.
    """
    rows: dict[tuple[Series, float], UsageRow] = {}
    dropped: Counter[DropReason] = Counter()
    rejected: list[Rejected] = []
    for item in items:
        if isinstance(item, Rejected):
            rejected.append(item)
        elif isinstance(item, Dropped):
            dropped[item.reason] += item.samples
        elif item.series.attribute is Attribute.TOTAL:
            dropped[DropReason.FIRST_TOTAL] += 1
        else:
            place = item.series._replace(attribute=Attribute.RATE), item.ts
            row = rows.get(place) or UsageRow(
                item.ts, item.window_s, *item.series[:6], None, None, item.series.instance
            )
            is_rate = item.series.attribute is Attribute.RATE
            before = row.rate if is_rate else row.throttle_ms
            if before is not None:
                dropped[DropReason.DUPLICATE if item.value == before else DropReason.CONFLICT] += 1
            value = max(item.value, before or 0.0)
            rows[place] = row._replace(rate=value) if is_rate else row._replace(throttle_ms=value)
    return Reading([*rows.values()], dropped, rejected)


def explain_no_rows(read: Reading) -> str | None:
    """Return why an answer holds no row, as the rest of a sentence about the source; `None` if it holds some.

    Source: org.apache.kafka.server.quota.ClientQuotaManager, quotasEnabled.
    """
    if read.rows:
        return None
    if read.rejected:
        return first_problem(read.rejected)
    return (
        "it has no rate of a client: a broker measures clients only after a quota with the same key was set since it "
        "started, and an exporter may leave the rates out (docs/usage-record.md has rules); to measure all clients and "
        f"limit none, set a very large default: quotaform alter 'user=<default>' {option_of('add')} "
        "producer_byte_rate=1TiB/s (or 'client-id=<default>' if clients do not authenticate)"
    )


def first_problem(rejected: Sequence[Rejected]) -> str:
    """Return why records could not be read: the first reason and how many there are."""
    more = f" (and {len(rejected) - 1:,} more)" if len(rejected) > 1 else ""
    return f"its answer cannot be read: {rejected[0].reason}{more}"


_MOST_GAPS = 5


def render_recording(result: Recording, style: Style = PLAIN) -> str:
    """Return what became of a recording as text."""
    lasted = duration_text(result.ended - result.started)
    span = f"{spell_second(result.started)} to {spell_second(result.ended)} ({lasted})"
    lines = [f"Recorded  {style.paint(inert(result.cluster), 'bold')}   {span}, every {result.interval:g} s", ""]
    dropped: Counter[str] = Counter()
    for each in result.sources:
        dropped.update(each.dropped)
        lines += [*_source_lines(each, style), ""]
    if dropped:
        reasons = ", ".join(f"{count:,} {reason_text(name)}" for name, count in dropped.most_common())
        lines.append(f"Not in the table: {reasons}.")
    files = f"{counted(result.rows, 'row')} in {counted(result.files, 'file')} of {inert(result.usage)}."
    lines.append(style.paint(files, "bold"))
    if result.failure is not None:
        lost = counted(result.unwritten, "more row")
        lines.append(style.paint(f"{lost} could not be written: {inert(result.failure)}.", "red"))
    return "\n".join(lines) + "\n"


def _source_lines(each: RecordedSource, style: Style) -> Iterator[str]:
    missed, cost = sum(gap.missed for gap in each.gaps), ""
    if each.read:
        size, seconds = each.size / each.read / 1024, each.seconds / each.read
        cost = f"; {size:,.1f} KiB and {seconds * 1000:,.0f} ms each ({each.longest * 1000:,.0f} ms at most)"
    of = f"{each.read:,} of {counted(each.read + missed, 'measurement')}"
    yield f"  broker {inert(each.broker)} ({inert(each.source)}): {of}, {counted(each.rows, 'row')}{cost}"
    for gap in each.gaps[:_MOST_GAPS]:
        last = "" if gap.missed == 1 else f" to {spell_second(gap.last)}"
        missing = f"{counted(gap.missed, 'measurement')} missing; it {inert(gap.reason)}"
        yield f"    {style.paint('gap', 'yellow')} {spell_second(gap.first)}{last}: {missing}"
    if len(each.gaps) > _MOST_GAPS:
        yield f"    ... and {len(each.gaps) - _MOST_GAPS:,} more gaps (all: {option_of('format')} json)"
    if each.remark is not None:
        yield f"    {style.paint('no rows:', 'yellow')} {inert(each.remark.partition(';')[0])}"
    if each.rejected:
        yield f"    {counted(each.rejected, 'record')} cannot be read: {inert('; '.join(each.problems))}"
