"""Drift as a person reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from quotaform.core.drift import Drift, DriftClass, DriftedEntity
from quotaform.core.plan import Change
from quotaform.model.entity import spell_name
from quotaform.model.text import inert
from quotaform.views.effect_text import value_text
from quotaform.views.finding_text import render_findings, render_removed
from quotaform.views.plan_text import NOTHING_SELECTED
from quotaform.views.reading_text import cluster_text, reading_text
from quotaform.views.style import PLAIN, Style, counted

_COLOURS = {DriftClass.MODIFIED: "yellow", DriftClass.MISSING: "red", DriftClass.UNEXPECTED: "red"}


def render_drift(drift: Drift, style: Style = PLAIN) -> str:
    """Return drift as text, ending with one line that says how much there is."""
    return "\n".join(_lines(drift, style)) + "\n"


def _lines(drift: Drift, style: Style) -> Iterator[str]:
    cluster = cluster_text(drift.cluster_name, drift.cluster_id, drift.options, style)
    yield f"Cluster  {cluster}   {reading_text(drift.read_at, drift.snapshot)}"
    yield ""
    for drift_class in DriftClass:
        for drifted in drift.entities:
            if drifted.drift_class is drift_class:
                yield from _entity_lines(drifted, style)
    if drift.entities:
        yield ""
    yield from render_removed(drift.findings, style)
    findings = list(render_findings(drift.findings, style, heading="Not compared:"))
    if findings:
        yield from findings
        yield ""
    if not drift.is_known:
        yield style.paint("Unknown: this is not the cluster that the files are for (see above).", "red")
        return
    if not drift.has_entities:
        yield style.paint(NOTHING_SELECTED, "bold")
        return
    partial = "" if drift.is_complete else " of what was selected"
    yield style.paint(summary_line(drift.summary, drift.in_sync, partial), "bold")


def summary_line(counts: Mapping[str, int], in_sync: int, partial: str = "") -> str:
    """Return the last line of drift.

    Args:
        counts: How many entities each class has.
        in_sync: How many declared entities match the cluster.
        partial: What follows `Drift` when not everything was compared.
    """
    if not any(counts.values()):
        sync = counted(in_sync, "declared entity matches the cluster", "declared entities match the cluster")
        return f"No drift{partial}. {sync}."
    classes = ", ".join(f"{counts[each.value]:,} {each.value}" for each in DriftClass)
    return f"Drift{partial}: {classes}; {in_sync:,} in sync."


def _entity_lines(drifted: DriftedEntity, style: Style) -> Iterator[str]:
    about = []
    if drifted.location:
        about.append(str(drifted.location))
    if drifted.owner:
        about.append(f"owner {inert(drifted.owner)}")
    if not drifted.is_declared:
        about.append("not declared in any file")
    where = f"   ({'; '.join(about)})" if about else ""
    name = style.paint(f"{drifted.drift_class.value:<10}", _COLOURS[drifted.drift_class])
    yield f"  {name} {drifted.entity.address}{where}"
    width = max((len(change.key) for change in drifted.changes), default=0)
    for change in drifted.changes:
        yield f"      {spell_name(change.key):<{width}} : {_difference(change, drifted.absent)}"


def _difference(change: Change, absent: str | None) -> str:
    actual = "not set" if change.before is None else value_text(change.key, change.before)
    if change.after is None:
        return f"{actual} on the cluster, {'not' if absent is None else inert(absent)} in the files"
    return f"{actual} on the cluster, {value_text(change.key, change.after)} in the files"
