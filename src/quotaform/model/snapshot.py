"""A snapshot: the quotas of a cluster at one moment."""

from __future__ import annotations

from dataclasses import dataclass

from quotaform.model.quotas import Quotas


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The quotas of a cluster at one moment.

    Attributes:
        cluster_name: What the cluster was called.
        captured_at: When it was read, as ISO 8601 in UTC.
        quotas: What it held.
    """

    cluster_name: str
    cluster_id: str
    captured_at: str
    quotas: Quotas


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """A snapshot in the place of a cluster.

    Attributes:
        path: The file, as it was given; empty for a snapshot in memory.
        captured_at: When the cluster was read, as the snapshot says.
    """

    path: str
    captured_at: str
