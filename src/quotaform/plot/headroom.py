"""How close buckets are to their limits: a row for each, on one scale of percents of the limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from matplotlib.ticker import FuncFormatter, MaxNLocator

from quotaform.core.usage.chart.chart import HeadroomPart, UsedLimit
from quotaform.core.usage.chart.label import key_heading, span_text, used_text, value_text
from quotaform.plot.sheet import BLACK, BLUE, GREY, LIGHT, MARGIN, SKY, VERMILLION, WIDTH, Sheet, row_labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ROW: Final = 0.25
_HEAD: Final = 0.62
_FOOT: Final = 0.62
_COLUMNS: Final = (0.62, 1.5, 2.42)
_NUMBERS: Final = 2.55
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
    width = WIDTH - MARGIN - left - _NUMBERS
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
    for right, text in zip(_COLUMNS, ("p99", "limit", "throttled"), strict=True):
        sheet.text(left + right, top - 0.06, text, ha="right", fontsize=8, color=GREY)
    for number, row in enumerate(rows):
        base = top + _ROW * (number + 0.5) + 0.04
        texts = (used_text(row), value_text(row.bucket.key, row.limit), span_text(row.throttled_s))
        for right, text in zip(_COLUMNS, texts, strict=True):
            weight = "bold" if row.throttled_s or row.used >= 0.8 else "normal"
            sheet.text(left + right, base, text, ha="right", fontsize=8, weight=weight)
