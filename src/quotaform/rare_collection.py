"""Fewer collections of garbage in a run that keeps nearly all it makes."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_OBJECTS_BETWEEN_COLLECTIONS: Final = 1_000_000
"""A plan of 30,000 entities makes fewer, so most runs never look for cycles; garbage cannot grow past these."""


@contextmanager
def rare_collections() -> Iterator[None]:
    """Look for reference cycles rarely: what a run makes lives until it ends, and looking takes as long as making."""
    thresholds = gc.get_threshold()
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
