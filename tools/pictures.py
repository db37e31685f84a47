"""The pictures of docs/pictures.md, of the example recording that tests draw.

`make docs` draws them (`python -m tools.pictures docs/images`); a test says when they are out of date.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from quotaform.report.chart import Chart
from quotaform.report.picture import chart_svg
from tests.usage_chart import backtest_example, headroom_example, history_example

PICTURES: Final[Mapping[str, Callable[[], Chart]]] = {
    "backtest.svg": backtest_example,
    "headroom.svg": headroom_example,
    "history.svg": history_example,
}
"""What is drawn, by file name."""


def main() -> None:
    """Draw the pictures into the folder whose path is given."""
    folder = Path(sys.argv[1])
    for name, chart in PICTURES.items():
        (folder / name).write_text(chart_svg(chart()), encoding="utf-8")


if __name__ == "__main__":
    main()
