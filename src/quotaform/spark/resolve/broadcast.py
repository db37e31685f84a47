"""How large a table may be that is sent to every executor, and what is said of one that is larger."""

from __future__ import annotations

from re import compile as regex
from typing import TYPE_CHECKING, Final

from quotaform.spark.resolve.table import LevelGroup

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

THRESHOLD: Final = "spark.sql.autoBroadcastJoinThreshold"

DEFAULT_LIMIT: Final = 128 * 1024 * 1024
"""More than Spark's own 10 MiB: the other side is principals, which are many. It fits a driver of 1 GiB, Spark's
default, and is about half a million entities."""

_SIZE = regex(r"(-?[0-9]+) *(?:([kmgtp])b?|b)?").fullmatch


def broadcast_limit(spark: SparkSession) -> int:
    """Return how many bytes a table may have to be broadcast.

    | spark.sql.autoBroadcastJoinThreshold | limit |
    | --- | --- |
    | -1, which turns broadcasts off | none is broadcast |
    | up to `DEFAULT_LIMIT`, as in a session that says nothing | `DEFAULT_LIMIT` |
    | larger | the same |
    """
    found = _SIZE((spark.conf.get(THRESHOLD) or "").strip().lower())
    if found is None:
        return DEFAULT_LIMIT
    size = int(found[1]) << (10 * (" kmgtp".index(found[2] or " ")))
    return max(DEFAULT_LIMIT, size) if size >= 0 else -1


def shuffle_note(group: LevelGroup, limit: int) -> str:
    """Say that the principals are shuffled because the entries of a group are too many."""
    named = " and ".join(group.named) or "cluster"
    if limit < 0:
        return f"the quotas by {named} are not broadcast, and principals are shuffled: {THRESHOLD} is -1"
    return (
        f"the quotas by {named} take about {_mebibytes(group.size)} MiB, more than the {_mebibytes(limit)} MiB that "
        f"are broadcast, so principals are shuffled; with enough memory, raise {THRESHOLD}"
    )


def _mebibytes(size: int) -> str:
    return f"{-(-size // (1 << 20)):,}"
