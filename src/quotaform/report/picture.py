"""Pictures of charts: one with all parts, or one of each part for a page."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from quotaform.report.chart import BacktestPart, Chart, HeadroomPart, LimitPart, Part, ReplayPart
from quotaform.report.plot.library import drawable, png_bytes, settings, svg_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from quotaform.report.plot.sheet import Sheet


_TITLE: Final = 0.45
_END: Final = 0.25


def chart_png(chart: Chart) -> bytes:
    """Return a chart as one picture in PNG.

    Raises `QuotaformError` if matplotlib is not installed.
    """
    with settings():
        return png_bytes(draw_chart(chart))


def chart_svg(chart: Chart) -> str:
    """Return a chart as one picture in SVG.

    Raises `QuotaformError` if matplotlib is not installed.
    """
    with settings():
        return svg_text(draw_chart(chart), chart.title)


def part_svgs(chart: Chart) -> list[str]:
    """Return a picture in SVG of each part of a chart.

    Raises `QuotaformError` if matplotlib is not installed.
    """
    with settings():
        return [svg_text(draw_part(part), chart.title) for part in chart.parts]


def draw_chart(chart: Chart) -> Figure:
    """Return a figure with the title and all parts of a chart; to be called and saved in `library.settings`."""
    from quotaform.report.plot.sheet import GREY, MARGIN, Sheet, lines_height

    heights = [_height(part) for part in chart.parts]
    about = tuple(drawable(line) for line in chart.about)
    end = chart.notes if chart.parts else (chart.nothing, *chart.notes)
    sheet = Sheet(_TITLE + lines_height(about) + 0.1 + sum(heights) + lines_height(end) + _END, _longest(chart.parts))
    sheet.text(MARGIN, 0.38, drawable(chart.title), weight="bold", fontsize=13)
    top = sheet.lines(_TITLE, about, color=GREY, fontsize=8.5) + 0.1
    for part, height in zip(chart.parts, heights, strict=True):
        _draw(sheet, top, part)
        top += height
    sheet.lines(top, tuple(drawable(line) for line in end), fontsize=8.5)
    return sheet.figure


def draw_part(part: Part) -> Figure:
    """Return a figure of one part of a chart; to be called and saved in `library.settings`."""
    from quotaform.report.plot.sheet import Sheet

    sheet = Sheet(_height(part), _longest((part,)))
    _draw(sheet, 0.0, part)
    return sheet.figure


def _longest(parts: tuple[Part, ...]) -> int:
    """Return how many characters the longest name of a row has."""
    from quotaform.report.plot.sheet import row_labels

    rows = [part.rows for part in parts if isinstance(part, HeadroomPart | BacktestPart)]
    return max((len(label) for each in rows for label in row_labels([row.bucket for row in each])), default=0)


def _height(part: Part) -> float:
    return _functions(part)[0](part)


def _draw(sheet: Sheet, top: float, part: Part) -> None:
    _functions(part)[1](sheet, top, part)


def _functions(part: Part) -> tuple[Callable[[Any], float], Callable[[Sheet, float, Any], None]]:
    """Return what says how high a part is, and what draws it."""
    from quotaform.report.plot import part as backtest
    from quotaform.report.plot import part as headroom
    from quotaform.report.plot import part as history

    functions: dict[type[Part], tuple[Callable[[Any], float], Callable[[Sheet, float, Any], None]]] = {
        HeadroomPart: (headroom.headroom_height, headroom.draw_headroom),
        BacktestPart: (backtest.backtest_height, backtest.draw_backtest),
        ReplayPart: (backtest.replay_height, backtest.draw_replay),
        LimitPart: (history.limit_height, history.draw_limit),
    }
    return functions[type(part)]
