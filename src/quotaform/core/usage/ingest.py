"""What became of recordings that were ingested into a table of usage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from quotaform.core.usage.sample.sample import DropReason


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedRecords:
    """Records that could not be read, for one reason.

    Attributes:
        file: The first file with such a record.
        position: Where in it; `reason` says what it counts.
        reason: Why the first one could not be read.
    """

    file: str
    position: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestedCluster:
    """A cluster of which there were samples.

    Attributes:
        name: As the recording, or `--cluster`, names it.
        is_declared: Whether quotaform.yaml declares a cluster of that name; `None` if there is no quotaform.yaml.
    """

    name: str
    is_declared: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingested:
    """What became of an ingest: `read` is `written` + the sum of `dropped` + `quarantined`.

    Attributes:
        usage: The table, as it was given.
        files: How many files were read.
        empty_files: How many had no bytes.
        read: How many samples, and records that could not be read, there were.
        written: How many samples are in the table now.
        rows: In how many rows: a rate and a throttle time of one time are one.
        dropped: How many samples were left out, per reason.
        quarantined: How many records could not be read.
        quarantine: Where they are; `None` if there are none.
        rejected: Some of them.
        clusters: The clusters of the rows.
        since: The earliest time of the rows; `None` if there are none.
        until: The latest one.
    """

    usage: str
    files: int
    empty_files: int
    read: int
    written: int
    rows: int
    dropped: Mapping[DropReason, int]
    quarantined: int
    quarantine: str | None
    rejected: tuple[RejectedRecords, ...]
    clusters: tuple[IngestedCluster, ...]
    since: datetime | None
    until: datetime | None

    @property
    def undeclared(self) -> tuple[IngestedCluster, ...]:
        """The clusters that quotaform.yaml does not declare."""
        return tuple(each for each in self.clusters if each.is_declared is False)
