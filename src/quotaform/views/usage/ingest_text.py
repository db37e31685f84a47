"""What became of an ingest, as a person reads it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from quotaform.core.usage.ingest import Ingested
from quotaform.model.entity import spell_name
from quotaform.model.moment import spell_moment
from quotaform.model.text import inert, listed
from quotaform.views.style import PLAIN, Style, counted

_MOST_CLUSTERS = 20
_MOST_RECORDS = 10
_WIDTH = 12


def render_ingested(result: Ingested, style: Style = PLAIN) -> str:
    """Return what became of an ingest as text, ending with one line that has all numbers."""
    return "\n".join(_lines(result, style)) + "\n"


def _lines(result: Ingested, style: Style) -> Iterator[str]:
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
