"""The backtest of a plan, whose views are imported only where there is one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from quotaform.views.style import PLAIN, Style

if TYPE_CHECKING:
    from quotaform.core.usage.backtest import ClusterBacktest


def backtest_lines(found: ClusterBacktest | None, style: Style = PLAIN) -> Iterator[str]:
    """Yield the lines of a plan about its backtest, and an empty one; none if nobody asked for it."""
    if found is not None:
        from quotaform.views.usage.backtest_text import plan_lines

        yield from plan_lines(found, style)


def backtest_section(found: ClusterBacktest | None) -> Iterator[str]:
    """Yield the section of a comment, with the buckets that its changes throttle."""
    if found is not None:
        from quotaform.views.usage.backtest_markdown import plan_section

        yield from plan_section(found)


def backtest_sentence(found: ClusterBacktest | None) -> Iterator[str]:
    """Yield that section in its shortest form."""
    if found is not None:
        from quotaform.views.usage.backtest_markdown import plan_sentence

        yield from plan_sentence(found)
