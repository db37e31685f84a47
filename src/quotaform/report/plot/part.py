"""The parts of charts, drawn: a plan's backtest, how close buckets are to their limits, and a limit over time."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from matplotlib.ticker import FuncFormatter, MaxNLocator

from quotaform.model.entity import spell_name
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.text import inert, shorten_middle
from quotaform.model.units import is_unlimited
from quotaform.report.chart import (
    BacktestPart,
    HeadroomPart,
    Limit,
    LimitPart,
    ReplayPart,
    Span,
    ThrottledTime,
    UsedLimit,
)
from quotaform.report.chart_text import bucket_label, bucket_place, key_heading, span_text, used_text, value_text
from quotaform.report.plot.sheet import (
    BLACK,
    BLUE,
    GREY,
    LIGHT,
    MARGIN,
    ORANGE,
    SKY,
    VERMILLION,
    WIDTH,
    Sheet,
    draw_curve,
    label_at_edge,
    limit_text,
    number_of,
    row_labels,
    set_rates,
    set_times,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_ROW: Final = 0.25
_HEAD: Final = 0.62
_FOOT: Final = 0.62
_COLUMNS: Final = (0.85, 2.1, 2.95, 4.55)
_NUMBERS: Final = 4.6

_REPLAY_HEAD: Final = 0.4
_RATE: Final = 1.75
_LANE: Final = 0.16
_DELAY: Final = 0.5
_SPACE: Final = 0.1
_REPLAY_FOOT: Final = 0.68
_LEFT: Final = 0.8
_EDGE: Final = 1.35

_UNITS: Final = ((86_400.0, "days"), (3_600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"))


def backtest_height(part: BacktestPart) -> float:
    """Return how high a part is, in inches."""
    return _HEAD + _ROW * len(part.rows) + _FOOT


def draw_backtest(sheet: Sheet, top: float, part: BacktestPart) -> None:
    """Draw how long buckets would have been throttled.

    Args:
        sheet: Where it is drawn.
        top: Where the part begins, in inches.
    """
    rows = part.rows
    about = "under the plan"
    if part.left_out:
        about = f"{about}; the longest {len(rows):,} of {len(rows) + part.left_out:,}"
    sheet.heading(top + 0.22, "Time throttled", about)
    left = MARGIN + sheet.label_width
    width = WIDTH - MARGIN - left - _NUMBERS
    axes = sheet.axes(left, top + _HEAD, width, _ROW * len(rows))
    axes.set_yticks(range(len(rows)), row_labels([row.bucket for row in rows]), family="monospace", fontsize=7.5)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    for number, row in enumerate(rows):
        _draw_time(axes, number, row)
    _set_durations(axes, max((max(row.high_s, row.throttled_s or 0.0, row.recorded_s) for row in rows), default=0.0))
    sheet.legend(top + backtest_height(part) - 0.3, _time_shapes())
    _write_times(sheet, left + width, top + _HEAD, rows)


def _draw_time(axes: Axes, number: int, row: ThrottledTime) -> None:
    """Draw the estimate as a bar, its bounds hatched, and what was recorded as a stroke."""
    axes.barh(number, row.throttled_s or 0.0, height=0.56, color=VERMILLION, zorder=2)
    axes.barh(number, max(0.0, row.high_s - row.low_s), left=row.low_s, height=0.56, **_POSSIBLE)
    axes.plot([row.recorded_s], [number], **_RECORDED, zorder=5, clip_on=False)


_POSSIBLE: Final[dict[str, Any]] = {
    "facecolor": "none", "edgecolor": BLACK, "hatch": "////", "linewidth": 0.6, "zorder": 3,
}  # fmt: skip
_RECORDED: Final[dict[str, Any]] = {
    "marker": "d",
    "markersize": 6,
    "color": BLACK,
    "markeredgecolor": "white",
    "linestyle": "none",
}


def _time_shapes() -> list[tuple[str, dict[str, Any]]]:
    bar: dict[str, Any] = {"marker": "s", "markersize": 8}
    return [
        ("estimate", {**bar, "color": VERMILLION, "markeredgewidth": 0}),
        ("from lower to upper bound", _POSSIBLE),
        ("recorded", _RECORDED),
    ]


def _set_durations(axes: Axes, longest: float) -> None:
    """Let the scale go from 0 to the longest time, in the unit in which people would say it."""
    size, unit = next((each for each in _UNITS if longest >= 2 * each[0]), _UNITS[-1])
    axes.set_xlim(0, 1.05 * longest or 1.0)
    step = size * _round_step(longest / size)
    axes.set_xticks([step * index for index in range(int(1.05 * longest / step) + 1)])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / size:,.10g}"))
    axes.set_xlabel(unit, fontsize=8.5, loc="right")


def _round_step(number: float) -> float:
    """Return the distance of about four marks up to a number: 1, 2 or 5 times a power of ten."""
    power = 1.0
    while power * 10 < number / 4:
        power *= 10
    while power > number / 4 > 0:
        power /= 10
    return next((power * each for each in (1, 2, 5, 10) if power * each >= number / 4), power)


def _write_times(sheet: Sheet, left: float, top: float, rows: tuple[ThrottledTime, ...]) -> None:
    """Write the numbers of each row beside it."""
    for right, text in zip(_COLUMNS, ("throttled", "bounds", "recorded", "limit"), strict=True):
        sheet.text(left + right, top - 0.06, text, ha="right", fontsize=8, color=GREY)
    for number, row in enumerate(rows):
        base = top + _ROW * (number + 0.5) + 0.04
        limits = " → ".join(value_text(row.bucket.key, each) for each in (row.before_limit, row.limit))
        bounds = f"{span_text(row.low_s)} to {span_text(row.high_s)}" if row.high_s else "-"
        throttled = "unknown" if row.throttled_s is None else span_text(row.throttled_s)
        texts = (throttled, bounds, span_text(row.recorded_s), limits)
        for right, text in zip(_COLUMNS, texts, strict=True):
            sheet.text(left + right, base, text, ha="right", fontsize=8)


def replay_height(part: ReplayPart) -> float:
    """Return how high a part is, in inches."""
    delay = _DELAY + _SPACE if part.recorded.times else 0.0
    return _REPLAY_HEAD + _RATE + _SPACE + _LANE + _SPACE + delay + _REPLAY_FOOT


def draw_replay(sheet: Sheet, top: float, part: ReplayPart) -> None:
    """Draw the rate of one bucket over time, its limits, and when it would have been throttled.

    Args:
        sheet: Where it is drawn.
        top: Where the part begins, in inches.
    """
    row = part.row
    sheet.heading(top + 0.22, *_replay_heading(row))
    width = WIDTH - 2 * MARGIN - _LEFT - _EDGE
    top += _REPLAY_HEAD
    rate = sheet.axes(MARGIN + _LEFT, top, width, _RATE)
    lane = sheet.axes(MARGIN + _LEFT, top + _RATE + _SPACE, width, _LANE)
    below = [lane]
    if part.recorded.times:
        below.append(sheet.axes(MARGIN + _LEFT, top + _RATE + _LANE + 2 * _SPACE, width, _DELAY))
        _draw_recorded(below[1], part)
    _draw_rate(rate, part)
    _draw_lane(lane, part)
    for axes in (rate, *below):
        set_times(axes, part.rate.times[0], part.rate.times[-1], shows_labels=axes is below[-1])
    sheet.legend(top + replay_height(part) - _REPLAY_HEAD - 0.31, _replay_shapes())


def _replay_heading(row: ThrottledTime) -> tuple[str, str]:
    name = bucket_label(row.bucket, 60, rows=[row.bucket])
    return name, f"{row.bucket.key}, {bucket_place(row.bucket)}"


def _draw_rate(axes: Axes, part: ReplayPart) -> None:
    """Draw the rate and the limits."""
    row = part.row
    key, highest = row.bucket.key, part.rate.highest
    limits = [limit for limit in (row.before_limit, row.limit) if limit is not None]
    end = set_rates(axes, key, highest, limits)
    draw_curve(axes, part.rate, color=BLUE, linewidth=0.9, label="rate", zorder=3)
    labels = []
    for name, limit, style, width in (
        ("limit before", row.before_limit, (0, (4, 2)), 1.2),
        ("limit after", row.limit, "-", 1.8),
    ):
        if limit is not None and limit <= end:
            axes.axhline(limit, color=BLACK, linestyle=style, linewidth=width, label=name, zorder=4)
        labels.append((end if limit is None else limit, limit_text(name, key, limit, end), BLACK))
    label_at_edge(axes, labels, end)
    for span in part.throttled:
        axes.axvspan(number_of(span.start), number_of(span.end), facecolor=ORANGE, alpha=0.35, linewidth=0, zorder=1)


def _draw_lane(axes: Axes, part: ReplayPart) -> None:
    """Draw when it would have been throttled, and when it may have been."""
    axes.set_ylim(0, 1)
    axes.set_yticks([])
    axes.tick_params(axis="x", length=0)
    axes.broken_barh(
        _widths(part.throttled), (0, 1), facecolor=VERMILLION, linewidth=0.4, edgecolor=VERMILLION, zorder=4
    )
    axes.broken_barh(_widths(part.possible), (0, 1), **_POSSIBLE)
    if not part.possible and not part.throttled:
        axes.text(0.5, 0.45, "never", transform=axes.transAxes, ha="center", va="center", fontsize=8, color=GREY)
    axes.annotate(
        "would throttle", (1, 0.5), xycoords="axes fraction", xytext=(6, 0), textcoords="offset points", va="center",
        fontsize=8, annotation_clip=False,
    )  # fmt: skip


def _widths(spans: tuple[Span, ...]) -> list[tuple[float, float]]:
    return [(number_of(span.start), number_of(span.end) - number_of(span.start)) for span in spans]


def _draw_recorded(axes: Axes, part: ReplayPart) -> None:
    """Draw the throttle time that was recorded."""
    times = [number_of(at) for at in part.recorded.times]
    axes.vlines(times, 0, part.recorded.values, color=BLACK, linewidth=0.8, label="recorded throttle time")
    axes.set_ylim(0, 1.1 * part.recorded.highest or 1.0)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=2))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axes.set_ylabel("ms", fontsize=8.5)
    axes.annotate(
        "recorded\nthrottle time", (1, 0.5), xycoords="axes fraction", xytext=(6, 0), textcoords="offset points",
        va="center", fontsize=8, annotation_clip=False,
    )  # fmt: skip


def _replay_shapes() -> list[tuple[str, dict[str, Any]]]:
    return [
        ("rate", {"linestyle": "-", "color": BLUE}),
        ("limit after", {"linestyle": "-", "color": BLACK, "linewidth": 1.8}),
        ("limit before", {"linestyle": (0, (4, 2)), "color": BLACK, "linewidth": 1.2}),
        ("would throttle", {"marker": "s", "markersize": 8, "color": VERMILLION, "markeredgewidth": 0}),
        ("may throttle", _POSSIBLE),
    ]


_HEADROOM_COLUMNS: Final = (0.62, 1.5, 2.42)
_HEADROOM_NUMBERS: Final = 2.55
_BESIDE: Final = 0.45
"""How many inches are between the words at the limit and at 80% of it at least."""
_HIGHEST: Final = 250.0
"""Percents that the scale goes up to at most; what is higher is an arrow at the edge and a number."""


def headroom_height(part: HeadroomPart) -> float:
    """Return how high a part is, in inches."""
    return _HEAD + _ROW * len(part.rows) + _FOOT


def draw_headroom(sheet: Sheet, top: float, part: HeadroomPart) -> None:
    """Draw one key.

    Args:
        sheet: Where it is drawn.
        top: Where the part begins, in inches.
    """
    rows = part.rows
    name, about = key_heading(part.key)
    if part.left_out:
        about = f"{about}; the closest {len(rows):,} of {len(rows) + part.left_out:,}"
    sheet.heading(top + 0.22, name, about)
    left = MARGIN + sheet.label_width
    width = WIDTH - MARGIN - left - _HEADROOM_NUMBERS
    axes = sheet.axes(left, top + _HEAD, width, _ROW * len(rows))
    highest = max((100 * row.max / row.limit for row in rows), default=0.0)
    edge = min(max(112.0, highest * 1.04), _HIGHEST)
    axes.set_xlim(0, edge)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    for number, row in enumerate(rows):
        _draw_row(axes, number, row, edge)
    _draw_limit(axes)
    _draw_labels(axes, part)
    sheet.legend(top + headroom_height(part) - 0.3, _shapes(has_throttled=any(row.throttled_s for row in rows)))
    _write_numbers(sheet, left + width, top + _HEAD, rows)


def _draw_row(axes: Axes, number: int, row: UsedLimit, edge: float) -> None:
    """Draw the percentiles of a bucket; those of a throttled one in another colour, and with another shape."""
    p50, p95, p99, highest = (min(100 * each / row.limit, edge) for each in (row.p50, row.p95, row.p99, row.max))
    is_throttled = row.throttled_s > 0
    colour = VERMILLION if is_throttled else BLUE
    axes.plot([p50, highest], [number, number], color=GREY, linewidth=1, zorder=2)
    axes.plot(
        [p50], [number], "o", markersize=5, markerfacecolor="white", markeredgecolor=GREY, zorder=3, clip_on=False
    )
    axes.plot([p95], [number], "o", markersize=5, color=SKY, markeredgecolor=BLACK, markeredgewidth=0.4, zorder=4)
    shape: dict[str, Any] = {"marker": "X", "markersize": 8.5} if is_throttled else {"marker": "D", "markersize": 6}
    axes.plot(
        [p99], [number], color=colour, markeredgecolor="white", markeredgewidth=0.6, zorder=5, clip_on=False, **shape
    )
    end = ">" if 100 * row.max / row.limit > edge else "|"
    axes.plot([highest], [number], marker=end, markersize=8, color=BLACK, zorder=3, clip_on=False)


def _draw_limit(axes: Axes) -> None:
    """Draw the limit as a line, and the share of it from which a bucket counts as close to it."""
    axes.axvline(100, color=BLACK, linewidth=1.6, zorder=1, label="limit")
    axes.axvline(80, color=GREY, linewidth=0.8, linestyle=(0, (2, 2)), zorder=1, label="close")
    axes.axvspan(100, axes.get_xlim()[1], facecolor="none", edgecolor=LIGHT, hatch="////", linewidth=0, zorder=0)
    inches = axes.get_position().width * WIDTH * 20 / axes.get_xlim()[1]
    for at, text, weight in ((100, "limit", "bold"), (80, "80%", "normal"))[: 2 if inches > _BESIDE else 1]:
        axes.annotate(
            text, (at, 1), xycoords=("data", "axes fraction"), xytext=(0, 3), textcoords="offset points",
            ha="center", va="bottom", fontsize=8, weight=weight, annotation_clip=False,
        )  # fmt: skip


def _draw_labels(axes: Axes, part: HeadroomPart) -> None:
    """Name the rows and the scale."""
    rows = part.rows
    axes.set_yticks(range(len(rows)), row_labels([row.bucket for row in rows]), family="monospace", fontsize=7.5)
    axes.tick_params(axis="y", length=0)
    for number in range(len(rows)):
        axes.axhline(number, color=LIGHT, linewidth=0.5, zorder=0)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=8, steps=[1, 2, 2.5, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}%"))
    axes.set_xlabel("share of the limit", fontsize=8.5, loc="right")


def _shapes(*, has_throttled: bool) -> list[tuple[str, dict[str, Any]]]:
    """Return what the shapes mean."""
    shapes: list[tuple[str, dict[str, Any]]] = [
        ("p50", {"marker": "o", "markersize": 5, "markerfacecolor": "white", "markeredgecolor": GREY}),
        ("p95", {"marker": "o", "markersize": 5, "color": SKY, "markeredgecolor": BLACK, "markeredgewidth": 0.4}),
        ("p99", {"marker": "D", "markersize": 6, "color": BLUE, "markeredgewidth": 0}),
    ]
    if has_throttled:
        shapes.append(("p99, throttled", {"marker": "X", "markersize": 8, "color": VERMILLION, "markeredgewidth": 0}))
    return [*shapes, ("highest", {"marker": "|", "markersize": 8, "color": BLACK})]


def _write_numbers(sheet: Sheet, left: float, top: float, rows: tuple[UsedLimit, ...]) -> None:
    """Write the numbers of each row beside it."""
    for right, text in zip(_HEADROOM_COLUMNS, ("p99", "limit", "throttled"), strict=True):
        sheet.text(left + right, top - 0.06, text, ha="right", fontsize=8, color=GREY)
    for number, row in enumerate(rows):
        base = top + _ROW * (number + 0.5) + 0.04
        texts = (used_text(row), value_text(row.bucket.key, row.limit), span_text(row.throttled_s))
        for right, text in zip(_HEADROOM_COLUMNS, texts, strict=True):
            weight = "bold" if row.throttled_s or row.used >= 0.8 else "normal"
            sheet.text(left + right, base, text, ha="right", fontsize=8, weight=weight)


_LIMIT_HEAD: Final = 0.5
_HEIGHT: Final = 1.7
_NARROW: Final = 0.085
"""A value that was there for a smaller share of the time has no label of its own."""


def limit_height(part: LimitPart) -> float:
    """Return how high a part is, in inches."""
    return _LIMIT_HEAD + _HEIGHT + _FOOT


def draw_limit(sheet: Sheet, top: float, part: LimitPart) -> None:
    """Draw the limit of one entity and key.

    Args:
        sheet: Where it is drawn.
        top: Where the part begins, in inches.
    """
    name = shorten_middle(inert(part.address), 60)
    sheet.heading(top + 0.22, name, f"{inert(part.key)}, cluster {spell_name(part.cluster)}")
    axes = sheet.axes(MARGIN + _LEFT, top + _LIMIT_HEAD, WIDTH - 2 * MARGIN - _LEFT - _EDGE, _HEIGHT)
    start = min([part.limits[0].start, *part.usage.times[:1]])
    until = max([part.until, *part.usage.times[-1:]])
    known = QUOTA_KEYS.get(part.key)
    drawn = [limit for limit in part.limits if not is_unlimited(known, limit.value)]
    end = set_rates(axes, part.key, 0.0, [part.usage.highest, *(limit.value for limit in drawn)])
    labels: list[tuple[float, str, str]] = []
    if part.usage.times:
        draw_curve(axes, part.usage, color=BLUE, linewidth=0.8, label="rate", zorder=2)
        labels.append((part.usage.values[-1], "rate", BLACK))
    _draw_steps(axes, drawn, part.until, until)
    last = part.limits[-1]
    if last.end is None:
        labels.append(
            (
                end if is_unlimited(known, last.value) else last.value,
                f"limit\n{value_text(part.key, last.value)}",
                BLACK,
            )
        )
    label_at_edge(axes, labels, end)
    if not drawn and not part.usage.times:
        axes.set_yticks([])
    set_times(axes, start, until)
    _write_values(axes, part, start, until, end)


def _draw_steps(axes: Axes, limits: list[Limit], known_until: datetime, until: datetime) -> None:
    """Draw values as level lines, and a thin upright one where a value follows another at once.

    A value that the last snapshot has is dashed from there on: nobody has looked since.
    """
    before: Limit | None = None
    for limit in limits:
        start = number_of(limit.start)
        axes.plot(
            [start, number_of(limit.end or known_until)],
            [limit.value] * 2,
            color=BLACK,
            linewidth=2,
            label="limit",
            zorder=4,
        )
        if limit.end is None and until > known_until:
            later = [number_of(known_until), number_of(until)]
            axes.plot(
                later, [limit.value] * 2, color=BLACK, linewidth=1.4, linestyle=(0, (4, 2)), zorder=4, label="open"
            )
        if before is not None and before.end == limit.start:
            axes.plot([start] * 2, [before.value, limit.value], color=BLACK, linewidth=0.8, zorder=4)
        before = limit


def _write_values(axes: Axes, part: LimitPart, start: datetime, until: datetime, end: float) -> None:
    """Write values at their lines, and `no value` where there is none, as far as there is room."""
    known = QUOTA_KEYS.get(part.key)
    whole = (until - start).total_seconds() or 1.0
    at = part.limits[0].start
    for limit in part.limits:
        if (limit.start - at).total_seconds() > _NARROW * whole:
            _write(axes, at, 0.0, "no value of its own", GREY)
        if limit.end is not None and (limit.end - limit.start).total_seconds() > _NARROW * whole:
            is_over = is_unlimited(known, limit.value)
            _write(axes, limit.start, 0.9 * end if is_over else limit.value, value_text(part.key, limit.value), BLACK)
        at = limit.end or until
    if (part.until - at).total_seconds() > _NARROW * whole:
        _write(axes, at, 0.0, "no value of its own", GREY)


def _write(axes: Axes, at: datetime, value: float, text: str, colour: str) -> None:
    axes.annotate(
        text, (number_of(at), value), xytext=(4, 5), textcoords="offset points", fontsize=8, color=colour,
        bbox={"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.75}, zorder=5,
    )  # fmt: skip
