"""Python's garbage collector, kept away while very many small objects are made that live on."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_MANY: Final = 10_000


@contextmanager
def paused_collector() -> Iterator[None]:
    """Do not look for cycles meanwhile, nor among what was made: it is much, and there are none.

    Looking takes as long as making does. Nothing happens where the collector is off already.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            if gc.get_count()[0] > _MANY and not gc.get_freeze_count():
                # Makes everything old at once; otherwise the next collection would walk through it.
                gc.freeze()
                gc.unfreeze()
            gc.enable()
