"""What a run of a stream has done, as a person reads it."""

from __future__ import annotations

from collections.abc import Iterator

from quotaform.core.usage.stream import StreamCounts, Streamed
from quotaform.model.text import inert
from quotaform.views.style import PLAIN, Style, counted

_WIDTH = 12


def render_streamed(result: Streamed, style: Style = PLAIN) -> str:
    """Return what a run has done as text, ending with one line that has all numbers."""
    return "\n".join(_lines(result, style)) + "\n"


def _lines(result: Streamed, style: Style) -> Iterator[str]:
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


def _field(name: str, text: str) -> str:
    return f"  {name:<{_WIDTH}}{text}"


def sum_text(counts: StreamCounts) -> str:
    """Return the numbers of samples, of which the first is the sum of the others.

    >>> sum_text(StreamCounts(samples=1200, written=1200))
    '1,200 read = 1,200 written + 0 dropped + 0 quarantined'
    """
    return (
        f"{counts.samples:,} read = {counts.written:,} written + {sum(counts.dropped.values()):,} dropped + "
        f"{counts.quarantined:,} quarantined"
    )
