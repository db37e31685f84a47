"""The files in which charts are written: pictures, and a page of pictures and tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from quotaform.core.usage.chart.chart import Chart


def _png(chart: Chart) -> bytes:
    from quotaform.plot.picture import chart_png

    return chart_png(chart)


def _svg(chart: Chart) -> bytes:
    from quotaform.plot.picture import chart_svg

    return chart_svg(chart).encode()


def _html(chart: Chart) -> bytes:
    from quotaform.plot.picture import part_svgs
    from quotaform.views.usage.chart_html import render_chart_html

    return render_chart_html(chart, part_svgs(chart)).encode()


PICTURES: Final[Mapping[str, Callable[[Chart], bytes]]] = {"html": _html, "png": _png, "svg": _svg}
"""Format to what draws a chart in it, which needs matplotlib."""

DRAWN: Final = frozenset({"history", "usage-backtest", "usage-headroom"})
"""The subjects of which there are charts."""
