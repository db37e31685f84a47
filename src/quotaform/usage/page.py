"""Headroom, backtests and recommendations as pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from quotaform.model.entity import spell_name
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.text import inert
from quotaform.model.units import is_unlimited
from quotaform.plan.backtest import Backtest, BucketBacktest, ClusterBacktest
from quotaform.plan.backtest_report import note_lines, total_text
from quotaform.report.html import render_html
from quotaform.report.report import Bar, Cell, Level, Number, Plot, Report, Section, Span, Table, curve_of
from quotaform.report.text import minute_text, rate_text, span_text, value_text
from quotaform.usage.headroom.headroom import BucketUse, Headroom, HeadroomStatus
from quotaform.usage.headroom.report import noisy_words, not_assessed_lines, percent, span_words, total_words
from quotaform.usage.recommend.recommendation import Recommendation, RecommendReport
from quotaform.usage.recommend.report import limit_lines, recording_text
from quotaform.usage.recommend.report import total_text as proposed_text

MOST_REPLAYS: Final = 6
"""How many buckets are drawn over time."""
_HIGHEST: Final = 2.5
"""The share of a limit at the right edge of a bar, at most."""


def render_headroom_html(found: Headroom) -> Iterator[str]:
    """Yield how close clients are to their quotas as a page: a table per quota key, the closest to the limit first."""
    keys = dict.fromkeys(each.key for each in found.buckets)
    sections = [Section(_headroom_table(key, [each for each in found.buckets if each.key == key])) for key in keys]
    if found.unused:
        rows = tuple(
            (
                each.entity,
                spell_name(each.cluster),
                inert(each.key),
                _value(each.key, each.value),
                _span(each.recorded_s),
            )
            for each in found.unused
        )
        columns = ("entity", "cluster", "key", "value", "recorded for")
        sections.append(Section(Table("Unused values: they limited no recorded client", columns, rows)))
    report = Report(
        title="Headroom of client quotas",
        about=(f"Usage {inert(found.usage)}: {span_words(found)}", total_words(found)),
        sections=tuple(sections),
        nothing="Nothing that was recorded has a limit.",
        notes=(*(f"{noisy_words(each)}." for each in found.noisy), *not_assessed_lines(found)),
    )
    return render_html(report)


def _headroom_table(key: str, rows: Sequence[BucketUse]) -> Table:
    known = QUOTA_KEYS.get(key)
    about = "" if known is None else f": {known.limits}, per {known.per}"
    scale = min(max([1.1, *((each.maximum or 0.0) / each.limit for each in rows if each.limit)]), _HIGHEST)
    columns = (
        "bucket", "cluster", "broker", "status", "limit", "p99 of the limit", "chart", "p50", "p95", "p99", "highest",
        "throttled", "recorded",
    )  # fmt: skip
    return Table(f"{inert(key)}{about}", columns, tuple(_headroom_row(each, scale) for each in rows))


def _headroom_row(each: BucketUse, scale: float) -> tuple[Cell, ...]:
    used, limit = each.used_ratio, each.limit
    bar = Bar(
        value=used or 0.0,
        scale=scale,
        low=(each.p50 or 0.0) / limit if limit else None,
        high=(each.maximum or 0.0) / limit if limit else None,
        mark=1.0,
        is_severe=each.status is HeadroomStatus.THROTTLED,
    )
    share = "-" if used is None else f"{'≤ ' if each.is_coarse else ''}{percent(used)}"
    rates = (
        Number("-", -1.0) if rate is None else Number(rate_text(each.key, rate, limit), rate)
        for rate in (each.p50, each.p95, each.p99, each.maximum)
    )
    return (
        *_bucket(each.bucket, each.cluster, each.broker), each.status.value, _value(each.key, limit),
        Number(share, -1.0 if used is None else used), bar, *rates, _span(each.throttled_s), _span(each.recorded_s),
    )  # fmt: skip


def _bucket(address: str, cluster: str | None, broker: str | None) -> tuple[str, str, str]:
    where = "-" if cluster is None else spell_name(cluster)
    return inert(address) or "all requests", where, "-" if broker is None else inert(broker)


def _value(key: str, value: float | None) -> Number:
    is_finite = value is not None and not is_unlimited(QUOTA_KEYS.get(key), value)
    return Number(value_text(key, value), value if is_finite and value is not None else 1e300)


def _span(seconds: float | None) -> Number:
    return Number("unknown", -1.0) if seconds is None else Number(span_text(seconds), seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """Who shares one limit, and where it holds."""

    cluster: str | None  # The name of the cluster; `None` if it is not known
    broker: str | None  # The broker; `None` for a key whose limit holds for the whole cluster
    key: str
    address: str  # The address of the bucket, such as `user=alice,client-id=app`


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySlot:
    """What would have happened to a bucket in a slot of time."""

    at: datetime  # The time of the last sample in it
    rate: float  # The highest rate, in the unit of the key
    throttle_ms: float | None = None  # The highest throttle time that was recorded; `None` if there was none
    waits: Span | None = None  # From when to when requests would have waited; `None` for not at all
    may_wait: Span | None = None  # The same by the upper bound


@dataclass(frozen=True, slots=True)
class Replays:
    """What would have happened to some buckets over time."""

    slots: Mapping[Bucket, tuple[ReplaySlot, ...]] = field(default_factory=dict)
    step_s: float = 1.0  # How long a slot is, in seconds


_Row = tuple[str, BucketBacktest]
"""A cluster, and one of its buckets."""


def drawn_buckets(found: Backtest) -> list[_Row]:
    """Return the buckets that are drawn over time, those that the plan changes first: who would wait longest.

    A bucket is drawn once, as on the broker where it would wait longest. Without a limit there is nothing to see, and
    of a recording that is too coarse nothing is known.
    """
    drawn: dict[tuple[str, str, str], _Row] = {}
    changed = [(each.cluster, row) for each in found.clusters for row in each.changed.rows]
    others = [(each.cluster, row) for each in found.clusters for row in each.unchanged.rows]
    for cluster, row in (*sorted(changed, key=_by_time), *sorted(others, key=_by_time)):
        if row.limit is not None and not row.is_coarse:
            drawn.setdefault((cluster, row.key, row.bucket), (cluster, row))
    return list(drawn.values())[:MOST_REPLAYS]


def _by_time(found: _Row) -> tuple[float, float, float]:
    row = found[1]
    return -(row.throttled_s.value or 0.0), -row.throttled_s.high, -row.recorded_throttled_s


def bucket_of(found: _Row) -> Bucket:
    """Return the bucket of a row."""
    cluster, row = found
    return Bucket(cluster=cluster, broker=row.broker, key=row.key, address=row.bucket)


def render_backtest_html(found: Backtest, replays: Replays = Replays()) -> Iterator[str]:
    """Yield the time throttled of all buckets that are listed, and of some over time, as a page.

    `replays` is what would have happened to `drawn_buckets`.
    """
    rows = sorted(
        ((each.cluster, row) for each in found.clusters for row in (*each.changed.rows, *each.unchanged.rows)),
        key=_by_time,
    )
    notes = []
    for each in found.clusters:
        cluster = "" if len(found.clusters) == 1 else f"{spell_name(each.cluster)}: "
        notes += [f"{cluster}{text}" for text in (total_text(each), *note_lines(each))]
    plots = [
        plot
        for row in drawn_buckets(found)
        if (slots := replays.slots.get(bucket_of(row)))
        for plot in _replay_plots(row, slots, replays.step_s)
    ]
    report = Report(
        title="Backtest of quotas",
        about=tuple(_recorded(each, is_one=len(found.clusters) == 1) for each in found.clusters),
        sections=(Section(_backtest_table(rows), tuple(plots)),) if rows else (),
        nothing="Nobody would have been throttled, and nobody was.",
        notes=tuple(notes),
    )
    return render_html(report)


def _backtest_table(rows: Sequence[_Row]) -> Table:
    columns = (
        "bucket", "cluster", "broker", "key", "limit before", "limit after", "throttled", "chart", "lower bound",
        "upper bound", "longest wait", "recorded", "demand hidden", "first", "last",
    )  # fmt: skip
    longest = max((max(row.throttled_s.high, row.recorded_throttled_s) for _, row in rows), default=0.0) or 1.0
    return Table("Time throttled under the plan", columns, tuple(_backtest_row(*each, longest) for each in rows))


def _backtest_row(cluster: str, row: BucketBacktest, longest: float) -> tuple[Cell, ...]:
    time = row.throttled_s
    bar = Bar(
        value=time.value or 0.0,
        scale=longest,
        low=time.low,
        high=time.high,
        mark=row.recorded_throttled_s,
        is_severe=bool(time.value),
    )
    return (
        *_bucket(row.bucket, cluster, row.broker), inert(row.key), _value(row.key, row.before),
        _value(row.key, row.limit), _span(time.value), bar, _span(time.low), _span(time.high),
        _span(row.delay_s.value), _span(row.recorded_throttled_s), _span(row.hidden_s), minute_text(row.first),
        minute_text(row.last),
    )  # fmt: skip


def _replay_plots(found: _Row, slots: Sequence[ReplaySlot], step_s: float) -> Iterator[Plot]:
    """Yield the rate of a bucket with its limits over time, and the throttle time that was recorded."""
    cluster, row = found
    name, where, broker = _bucket(row.bucket, cluster, row.broker)
    of = f"{name}, {inert(row.key)}, cluster {where}, broker {broker}"
    rate = curve_of([(slot.at, slot.rate) for slot in slots], step_s)
    gap = timedelta(seconds=rate.step_s)
    levels = (("limit after", row.limit), ("limit before", row.before))
    start, end = slots[0].at, slots[-1].at
    yield Plot(
        caption=of,
        key=row.key,
        curve=rate,
        levels=tuple(Level(name, value) for name, value in levels if value is not None),
        severe=("would throttle", joined([slot.waits for slot in slots if slot.waits is not None], gap)),
        possible=("may throttle", joined([slot.may_wait for slot in slots if slot.may_wait is not None], gap)),
        start=start,
        end=end,
    )
    recorded = [(slot.at, slot.throttle_ms) for slot in slots if slot.throttle_ms is not None]
    if recorded:
        curve = curve_of(recorded, step_s)
        yield Plot(caption=f"{of}: recorded", key=None, name="throttle time", curve=curve, start=start, end=end)


def joined(spans: Sequence[Span], gap: timedelta) -> tuple[Span, ...]:
    """Return spans with those as one between which there is less than a step: what is between slots is not known."""
    found: list[Span] = []
    for span in spans:
        if found and span.start - found[-1].end < gap:
            found[-1] = Span(found[-1].start, max(found[-1].end, span.end))
        else:
            found.append(span)
    return tuple(found)


def _recorded(found: ClusterBacktest, *, is_one: bool) -> str:
    about = f"Usage {inert(found.usage)}, cluster {spell_name(found.cluster)}"
    if found.first is None:
        return f"{about}: nothing recorded"
    text = f"{about}: {minute_text(found.first)} to {minute_text(found.last)} UTC"
    return f"{text}, plan {found.plan_id.removeprefix('sha256:')[:8]}" if is_one else text


def render_recommendations_html(report: RecommendReport) -> Iterator[str]:
    """Yield what is proposed, what is not and why, as a page."""
    rows = tuple(map(_recommendation_row, (*report.proposals, *report.others)))
    columns = (
        "entity",
        "cluster",
        "key",
        "action",
        "now",
        "proposed",
        "chart",
        "rate",
        "why",
        "note",
        "bucket",
        "days",
    )
    tested = () if report.backtest is None else report.backtest.clusters
    page = Report(
        title="Recommended quotas",
        about=(f"Usage {inert(report.usage)}", *map(recording_text, report.clusters), proposed_text(report)),
        sections=(Section(Table("Values", columns, rows)),) if rows else (),
        nothing="No value was sized.",
        notes=(
            *(f"Backtest of {spell_name(each.cluster)}: {total_text(each)}" for each in tested),
            *limit_lines(report),
        ),
    )
    return render_html(page)


def _recommendation_row(each: Recommendation) -> tuple[Cell, ...]:
    before, after, basis = (value or 0.0 for value in (each.before, each.after, each.basis))
    is_unlimited_value = is_unlimited(QUOTA_KEYS.get(each.key), max(before, after))
    scale = 1.05 * max(basis, *(() if is_unlimited_value else (before, after)), 0.0)
    chart: Cell = (
        "-" if not scale or is_unlimited_value else Bar(value=basis, scale=scale, low=0.0, high=after, mark=before)
    )
    rate = Number("-", -1.0) if each.basis is None else Number(rate_text(each.key, each.basis, each.before), each.basis)
    values = (
        Number("not set", -1.0) if value is None else Number(value_text(each.key, value), value)
        for value in (each.before, each.after)
    )
    return (
        each.entity.address, spell_name(each.cluster), inert(each.key), each.action.value, *values, chart, rate,
        each.reason, each.note or "-", inert(each.bucket or "-"), Number(f"{each.days:.1f}", each.days),
    )  # fmt: skip
