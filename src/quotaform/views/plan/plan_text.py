"""A plan as a person reads it, shaped like Terraform's so that tools which parse that can parse this."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from json.encoder import encode_basestring as quoted
from typing import Final

from quotaform.core.change import Action, Change
from quotaform.core.check import rule
from quotaform.core.effects import Direction, Effect
from quotaform.core.entity_change import EntityChange
from quotaform.core.origin import Origin
from quotaform.core.plan import Plan, Unmanaged
from quotaform.core.resolve.entry import NO_LIMIT, Effective
from quotaform.model.entity import Entity, spell_name
from quotaform.model.entry import Cause
from quotaform.model.quota_key import key_order
from quotaform.model.text import inert
from quotaform.views.finding.finding_group import FEW
from quotaform.views.finding.finding_text import render_findings, render_removed
from quotaform.views.plan.backtest_part import backtest_lines
from quotaform.views.plan.blast_radius_text import blast_radius_lines
from quotaform.views.plan.effect_text import effect_text, fallback_text, value_text
from quotaform.views.plan.origin_text import base_text, origin_text, render_reverted_drift, three_values_text
from quotaform.views.reading_text import cluster_text, reading_text
from quotaform.views.style import PLAIN, Style, counted

NO_CHANGES: Final = "No changes. Your infrastructure matches the configuration."
NOTHING_TO_REVERT: Final = "Nothing is left to put back."
NOTHING_SELECTED: Final = "Nothing was compared: --select and --exclude leave no entity."
_HEADLINES: Final = {
    Action.CREATE: "will be created",
    Action.UPDATE: "will be updated in-place",
    Action.DELETE: "will be destroyed",
}
_SOME: Final = Entity(user="some")


def render_plan(
    plan: Plan, style: Style = PLAIN, *, shows_unchanged: bool = False, shows_unmanaged: bool = False
) -> Iterator[str]:
    """Yield the whole plan as text, line by line, ending with the line that says how much there is to do."""
    yield from _ended(header_lines(plan, style))
    for change in plan.changes:
        yield "\n" + "\n".join(_entity_lines(change, style, shows_unchanged)) + "\n"
    yield "\n"
    yield from _ended(render_reverted_drift(plan, style))
    yield from _ended(render_removed(plan.findings, style))
    yield from _ended(_unmanaged_lines(plan.unmanaged, shows_unmanaged))
    yield from _ended(blast_radius_lines(plan.blast_radius, style))
    yield from _ended(backtest_lines(plan.backtest, style))
    yield from _ended(_end_lines(plan, style))


def _ended(lines: Iterable[str]) -> Iterator[str]:
    return (f"{line}\n" for line in lines)


def _end_lines(plan: Plan, style: Style) -> Iterator[str]:
    findings = list(render_findings(plan.findings, style, most_others=FEW))
    if findings:
        yield from findings
        yield ""
    if not plan.changes:
        yield style.paint(no_changes(plan), "bold")
        return
    yield f"{effect_line(plan)} Plan id {plan.plan_id}"
    yield style.paint(summary_line(plan), "bold")


def no_changes(plan: Plan) -> str:
    """Return why there is nothing to apply."""
    if any(finding.blocking and finding.rule == rule.CLUSTER_ID.id for finding in plan.findings):
        return "The comparison was not completed: see above."
    if not plan.is_applyable:
        return "Nothing would be changed, and the plan is blocked: see above."
    if not plan.has_entities:
        return NOTHING_SELECTED
    if plan.header.options.is_revert:
        return NOTHING_TO_REVERT
    return no_changes_line(sum(item.in_scope for item in plan.unmanaged))


def no_changes_line(undeclared: int) -> str:
    """Return Terraform's sentence of plans without changes, and how many entities in scope it is not about."""
    if not undeclared:
        return NO_CHANGES
    stay = "stays as it is" if undeclared == 1 else "stay as they are"
    return f"{NO_CHANGES} {counted(undeclared, 'undeclared entity', 'undeclared entities')} in scope {stay}."


def header_lines(plan: Plan, style: Style) -> Iterator[str]:
    """Yield what was compared, and when it was read."""
    header = plan.header
    source = inert(header.source.directory)
    if header.source.commit:
        source += f" @ {inert(header.source.commit[:7])}{' (dirty)' if header.source.dirty else ''}"
    cluster = cluster_text(header.cluster_name, header.cluster_id, header.options.bootstrap_server, style)
    base = f"   Base {base_text(header.source.base)}" if header.source.base else ""
    yield f"Cluster  {cluster}   Source {source}{base}"
    options = header.options
    partial = "".join(
        f", --{name} {' '.join(spell_name(glob) for glob in globs)}"
        for name, globs in (("select", options.select), ("exclude", options.exclude))
        if globs
    )
    pruning = "" if options.is_revert else f", prune={options.prune}"  # A revert prunes nothing in any mode.
    yield (
        f"{reading_text(header.created_at, header.snapshot)}, {counted(plan.in_scope, 'entity', 'entities')} in scope"
        f"{pruning}{partial}. Byte rates are per broker."
    )
    if options.revert is not None:
        yield f"Puts back what the apply of plan {inert(options.revert)} changed; nothing else."
    if plan.allowances:
        yield f"Allowed: {', '.join(map(str, plan.allowances))}"
    for approval in plan.approvals:
        yield f"Approved: {approval.rule} {approval.target} ({approval}; {inert(approval.reason)})"


def _entity_lines(change: EntityChange, style: Style, shows_unchanged: bool) -> Iterator[str]:
    entity, action = change.entity, change.action
    address = entity.address
    yield f"  # {style.paint(address, 'bold')} {_HEADLINES[action]}"
    is_pruned = change.cause is Cause.UNDECLARED
    about = [str(change.location)] if change.location else []
    if change.reason and is_pruned:
        about.append(inert(change.reason))
    if change.owner:
        about.append(f"owner {inert(change.owner)}")
    if change.reason and not is_pruned:
        about.append(inert(change.reason))
    if change.expires:
        about.append(f"expires {change.expires}")
    if origin := origin_text(change):
        about.append(origin)
    if about:
        yield f"  # ({'; '.join(about)})"
    glyph = style.action(action.glyph, action)
    yield f"  {glyph} quota {quoted(address)} {{"
    width = max([len(row.key) for row in change.changes])
    shows_base = change.origin is Origin.BOTH and change.base is not None
    for row, effect in zip(change.changes, change.effects, strict=True):
        row_action = row.action
        sign = glyph if row_action is action else style.action(row_action.glyph, row_action)
        is_plain = row.before is None and effect.before is NO_LIMIT and effect.after.source is entity
        text = _first_limit(row.key, row.after, width) if is_plain and not effect.differs else _row(row, effect, width)
        yield f"      {sign} {text}"
        if shows_base:
            yield f"        # ({three_values_text(change, row)})"
    yield from _unchanged_lines(change, width, shows_unchanged)
    yield "    }"


def _row(row: Change, effect: Effect, width: int) -> str:
    note = effect_text(row, effect)
    line = f"{spell_name(row.key):<{width}} = {values_text(row, effect)}"
    return f"{line}   {note}" if note else line


@lru_cache(maxsize=4096)
def _first_limit(key: str, value: float | None, width: int) -> str:
    """Return the row of a value that is set where nothing was: most rows are such, and many are equal."""
    return _row(Change(_SOME, key, None, value), Effect(NO_LIMIT, Effective(value, _SOME)), width)


def values_text(row: Change, effect: Effect) -> str:
    """Return the values of a key before and after; of one that goes, what applies in its place."""
    before = None if row.before is None else value_text(row.key, row.before)
    if row.after is None:
        shadow = effect.shadowed_by(row.entity, None)
        return f"{before} -> {'(removed)' if shadow else fallback_text(row.key, effect.after)}"
    after = value_text(row.key, row.after)
    return after if before is None else f"{before} -> {after}"


def _unchanged_lines(change: EntityChange, width: int, shows_unchanged: bool) -> Iterator[str]:
    if not change.before:
        return
    changed = {row.key for row in change.changes}
    unchanged = [key for key in sorted(change.before, key=key_order) if key not in changed]
    if shows_unchanged:
        for key in unchanged:
            yield f"        {spell_name(key):<{width}} = {value_text(key, change.before[key])}"
    elif unchanged:
        yield f"        # ({counted(len(unchanged), 'unchanged key')} hidden)"


def _unmanaged_lines(unmanaged: tuple[Unmanaged, ...], shows_unmanaged: bool) -> Iterator[str]:
    if not unmanaged:
        return
    inside = sum(item.in_scope for item in unmanaged)
    hint = "" if shows_unmanaged else " (list: --show-unmanaged)"
    yield f"Not managed, left unchanged: {inside:,} in scope, {len(unmanaged) - inside:,} out of scope{hint}."
    if shows_unmanaged:
        for item in unmanaged:
            values = ", ".join(
                f"{spell_name(key)} = {value_text(key, item.values[key])}" for key in sorted(item.values, key=key_order)
            )
            yield f"    {item.entity.address}: {values}{'' if item.in_scope else '   (out of scope)'}"
    yield ""


def blocked_by(number: int) -> str:
    """Return how many findings block a plan."""
    return f"Blocked by {counted(number, 'finding')}"


def effect_line(plan: Plan) -> str:
    """Return how many entities have looser and tighter limits after the plan."""
    summary = plan.summary
    unlimited: Counter[Direction] = Counter()
    if summary["to_unlimited"]:
        unlimited.update(change.direction for change in plan.changes if change.becomes_unlimited)
    loosened, mixed = (
        f" ({unlimited[direction]:,} to unlimited)" if unlimited[direction] else ""
        for direction in (Direction.LOOSEN, Direction.MIXED)
    )
    blocked = f" {blocked_by(summary['blocked'])}." if summary["blocked"] else ""
    state = "put back" if plan.header.options.is_revert else "as declared"
    without = len(plan.changes) - summary["loosen"] - summary["tighten"] - summary["mixed"]
    none = f", {without:,} without effect" if without else ""
    return (
        f"Effect: {summary['loosen']:,} loosened{loosened}, {summary['tighten']:,} tightened, "
        f"{summary['mixed']:,} mixed{mixed}{none}. {summary['no_op']:,} already {state}.{blocked}"
    )


def summary_line(plan: Plan) -> str:
    """Return the last line of a plan, in Terraform's words."""
    return plan_line({action: plan.summary[action.value] for action in Action})


def plan_line(counts: Mapping[Action, int]) -> str:
    """Return how many entities are created, updated and deleted, in Terraform's words."""
    return (
        f"Plan: {counts[Action.CREATE]} to add, {counts[Action.UPDATE]} to change, {counts[Action.DELETE]} to destroy."
    )
