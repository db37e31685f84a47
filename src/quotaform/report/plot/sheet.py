"""A figure that is laid out in inches, so that nothing overlaps however much there is, and axes whose scale is time
in UTC.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import nan
from typing import TYPE_CHECKING, Any, Final

from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.text import inert
from quotaform.model.units import measuring_unit
from quotaform.report.chart import Bucket
from quotaform.report.chart_text import bucket_label, value_text
from quotaform.report.plot.library import drawable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from quotaform.report.chart import Curve


BLACK: Final = "#000000"
GREY: Final = "#595959"
LIGHT: Final = "#d9d9d9"
BLUE: Final = "#0072b2"
SKY: Final = "#56b4e9"
ORANGE: Final = "#e69f00"
VERMILLION: Final = "#d55e00"
"""Colours of Okabe and Ito, which people who see fewer colours can tell apart; what they mean has a shape as well."""

WIDTH: Final = 10.5
MARGIN: Final = 0.25
LABEL_LENGTH: Final = 50
"""How many characters the name of a row has at most."""
_NAMES: Final = ("cluster", "broker", "address")
_LINE: Final = 0.19
_CHARACTER: Final = 0.0645
"""How wide a character of a row's name is, in inches."""


class Sheet:
    """One figure of a fixed width."""

    def __init__(self, height: float, longest: int = LABEL_LENGTH) -> None:
        """Make an empty figure.

        Args:
            longest: How many characters the longest name of a row has.
        """
        self.height = height
        self.label_width = max(1.3, 0.2 + _CHARACTER * longest)
        self.figure = Figure(figsize=(WIDTH, height), facecolor="white")

    def axes(self, left: float, top: float, width: float, height: float) -> Axes:
        """Return new axes.

        Args:
            left: Inches from the left edge of the figure.
            top: Inches from its upper edge.
        """
        bottom = self.height - top - height
        axes = self.figure.add_axes((left / WIDTH, bottom / self.height, width / WIDTH, height / self.height))
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        for side in ("left", "bottom"):
            axes.spines[side].set_color(GREY)
        axes.tick_params(labelsize=8, colors=BLACK, length=3)
        return axes

    def text(self, left: float, top: float, text: str, **style: Any) -> None:
        """Write a line; it is `top` inches below the upper edge, on its base line."""
        self.figure.text(left / WIDTH, 1 - top / self.height, text, **{"va": "baseline", **style})

    def heading(self, top: float, name: str, about: str) -> None:
        """Write what a part is about: a name, and words about it behind that."""
        self.text(MARGIN, top, drawable(name), weight="bold", fontsize=9.5, family="monospace")
        self.text(MARGIN + 0.0815 * len(name) + 0.2, top, about, color=GREY, fontsize=8.5)

    def legend(self, top: float, shapes: Sequence[tuple[str, dict[str, Any]]]) -> None:
        """Say what shapes mean, in a line.

        Args:
            top: Where it is, in inches.
            shapes: The words, and how a mark, or an area with a hatch, is drawn.
        """
        handles = [
            Patch(label=text, **style)
            if "hatch" in style
            else Line2D([], [], label=text, **{"linestyle": "none", **style})
            for text, style in shapes
        ]
        self.figure.legend(
            handles=handles, loc="center left", bbox_to_anchor=(MARGIN / WIDTH, 1 - top / self.height),
            ncols=len(handles), frameon=False, fontsize=8, handletextpad=0.2, columnspacing=1.2, borderaxespad=0,
            borderpad=0,
        )  # fmt: skip

    def lines(self, top: float, texts: tuple[str, ...], **style: Any) -> float:
        """Write lines below each other, and return where the next one would be."""
        for text in texts:
            top += _LINE
            self.text(MARGIN, top, text, **style)
        return top


def row_labels(buckets: Sequence[Bucket]) -> list[str]:
    """Return the names of rows."""
    # Escapes are longer than what they stand for, so that they come before anything is left out.
    shown = [
        replace(
            bucket, **{name: drawable(inert(text)) for name in _NAMES if (text := getattr(bucket, name)) is not None}
        )
        for bucket in buckets
    ]
    return [drawable(bucket_label(bucket, LABEL_LENGTH, rows=shown)) for bucket in shown]


def lines_height(texts: tuple[str, ...]) -> float:
    """Return how high lines are, in inches."""
    return _LINE * len(texts)


_FAR: Final = 3.0
"""A limit that is so many times the highest rate is not on the scale, where the rates would be a flat line."""
_MOMENT: Final = timedelta(minutes=1)
"""What is around a single time."""
_FEW: Final = 60
"""A curve of at most so many points shows each of them, as one between two gaps has no line."""
_AXIS_LINE: Final = 0.15
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
    sizes = [_AXIS_LINE * (text.count("\n") + 1) / inches for _, text, _ in ordered]
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
