"""A plan as a comment on a pull request: one document per cluster, of a size that GitHub and GitLab take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from re import DOTALL
from re import compile as regex
from typing import Final, NamedTuple, TypeAlias

from quotaform.model.entity import spell_name
from quotaform.model.errors import QuotaformError
from quotaform.model.finding import Approval, Finding
from quotaform.model.quotas import Action, Change
from quotaform.model.rule import NO_LONGER_DECLARED
from quotaform.plan.backtest_report import backtest_section, backtest_sentence
from quotaform.plan.blast_radius import BlastRadius
from quotaform.plan.change import EntityChange, Origin
from quotaform.plan.page import Changed, change_table, radius_table
from quotaform.plan.plan import Plan
from quotaform.plan.report import (
    DRIFTED,
    LIST_OPTION,
    TITLE,
    affected_text,
    all_changes,
    blocked_by,
    drift_text,
    effect_line,
    no_changes,
    render_plan,
    source_text,
)
from quotaform.report.comment import COMMENT_BYTES, Marker, Part, Place, joined, part, render_comment, unchanged_place
from quotaform.report.finding import block_lines, note_items, note_lines, removed_lines
from quotaform.report.markdown import (
    by_prefix,
    cell_text,
    code,
    details,
    fenced,
    largest,
    link,
    pattern_of,
    shortened,
    shown_columns,
    table,
    table_of,
    words,
    words_cell,
)
from quotaform.report.report import Cell, ColumnKind, Table
from quotaform.report.text import counted, reading_text
from quotaform.resolve.effect import DIRECTIONS, Direction

ChangedEntities: TypeAlias = Sequence[Changed]


class Parts(NamedTuple):
    """The changes of a plan, apart by what becomes of the entities; `drift` are those that only the cluster made."""

    deletes: list[Changed]
    updates: list[Changed]
    creates: list[Changed]
    drift: list[Changed]


def parts_of(changes: Iterable[EntityChange]) -> Parts:
    """Divide changes: a change that reverts drift is with the drift, but a deletion is always with the deletions."""
    parts = Parts([], [], [], [])
    by_action = {Action.DELETE: parts.deletes, Action.UPDATE: parts.updates, Action.CREATE: parts.creates}
    for change in changes:
        rows = list(zip(change.changes, change.effects, strict=True))
        drift = [] if change.action is Action.DELETE else [each for each in rows if _is_drift(change, each[0])]
        rest = [each for each in rows if not _is_drift(change, each[0])] if drift else rows
        for entities, some in ((parts.drift, drift), (by_action[change.action], rest)):
            if some:
                entities.append(Changed(change, some))
    return parts


def _is_drift(change: EntityChange, row: Change) -> bool:
    return change.origin_of(row) is Origin.DRIFT


MOST_GROUPS: Final = 60
"""How many groups of equal changes are listed."""
_ALL: Final = 1 << 40
_WORDS: Final = (*DIRECTIONS.values(), "to unlimited")


def full_table(entities: ChangedEntities) -> Iterator[str]:
    """Yield a table with a row for each key."""
    yield from table_of(change_table("", entities), _ALL)
    yield "\n"


def grouped_table(entities: ChangedEntities) -> Iterator[str]:
    """Yield a table in which entities with equal changes of a key share a row; the largest groups come first."""
    columns, rows = shown_columns(change_table("", entities), _ALL)
    own = {place for place, column in enumerate(columns) if place == 0 or column.kind is ColumnKind.DETAIL}
    groups: dict[tuple[Cell, ...], list[list[Cell]]] = {}
    for row in rows:
        groups.setdefault(tuple(cell for place, cell in enumerate(row) if place not in own), []).append(row)
    ordered = sorted(groups.values(), key=len, reverse=True)
    found = tuple(tuple(map(_common, zip(*group, strict=True))) for group in ordered[:MOST_GROUPS])
    yield from table_of(Table("", tuple(columns), found), _ALL)
    yield "\n"
    left = {row[0] for group in ordered[MOST_GROUPS:] for row in group}
    if left:
        yield f"And {counted(len(left), 'more entity', 'more entities')}:\n\n"
        yield from counted_table([each for each in entities if each.change.entity.address in left])


def _common(cells: Sequence[Cell]) -> Cell:
    """Return what the cells of a group have in common: how they begin, and how many they are if they differ."""
    texts = sorted({cell_text(cell) for cell in cells})
    return cells[0] if len(texts) == 1 else f"{pattern_of(texts)} ({len(texts):,})"


def counted_table(entities: ChangedEntities) -> Iterator[str]:
    """Yield a table that counts entities by owner, or by the beginning of their addresses where most have none."""
    changes = {each.change.entity.address: each.change for each in entities}
    by_owner: dict[str, list[str]] = {}
    for address, change in changes.items():
        by_owner.setdefault(change.owner or "", []).append(address)
    if len(by_owner) > 1 and len(by_owner.get("", ())) * 2 < len(changes):
        title, groups = "Owner", largest(by_owner, lambda owner, _: words_cell(shortened(owner)) or "none", "owners")
    else:
        title, groups = "Entities", by_prefix(list(changes))
    rows = [(shown, f"{len(some):,}", directions_of([changes[address] for address in some])) for shown, some in groups]
    yield from table((title, "Number", "Effective limits"), rows)
    yield "\n"


def directions_of(changes: Iterable[EntityChange]) -> str:
    """Return how many entities have looser and tighter limits after a change, in words.

    >>> directions_of([])
    'none'
    """
    counts: Counter[str] = Counter()
    for change in changes:
        direction = change.direction
        counts[DIRECTIONS[direction]] += 1
        if direction in (Direction.LOOSEN, Direction.MIXED):
            counts["to unlimited"] += change.becomes_unlimited
    return ", ".join(f"{counts[word]:,} {word}" for word in _WORDS if counts[word]) or "none"


_LONGEST_SOURCE: Final = 100


def blast_radius_section(radius: BlastRadius | None) -> Iterator[str]:
    """Yield the section with the largest changes."""
    yield from blast_radius_sentence(radius)
    if radius is None or not radius.largest:
        return
    yield "<details><summary>Largest changes of limits</summary>\n\n"
    yield from table_of(radius_table(radius))
    yield "\n"
    if radius.file is not None:
        yield f"All changes of limits ({all_changes(radius):,}): {code(radius.file, _LONGEST_SOURCE)}\n\n"
    elif left := all_changes(radius) - len(radius.largest):
        yield f"And {counted(left, 'more change')} (list: `{LIST_OPTION} FILE`).\n\n"
    yield "</details>\n\n"


def blast_radius_sentence(radius: BlastRadius | None) -> Iterator[str]:
    """Yield the section in its shortest form."""
    if radius is not None:
        source = source_text(radius)
        shown = source if radius.source == "scram" else code(source, _LONGEST_SOURCE)
        yield f"**{TITLE}:** {affected_text(radius, shown)}\n\n"


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
    blocks = part(partial(block_lines, blocking), (_ALL, _SOME_BLOCKS, 1, 0))
    deletes = part(partial(_section, "Deleted", changes.deletes), (full_table, _addresses, counted_table))
    updates, creates, drift = (
        part(partial(_section, title, rows), (full_table, grouped_table, counted_table))
        for title, rows in (("Changed", changes.updates), ("Created", changes.creates), (DRIFT, changes.drift))
    )
    stays = part(partial(removed_lines, removed), (_MOST_REMOVED, 0))
    radius = part(lambda make: make(plan.blast_radius), (blast_radius_section, blast_radius_sentence))
    tested = part(lambda make: make(plan.backtest), (backtest_section, backtest_sentence))
    notes = part(partial(_notes, plan, others), (_MOST_NOTES, 0))
    full = Part([partial(_full_plan, plan), lambda _: _left_out(plan, run_url)])
    shorter = (full, drift, creates, updates, notes, radius, tested, drift, creates, updates, stays)
    header, summary = plan.header, plan.summary
    number = sum(summary[each] for each in (Action.CREATE, Action.UPDATE, Action.DELETE))
    if plan.changes:
        what = (
            f"{summary[Action.CREATE]} to add, {summary[Action.UPDATE]} to change, {summary[Action.DELETE]} to destroy"
        )
    else:
        what = "no changes" if plan.is_applyable else blocked_by(summary["blocked"]).lower()
    return render_comment(
        Marker(
            MARKER,
            header.cluster_name,
            header.source.directory,
            number if number or plan.is_applyable else None,
        ),
        f"Kafka quota plan for {code(spell_name(header.cluster_name), 100)}: {what}",
        list(_lead(plan)),
        (blocks, radius, tested, deletes, stays, updates, creates, drift, notes, full),
        (*shorter, blocks, blocks, deletes, blocks, deletes),
        list(_foot(plan)),
        limit=limit,
        run_url=run_url,
        place=place,
    )


def _lead(plan: Plan) -> Iterator[str]:
    """Yield paragraphs: what the plan comes to, and by which options it was made."""
    header = plan.header
    if plan.changes:
        yield f"{effect_line(plan)} Byte rates are per broker."
    else:
        yield no_changes(plan) if plan.is_applyable else "Nothing would be changed."
    if drifted := sum(change.origin in DRIFTED for change in plan.changes):
        yield drift_text(drifted)
    if header.options.revert is not None:
        yield f"Puts back what the apply of plan {code(header.options.revert, 100)} changed; nothing else."
    if plan.allowances:
        yield f"Allowed: {', '.join(code(str(each), 60) for each in plan.allowances[:_MOST_NOTES])}."
    if plan.approvals:
        more = len(plan.approvals) - _MOST_APPROVALS
        shown = [*map(_approval, plan.approvals[:_MOST_APPROVALS]), *([f"and {more:,} more approvals"] * (more > 0))]
        yield "\n".join(f"- {each}" for each in shown)
    if not plan.is_complete:
        given = ", ".join(
            code(f"--{name} {spell_name(glob)}", 60)
            for name, globs in (("select", header.options.select), ("exclude", header.options.exclude))
            for glob in globs[:_MOST_NOTES]
        )
        yield f"Only a part was planned: {given}."


def _approval(approval: Approval) -> str:
    rule, target, approver = code(approval.rule, 60), approval.target, code(approval.approver, _LONGEST_ADDRESS)
    bound = f" ({words(approval.bound)})" if approval.bound else ""
    new = ", **new in this change**" if approval.is_new else ""
    return (
        f"Approved: {rule} {code(target, _LONGEST_ADDRESS)} by {approver} until {approval.expires}{bound}{new}: "
        f"{words(approval.reason[:_LONGEST_ADDRESS])}"
    )


def _section(title: str, entities: ChangedEntities, make: Callable[[ChangedEntities], Iterable[str]]) -> Iterator[str]:
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


def _addresses(entities: ChangedEntities) -> Iterator[str]:
    """Yield what has no room for values, address by address."""
    lines = [each.change.entity.address for each in entities]
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


def _left_out(plan: Plan, run_url: str | None) -> str:
    where = link("output of the run", run_url) or "output of `quotaform plan`"
    return (
        f"The full plan ({counted(len(plan.changes), 'entity', 'entities')}) is too large for this comment: see the "
        f"{where} or the plan file (`quotaform show`).\n\n"
    )


def _foot(plan: Plan) -> Iterator[str]:
    header, source = plan.header, plan.header.source
    yield f"Plan id {code(plan.plan_id)}"
    if source.commit:
        yield f"commit {code(source.commit[:7])}{' (with changes that are not committed)' if source.dirty else ''}"
    if source.base is not None:
        commit = f" at {code(source.base.commit[:7])}" if source.base.commit else ""
        yield f"base {code(source.base.ref, 100)}{commit}"
    yield words(reading_text(header.created_at, header.snapshot))
    yield f"prune {code(header.options.prune.value)}"


_LONGEST: Final = 20_000
_KINDS: Final = {"drift": "drift"}
_TITLES: Final = {"plan": "plan", "drift": "drift", "receipt": "apply"}


def render_failure_markdown(
    cluster: str,
    *,
    error: QuotaformError,
    subject: str = "plan",
    root: str = "quotas.d",
    run_url: str | None = None,
    place: Place = unchanged_place,
) -> str:
    """Return why there is no result for a cluster. `subject` is what could not be made."""
    text = error.text_of(cluster)
    shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    what = f"Kafka quota {_TITLES.get(subject, subject)} for {code(spell_name(cluster), 100)}: failed"
    marker = Marker(_KINDS.get(subject, MARKER), cluster, root)
    return render_comment(marker, what, [fenced(shown).rstrip()], run_url=run_url, place=place)
