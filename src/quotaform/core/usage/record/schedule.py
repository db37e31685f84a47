"""When a source of measurements is asked: in slots, never twice at once, and less often when it is slow.

A slot that is missed stays missed: nothing is asked in a burst later, and the following slots are where they were.
"""

from __future__ import annotations

from math import ceil
from typing import Final

LONGEST_PAUSE_S: Final = 60.0
"""After at most how many seconds, or one slot, a source that fails is asked again."""


def next_slot(slot: int, interval: float, ended: float, took: float, failures: int) -> int:
    """Return the slot in which a source is asked next; slot `n` begins `n * interval` seconds after the start.

    | it answered | it is asked again |
    | --- | --- |
    | fast | in the next slot |
    | after `took` seconds | not before as long again has passed: it works for us half of the time at most |
    | not, several times in a row | after 1, 2, 4, ... slots, up to a minute |

    >>> [next_slot(5, 10.0, 50.1, 0.1, 0), next_slot(5, 10.0, 58.0, 8.0, 0), next_slot(5, 10.0, 51.0, 1.0, 3)]
    [6, 7, 9]

    Args:
        slot: The last one in which it was asked.
        interval: The length of a slot in seconds.
        ended: When that was over, in seconds after the start.
        took: How long it took.
        failures: How many times in a row it failed.
    """
    pause = min(1 << min(max(failures - 1, 0), 30), max(1, int(LONGEST_PAUSE_S / interval)))
    return max(slot + pause, ceil((ended + took) / interval))
