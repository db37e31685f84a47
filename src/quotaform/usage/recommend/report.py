"""Recommendations, as people read them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from quotaform.model.entity import spell_name
from quotaform.model.moment import spell_second
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.text import inert, listed
from quotaform.model.units import is_decimal, render_value
from quotaform.plan.backtest_report import note_lines, proposal_section, row_text
from quotaform.plan.backtest_report import total_text as total_of_backtest
from quotaform.report.markdown import code, code_cell, details, table, words_cell
from quotaform.report.text import PLAIN, Style, counted
from quotaform.usage.recommend.recommendation import (
    Action,
    ClusterRecording,
    Recommendation,
    RecommendReport,
    UnwrittenProposal,
)

SIGNS = {Action.CREATE: "+", Action.UPDATE: "~", Action.DELETE: "-"}
_COLOURS = {"+": "green", "~": "yellow", "-": "red"}
_MOST_PROPOSALS = 500
_MOST_REASONS = 30
_MOST_NAMES = 5
_MOST_THROTTLED = 5


def render_recommendations(report: RecommendReport, style: Style = PLAIN) -> str:
    """Return what is proposed, what is not and why, as text."""
    return "\n".join(_lines(report, style)) + "\n"


def _lines(report: RecommendReport, style: Style) -> Iterator[str]:
    yield f"Usage  {style.paint(inert(report.usage), 'bold')}"
    for cluster in report.clusters:
        yield f"  {recording_text(cluster)}"
    several = len(report.clusters) > 1
    proposals = report.proposals[:_MOST_PROPOSALS]
    for each in proposals:
        sign = SIGNS[each.action]
        where = f"{spell_name(each.cluster)}  " if several else ""
        yield ""
        yield f"{style.paint(sign, _COLOURS[sign])} {where}{each.entity.address}  {each.key} : {change_text(each)}"
        for line in _notes(each):
            yield f"    {style.paint(f'# {line}', 'dim')}"
    total = sum(report.counts[action] for action in SIGNS)
    if total > len(proposals):
        yield f"  ... and {total - len(proposals):,} more (all: --out parquet=DIR)"
    for action, title in ((Action.NONE, "Nothing proposed"), (Action.KEEP, "Kept")):
        if report.counts[action]:
            yield ""
            yield f"{title}:"
            rows = [each for each in report.others if each.action is action]
            yield from _reasons(rows, report.counts[action], several=several)
    if report.backtest is not None:
        yield ""
        yield from backtest_lines(report, style)
    yield from _edit_lines(report)
    yield ""
    yield style.paint(total_text(report), "bold")


def recording_text(cluster: ClusterRecording) -> str:
    """Return what was recorded of a cluster."""
    name = spell_name(cluster.cluster)
    if cluster.first is None or cluster.last is None:
        return f"{name}  nothing recorded"
    return f"{name}  recorded from {spell_second(cluster.first)} to {spell_second(cluster.last)}"


def change_text(each: Recommendation) -> str:
    """Return the value now and the proposed one."""
    return f"{own_value_text(each, each.before)} -> {own_value_text(each, each.after)}"


def own_value_text(each: Recommendation, value: float | None) -> str:
    """Return a value of a proposal, in the units of the value now."""
    if value is None:
        return "none"
    key = QUOTA_KEYS.get(each.key)
    return render_value(key, value, decimal=is_decimal(key, value if each.before is None else each.before))


def busiest_text(each: Recommendation) -> str | None:
    """Return which bucket on which broker the proposal rests on; `None` without one."""
    if each.bucket is None:
        return None
    where = f" on broker {inert(each.broker)}" if each.broker is not None else ""
    return f"{inert(each.bucket)}{where}"


def _place_text(each: Recommendation | UnwrittenProposal, *, several: bool) -> str:
    """Return which value it is, with its cluster if there are several."""
    return f"{f'{spell_name(each.cluster)} ' if several else ''}{each.entity.address} {each.key}"


def _notes(each: Recommendation) -> Iterator[str]:
    yield each.reason
    busiest = busiest_text(each)
    if busiest is not None:
        yield f"of {busiest}, {counted(each.samples, 'sample')}"
    if each.note is not None:
        yield each.note


def _reasons(rows: Sequence[Recommendation], total: int, *, several: bool) -> Iterator[str]:
    """Yield a line per reason, with the values that it is about."""
    by_reason: dict[str, list[str]] = {}
    for each in rows:
        by_reason.setdefault(each.reason, []).append(_place_text(each, several=several))
    for reason, names in list(by_reason.items())[:_MOST_REASONS]:
        yield f"  {reason}: {listed(names, _MOST_NAMES)}"
    left = total - sum(len(names) for names in list(by_reason.values())[:_MOST_REASONS])
    if left:
        yield f"  ... and {left:,} more (all: --out parquet=DIR)"


def backtest_lines(report: RecommendReport, style: Style = PLAIN) -> Iterator[str]:
    """Yield what the proposals would have throttled; nothing if that was not tested."""
    found = report.backtest
    if found is None:
        return
    if found.clusters:
        yield style.paint("Backtest of the proposals:", "bold")
    else:
        yield "No backtest: no proposal is in the files."
    for each in found.clusters:
        yield f"  {f'{spell_name(each.cluster)}: ' if len(found.clusters) > 1 else ''}{total_of_backtest(each)}"
        for row in each.changed.rows[:_MOST_THROTTLED]:
            yield f"    {row_text(row)}"
        left = each.changed.affected - _MOST_THROTTLED
        if left > 0:
            yield f"    ... and {left:,} more (list: quotaform usage backtest, when the files are written)"
        yield from (f"    {line}" for line in note_lines(each))
    yield from (f"  {line}" for line in limit_lines(report))


def limit_lines(report: RecommendReport) -> Iterator[str]:
    """Yield what is not in the backtest of proposals."""
    found = report.backtest
    if found is None:
        return
    if found.unwritten:
        place = " (list: --diff)" if report.edit is None else ""
        yield f"Not in the backtest: {counted(found.unwritten, 'proposal')} not written into the files{place}."
    if found.others and found.clusters:
        others = counted(found.others, "other entity", "other entities")
        yield f"Not in the backtest: {others} that the files change without a proposal (list: quotaform plan)."


def _edit_lines(report: RecommendReport) -> Iterator[str]:
    edit = report.edit
    if edit is None:
        return
    if edit.unwritten:
        yield ""
        yield from unwritten_lines(report)
    if edit.is_written and edit.files:
        yield ""
        yield "Files changed:"
        yield from (f"  {inert(file.name)}" for file in edit.files)


def unwritten_lines(report: RecommendReport) -> Iterator[str]:
    """Yield the proposals that the files do not follow, and why."""
    unwritten = () if report.edit is None else report.edit.unwritten
    if unwritten:
        yield "Not written into the files:"
    for each in unwritten[:_MOST_REASONS]:
        yield f"  {_place_text(each, several=len(report.clusters) > 1)}: {each.reason}"
    if len(unwritten) > _MOST_REASONS:
        yield f"  ... and {len(unwritten) - _MOST_REASONS:,} more (all: --format json)"


def total_text(report: RecommendReport) -> str:
    """Return the numbers of what is proposed."""
    counts = report.counts
    return (
        f"Recommended: {counts[Action.CREATE]:,} to add, {counts[Action.UPDATE]:,} to change, "
        f"{counts[Action.DELETE]:,} to remove; {counts[Action.KEEP]:,} kept, {counts[Action.NONE]:,} undecided."
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
