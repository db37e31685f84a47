"""Drift as text, as tables of pages and comments, and as messages to Slack."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from json import dumps
from typing import Final

from msgspec.structs import replace

from quotaform.drift.drift import Baseline, Drift, DriftClass, Drifted, DriftedKey, DriftSummary, Pending
from quotaform.drift.records import Notification, NotificationEvent
from quotaform.model import rule
from quotaform.model.entity import spell_name
from quotaform.model.outcome import ClusterOutcome, values_of
from quotaform.model.quotas import Change, same_value
from quotaform.model.text import inert, listed, option_of
from quotaform.plan.digest import ClusterDigest, FleetStatus
from quotaform.plan.page import value_bar, value_cell
from quotaform.plan.report import NOTHING_SELECTED
from quotaform.report.comment import Marker
from quotaform.report.finding import FEW, render_findings, render_removed
from quotaform.report.report import Cell, Column, ColumnKind, Number, Report, Section, Table
from quotaform.report.text import PLAIN, Style, cluster_text, clusters_line, counted, reading_text
from quotaform.resolve.effect import value_text

_NOT_COMPARED: Final = "Not compared:"
_COLOURS = {DriftClass.MODIFIED: "yellow", DriftClass.MISSING: "red", DriftClass.UNEXPECTED: "red"}


def render_drift(drift: Drift, style: Style = PLAIN) -> str:
    """Return drift as text, ending with one line that says how much there is."""
    return "\n".join(_lines(drift, style)) + "\n"


def _lines(drift: Drift, style: Style) -> Iterator[str]:
    cluster = cluster_text(drift.cluster.name, drift.cluster.id, drift.options.bootstrap_server, style)
    yield f"Cluster  {cluster}   {reading_text(drift.read_at, drift.snapshot)}"
    if drift.is_known:
        yield _baseline_line(drift.baseline)
    yield ""
    is_history = drift.baseline.type == "history"
    for drift_class in DriftClass:
        word = style.paint(f"{drift_class.value:<10}", _COLOURS[drift_class])
        for drifted in drift.entities:
            if drifted.drift_class is drift_class:
                about = [] if drifted.is_declared or is_history else ["not declared in any file"]
                yield from _entity_lines(drifted, word, about, is_history)
    if drift.entities:
        yield ""
    if drift.pending:
        yield style.paint("Pending (in the files and not applied yet; no drift):", "bold")
        for pending in drift.pending:
            about = [] if pending.is_declared else ["not declared in any file any more"]
            yield from _entity_lines(pending, f"{pending.action.value:<10}", about)
        yield ""
    if drift.ignored:
        yield style.paint("Ignored (listed in drift_ignore; not counted):", "bold")
        for each in drift.ignored:
            about = [f"until {each.expires}: {inert(each.reason)}"]
            ignored = replace(each, owner=None, location=each.ignored_by)
            yield from _entity_lines(ignored, f"{each.drift_class.value:<10}", about, is_history)
        yield ""
    yield from render_removed(drift.findings, style)
    findings = list(render_findings(drift.findings, style, heading=_NOT_COMPARED, most_others=FEW))
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
    is_history = drift.baseline.type == "history"
    noun = "entity of the history" if is_history else "declared entity"
    return summary_line(drift.summary, is_partial=not drift.complete, noun=noun)


def _baseline_line(base: Baseline) -> str:
    if base.type == "none":
        without = f"without {option_of('baseline')}, changes that are not applied yet count as drift"
        return f"Compared with the files; {without}."
    commit = f" @ {inert(base.commit)[:7]}" if base.commit else ""
    return f"Baseline  {'' if base.type == 'git' else f'{base.type} '}{inert(base.ref or '')}{commit}"


def summary_line(summary: DriftSummary, *, is_partial: bool = False, noun: str = "declared entity") -> str:
    """Return the last line of drift; `noun` is what one that matches is."""
    what = " of what was selected" if is_partial else ""
    counts = ((summary.pending, "pending"), (summary.ignored, "ignored"))
    others = [f"{number:,} {word}" for number, word in counts if number]
    if not any(summary.classes.values()):
        plural = noun.replace("entity", "entities")
        sync = counted(summary.in_sync, f"{noun} matches the cluster", f"{plural} match the cluster")
        return f"No drift{what}. {sync}{''.join(f'; {other}' for other in others)}."
    return f"Drift{what}: {'; '.join([_classes(summary), f'{summary.in_sync:,} in sync', *others])}."


def _classes(summary: DriftSummary) -> str:
    return ", ".join(f"{count:,} {each.value}" for each, count in summary.classes.items())


def _entity_lines(
    entity: Drifted | Pending, word: str, about: Sequence[str], is_history: bool = False
) -> Iterator[str]:
    notes = [str(entity.location)] if entity.location else []
    if entity.owner:
        notes.append(f"owner {inert(entity.owner)}")
    notes += about
    yield f"  {word} {entity.address}" + (f"   ({'; '.join(notes)})" if notes else "")
    absent = entity.absent if isinstance(entity, Drifted) else None
    width = max(len(each.key) for each in entity.keys)
    for each in entity.keys:
        has_moved = not same_value(each.agreed, each.desired)
        moved = f", {value_text(each.key, each.agreed)} in the baseline" if has_moved else ""
        difference = _difference(each, absent, "history" if is_history else "files")
        yield f"      {spell_name(each.key):<{width}} : {difference}{moved}"


def _difference(each: DriftedKey, absent: str | None, place: str = "files") -> str:
    wanted = (
        ("not" if absent is None else inert(absent)) if each.desired is None else value_text(each.key, each.desired)
    )
    return f"{value_text(each.key, each.actual)} on the cluster, {wanted} in the {place}"


_COLUMNS: Final = (
    Column("entity", ColumnKind.NAME), "what", Column("key", ColumnKind.NAME), "on the cluster", "in the files",
    "agreed", Column("chart", ColumnKind.PAGE), "owner", Column("place", ColumnKind.PAGE),
)  # fmt: skip


def drift_report(drift: Drift, *, root: str = "quotas.d") -> Report:
    """Return what differs, what is pending and what is ignored, a row for each value. `root`: the quotas directory."""
    cluster = cluster_text(drift.cluster.name, drift.cluster.id, drift.options.bootstrap_server)
    state = _classes(drift.summary) if drift.entities else "no drift"
    total = drift_line(drift) if drift.is_known else "This is not the cluster that the files are for."
    return Report(
        title="Kafka quota drift on",
        name=drift.cluster.name,
        state=state if drift.is_known else "unknown",
        about=(
            f"Cluster {cluster}, {reading_text(drift.read_at, drift.snapshot)}",
            *([_baseline_line(drift.baseline)] if drift.baseline.type != "none" else []),
            f"Fingerprint {drift.fingerprint}",
        ),
        findings=drift.findings,
        caution=_NOT_COMPARED,
        sections=tuple(map(Section, _tables(drift))),
        nothing="",
        total=total,
        marker=Marker("drift", drift.cluster.name, root, len(drift.entities) if drift.is_known else None),
    )


def _tables(drift: Drift) -> Iterator[Table]:
    drifted = [(each, each.drift_class.value) for each in drift.entities]
    pending = [(each, each.action.value) for each in drift.pending]
    ignored = [
        (each, f"{each.drift_class.value}, until {each.expires}: {inert(each.reason)}") for each in drift.ignored
    ]
    for title, found in (
        ("Drift", drifted),
        ("Pending: in the files and not applied yet", pending),
        ("Ignored: listed in drift_ignore", ignored),
    ):
        rows: list[tuple[Cell, ...]] = []
        for each, what in found:
            absent = each.absent if isinstance(each, Drifted) else None
            for row in each.keys:
                agreed = row.actual if isinstance(each, Pending) else row.agreed
                live, declared, last = (value_cell(row.key, value) for value in (row.actual, row.desired, agreed))
                if absent is not None and row.desired is None:
                    declared = Number(inert(absent), -1.0)
                bar = value_bar(Change(each.entity, row.key, row.actual, row.desired))
                names = (each.address, what, spell_name(row.key))
                rows.append((*names, live, declared, last, bar, inert(each.owner or "-"), str(each.location or "-")))
        if rows:
            yield Table(title, _COLUMNS, tuple(rows), is_folded=title != "Drift", counted="what")


_MOST_ITEMS: Final = 10
"""How many entities a message to a chat lists."""
_LONGEST: Final = 300
"""How many characters of a line of foreign text are shown."""
_HEADINGS: Final = {
    NotificationEvent.DETECTED: "Kafka quotas of {} have drifted",
    NotificationEvent.CHANGED: "The drift of Kafka quotas of {} has changed",
    NotificationEvent.RESOLVED: "Kafka quotas of {} are in sync",
    NotificationEvent.CHECK_FAILED: "Kafka quotas of {} could not be checked for drift",
}
_SPECIAL: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "@\u200b"})


def render_slack(notification: Notification) -> str:
    """Return a notification as a JSON message with one text, in which no name mentions anybody."""
    return dumps({"text": "\n".join(_slack_lines(notification))})


def _slack_lines(notification: Notification) -> Iterator[str]:
    yield _HEADINGS[notification.event].format(harmless(spell_name(notification.cluster.name)))
    if notification.summary is None:
        yield harmless(notification.error or "")
    else:
        yield summary_line(notification.summary)
        for drifted in notification.items[:_MOST_ITEMS]:
            parts = []
            for each in drifted.keys[:_MOST_ITEMS]:
                live, wanted = (harmless(value_text(each.key, value)) for value in (each.actual, each.agreed))
                parts.append(f"{harmless(spell_name(each.key))} {live}, agreed {wanted}")
            yield f"• {drifted.drift_class.value}: {harmless(drifted.address)} ({'; '.join(parts)})"
        if (more := sum(notification.summary.classes.values()) - _MOST_ITEMS) > 0:
            yield f"… and {more:,} more"
    if notification.first_seen is not None:
        yield f"First seen {harmless(notification.first_seen)}"
    if notification.links.run is not None:
        yield harmless(notification.links.run)


def harmless(text: str) -> str:
    """Return a text in which nothing is a mention, a link or a special character.

    >>> harmless("<!channel> @here")
    '&lt;!channel&gt; @\\u200bhere'
    """
    shown = inert(text)
    return (shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}…").translate(_SPECIAL)


_RULES: Final = {
    DriftClass.MODIFIED: rule.DRIFT_MODIFIED,
    DriftClass.MISSING: rule.DRIFT_MISSING,
    DriftClass.UNEXPECTED: rule.DRIFT_UNEXPECTED,
}


def drift_problems(drift: Drift) -> Report:
    """Return a warning for each entity that differs, and what else was found."""
    findings = list(drift.findings)
    for drifted in drift.entities:
        keys = (f"{spell_name(each.key)} is {_difference(each, drifted.absent)}" for each in drifted.keys)
        message = f"{drifted.address} is {drifted.drift_class.value}: {listed(keys)}"
        row = _RULES[drifted.drift_class]
        findings.append(row.finding(message, address=drifted.address, location=drifted.location))
    return Report(title="drift", name=drift.cluster.name, findings=findings)


def render_drift_total(outcomes: Sequence[ClusterOutcome[ClusterDigest]], style: Style = PLAIN) -> str:
    """Return how many clusters have drift, which could not be compared, and how many entities differ on all of them."""
    drifts = values_of(outcomes)
    drifted = sum(drift.row.status is FleetStatus.DRIFT for drift in drifts)
    known = [drift for drift in drifts if drift.row.status is not FleetStatus.UNKNOWN]
    lines = [clusters_line(outcomes, f"{drifted} with drift", len(drifts) - len(known), "unknown")]
    totals = sum((Counter(drift.row.entities or {}) for drift in known), Counter[str]())
    summary = DriftSummary(**{name: totals[name] for name in DriftSummary.__struct_fields__})
    if any(summary.classes.values()) or len(known) == len(outcomes):
        has_entities = any(drift.has_entities for drift in known)
        line = summary_line(summary, is_partial=any(drift.is_partial for drift in known))
        lines.append(style.paint(line if has_entities else NOTHING_SELECTED, "bold"))
    return "\n".join(lines) + "\n"
