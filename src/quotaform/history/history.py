"""The result of appending snapshots to a history, and what a history says: records, and reports of them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Annotated, Final, Literal, TypeAlias, get_args

from msgspec import field
from msgspec.structs import replace

from quotaform.model.entity import Entity, spell_name
from quotaform.model.moment import spell_second
from quotaform.model.records.record import (
    Address,
    ClusterName,
    Count,
    Digest,
    Double,
    Moment,
    QuotaKeyName,
    Record,
    about,
    builtins,
    derived,
)
from quotaform.model.text import inert, option_of
from quotaform.report.report import (
    Cell,
    Coloured,
    Column,
    ColumnKind,
    Columns,
    Curve,
    Number,
    Plot,
    PlotLimit,
    Report,
    Table,
    sections_of,
)
from quotaform.report.text import counted
from quotaform.resolve.effect import value_text

MOST_ROWS: Final = 1000
"""How many rows of a result are brought to the driver; all of them are in what `--out parquet=DIR` writes."""

TableName: TypeAlias = Annotated[str, about("The history, as given.")]


AppendStatus: TypeAlias = Literal["appended", "late", "known", "failed"]
"""What became of a snapshot; see `AppendedRecord.status`."""


class AppendedRecord(Record):
    """A snapshot and what became of it."""

    cluster: Annotated[str | None, about("The name of the cluster; null of a file that could not be read.")]
    cluster_id: Annotated[str | None, about("The id of the cluster; null if it could not be read.")]
    file: Annotated[str | None, about("The file, as given; null for a running cluster.")]
    read_at: Annotated[Moment | None, about("When the cluster was read, or null.")]
    status: Annotated[
        AppendStatus,
        about(
            "appended: it is the last one of its cluster; late: a later one was known; known: one of the same cluster "
            "and time was known, and nothing changed; failed: it could not be read."
        ),
    ]
    values: Annotated[Count, about("The number of its values.")]
    error: Annotated[str | None, about("Why it could not be read, or null.")]


class AppendSummary(Record):
    """Snapshots by what became of them."""

    appended: Annotated[Count, about("Snapshots that are appended.")]
    late: Annotated[Count, about("Snapshots that are late.")]
    known: Annotated[Count, about("Snapshots that are known.")]
    failed: Annotated[Count, about("Failed ones.")]


class AppendDocument(Record, document="history-append"):
    """The result of quotaform history append."""

    table: TableName
    summary: AppendSummary = derived(
        lambda result: AppendSummary(
            **{name: sum(each.status == name for each in result.snapshots) for name in get_args(AppendStatus)}
        )
    )
    snapshots: Annotated[
        tuple[AppendedRecord, ...], about("The snapshots, by cluster and time; those that failed come last.")
    ]
    receipt_problems: Annotated[tuple[str, ...], about("Why receipts could not be read.")]


class Changer(Record):
    """Who changed a value, as a receipt says."""

    actor: Annotated[str, about("The user of the CI system, or of the operating system.")]
    plan_id: Annotated[Digest, about("The id of the plan.")]
    commit: Annotated[str | None, about("The git commit of the files, or null.")]
    at: Annotated[Moment, about("When the apply was finished, as ISO 8601 in UTC.")]


class HistoryRow(Record):
    """A value and when it was there."""

    cluster: ClusterName
    cluster_id: Annotated[str, about("The id of the cluster then.")]
    entity_key: Address = derived(lambda row: row.entity.address, name="address")
    entity: Entity
    key: QuotaKeyName
    value: Double
    valid_from: Annotated[Moment, about("The time of the first snapshot with it, as ISO 8601 in UTC.")]
    valid_to: Annotated[
        Moment | None, about("The time of the first snapshot without it; null if the last one has it.")
    ] = None
    changed_by: Annotated[Changer | None, about("Who set it, or null if no receipt says so.")] = None
    ended_by: Annotated[Changer | None, about("Who replaced or removed it, or null.")] = None


class EntityHistory(Record, document="history"):
    """The result of quotaform history show."""

    table: TableName
    since: Annotated[Moment | None, about("The time of the first snapshot of the clusters, or null.")]
    until: Annotated[Moment | None, about("The time of the last one, or null.")]
    entities: Annotated[tuple[Address, ...], about("The entities that were asked for; empty for all.")]
    total: Annotated[Count, about(f"The number of rows, of which at most {MOST_ROWS} are listed.")]
    rows: Annotated[tuple[HistoryRow, ...], about("The first rows, by cluster, entity, key and time.")]


class HistoryChange(Record):
    """A value that differs."""

    cluster: ClusterName
    entity_key: Address = derived(lambda row: row.entity.address, name="address")
    entity: Entity
    key: QuotaKeyName
    before: Annotated[Double | None, about("The value before, or null.")]
    after: Annotated[Double | None, about("The value after, or null.")]
    changed_at: Annotated[Moment | None, about("The time of the snapshot that showed the last change, or null.")]
    changed_by: Annotated[Changer | None, about("Who made it, or null if no receipt says so.")] = None


class Coverage(Record):
    """The last snapshots of a cluster at or before the two times."""

    cluster: ClusterName
    is_compared: Annotated[
        bool, about("False if it has no snapshot at or before the earlier time: then no changes.")
    ] = derived(lambda each: each.before_at is not None, name="compared")
    first_at: Annotated[Moment, about("The time of its first snapshot, as ISO 8601 in UTC.")]
    before_at: Annotated[Moment | None, about("That of the earlier time; null if there is none.")]
    after_at: Annotated[Moment | None, about("That of the later time; null if there is none.")]


class DifferenceSummary(Record):
    """Numbers of values, and of their entities."""

    created: Annotated[Count, about("Values that were set.")]
    updated: Annotated[Count, about("Values that are others.")]
    deleted: Annotated[Count, about("Values that were removed.")]
    entities: Annotated[Count, about("The entities that they belong to.")]

    @property
    def total(self) -> int:
        """How many values differ."""
        return self.created + self.updated + self.deleted


class HistoryDifference(Record, document="history-diff"):
    """The result of quotaform history diff."""

    table: TableName
    since: Annotated[Moment, about("The earlier time, as ISO 8601 in UTC.")]
    until: Annotated[Moment, about("The later time, as ISO 8601 in UTC.")]
    clusters: Annotated[tuple[Coverage, ...], about("Which snapshots were compared.")]
    summary: DifferenceSummary
    rows: Annotated[tuple[HistoryChange, ...], about(f"The first {MOST_ROWS} changes, by cluster, entity and key.")] = (
        field(name="changes")
    )


_NAMES: Final = tuple(Column(name, ColumnKind.NAME) for name in ("entity", "cluster", "key"))
_VALUES: Final[Columns] = (*_NAMES, "limit", "from", "to", Column("changes", ColumnKind.DETAIL))
_CHANGES: Final[Columns] = (*_NAMES, "change", "before", "after", Column("last change", ColumnKind.DETAIL))
_ALL_ROWS: Final = f"All of them: {option_of('out')} parquet=DIR."
_APPENDED: Final = {"late": "inserted before a later snapshot", "known": "known already"}

LimitOf: TypeAlias = tuple[str, Entity, str]
"""Whose limit it is: cluster, entity and quota key."""


def append_report(result: AppendDocument) -> Report:
    """Return what became of an append; snapshots that failed are reported elsewhere."""
    rows = []
    for each in result.snapshots:
        if each.status != "failed":
            taken = "-" if each.read_at is None else spell_second(each.read_at)
            values = Number(f"{each.values:,}", each.values)
            rows.append((spell_name(each.cluster or ""), taken, values, _APPENDED.get(each.status, each.status)))
    columns = (Column("cluster", ColumnKind.NAME), "taken", "values", "result")
    table = Table("By cluster and time", columns, tuple(rows), hint=f"All of them: {option_of('format')} json.")
    counts = ", ".join(f"{count:,} {status}" for status, count in builtins(result.summary).items())
    return Report(
        title="Appended snapshots",
        about=(f"History {inert(result.table)}",),
        sections=sections_of(table),
        nothing="",
        total=f"Snapshots: {counts}.",
    )


def history_report(found: EntityHistory) -> Report:
    """Return what entities had and when."""
    rows = []
    for each in found.rows:
        changes = [f"set {_by(each.changed_by)}"] if each.changed_by else []
        changes += [f"ended {_by(each.ended_by)}"] if each.ended_by else []
        names = each.entity.address, spell_name(each.cluster), inert(each.key)
        limit = Number(value_text(each.key, each.value), each.value)
        until = "now" if each.valid_to is None else spell_second(each.valid_to)
        rows.append((*names, limit, spell_second(each.valid_from), until, "; ".join(changes)))
    span = "no snapshots"
    if found.since is not None and found.until is not None:
        span = f"snapshots from {spell_second(found.since)} to {spell_second(found.until)}"
    table = Table("Values", _VALUES, tuple(rows), total=found.total, hint=_ALL_ROWS)
    return Report(
        title="Limits over time",
        about=(f"History {inert(found.table)}: {span}",),
        sections=sections_of(table),
        nothing=f"No snapshot has {' or '.join(found.entities) or 'any quotas'}.",
    )


def drawn_limits(found: EntityHistory) -> list[LimitOf]:
    """Return the limits that are drawn: the first 20, each of one entity and key."""
    return list(dict.fromkeys((row.cluster, row.entity, row.key) for row in found.rows))[:20]


def history_page(
    found: EntityHistory, usage: str | None = None, curves: Mapping[LimitOf, Curve] | None = None
) -> Report:
    """Return `history_report` with `drawn_limits` as lines over time, and the curves of a table of usage, if given."""
    curves, drawn = curves or {}, drawn_limits(found)
    plots, notes = [], []
    limits = {of: [*rows] for of, rows in groupby(found.rows, lambda row: (row.cluster, row.entity, row.key))}
    for of in drawn:
        (cluster, entity, key), rows, used = of, limits[of], curves.get(of, Curve())
        times = [*(row.valid_from for row in rows), found.until or rows[-1].valid_from, *used.times]
        caption = f"{entity.address}, {inert(key)}, cluster {spell_name(cluster)}"
        shown = tuple(PlotLimit("limit", row.value, row.valid_from, row.valid_to) for row in rows)
        plots.append(Plot(caption=caption, key=key, curve=used, limits=shown, start=min(times), end=max(times)))
    if len(limits) > len(drawn):
        notes.append(f"The first {len(drawn):,} of {len(limits):,} limits are drawn; name an entity to see others.")
    report = history_report(found)
    if usage is not None:
        about = (*report.about, f"Usage: {inert(usage)}, the highest rate of all brokers")
        report = replace(report, about=about)
        if unknown := len(drawn) - len(curves):
            notes.append(
                f"No usage is known of {unknown:,} of them; usage of default entities, which have many buckets, is not "
                "drawn."
            )
    sections = tuple(replace(section, plots=tuple(plots)) for section in report.sections)
    return replace(report, sections=sections, notes=tuple(notes))


def difference_report(found: HistoryDifference) -> Report:
    """Return what changed between two moments; the last line says how much."""
    rows: list[tuple[Cell, ...]] = []
    for each in found.rows:
        change = Coloured("changed", "yellow")
        if each.before is None or each.after is None:
            change = Coloured("set", "green") if each.before is None else Coloured("removed", "red")
        names = each.entity.address, spell_name(each.cluster), inert(each.key)
        limits = (
            Number("none", -1.0) if value is None else Number(value_text(each.key, value), value)
            for value in (each.before, each.after)
        )
        seen = "" if each.changed_at is None else f"seen {spell_second(each.changed_at)}"
        rows.append((*names, change, *limits, _by(each.changed_by) if each.changed_by else seen))
    unknown = [each for each in found.clusters if not each.is_compared]
    snapshots = []
    for cluster in sorted(found.clusters, key=lambda each: each.is_compared):
        before, after = (at and spell_second(at) for at in (cluster.before_at, cluster.after_at))
        before = before or f"none; the first is of {spell_second(cluster.first_at)}"
        snapshots.append((spell_name(cluster.cluster), before, after or "none"))
    columns = (Column("cluster", ColumnKind.NAME), "before", "after")
    hint = f"All of them: {option_of('format')} json."
    total = "No changes between the two"
    if found.summary.total:
        total = (
            f"Changes: {found.summary.created:,} set, {found.summary.updated:,} changed, "
            f"{found.summary.deleted:,} removed, of {counted(found.summary.entities, 'entity')}"
        )
    return Report(
        title="Changes of quotas",
        about=(f"History {inert(found.table)}: {spell_second(found.since)} to {spell_second(found.until)}",),
        sections=sections_of(
            Table("Changes", _CHANGES, tuple(rows), total=found.summary.total, hint=_ALL_ROWS),
            Table("Snapshots at or before each time", columns, tuple(snapshots), hint=hint, is_folded=True),
        ),
        total=f"{total}; {counted(len(unknown), 'cluster')} not compared." if unknown else f"{total}.",
    )


def _by(changer: Changer) -> str:
    commit = f", commit {inert(changer.commit)[:7]}" if changer.commit else ""
    plan = inert(changer.plan_id).removeprefix("sha256:")[:8]
    return f"by {inert(changer.actor)} at {spell_second(changer.at)}, plan {plan}{commit}"
