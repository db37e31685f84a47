"""The limit of an entity over time, with what it used behind it."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

from quotaform.core.usage.chart.chart import Limit, LimitPart
from quotaform.core.usage.chart.label import value_text
from quotaform.model.entity import spell_name
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.text import inert, shorten_middle
from quotaform.model.units import is_unlimited
from quotaform.plot.sheet import BLACK, BLUE, GREY, MARGIN, WIDTH, Sheet
from quotaform.plot.time_axis import draw_curve, label_at_edge, number_of, set_rates, set_times

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_HEAD: Final = 0.5
_HEIGHT: Final = 1.7
_FOOT: Final = 0.62
_LEFT: Final = 0.8
_EDGE: Final = 1.35
_NARROW: Final = 0.085
"""A value that was there for a smaller share of the time has no label of its own."""


def limit_height(part: LimitPart) -> float:
    """Return how high a part is, in inches."""
    return _HEAD + _HEIGHT + _FOOT


def draw_limit(sheet: Sheet, top: float, part: LimitPart) -> None:
    """Draw the limit of one entity and key.

    Args:
        sheet: Where it is drawn.
        top: Where the part begins, in inches.
    """
    name = shorten_middle(inert(part.address), 60)
    sheet.heading(top + 0.22, name, f"{inert(part.key)}, cluster {spell_name(part.cluster)}")
    axes = sheet.axes(MARGIN + _LEFT, top + _HEAD, WIDTH - 2 * MARGIN - _LEFT - _EDGE, _HEIGHT)
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
