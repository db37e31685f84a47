"""Which quotas would fit: what is proposed for each value, how values are rounded, and the report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from decimal import ROUND_CEILING, Decimal
from enum import StrEnum
from fractions import Fraction
from math import ceil
from re import DOTALL
from re import compile as regex
from typing import Annotated, Final

from msgspec import field

from quotaform.model.entity import Entity, spell_name
from quotaform.model.moment import spell_second
from quotaform.model.quota_key import QUOTA_KEYS, QuotaKey, key_order
from quotaform.model.records.record import Address, ClusterName, Count, Moment, QuotaKeyName, Record, about, derived
from quotaform.model.scope import FULL_SCOPE, Scope, Selection
from quotaform.model.settings import Numbers, SizingSettings
from quotaform.model.text import inert, option_of
from quotaform.model.units import is_decimal, is_unlimited, measuring_unit, render_value
from quotaform.plan.backtest import ClusterBacktest, note_lines, total_text
from quotaform.report.report import Bar, Cell, Coloured, Column, ColumnKind, Columns, Number, Report, Table, sections_of
from quotaform.report.text import counted
from quotaform.usage.cells import ALL_ROWS, rate_cell
from quotaform.usage.replay.report import backtest_table

MOST_PROPOSALS: Final = 100_000
"""How many proposals are brought to the driver, which writes them into files."""
MOST_OTHERS: Final = 1000
"""How many of the other values are."""


class Advice(StrEnum):
    """What is proposed for a value; it is kept if it fits, and `none` if that is not known."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    KEEP = "keep"
    NONE = "none"


class Sizing(SizingSettings):
    """How quotas were sized."""

    # Also where a default limits them, or nothing
    has_creates: Annotated[bool, about("Whether values were proposed for entities that have none.")] = field(
        default=False, name="creates"
    )
    capacities: Annotated[Mapping[str, Numbers], about("By cluster, the capacity of a broker.")] = {}
    """What the limits of all buckets on a broker may sum up to; of the whole cluster for keys whose limit is one of the
    cluster."""


class RecommendSettings(Sizing):
    """How the values of clusters are sized, and of which entities."""

    scope: Scope = FULL_SCOPE  # Entities that are managed
    selection: Selection = Selection()
    """Entities that were asked for."""


class Recommendation(Record):
    """What is proposed for a quota key of an entity."""

    cluster: ClusterName
    entity_key: Address = derived(lambda each: each.entity.address, name="address")
    entity: Entity
    key: QuotaKeyName
    action: Annotated[
        Advice, about("create, update, delete; keep: the value fits; none: the reason says what is missing.")
    ]
    before: Annotated[float | None, about("The value now, or null.")]
    after: Annotated[float | None, about("The proposed value, or null; for keep and none the value now.")]
    reason: Annotated[str, about("Why.")]  # In a few words; that of a proposal goes into the file
    note: Annotated[str | None, about("What else there is to know, or null.")] = None
    samples: Annotated[Count, about("How many times with a rate were recorded.")] = 0
    days: Annotated[float, about("How many days are recorded.")] = 0.0
    basis: Annotated[float | None, about("The rate on which the proposal rests, or null.")] = None
    day: Annotated[date | None, about("The day (UTC) of this rate, or null.")] = None
    is_weekly: Annotated[bool, about("Whether the weekday of this day is the busiest of each week.")] = field(
        default=False, name="weekly"
    )
    bucket: Annotated[str | None, about("The bucket with this rate, or null.")] = None
    broker: Annotated[
        str | None, about("The broker on which it had this rate; null if the limit is one of the cluster.")
    ] = None


class ClusterRecording(Record):
    """The first and the last sample of a cluster."""

    cluster: ClusterName
    first: Annotated[Moment | None, about("When it was; null if nothing is recorded.")] = None
    last: Annotated[Moment | None, about("When it was; null if nothing is recorded.")] = None


class UnwrittenProposal(Record):
    """A proposal that the files do not follow, and why."""

    cluster: ClusterName
    address: Address = derived(lambda each: each.entity.address)
    entity: Entity
    key: QuotaKeyName
    reason: Annotated[str, about("Why.")]


class EditRecord(Record):
    """What becomes of the quota files."""

    is_written: Annotated[bool, about("Whether the files were written.")] = field(name="written")
    files: Annotated[tuple[str, ...], about("The files that change.")]
    unwritten: Annotated[tuple[UnwrittenProposal, ...], about("Proposals that the files do not follow.")]


class ProposalBacktest(Record):
    """What a plan of the changed quota files would have throttled of the same usage."""

    clusters: Annotated[tuple[ClusterBacktest, ...], about("The clusters that the files change.")] = ()
    unwritten: Annotated[Count, about("Proposals that are not in it, as the files do not follow them.")] = 0
    others: Annotated[Count, about("Other entities that the files change; they are not in it.")] = field(
        default=0, name="other_changes"
    )


class ProposalSummary(Record):
    """Numbers of values by what is proposed."""

    create: Annotated[Count, about("Values that are proposed for entities that have none.")]
    update: Annotated[Count, about("Values that are to change.")]
    delete: Annotated[Count, about("Values that are to be removed, as nobody used them.")]
    keep: Annotated[Count, about("Values that fit.")]
    none: Annotated[Count, about("Values for which nothing is proposed.")]

    @property
    def proposed(self) -> int:
        """How many values are to change."""
        return self.create + self.update + self.delete

    @property
    def total(self) -> int:
        """How many values there are."""
        return self.proposed + self.keep + self.none


class Recommendations(Record, document="usage-recommend"):
    """The result of quotaform usage recommend."""

    usage: Annotated[str, about("The usage table, as given.")]
    settings: Sizing
    clusters: Annotated[tuple[ClusterRecording, ...], about("What was recorded of each cluster.")]
    summary: ProposalSummary
    proposals: Annotated[
        tuple[Recommendation, ...], about(f"What is proposed, by cluster, entity and key; at most {MOST_PROPOSALS}.")
    ]
    others: Annotated[tuple[Recommendation, ...], about(f"The first {MOST_OTHERS} values that are kept or undecided.")]
    edit: Annotated[EditRecord | None, about("What becomes of the quota files; null if they were not asked for.")] = (
        None
    )
    backtest: Annotated[
        ProposalBacktest | None, about("What the proposals would have throttled; null if that was not tested.")
    ] = None


_EARLIER: Final = regex(
    r"(?:^|; )(?:[a-z_]+: )?"
    r"(?:p[0-9.]+ of [0-9dhms ]+(?:days)?(?: without outliers)?, |not used from [0-9]{4}-).*\([0-9-]{10}\)$",
    DOTALL,
)


def entry_reason(before: str | None, proposals: Sequence[Recommendation], day: date) -> str:
    """Return the reason of an entry: what somebody wrote, then that of the proposals, in place of an earlier one.

    `proposals`: what is proposed for the entity, at least one. `day`: today (UTC).
    """
    own = _EARLIER.sub("", before or "")
    if len({each.reason for each in proposals}) == 1:
        said = proposals[0].reason
    else:
        ordered = sorted(proposals, key=lambda each: key_order(each.key))
        said = "; ".join(f"{each.key}: {each.reason}" for each in ordered)
    return "; ".join(part for part in (own, f"{said} ({day.isoformat()})") if part)


_STEPS: Final = ((5, Fraction(1, 4)), (25, Fraction(1, 2)), (100, Fraction(1)), (250, Fraction(5)))
"""Below how many of a unit bytes are rounded up to a multiple of what part of it; then of 10."""


def round_up(key: QuotaKey, value: float, *, decimal: bool = False) -> float:
    """Return the smallest round number that is not below a rate: it adds at most a quarter to bytes, a tenth to others.

    >>> from quotaform.model.quota_key import PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE
    >>> round_up(PRODUCER_BYTE_RATE, 12.3 * 2**20) / 2**20, round_up(REQUEST_PERCENTAGE, 141.2)
    (12.5, 150.0)

    `value`: the rate, above 0. `decimal`: whether bytes are counted in powers of 1000; see `is_decimal`.
    """
    if value >= key.maximum:
        return key.maximum
    if key.unit != "B/s":
        exact = Decimal(repr(value))
        digit = Decimal(1).scaleb(exact.adjusted() - 1)
        if key.is_whole:
            digit = max(digit, Decimal(1))
        return min(float((exact / digit).to_integral_value(ROUND_CEILING) * digit), key.maximum)
    number, is_decimal = ceil(value), decimal and value < 2**52
    size, _ = measuring_unit(key, number, decimal=is_decimal)
    larger = size * (1000 if is_decimal else 1024)
    step = max(1, int(size * next((step for below, step in _STEPS if number < below * size), Fraction(10))))
    rounded = -(-number // step) * step
    # What has more than 1000 of a unit is one of the next unit.
    return min(float(larger if rounded > 1000 * size and number <= larger else rounded), key.maximum)


_NAMES: Final = tuple(Column(name, ColumnKind.NAME) for name in ("entity", "cluster", "key"))
_COLUMNS: Final[Columns] = (
    *_NAMES, "action", "now", "proposed", "chart", Column("rate", ColumnKind.PAGE),
    *(Column(name, ColumnKind.DETAIL) for name in ("why", "measured", "note")), Column("days", ColumnKind.PAGE),
)  # fmt: skip
_OTHERS: Final[Columns] = (*_NAMES, "action", "now", Column("rate", ColumnKind.PAGE), "why")
_COLOURS: Final = {Advice.CREATE: "green", Advice.UPDATE: "yellow", Advice.DELETE: "red"}
_MOST_UNWRITTEN: Final = 30


def recommend_report(report: Recommendations) -> Report:
    """Return what is proposed, what is not and why."""
    counts, edit = report.summary, report.edit
    about = [f"Usage {inert(report.usage)}"]
    for each in report.clusters:
        recorded = "nothing recorded"
        if each.first is not None and each.last is not None:
            recorded = f"recorded from {spell_second(each.first)} to {spell_second(each.last)}"
        about.append(f"{spell_name(each.cluster)}: {recorded}")
    rows = tuple(map(_row, report.proposals))
    rest = counts.keep + counts.none
    others = tuple((*_names(each), rate_cell(each.key, each.basis, each.before), each.reason) for each in report.others)
    backtests = (
        backtest_table(
            each.cluster, f"Backtest of the proposals for {spell_name(each.cluster)}", each.changed, is_folded=True
        )
        for each in (() if report.backtest is None else report.backtest.clusters)
    )
    files = () if edit is None or not edit.is_written else tuple(map(inert, edit.files))
    return Report(
        title="Recommended quotas",
        about=tuple(about),
        sections=sections_of(
            Table("Proposals", _COLUMNS, rows, total=counts.proposed, hint=ALL_ROWS),
            Table("Kept, or undecided", _OTHERS, others, total=rest, hint=ALL_ROWS, is_folded=True),
            *backtests,
        ),
        nothing="No value was sized.",
        notes=(*backtest_lines(report), *unwritten_lines(report), *(f"File changed: {name}" for name in files)),
        total=(
            f"Recommended: {counts.create:,} to add, {counts.update:,} to change, "
            f"{counts.delete:,} to remove; {counts.keep:,} kept, {counts.none:,} undecided."
        ),
    )


def value_of(each: Recommendation, value: float | None) -> Number:
    """Return a value of a proposal, in the units of the value now."""
    if value is None:
        return Number("none", -1.0)
    key = QUOTA_KEYS.get(each.key)
    return Number(
        render_value(key, value, decimal=is_decimal(key, value if each.before is None else each.before)), value
    )


def _names(each: Recommendation) -> tuple[Cell, ...]:
    action = Coloured(each.action.value, _COLOURS.get(each.action))
    return inert(each.entity.address), spell_name(each.cluster), inert(each.key), action, value_of(each, each.before)


def _row(each: Recommendation) -> tuple[Cell, ...]:
    before, after, basis = (value or 0.0 for value in (each.before, each.after, each.basis))
    is_drawn = not is_unlimited(QUOTA_KEYS.get(each.key), max(before, after)) and max(before, after, basis) > 0
    scale = 1.05 * max(before, after, basis)
    bar = Bar(value=basis, scale=scale, low=0.0, high=after, mark=before) if is_drawn else "-"
    where = "" if each.broker is None else f" on broker {inert(each.broker)}"
    measured = "" if each.bucket is None else f"of {inert(each.bucket)}{where}, {counted(each.samples, 'sample')}"
    proposed = value_of(each, each.after)
    rate = rate_cell(each.key, each.basis, each.before)
    days = Number(f"{each.days:.1f}", each.days)
    return (*_names(each), proposed, bar, rate, each.reason, measured, each.note or "", days)


def backtest_lines(report: Recommendations) -> Iterator[str]:
    """Yield what the proposals would have throttled, and what is not in that; nothing if it was not tested."""
    found = report.backtest
    if found is None:
        return
    if not found.clusters:
        yield "No backtest: no proposal is in the files."
    for each in found.clusters:
        cluster = spell_name(each.cluster)
        yield from (f"Backtest of {cluster}: {text}" for text in (total_text(each), *note_lines(each)))
    if found.unwritten:
        place = f" (list: {option_of('diff')})" if report.edit is None else ""
        yield f"Not in the backtest: {counted(found.unwritten, 'proposal')} not written into the files{place}."
    if found.others and found.clusters:
        others = counted(found.others, "other entity")
        yield f"Not in the backtest: {others} that the files change without a proposal (list: quotaform plan)."


def unwritten_lines(report: Recommendations) -> Iterator[str]:
    """Yield the proposals that the files do not follow, and why."""
    unwritten = () if report.edit is None else report.edit.unwritten
    for each in unwritten[:_MOST_UNWRITTEN]:
        cluster = f"{spell_name(each.cluster)} " if len(report.clusters) > 1 else ""
        yield f"Not written into the files: {cluster}{inert(each.entity.address)} {inert(each.key)}: {each.reason}"
    if (left := len(unwritten) - _MOST_UNWRITTEN) > 0:
        yield f"And {left:,} more not written into the files (all: {option_of('format')} json)"
