"""A figure that is laid out in inches from its upper left corner, so that nothing overlaps however much there is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from quotaform.core.usage.chart.chart import Bucket
from quotaform.core.usage.chart.label import bucket_label
from quotaform.model.text import inert
from quotaform.plot.library import drawable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

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
