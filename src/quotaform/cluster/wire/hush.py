"""Keeping what kafka-python logs on our behalf to ourselves.

Its warnings are told by our errors, and at debug level it logs requests whole, passwords included. Others in the
process may use kafka-python too; what it logs for them is not touched.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from logging import Filter, LogRecord, getLogger
from threading import local
from typing import Final

_ROOT: Final = "kafka"
_HERE: Final = local()


@contextmanager
def hushed() -> Iterator[None]:
    """Drop what kafka-python logs on this thread meanwhile."""
    _attach()
    before = getattr(_HERE, "is_hushed", False)
    _HERE.is_hushed = True
    try:
        yield
    finally:
        _HERE.is_hushed = before


class _Hush(Filter):
    def filter(self, record: LogRecord) -> bool:
        # Filters run on the thread that logs.
        return not getattr(_HERE, "is_hushed", False)


_HUSH: Final = _Hush()


def _attach() -> None:
    """Put the filter on every logger of the hierarchy: one on a parent is not asked about its children's records."""
    root = getLogger(_ROOT)
    for name in [_ROOT, *(name for name in tuple(root.manager.loggerDict) if name.startswith(f"{_ROOT}."))]:
        getLogger(name).addFilter(_HUSH)
