"""Drift as a person reads it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from quotaform.core.base import Base
from quotaform.core.change import Change
from quotaform.core.drift.drift import Drift, IgnoredDrift
from quotaform.core.drift.drifted import DriftClass, DriftedEntity, PendingChange
from quotaform.model.entity import spell_name
from quotaform.model.location import Location
from quotaform.model.text import inert
from quotaform.views.finding.finding_group import FEW
from quotaform.views.finding.finding_text import render_findings, render_removed
from quotaform.views.plan.effect_text import value_text
from quotaform.views.plan.plan_text import NOTHING_SELECTED
from quotaform.views.reading_text import cluster_text, reading_text
from quotaform.views.style import PLAIN, Style, counted

_COLOURS = {DriftClass.MODIFIED: "yellow", DriftClass.MISSING: "red", DriftClass.UNEXPECTED: "red"}


def render_drift(drift: Drift, style: Style = PLAIN) -> str:
    """Return drift as text, ending with one line that says how much there is."""
    return "\n".join(_lines(drift, style)) + "\n"


def _lines(drift: Drift, style: Style) -> Iterator[str]:
    cluster = cluster_text(drift.cluster_name, drift.cluster_id, drift.options.bootstrap_server, style)
    yield f"Cluster  {cluster}   {reading_text(drift.read_at, drift.snapshot)}"
    if drift.is_known:
        yield _baseline_line(drift.baseline)
    yield ""
    for drift_class in DriftClass:
        for drifted in drift.entities:
            if drifted.drift_class is drift_class:
                yield from _entity_lines(drifted, style, drift.baseline)
    if drift.entities:
        yield ""
    if drift.pending:
        yield style.paint("Pending (in the files and not applied yet; no drift):", "bold")
        for pending in drift.pending:
            yield from _pending_lines(pending)
        yield ""
    if drift.ignored:
        yield style.paint("Ignored (listed in drift_ignore; not counted):", "bold")
        for ignored in drift.ignored:
            yield from _ignored_lines(ignored, drift.baseline)
        yield ""
    yield from render_removed(drift.findings, style)
    findings = list(render_findings(drift.findings, style, heading="Not compared:", most_others=FEW))
    if findings:
        yield from findings
        yield ""
    yield style.paint(drift_line(drift), "bold" if drift.is_known else "red")


def drift_line(drift: Drift) -> str:
    """Return the last line of drift, which says how much there is."""
    if not drift.is_known:
        return "Unknown: this is not the cluster that the files are for (see above)."
    if not drift.has_entities:
        return NOTHING_SELECTED
    partial = "" if drift.is_complete else " of what was selected"
    return summary_line(
        drift.summary,
        drift.in_sync,
        partial,
        pending=len(drift.pending),
        ignored=drift.ignored_entities,
        noun="entity of the history" if _is_history(drift.baseline) else "declared entity",
    )


def _baseline_line(base: Base | None) -> str:
    if base is None:
        return "Compared with the files; without --baseline, changes that are not applied yet count as drift."
    commit = f" @ {inert(base.commit)[:7]}" if base.commit else ""
    return f"Baseline  {'' if base.type == 'git' else f'{base.type} '}{inert(base.ref)}{commit}"


def summary_line(
    counts: Mapping[str, int],
    in_sync: int,
    partial: str = "",
    *,
    pending: int = 0,
    ignored: int = 0,
    noun: str = "declared entity",
) -> str:
    """Return the last line of drift.

    Args:
        counts: How many entities each class has.
        in_sync: How many declared entities match the cluster.
        partial: What follows `Drift` when not everything was compared.
        pending: How many changes are not applied yet.
        ignored: How many entities have drift that is ignored.
        noun: What one that matches is.
    """
    others = [f"{number:,} {word}" for number, word in ((pending, "pending"), (ignored, "ignored")) if number]
    if not any(counts.values()):
        plural = noun.replace("entity", "entities")
        sync = counted(in_sync, f"{noun} matches the cluster", f"{plural} match the cluster")
        return f"No drift{partial}. {sync}{''.join(f'; {other}' for other in others)}."
    classes = ", ".join(f"{counts[each.value]:,} {each.value}" for each in DriftClass)
    return f"Drift{partial}: {'; '.join([classes, f'{in_sync:,} in sync', *others])}."


def _entity_lines(drifted: DriftedEntity, style: Style, baseline: Base | None) -> Iterator[str]:
    about = [] if drifted.is_declared or _is_history(baseline) else ["not declared in any file"]
    name = style.paint(f"{drifted.drift_class.value:<10}", _COLOURS[drifted.drift_class])
    yield f"  {name} {drifted.entity.address}{_about(drifted.location, drifted.owner, about)}"
    yield from _key_lines(drifted, baseline)


def _pending_lines(pending: PendingChange) -> Iterator[str]:
    about = [] if pending.is_declared else ["not declared in any file any more"]
    yield f"  {pending.action.value:<10} {pending.entity.address}{_about(pending.location, pending.owner, about)}"
    width = max(len(change.key) for change in pending.changes)
    for change in pending.changes:
        yield f"      {spell_name(change.key):<{width}} : {_difference(change, None)}"


def _ignored_lines(ignored: IgnoredDrift, baseline: Base | None) -> Iterator[str]:
    drifted, ignore = ignored.drifted, ignored.ignore
    about = [f"until {ignore.expires}: {inert(ignore.reason)}"]
    yield f"  {drifted.drift_class.value:<10} {drifted.entity.address}{_about(ignore.location, None, about)}"
    yield from _key_lines(drifted, baseline)


def _about(location: Location | None, owner: str | None, more: Iterable[str]) -> str:
    about = [str(location)] if location else []
    if owner:
        about.append(f"owner {inert(owner)}")
    about += more
    return f"   ({'; '.join(about)})" if about else ""


def _is_history(baseline: Base | None) -> bool:
    return baseline is not None and baseline.is_history


def _key_lines(drifted: DriftedEntity, baseline: Base | None) -> Iterator[str]:
    place = "history" if _is_history(baseline) else "files"
    width = max((len(change.key) for change in drifted.changes), default=0)
    for change in drifted.changes:
        text = _difference(change, drifted.absent, place)
        if drifted.has_moved(change):
            agreed = drifted.agreed(change)
            text += f", {'not set' if agreed is None else value_text(change.key, agreed)} in the baseline"
        yield f"      {spell_name(change.key):<{width}} : {text}"


def _difference(change: Change, absent: str | None, place: str = "files") -> str:
    actual = "not set" if change.before is None else value_text(change.key, change.before)
    if change.after is None:
        return f"{actual} on the cluster, {'not' if absent is None else inert(absent)} in the {place}"
    return f"{actual} on the cluster, {value_text(change.key, change.after)} in the {place}"
