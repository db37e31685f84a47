"""Recordings as a person reads them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from quotaform.core.usage.record.recording import Gap, RecordedSource, Recording
from quotaform.core.usage.sample.sample import DropReason
from quotaform.duration import duration_text
from quotaform.model.moment import spell_moment
from quotaform.model.text import inert
from quotaform.views.style import PLAIN, Style, counted

_MOST_GAPS = 5


def render_recording(result: Recording, style: Style = PLAIN) -> str:
    """Return what became of a recording as text."""
    return "\n".join(_lines(result, style)) + "\n"


def _lines(result: Recording, style: Style) -> Iterator[str]:
    times = [moment.replace(microsecond=0) for moment in (result.started, result.ended)]
    span = " to ".join(map(spell_moment, times))
    yield (
        f"Recorded  {style.paint(inert(result.cluster), 'bold')}   {span} "
        f"({duration_text(result.ended - result.started)}), every {result.interval:g} s"
    )
    yield ""
    for each in result.sources:
        yield from _source_lines(each, style)
    dropped: Counter[DropReason] = Counter()
    for each in result.sources:
        for reason, count in each.dropped:
            dropped[reason] += count
    if dropped:
        reasons = ", ".join(f"{count:,} {reason.value}" for reason, count in dropped.most_common())
        yield f"Not in the table: {reasons}."
    yield style.paint(
        f"{counted(result.rows, 'row')} in {counted(result.files, 'file')} of {inert(result.usage)}.", "bold"
    )
    if result.failure is not None:
        lost = counted(result.unwritten, "more row")
        yield style.paint(f"{lost} could not be written: {inert(result.failure)}.", "red")


def _source_lines(each: RecordedSource, style: Style) -> Iterator[str]:
    missed = sum(gap.missed for gap in each.gaps)
    of = f"{each.read:,} of {counted(each.read + missed, 'measurement')}"
    yield f"  broker {inert(each.broker)} ({inert(each.source)}): {of}, {counted(each.rows, 'row')}{_cost(each)}"
    for gap in each.gaps[:_MOST_GAPS]:
        yield f"    {style.paint('gap', 'yellow')} {_gap_text(gap)}"
    if len(each.gaps) > _MOST_GAPS:
        yield f"    ... and {len(each.gaps) - _MOST_GAPS:,} more gaps (all: --format json)"
    if each.remark is not None:
        yield f"    {style.paint('no rows:', 'yellow')} {inert(each.remark.partition(';')[0])}"
    if each.rejected:
        yield f"    {counted(each.rejected, 'record')} cannot be read: {inert('; '.join(each.problems))}"
    yield ""


def _cost(each: RecordedSource) -> str:
    if not each.read:
        return ""
    size, seconds = each.size / each.read, each.seconds / each.read
    return f"; {size_text(size)} and {seconds * 1000:,.0f} ms each ({each.longest * 1000:,.0f} ms at most)"


def _gap_text(gap: Gap) -> str:
    first = spell_moment(gap.first.replace(microsecond=0))
    last = "" if gap.missed == 1 else f" to {spell_moment(gap.last.replace(microsecond=0))}"
    return f"{first}{last}: {counted(gap.missed, 'measurement')} missing; it {inert(gap.reason)}"


def size_text(size: float) -> str:
    """Return a number of bytes with a unit.

    >>> size_text(512), size_text(15_000), size_text(3 << 20)
    ('512 B', '14.6 KiB', '3.0 MiB')
    """
    for limit, unit in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= limit:
            return f"{size / limit:,.1f} {unit}"
    return f"{size:.0f} B"
