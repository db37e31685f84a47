"""Right-sized quotas in a comment."""

from __future__ import annotations

from collections.abc import Iterator

from quotaform.core.usage.sizing.recommendation import Action, Recommendation, RecommendReport
from quotaform.views.markdown import code, code_cell, details, table, words_cell
from quotaform.views.usage.backtest_markdown import proposal_section
from quotaform.views.usage.recommend_text import (
    SIGNS,
    busiest_text,
    limit_lines,
    own_value_text,
    recording_text,
    total_text,
)

_MOST_ROWS = 100
_HEADER = ("", "Cluster", "Entity", "Quota", "Now", "Proposed", "Why")
_OTHERS = ("Cluster", "Entity", "Quota", "Now", "Why")


def render_recommendations_markdown(report: RecommendReport) -> Iterator[str]:
    """Yield what is proposed, what is not and why, as Markdown."""
    yield f"**{total_text(report)}**\n\nUsage: {code(report.usage)}\n\n"
    for cluster in report.clusters:
        yield f"- {code(recording_text(cluster))}\n"
    yield "\n"
    if report.proposals:
        yield from table(_HEADER, map(_row, report.proposals[:_MOST_ROWS]))
        yield "\n"
    if len(report.proposals) > _MOST_ROWS:
        yield f"And {len(report.proposals) - _MOST_ROWS:,} more.\n\n"
    if report.backtest is not None:
        for each in report.backtest.clusters:
            yield f"**Backtest of {code(each.cluster)}:** "
            yield from proposal_section(each)
        lines = list(limit_lines(report))
        if lines:
            yield "".join(f"- {line}\n" for line in lines) + "\n"
    if report.others:
        rows = report.others[:_MOST_ROWS]
        left = report.counts[Action.KEEP] + report.counts[Action.NONE] - len(rows)
        more = f"\nAnd {left:,} more.\n" if left else ""
        yield details("Kept, or undecided", "".join(table(_OTHERS, map(_other, rows))) + more)


def _row(each: Recommendation) -> tuple[str, ...]:
    busiest = busiest_text(each)
    why = "; ".join(part for part in (each.reason, busiest and f"of {busiest}", each.note) if part)
    return (
        SIGNS[each.action],
        code_cell(each.cluster),
        code_cell(each.entity.address),
        code_cell(each.key),
        words_cell(own_value_text(each, each.before)),
        words_cell(own_value_text(each, each.after)),
        words_cell(why),
    )


def _other(each: Recommendation) -> tuple[str, ...]:
    names = (code_cell(each.cluster), code_cell(each.entity.address), code_cell(each.key))
    return (*names, words_cell(own_value_text(each, each.before)), words_cell(each.reason))
