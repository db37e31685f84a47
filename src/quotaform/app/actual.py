"""Reading a cluster so that the answer can be planned from."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from quotaform.cluster.gateway import Progress, QuotaReader, no_progress
from quotaform.errors import UnsettledError
from quotaform.model.entry import Desired
from quotaform.model.quotas import Quotas, same_values

Made = TypeVar("Made")

_BULK_ENTITIES = 50
_BULK_SHARE = 0.02
_MAX_WAIT = 60.0


def read_actual(reader: QuotaReader, desired: Desired, progress: Progress = no_progress) -> Quotas:
    """Read all quotas of a cluster; see `make_at_rest`."""
    return make_at_rest(reader, desired, lambda actual: actual, progress)


def make_at_rest(
    reader: QuotaReader, desired: Desired, make: Callable[[Quotas], Made], progress: Progress = no_progress
) -> Made:
    """Read all quotas of a cluster, again until they have come to rest when they differ in bulk.

    A describe right after somebody's bulk change is a mixture of before and after: 100,000 acknowledged
    entities took up to 20 s to show. When the first read differs from the files in bulk, it counts only once a
    second one, taken a moment later, says the same.

    Args:
        reader: The cluster.
        desired: What the files say.
        make: Called with a read while the cluster is given time; it may be called again with a later one.
        progress: Told what is being done.

    Returns:
        What was made of the read that counts.

    Raises:
        ClusterError: The cluster could not be read.
        UnsettledError: It kept changing for a minute.
    """
    progress("Reading quotas", 0, 0)
    read_at = time.monotonic()
    deadline = read_at + _MAX_WAIT
    actual = reader.describe()
    made = make(actual)
    if not reader.is_live or not _differs_in_bulk(desired, actual):
        return made
    pause = min(1.0, max(0.05, max(len(desired), len(actual)) / 100_000))
    while True:
        progress("Waiting for quotas to come to rest", 0, 0)
        time.sleep(max(0.0, pause - (time.monotonic() - read_at)))
        read_at = time.monotonic()
        again = reader.describe()
        if is_same(actual, again):
            return made
        if time.monotonic() > deadline:
            raise UnsettledError(reader.name, _MAX_WAIT)
        actual, made = again, make(again)


def is_same(one: Quotas, other: Quotas) -> bool:
    """Whether two reads say the same."""
    return one == other or (
        one.keys() == other.keys() and all(same_values(values, other[entity]) for entity, values in one.items())
    )


def _differs_in_bulk(desired: Desired, actual: Quotas) -> bool:
    bulk = max(_BULK_ENTITIES, _BULK_SHARE * max(len(desired), len(actual)))
    different = len(actual.keys() - desired.keys())
    for entity, entry in desired.items():
        if different >= bulk:
            return True
        different += actual.get(entity, {}) != entry.values
    return different >= bulk
