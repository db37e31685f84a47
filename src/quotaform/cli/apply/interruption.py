"""Interrupts of an apply: whether anything was written before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


def _never() -> bool:
    return False


@contextmanager
def noting_nothing_written(has_written: Callable[[], bool] = _never) -> Iterator[None]:
    """Note on an interrupt that nothing was written, unless something was.

    Args:
        has_written: Whether anything was or may have been written; without it nothing is in this block.
    """
    try:
        yield
    except KeyboardInterrupt as interrupt:
        if not has_written():
            interrupt.add_note("nothing was written")
        raise
