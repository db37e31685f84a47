"""Reading a cluster so that the answer can be relied on."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, TypeVar

from quotaform.app.clock import SYSTEM_CLOCK, Clock
from quotaform.cluster.gateway import Progress, QuotaReader, no_progress
from quotaform.errors import UnsettledError
from quotaform.model.entity import Entity, spell_name
from quotaform.model.quotas import Quotas, same_values

Made = TypeVar("Made")

_BULK_ENTITIES: Final = 50
_BULK_SHARE: Final = 0.02
_MAX_WAIT: Final = 60.0

SETTLE_SECONDS: Final = 3.0
"""How long a read that shows what nobody asked for is doubted: a broker shows an acknowledged change late."""


def bulk_of(different: int, entities: int) -> int:
    """Return how many entities differ when that looks like a bulk change (2 %, and at least 50), else 0.

    `different` is how many entities differ. `entities` is how many there are.
    """
    return different if different >= max(_BULK_ENTITIES, _BULK_SHARE * entities) else 0


def read_settled(
    reader: QuotaReader,
    make: Callable[[Quotas], Made],
    bulk: Callable[[Made, Quotas], int],
    *,
    clock: Clock = SYSTEM_CLOCK,
    progress: Progress = no_progress,
) -> Made:
    """Read all quotas of a cluster and make something of them; read again when they differ in bulk.

    A describe right after somebody's bulk change is a mixture of before and after: 100,000 acknowledged
    entities took up to 20 s to show. When what was made of the first read differs in bulk, it counts only once a
    second read, taken a moment later, is equal to the first.

    Args:
        make: Called with a read while the cluster is given time; it may be called again with a later one.
        bulk: How many entities differ in bulk, by what was made of a read; 0 when one read is enough.

    Returns:
        What was made of the read that counts.

    Raises:
        ClusterError: The cluster could not be read.
        UnsettledError: It kept changing for a minute.
    """
    progress(f"Reading quotas of {spell_name(reader.name)}", 0, 0)
    read_at = clock.monotonic()
    deadline = read_at + _MAX_WAIT
    actual = reader.describe()
    made = make(actual)
    different = bulk(made, actual) if reader.is_live else 0
    if not different:
        return made
    pause = min(1.0, max(0.05, different / 100_000))
    while True:
        progress("Reading again: many entities differ, a change may be in progress", 0, 0)
        clock.sleep(max(0.0, pause - (clock.monotonic() - read_at)))
        read_at = clock.monotonic()
        again = reader.describe()
        if is_same(actual, again):
            return made
        if clock.monotonic() > deadline:
            raise UnsettledError(reader.name, _MAX_WAIT)
        actual, made = again, make(again)


def read_actual(
    reader: QuotaReader,
    declared: Collection[Entity] = (),
    *,
    clock: Clock = SYSTEM_CLOCK,
    progress: Progress = no_progress,
) -> Quotas:
    """Read all quotas of a cluster; see `read_settled`. Many entities that no file declares count as a difference."""

    def bulk(made: Quotas, actual: Quotas) -> int:
        undeclared = sum(entity not in declared for entity in actual) if declared else len(actual)
        return bulk_of(undeclared, max(len(declared), len(actual)))

    return read_settled(reader, lambda actual: actual, bulk, clock=clock, progress=progress)


def is_same(one: Quotas, other: Quotas) -> bool:
    """Whether two reads are equal; a NaN equals a NaN."""
    return one == other or (
        one.keys() == other.keys() and all(same_values(values, other[entity]) for entity, values in one.items())
    )
