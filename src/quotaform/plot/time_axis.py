"""Axes whose horizontal scale is time in UTC, and curves on them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from math import nan
from typing import TYPE_CHECKING, Any, Final

from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.ticker import FuncFormatter, MaxNLocator

from quotaform.core.usage.chart.label import value_text
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.units import measuring_unit
from quotaform.plot.sheet import LIGHT

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from quotaform.core.usage.chart.chart import Curve

_FAR: Final = 3.0
"""A limit that is so many times the highest rate is not on the scale, where the rates would be a flat line."""
_MOMENT: Final = timedelta(minutes=1)
"""What is around a single time."""
_FEW: Final = 60
"""A curve of at most so many points shows each of them, as one between two gaps has no line."""
_LINE: Final = 0.15
"""How high a line of a label is, in inches."""
_FORMATS: Final[dict[str, Any]] = {
    "formats": ["%Y", "%Y-%m", "%m-%d", "%H:%M", "%H:%M", "%H:%M:%S"],
    "zero_formats": ["%Y", "%Y", "%m-%d", "%m-%d", "%H:%M", "%H:%M:%S"],
    "offset_formats": ["", "", "%Y", "%Y-%m-%d", "%Y-%m-%d", "%Y-%m-%d"],
}
"""How times are written at years, months, days, hours, minutes and seconds, and what is written once for all."""


class _UtcFormatter(ConciseDateFormatter):  # type: ignore[misc]
    """Says that times are in UTC."""

    def get_offset(self) -> str:
        """Return what is written once for all marks."""
        return f"{super().get_offset()} UTC".strip()


def number_of(at: datetime) -> float:
    """Return a time as matplotlib has it."""
    return float(date2num(at.astimezone(UTC)))


def set_times(axes: Axes, start: datetime, end: datetime, *, shows_labels: bool = True) -> None:
    """Let a scale go from a time to another, with dates in UTC if it is the lowest one."""
    if end <= start:
        start, end = start - _MOMENT, start + _MOMENT
    axes.set_xlim(number_of(start), number_of(end))
    locator = AutoDateLocator(tz=UTC, minticks=4)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(_UtcFormatter(locator, tz=UTC, **_FORMATS))
    axes.tick_params(axis="x", labelbottom=shows_labels)
    axes.grid(axis="x", color=LIGHT, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.xaxis.get_offset_text().set(fontsize=8, visible=shows_labels)


def set_rates(axes: Axes, key: str, highest: float, limits: Sequence[float]) -> float:
    """Let a scale go from 0 to a little more than the highest rate and the limits near it, and return its end.

    Args:
        key: The quota key, which has the unit.
        highest: The highest rate; 0 if there is none.
        limits: The limits; one that is far above all rates is left out.
    """
    near = [limit for limit in limits if highest <= 0 or limit <= _FAR * highest]
    end = 1.12 * max([highest, *near], default=0.0) or 1.0
    size, unit = measuring_unit(QUOTA_KEYS.get(key), end)
    axes.set_ylim(0, end)
    axes.yaxis.set_major_locator(_scaled_locator(size))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / size:,.10g}"))
    axes.set_ylabel(
        unit if unit.endswith("B/s") else {"%": "% of one thread", "/s": "per second"}.get(unit, unit), fontsize=8.5
    )
    axes.grid(axis="y", color=LIGHT, linewidth=0.6)
    return end


def _scaled_locator(size: int) -> MaxNLocator:
    """Return what finds round numbers of a unit of this size."""

    class Scaled(MaxNLocator):  # type: ignore[misc]
        def tick_values(self, vmin: float, vmax: float) -> Any:
            return [each * size for each in super().tick_values(vmin / size, vmax / size)]

    return Scaled(nbins=5, steps=[1, 2, 2.5, 5, 10])


def draw_curve(axes: Axes, curve: Curve, **style: Any) -> None:
    """Draw values over time, without a line where there is a gap."""
    points = list(curve.with_gaps())
    times = [number_of(at) for at, _ in points]
    marker = "." if len(points) <= _FEW else ""
    axes.plot(times, [nan if value is None else value for _, value in points], marker=marker, **style)


def limit_text(name: str, key: str, limit: float | None, end: float) -> str:
    """Return the label of a limit; an arrow says that it is above the scale."""
    arrow = " ↑" if limit is not None and limit > end else ""
    return f"{name}\n{value_text(key, limit)}{arrow}"


def label_at_edge(axes: Axes, labels: Sequence[tuple[float, str, str]], end: float) -> None:
    """Write labels at the right edge, each at its height as far as there is room.

    Args:
        labels: The height of each as a value, its text, and its colour.
        end: The end of the scale.
    """
    ordered = sorted(labels)
    inches = axes.get_position().height * axes.get_figure(root=True).get_figheight()
    sizes = [_LINE * (text.count("\n") + 1) / inches for _, text, _ in ordered]
    heights = [min(max(value / end, 0.0), 1.0) for value, _, _ in ordered]
    if heights:
        heights[0] = max(heights[0], sizes[0] / 2)
    for index in range(1, len(heights)):
        heights[index] = max(heights[index], heights[index - 1] + (sizes[index - 1] + sizes[index]) / 2)
    # The highest one may be pushed over the edge, and pushes the others back then.
    for index in reversed(range(len(heights))):
        above = 1.0 if index + 1 == len(heights) else heights[index + 1] - (sizes[index] + sizes[index + 1]) / 2
        heights[index] = min(heights[index], above)
    for height, (_, text, colour) in zip(heights, ordered, strict=True):
        axes.annotate(
            text, (1, height), xycoords="axes fraction", xytext=(6, 0), textcoords="offset points", va="center",
            fontsize=8, color=colour, annotation_clip=False,
        )  # fmt: skip
