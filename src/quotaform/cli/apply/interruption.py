"""Interrupts of an apply: whether anything was written before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def noting_nothing_written(has_written: Callable[[], bool]) -> Iterator[None]:
    """Note on an interrupt that nothing was written, unless something was or may have been."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        if not has_written():
            interrupt.add_note("nothing was written")
        raise
