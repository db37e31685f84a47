"""The history of clusters in plain Python: slow, and short enough to be read and believed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from quotaform.model.quotas import Quotas


@dataclass(frozen=True, slots=True)
class Taken:
    """A snapshot of a cluster, or the attempt to take one: `quotas` is `None` if it failed."""

    cluster: str
    cluster_id: str
    read_at: datetime
    quotas: Quotas | None


def last_at(taken: Iterable[Taken], at: datetime) -> dict[str, Taken]:
    """The last good snapshot of each cluster at or before a moment; of two of one time, the one that came first."""
    last: dict[str, Taken] = {}
    for each in taken:
        if each.quotas is not None and each.read_at <= at:
            known = last.get(each.cluster)
            if known is None or each.read_at > known.read_at:
                last[each.cluster] = each
    return last
