"""A plan as a comment on a pull request: one document per cluster, of a size that GitHub and GitLab take."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from re import DOTALL
from re import compile as regex
from typing import Final

from quotaform.core.change import Action
from quotaform.core.check.rule import NO_LONGER_DECLARED
from quotaform.core.marker import Marker
from quotaform.core.plan import Plan
from quotaform.model.entity import spell_name
from quotaform.model.finding import Finding
from quotaform.views.finding.finding_markdown import block_lines, note_items, note_lines, removed_lines
from quotaform.views.finding.problem import Place, unchanged_place
from quotaform.views.markdown import code, details, fenced, link, words
from quotaform.views.markdown_fit import COMMENT_BYTES, Part, fit, form, joined
from quotaform.views.plan.backtest_part import backtest_section, backtest_sentence
from quotaform.views.plan.blast_radius_markdown import blast_radius_section, blast_radius_sentence
from quotaform.views.plan.change_part import Rows, parts_of
from quotaform.views.plan.change_table import counted_table, full_table, grouped_table
from quotaform.views.plan.origin_text import DRIFTED, drift_text
from quotaform.views.plan.plan_text import blocked_by, effect_line, no_changes, render_plan
from quotaform.views.reading_text import reading_text
from quotaform.views.style import counted

DRIFT: Final = "Drift, not in this change"
MARKER: Final = "plan"
"""What hides in the first line of a comment about a plan, and of one about its apply, which takes its place."""
_MOST_NOTES: Final = 50
_MOST_REMOVED: Final = 10
_SOME_BLOCKS: Final = 10
_MOST_APPROVALS: Final = 20
_LONGEST_ADDRESS: Final = 100
_SIGN: Final = regex(r"( *)([-+~])( .*)", DOTALL).fullmatch
_DIFF_SIGNS: Final = {"-": "-", "+": "+", "~": "!"}


def render_plan_markdown(
    plan: Plan, *, limit: int = COMMENT_BYTES, run_url: str | None = None, place: Place = unchanged_place
) -> str:
    """Return the plan as Markdown that no name in it can break out of.

    When it is too large, parts are shortened or left out in this order: the full plan, the tables of drift, creates and
    updates (equal changes together), notes, the largest changes of principals, the buckets of the backtest, the tables
    again (counted); at last the deletions and what blocks are grouped. What is left out is said at the end. `limit` is
    how many bytes the document may have.
    """
    changes = parts_of(plan.changes)
    blocking = [finding for finding in plan.findings if finding.blocking]
    removed = [finding for finding in plan.findings if finding.rule == NO_LONGER_DECLARED.id]
    others = [finding for finding in plan.findings if not finding.blocking and finding.rule != NO_LONGER_DECLARED.id]
    blocks = Part([form(block_lines, blocking), *(form(block_lines, blocking, most) for most in (_SOME_BLOCKS, 1, 0))])
    deletes = Part(
        [
            form(_section, "Deleted", changes.deletes, full_table),
            form(_section, "Deleted", changes.deletes, _addresses),
            form(_section, "Deleted", changes.deletes, counted_table),
        ]
    )
    updates, creates = (
        _changes(title, rows) for title, rows in (("Changed", changes.updates), ("Created", changes.creates))
    )
    drift = _changes(DRIFT, changes.drift)
    stays = Part([form(removed_lines, removed, most) for most in (_MOST_REMOVED, 0)])
    radius = Part([form(make, plan.blast_radius) for make in (blast_radius_section, blast_radius_sentence)])
    tested = Part([form(make, plan.backtest) for make in (backtest_section, backtest_sentence)])
    notes = Part([form(_notes, plan, others, most) for most in (_MOST_NOTES, 0)])
    full = Part([partial(_full_plan, plan), form(_left_out, plan, run_url)])
    head, foot = Part([form(_head, plan, place)]), Part([form(_foot, plan, run_url)])
    return fit(
        (head, blocks, radius, tested, deletes, stays, updates, creates, drift, notes, full, foot),
        (
            full,
            drift,
            creates,
            updates,
            notes,
            radius,
            tested,
            drift,
            creates,
            updates,
            stays,
            blocks,
            blocks,
            deletes,
            blocks,
            deletes,
        ),
        limit,
    )


def comment_marker(kind: str, cluster: str, root: str, place: Place, changes: int | None = None) -> str:
    """Return the first line of the comment about a cluster and a quotas directory.

    Args:
        kind: What the comment shows.
        root: The quotas directory.
        place: Returns its path in its repository, of which several jobs may plan a directory with the same name.
        changes: How many entities there are to review; `None` where there is something else to read.
    """
    return Marker(kind, cluster, place(root) or root).line(changes)


def _head(plan: Plan, place: Place) -> Iterator[str]:
    header, summary = plan.header, plan.summary
    changes = sum(summary[each] for each in (Action.CREATE, Action.UPDATE, Action.DELETE))
    shown = changes if changes or plan.is_applyable else None
    yield f"{comment_marker(MARKER, header.cluster_name, header.source.directory, place, shown)}\n"
    if plan.changes:
        what = (
            f"{summary[Action.CREATE]} to add, {summary[Action.UPDATE]} to change, {summary[Action.DELETE]} to destroy"
        )
    else:
        what = "no changes" if plan.is_applyable else blocked_by(summary["blocked"]).lower()
    yield f"### Kafka quota plan for {code(spell_name(header.cluster_name), 100)}: {what}\n\n"
    if plan.changes:
        yield f"{effect_line(plan)} Byte rates are per broker.\n\n"
    else:
        yield f"{no_changes(plan) if plan.is_applyable else 'Nothing would be changed.'}\n\n"
    drifted = sum(change.origin in DRIFTED for change in plan.changes)
    if drifted:
        yield f"{drift_text(drifted)}\n\n"
    if header.options.revert is not None:
        yield f"Puts back what the apply of plan {code(header.options.revert, 100)} changed; nothing else.\n\n"
    if plan.allowances:
        yield f"Allowed: {', '.join(code(str(each), 60) for each in plan.allowances[:_MOST_NOTES])}.\n\n"
    for approval in plan.approvals[:_MOST_APPROVALS]:
        target, reason = approval.target, approval.reason[:_LONGEST_ADDRESS]
        yield f"- Approved: {code(approval.rule, 60)} {code(target, _LONGEST_ADDRESS)} by "
        bound = f" ({words(approval.bound)})" if approval.bound else ""
        new = ", **new in this change**" if approval.is_new else ""
        yield f"{code(approval.approver, _LONGEST_ADDRESS)} until {approval.expires}{bound}{new}: {words(reason)}\n"
    if len(plan.approvals) > _MOST_APPROVALS:
        yield f"- and {len(plan.approvals) - _MOST_APPROVALS:,} more approvals\n"
    if plan.approvals:
        yield "\n"
    if not plan.is_complete:
        given = ", ".join(
            code(f"--{name} {spell_name(glob)}", 60)
            for name, globs in (("select", header.options.select), ("exclude", header.options.exclude))
            for glob in globs[:_MOST_NOTES]
        )
        yield f"Only a part was planned: {given}.\n\n"


def _changes(title: str, rows: Rows) -> Part:
    return Part([form(_section, title, rows, make) for make in (full_table, grouped_table, counted_table)])


def _section(title: str, entities: Rows, make: Callable[[Rows], Iterable[str]]) -> Iterator[str]:
    if not entities:
        return
    number = counted(len(entities), "entity", "entities")
    if title != DRIFT:
        yield f"#### {title}: {number}\n\n"
        yield from make(entities)
        return
    yield f"<details><summary>{title}: {number}</summary>\n\n"
    yield "The base declares these values already, but the cluster holds others: "
    yield "not applied yet, or edited by hand.\n\n"
    yield from make(entities)
    yield "</details>\n\n"


def _addresses(entities: Rows) -> Iterator[str]:
    """Yield what has no room for values, address by address."""
    lines = [change.entity.address for change, _ in entities]
    yield fenced("\n".join(line if len(line) <= _LONGEST_ADDRESS else f"{line[:_LONGEST_ADDRESS]}…" for line in lines))
    yield "\n"


def _notes(plan: Plan, findings: Sequence[Finding], most: int) -> Iterator[str]:
    items, others = note_items(findings), []
    if plan.unmanaged:
        inside = sum(item.in_scope for item in plan.unmanaged)
        outside = len(plan.unmanaged) - inside
        others.append(f"Not managed, left unchanged: {inside:,} in scope, {outside:,} out of scope.")
    if items or others:
        yield f"<details><summary>Notes ({len(items) + len(others):,})</summary>\n\n"
        yield from note_lines(items, most, others)
        yield "</details>\n\n"


def _full_plan(plan: Plan, limit: int) -> str | None:
    if not plan.changes:
        return ""
    # A fence is longer than any run within, so all of the text has to be there first.
    lines = joined(map(_as_diff, _lines(render_plan(plan))), limit)
    return None if lines is None else details("Full plan", fenced(lines, "diff"))


def _lines(pieces: Iterable[str]) -> Iterator[str]:
    return (line for piece in pieces for line in piece.splitlines(keepends=True))


def _as_diff(line: str) -> str:
    """Return a line with its sign in front, as what colours differences wants it."""
    found = _SIGN(line)
    return f"{_DIFF_SIGNS[found[2]]}{found[1]}{found[3]}" if found else line


def _left_out(plan: Plan, run_url: str | None) -> Iterator[str]:
    where = link("output of the run", run_url) or "output of `quotaform plan`"
    yield (
        f"The full plan ({counted(len(plan.changes), 'entity', 'entities')}) is too large for this comment: see the "
        f"{where} or the plan file (`quotaform show`).\n\n"
    )


def _foot(plan: Plan, run_url: str | None) -> Iterator[str]:
    header = plan.header
    source = header.source
    parts = [f"Plan id {code(plan.plan_id)}"]
    if source.commit:
        parts.append(
            f"commit {code(source.commit[:7])}{' (with changes that are not committed)' if source.dirty else ''}"
        )
    if source.base is not None:
        commit = f" at {code(source.base.commit[:7])}" if source.base.commit else ""
        parts.append(f"base {code(source.base.ref, 100)}{commit}")
    parts.append(words(reading_text(header.created_at, header.snapshot)))
    parts.append(f"prune {code(header.options.prune.value)}")
    run = link("run", run_url)
    if run is not None:
        parts.append(run)
    yield f"<sub>{' · '.join(parts)}</sub>\n"
