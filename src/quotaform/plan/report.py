"""A plan as a person reads it, shaped like Terraform's so that tools which parse that can parse this; and its
summary.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from heapq import nsmallest
from json.encoder import encode_basestring as quoted
from typing import Final

from msgspec import structs

from quotaform.model import rule
from quotaform.model.entity import Entity, spell_name
from quotaform.model.finding import Severity
from quotaform.model.outcome import ClusterOutcome, values_of
from quotaform.model.quota_key import key_order
from quotaform.model.quotas import Action, Cause, Change
from quotaform.model.text import inert, option_of
from quotaform.plan.backtest import backtest_section
from quotaform.plan.blast_radius import CHANGE_COLUMNS, BlastRadius, LimitDirection, RadiusCounts, change_row
from quotaform.plan.digest import ClusterDigest, FleetStatus
from quotaform.plan.plan import ChangeOrigin, EntityChange, Plan, Unmanaged
from quotaform.report.finding import FEW, render_findings, render_removed
from quotaform.report.report import Column, ColumnKind, Report, Section, Table
from quotaform.report.text import (
    PLAIN,
    Style,
    cluster_text,
    clusters_line,
    counted,
    csv_lines,
    reading_text,
    section_lines,
)
from quotaform.resolve.effect import (
    DIRECTIONS,
    Direction,
    Effect,
    effect_text,
    fallback_text,
    limit_text,
    ratio_text,
    value_text,
)
from quotaform.resolve.index import NO_LIMIT, Effective

_RADIUS_COLUMNS: Final = (
    Column("principal", ColumnKind.NAME), Column("key", ColumnKind.NAME), "limit now", "limit after", "change",
)  # fmt: skip


def radius_section(radius: BlastRadius | None) -> Iterator[Section]:
    """Yield the blast radius of a plan, with the limits that change most; nothing without one."""
    if radius is None:
        return
    more, number = "", sum(count.limits for count in radius.counts.values())
    if radius.file is not None:
        more = f"all changes of limits ({number:,}): {inert(radius.file)}"
    elif left := number - len(radius.largest):
        more = f"and {counted(left, 'more change')} (list: {option_of('principals_out')} FILE)"
    rows = []
    for large in radius.largest:
        change = large.limits
        direction, before, after = change.direction, change.before, change.after
        what = "" if direction is None else direction.words
        if direction is LimitDirection.OTHER_BUCKET and before.level and after.level:
            what = f"per {' and '.join(before.level.bucket)} -> per {' and '.join(after.level.bucket)}"
        elif direction and change.factor and before.value and after.value:
            ratio = ratio_text(before.value, after.value)
            what = f"{ratio}, {what}" if ratio else what
        address, key = change.principal.address, change.key
        rows.append((address, spell_name(key), limit_text(key, before), limit_text(key, after), what))
    caption = "Principals whose limits change most"
    table = Table(caption, _RADIUS_COLUMNS, tuple(rows), more, line="{} {} = {} -> {}   ({})", is_folded=True)
    yield Section(table, sentences=(affected_text(radius),))


def affected_text(radius: RadiusCounts) -> str:
    """Return how many principals get another limit, in a sentence with its heading."""
    source = "users with SCRAM credentials" if radius.source == "scram" else radius.source
    principals = f"{counted(radius.principals, 'principal')} ({inert(source)})"
    if not radius.affected:
        return f"Blast radius: none of {principals} gets another limit."
    verb = "gets another limit" if radius.affected == 1 else "get other limits"
    # A principal may have limits that change in several directions.
    counts = ((direction, radius.counts[direction].principals) for direction in LimitDirection)
    directions = ", ".join(f"{number:,} {direction.words}" for direction, number in counts if number)
    return f"Blast radius: {radius.affected:,} of {principals} {verb}: {directions}."


def render_limit_changes_csv(plan: Plan) -> Iterator[str]:
    """Yield all changes of limits as a table of comma-separated values: the rows of `change_row`.

    A name that the principal leaves out is an empty field, and an empty client-id is `""`.
    """
    return csv_lines(CHANGE_COLUMNS, (change_row(change).values() for change in plan.limit_changes()))


DRIFTED: Final = (ChangeOrigin.DRIFT, ChangeOrigin.BOTH)
"""The origins of changes of entities in which the cluster differs from the base."""
_MOST_ADDRESSES: Final = 20


def origin_text(change: EntityChange) -> str | None:
    """Return what the changes of an entity are due to; `None` without a base, and when its reason says it."""
    if change.origin is ChangeOrigin.DRIFT:
        return f"origin: drift, not in this change: {drift_reason(change)}"
    if change.origin is ChangeOrigin.BOTH:
        return "origin: both, the files and the cluster differ from the base"
    return None if change.origin is None or change.cause is Cause.UNDECLARED else "origin: config"


def drift_reason(change: EntityChange) -> str:
    """Return why an entity changes although the files say of it what the base says."""
    if change.cause is Cause.EXPIRED:
        return "the entry has expired"
    if change.base is None:
        return "the base does not declare it either"
    if not change.base:
        return "absent in the base too (not applied yet, or made by hand)"
    return "already in the base, but not on the cluster (not applied yet, or edited by hand)"


def drift_text(number: int) -> str:
    """Return the sentence about the entities that an apply changes though nothing in the change of the files asks it.

    `number` is how many entities have an origin of `DRIFTED`.
    """
    them = "it" if number == 1 else "them"
    return (
        f"Drift: the cluster differs from the base in {counted(number, 'entity')} (not applied yet, or "
        f"edited by hand); this apply would change {them}."
    )


NO_CHANGES: Final = "No changes. Your infrastructure matches the configuration."
NOTHING_SELECTED: Final = f"Nothing was compared: {option_of('select')} and {option_of('exclude')} leave no entity."
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
    return (f"{line}\n" for line in _plan_lines(plan, style, shows_unchanged, shows_unmanaged))


def _plan_lines(plan: Plan, style: Style, shows_unchanged: bool, shows_unmanaged: bool) -> Iterator[str]:
    yield from header_lines(plan, style)
    for change in plan.changes:
        yield "\n" + "\n".join(_entity_lines(change, style, shows_unchanged))
    yield ""
    # The entities in which the cluster differs from the base, apart from the changes of the files.
    if reverted := [change for change in plan.changes if change.origin in DRIFTED]:
        yield drift_text(len(reverted))
        for change in reverted[:_MOST_ADDRESSES]:
            note = "   (the entry has expired)" if change.cause is Cause.EXPIRED else ""
            if change.origin is ChangeOrigin.BOTH:
                note = "   (the files change it, too)"
            yield f"    {_sign(style, change.action)} {change.entity.address}{note}"
        if len(reverted) > _MOST_ADDRESSES:
            yield f"    ... and {len(reverted) - _MOST_ADDRESSES:,} more"
        yield ""
    yield from render_removed(plan.findings, style)
    if plan.unmanaged:
        hint = "" if shows_unmanaged else f" (list: {option_of('show_unmanaged')})"
        yield f"{unmanaged_text(plan.unmanaged)}{hint}."
        for item in plan.unmanaged if shows_unmanaged else ():
            values = ", ".join(
                f"{spell_name(key)} = {value_text(key, item.values[key])}" for key in sorted(item.values, key=key_order)
            )
            yield f"    {item.entity.address}: {values}{'' if item.in_scope else '   (out of scope)'}"
        yield ""
    for section in (*radius_section(plan.blast_radius), *backtest_section(plan.backtest)):
        yield from section_lines(section, style)
    if findings := list(render_findings(plan.findings, style, most_others=FEW)):
        yield from findings
        yield ""
    yield from _last_lines(plan, style)


def _last_lines(plan: Plan, style: Style) -> Iterator[str]:
    if not plan.changes:
        yield style.paint(no_changes(plan), "bold")
        return
    yield f"{effect_line(plan)} Plan id {plan.plan_id}"
    yield style.paint(f"Plan: {counts_text(plan.summary)}.", "bold")


def no_changes(plan: Plan) -> str:
    """Return why there is nothing to apply."""
    if any(finding.blocking and finding.rule == rule.CLUSTER_ID.id for finding in plan.findings):
        return "The comparison was not completed: see above."
    if not plan.is_applyable:
        return "Nothing would be changed, and the plan is blocked: see above."
    if not plan.has_entities:
        return NOTHING_SELECTED
    if plan.header.options.is_revert:
        return "Nothing is left to put back."
    return no_changes_line(sum(item.in_scope for item in plan.unmanaged))


def no_changes_line(undeclared: int) -> str:
    """Return Terraform's sentence of plans without changes, and how many entities in scope it is not about."""
    if not undeclared:
        return NO_CHANGES
    stay = "stays as it is" if undeclared == 1 else "stay as they are"
    return f"{NO_CHANGES} {counted(undeclared, 'undeclared entity')} in scope {stay}."


def header_lines(plan: Plan, style: Style) -> Iterator[str]:
    """Yield what was compared, and when it was read."""
    header = plan.header
    source = inert(header.source.directory)
    if header.source.commit:
        source += f" @ {inert(header.source.commit[:7])}{' (dirty)' if header.source.dirty else ''}"
    cluster = cluster_text(header.cluster.name, header.cluster.id, header.options.bootstrap_server, style)
    base = header.source.base
    at = f" @ {inert(base.commit[:7])}" if base is not None and base.commit is not None else ""
    shown_base = "" if base is None else f"   Base {inert(base.ref)}{at}"
    yield f"Cluster  {cluster}   Source {source}{shown_base}"
    options = header.options
    partial = "".join(
        f", --{name} {' '.join(spell_name(glob) for glob in globs)}"
        for name, globs in (("select", options.select), ("exclude", options.exclude))
        if globs
    )
    pruning = "" if options.is_revert else f", prune={options.prune}"  # A revert prunes nothing in any mode.
    yield (
        f"{reading_text(header.created_at, header.snapshot)}, {counted(plan.in_scope, 'entity')} in scope"
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
    glyph = _sign(style, action)
    yield f"  {glyph} quota {quoted(address)} {{"
    width = max([len(row.key) for row in change.changes])
    for row, effect in zip(change.changes, change.effects, strict=True):
        sign = _sign(style, row.action)
        is_plain = row.before is None and effect.before is NO_LIMIT and effect.after.source is entity
        text = _first_limit(row.key, row.after, width) if is_plain and not effect.differs else _row(row, effect, width)
        yield f"      {sign} {text}"
        if change.origin is ChangeOrigin.BOTH and change.base is not None:
            values = (("base", change.base.get(row.key)), ("live", row.before), ("files", row.after))
            shown = (f"{name} {'none' if value is None else value_text(row.key, value)}" for name, value in values)
            yield f"        # ({change.origin_of(row)}: {', '.join(shown)})"
    changed = {row.key for row in change.changes} if change.before else ()
    unchanged = [key for key in sorted(change.before, key=key_order) if key not in changed]
    for key in unchanged if shows_unchanged else ():
        yield f"        {spell_name(key):<{width}} = {value_text(key, change.before[key])}"
    if unchanged and not shows_unchanged:
        yield f"        # ({counted(len(unchanged), 'unchanged key')} hidden)"
    yield "    }"


@lru_cache
def _sign(style: Style, action: Action) -> str:
    return style.action(action.glyph, action)


def _row(row: Change, effect: Effect, width: int = 0) -> str:
    """Return a key with its values before and after; of a value that goes, what applies in its place."""
    before = None if row.before is None else value_text(row.key, row.before)
    if row.after is None:
        after = "(removed)" if effect.shadowed_by(row.entity, None) else fallback_text(row.key, effect.after)
    else:
        after = value_text(row.key, row.after)
    values = after if before is None else f"{before} -> {after}"
    note = effect_text(row, effect)
    return f"{spell_name(row.key):<{width}} = {values}{f'   {note}' if note else ''}"


@lru_cache(maxsize=4096)
def _first_limit(key: str, value: float | None, width: int) -> str:
    """Return the row of a value that is set where nothing was: most rows are such, and many are equal."""
    return _row(Change(_SOME, key, None, value), Effect(NO_LIMIT, Effective(value, _SOME)), width)


def unmanaged_text(unmanaged: Sequence[Unmanaged]) -> str:
    """Return how many entities the plan leaves as they are."""
    inside = sum(item.in_scope for item in unmanaged)
    return f"Not managed, left unchanged: {inside:,} in scope, {len(unmanaged) - inside:,} out of scope"


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
    blocked = f" Blocked by {counted(summary['blocked'], 'finding')}." if summary["blocked"] else ""
    state = "put back" if plan.header.options.is_revert else "as declared"
    without = len(plan.changes) - summary["loosen"] - summary["tighten"] - summary["mixed"]
    none = f", {without:,} without effect" if without else ""
    return (
        f"Effect: {summary['loosen']:,} loosened{loosened}, {summary['tighten']:,} tightened, "
        f"{summary['mixed']:,} mixed{mixed}{none}. {summary['no_op']:,} already {state}.{blocked}"
    )


def counts_text(counts: Mapping[str, int]) -> str:
    """Return how many entities are created, updated and deleted, in Terraform's words."""
    return f"{counts[Action.CREATE]} to add, {counts[Action.UPDATE]} to change, {counts[Action.DELETE]} to destroy"


MOST_GROUPS: Final = 10  # How many owners, files and rules are listed; the others are counted
MOST_LARGEST: Final = 10  # How many of the largest changes are listed
MOST_DELETES: Final = 500  # How many deleted entities are listed
MOST_BLOCKS: Final = 5  # How many lines about what a rule blocks are listed


def render_plan_summary(plan: Plan, style: Style = PLAIN) -> Iterator[str]:
    """Yield the summary of a plan, line by line, ending like the plan itself."""
    lines = [*header_lines(plan, style), ""]
    if plan.changes:
        lines += [*_groups(plan.changes), *_largest(plan, style)]
        # What is deleted, in the words of the plan, which tools look for.
        deleted = [change.entity.address for change in plan.changes if change.action is Action.DELETE]
        lines += [f"  # {style.paint(address, 'bold')} will be destroyed" for address in deleted[:MOST_DELETES]]
        if more := len(deleted[MOST_DELETES:]):
            lines.append(f"  # and {more:,} more entities (list: without {option_of('summary')})")
        lines += [""] if deleted else []
    for section in (*radius_section(plan.blast_radius), *backtest_section(plan.backtest)):
        lines += section_lines(section, style)
    shown = [
        each
        for each in plan.findings
        if each.blocking or (each.severity is Severity.WARNING and each.rule != rule.NO_LONGER_DECLARED.id)
    ]
    lines += render_findings(shown, style, most=MOST_BLOCKS, most_others=FEW)
    if others := len(plan.findings) - len(shown):
        lines.append(f"{counted(others, 'other finding')} (list: without {option_of('summary')}).")
    lines += [""] if plan.findings else []
    return (f"{line}\n" for line in (*lines, *_last_lines(plan, style)))


def _groups(changes: Sequence[EntityChange]) -> Iterator[str]:
    """Yield a line with the most frequent words of each kind."""
    groups: dict[str, Iterable[str]] = {
        "Action": (change.action.value for change in changes),
        "Direction": (DIRECTIONS[change.direction] for change in changes),
        "Origin": (change.origin.value if change.origin else "none" for change in changes),
        "Owner": (inert(change.owner) if change.owner else "(none)" for change in changes),
        "File": (inert(change.location.file) if change.location else "(none)" for change in changes),
        "Quota": (spell_name(row.key) for change in changes for row in change.changes),
    }
    for title, words in groups.items():
        counts = Counter(words)
        if title == "Origin" and counts.keys() == {"none"}:
            continue
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        parts = [f"{number:,} {word}" for word, number in ordered[:MOST_GROUPS]]
        rest = ordered[MOST_GROUPS:]
        if rest:
            parts.append(f"{sum(number for _, number in rest):,} in {len(rest):,} others")
        yield f"{title:<11}{', '.join(parts)}"
    yield ""


def _largest(plan: Plan, style: Style) -> Iterator[str]:
    rows = (
        (-effect.magnitude(row.key), change.entity.address, row, effect)
        for change in plan.changes
        for row, effect in zip(change.changes, change.effects, strict=True)
    )
    largest = nsmallest(MOST_LARGEST, rows, key=lambda each: each[:2])
    shown = [each for each in largest if each[0] < 0]
    if not shown:
        return
    yield style.paint("Largest changes of effective limits:", "bold")
    yield from (f"    {address} {_row(row, effect)}" for _, address, row, effect in shown)
    yield ""


def plan_problems(plan: Plan) -> Report:
    """Return the findings of a plan; one about an entity that changes is where that is declared."""
    places = {change.entity.address: change.location for change in plan.changes if change.location is not None}
    findings = [
        finding
        if finding.location is not None or finding.address not in places
        else structs.replace(finding, location=places[finding.address])
        for finding in plan.findings
    ]
    return Report(title="plan", name=plan.header.cluster.name, findings=findings)


def render_plan_total(outcomes: Sequence[ClusterOutcome[ClusterDigest]], style: Style = PLAIN) -> str:
    """Return what all plans do together, in Terraform's words, and which clusters failed."""
    plans = values_of(outcomes)
    counts = {action.value: sum(plan.counts[action] for plan in plans) for action in Action}
    blocked = sum(plan.row.status is FleetStatus.BLOCKED for plan in plans)
    lines = [clusters_line(outcomes, f"{sum(plan.row.differences > 0 for plan in plans)} with changes", blocked)]
    if any(counts.values()):
        lines.append(style.paint(f"Plan: {counts_text(counts)}.", "bold"))
    elif len(plans) == len(outcomes) and not blocked:
        has_entities = any(plan.has_entities for plan in plans)
        undeclared = sum((plan.row.entities or {})["undeclared"] for plan in plans)
        lines.append(style.paint(no_changes_line(undeclared) if has_entities else NOTHING_SELECTED, "bold"))
    return "\n".join(lines) + "\n"
