"""Reading a cluster so that the answer can be planned from."""

from __future__ import annotations

import time

from quotaform.cluster.gateway import Progress, QuotaReader, no_progress
from quotaform.errors import UnsettledError
from quotaform.model.entry import Desired
from quotaform.model.quotas import Quotas, same_values

_BULK_ENTITIES = 50
_BULK_SHARE = 0.02
_MAX_WAIT = 60.0


def read_actual(gateway: QuotaReader, desired: Desired, progress: Progress = no_progress) -> Quotas:
    """Read all quotas of a cluster, again until they have come to rest when they differ in bulk.

    A describe right after somebody's bulk change is a mixture of before and after: 100,000 acknowledged
    entities took up to 20 s to show. When the first read differs from the files in bulk, it counts only once a
    second one, taken a moment later, says the same.

    Raises:
        ClusterError: The cluster could not be read.
        UnsettledError: It kept changing for a minute.
    """
    progress("Reading quotas", 0, 0)
    actual = gateway.describe()
    if not gateway.is_live or not _differs_in_bulk(desired, actual):
        return actual
    pause = min(1.0, max(0.05, max(len(desired), len(actual)) / 100_000))
    deadline = time.monotonic() + _MAX_WAIT
    while True:
        progress("Waiting for quotas to come to rest", 0, 0)
        time.sleep(pause)
        again = gateway.describe()
        if is_same(actual, again):
            return again
        actual = again
        if time.monotonic() > deadline:
            raise UnsettledError(
                f"the quotas of {gateway.name} kept changing for {_MAX_WAIT:.0f} s while they were read; "
                "wait until whoever changes them is done and run this again"
            )


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
