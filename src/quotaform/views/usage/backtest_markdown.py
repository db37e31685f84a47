"""Backtests in a comment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from quotaform.core.usage.backtest import Backtest, BucketBacktest, ClusterBacktest
from quotaform.views.markdown import code, code_cell, details, table, words_cell
from quotaform.views.usage.backtest_text import (
    TITLE,
    bucket_text,
    change_text,
    detail_text,
    note_lines,
    recorded_text,
    throttled_text,
    time_text,
    total_text,
)

_HEADER: Final = ("Bucket", "Quota", "Limit", "Backtest", "When", "Details")
_LONGEST_SOURCE: Final = 100


def render_backtest_markdown(result: Backtest) -> Iterator[str]:
    """Yield what plans would have throttled, as Markdown."""
    for each in result.clusters:
        yield f"**{TITLE} of {code(each.cluster)}:** {total_text(each)}\n\n"
        yield from _recorded(each)
        if each.rows:
            yield from table(_HEADER, map(_row, each.rows))
            yield "\n"
        if each.others:
            yield details("Not changed by the plan", "".join(table(_HEADER, map(_row, each.others))))
    if result.unknown:
        names = (code(name) if name else "rows without a cluster" for name in result.unknown)
        yield f"Recorded, but not backtested: {', '.join(names)}\n"


def plan_section(found: ClusterBacktest) -> Iterator[str]:
    """Yield the section of a plan with the buckets that its changes throttle."""
    yield from plan_sentence(found)
    yield from _recorded(found)
    if found.rows:
        yield details("Changed limits that would throttle", "".join(_table(found.rows)))
        yield "\n"


def proposal_section(found: ClusterBacktest) -> Iterator[str]:
    """Yield what proposals would have throttled, behind their title."""
    yield f"{total_text(found)}\n\n"
    yield from (f"- {line}\n" for line in note_lines(found))
    yield "\n"
    if found.rows:
        yield from table(_HEADER, map(_row, found.rows))
        yield "\n"


def plan_sentence(found: ClusterBacktest) -> Iterator[str]:
    """Yield the section in its shortest form."""
    yield f"**{TITLE}:** {total_text(found)}\n\n"


def _recorded(found: ClusterBacktest) -> Iterator[str]:
    yield f"Usage {code(found.usage, _LONGEST_SOURCE)}, {recorded_text(found)}.\n\n"
    for line in note_lines(found):
        yield f"- {line}\n"
    yield "\n"


def _table(rows: Sequence[BucketBacktest]) -> Iterator[str]:
    yield from table(_HEADER, map(_row, rows))


def _row(row: BucketBacktest) -> tuple[str, ...]:
    return (
        code_cell(bucket_text(row)),
        code_cell(row.key),
        words_cell(change_text(row)),
        words_cell(throttled_text(row)),
        words_cell(time_text(row)),
        words_cell(detail_text(row)),
    )
