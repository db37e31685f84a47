"""A gateway that reads a snapshot file instead of a cluster."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from types import TracebackType
from typing import NoReturn, Self

from quotaform.cluster.gateway import BrokerConfig, Progress, Sending, no_progress, no_sending
from quotaform.errors import ClusterError, UnsupportedError
from quotaform.model.alteration import Alteration, AlterResult, AlterRow
from quotaform.model.entity import Entity
from quotaform.model.filter import EVERYTHING, EntityFilter, select
from quotaform.model.quotas import Quotas
from quotaform.model.snapshot import Snapshot, SnapshotFile


class SnapshotGateway:
    """A snapshot as a `quotaform.cluster.gateway.Gateway`: it can be read, and nothing else."""

    def __init__(self, snapshot: Snapshot, *, name: str | None = None, path: str = "") -> None:
        """Make a gateway.

        Args:
            snapshot: What it answers.
            name: What messages call the cluster; the name in the snapshot if not given.
            path: Where it was read.
        """
        self.name = name or snapshot.cluster_name
        self._snapshot = snapshot
        self._path = path

    @property
    def is_live(self) -> bool:
        """A file: False."""
        return False

    @property
    def snapshot(self) -> SnapshotFile | None:
        """Which snapshot this is."""
        return SnapshotFile(self._path, self._snapshot.captured_at)

    @property
    def broker_count(self) -> int | None:
        """None: a snapshot contains only quotas."""
        return None

    def cluster_id(self) -> str:
        """Return the id of the cluster that the snapshot was taken from."""
        return self._snapshot.cluster_id

    def describe(self, entity_filter: EntityFilter = EVERYTHING, *, timeout: float | None = None) -> Quotas:
        """Return the snapshot's quotas that a filter selects."""
        return select(self._snapshot.quotas, entity_filter)

    def describe_entities(self, entities: Collection[Entity], *, timeout: float | None = None) -> Quotas:
        """Return the snapshot's quotas."""
        return self._snapshot.quotas

    def broker_config(self, name: str) -> BrokerConfig:
        """Fail, because a snapshot contains only quotas.

        Raises:
            UnsupportedError: Always.
        """
        raise UnsupportedError(f"{self.name} is a snapshot, which contains no configuration of brokers.")

    def alter(
        self, alterations: Sequence[Alteration], *, validate_only: bool = False, progress: Progress = no_progress
    ) -> AlterResult:
        """Refuse.

        Raises:
            ClusterError: Always.
        """
        self._refuse()

    def alter_chunks(
        self, alterations: Sequence[Alteration], *, validate_only: bool = False, sending: Sending = no_sending
    ) -> Iterator[tuple[AlterRow, ...]]:
        """Refuse.

        Raises:
            ClusterError: Always.
        """
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise ClusterError(f"{self.name} is a snapshot, which cannot be changed; choose a running cluster.")

    def close(self) -> None:
        """Do nothing: there is no connection."""

    def __enter__(self) -> Self:
        """Return the gateway itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do nothing."""
