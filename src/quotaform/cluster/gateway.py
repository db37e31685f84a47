"""The protocol through which quotaform reads and alters a cluster: a broker or a snapshot file."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from quotaform.errors import ClusterError
from quotaform.model.alteration import Alteration, AlterResult, AlterRow
from quotaform.model.entity import Entity
from quotaform.model.filter import EVERYTHING, EntityFilter
from quotaform.model.quotas import Quotas
from quotaform.model.snapshot import SnapshotFile

Progress = Callable[[str, int, int], None]
"""Called with the current step, the number of items done and the total (0 if unknown)."""


def no_progress(what: str, done: int, total: int) -> None:
    """Report nothing."""


Sending = Callable[[Sequence[Alteration]], None]
"""Called just before alterations are sent; their outcome is then unknown until the response arrives."""


def no_sending(chunk: Sequence[Alteration]) -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """One configuration value, broker by broker.

    Attributes:
        values: Node id to value; `None` when the broker has none.
        errors: Node id to the reason why it could not be asked.
    """

    values: Mapping[int, str | None]
    errors: Mapping[int, ClusterError]


class QuotaReader(Protocol):
    """A cluster to read."""

    name: str
    """What messages call the cluster: its name in quotaform.yaml or its bootstrap servers."""

    @property
    def is_live(self) -> bool:
        """Whether this is a running cluster, whose answers may change from one read to the next."""

    @property
    def snapshot(self) -> SnapshotFile | None:
        """The snapshot that is read instead of a running cluster."""

    @property
    def broker_count(self) -> int | None:
        """How many brokers the cluster named when it was connected to; `None` if that is not known."""

    def cluster_id(self) -> str:
        """Return the cluster id."""

    def describe(self, entity_filter: EntityFilter = EVERYTHING, *, timeout: float | None = None) -> Quotas:
        """Return the quotas of the entities that a filter selects, in one consistent read.

        Args:
            entity_filter: Which entities; everything if left out.
            timeout: Seconds after which a read with all its retries is given up, if not the usual ones.

        Raises:
            InvalidRequestError: The filter makes no sense to the broker (a user with an ip).
            UnsupportedError: The broker does not know an entity type of the filter.
            ClusterError: The cluster could not be read.
        """


class Gateway(QuotaReader, Protocol):
    """A cluster to read and, unless it is a snapshot, to change."""

    def describe_entities(self, entities: Collection[Entity], *, timeout: float | None = None) -> Quotas:
        """Return the quotas of at least these entities; those that do not exist are left out.

        Each entity's values are of one moment; those of two entities may not be.

        Args:
            entities: Which ones.
            timeout: As for `describe`.

        Raises:
            ClusterError: The cluster could not be read.
        """

    def broker_config(self, name: str) -> BrokerConfig:
        """Ask every broker for one of its configuration values, each on a connection of its own.

        Failures of single brokers are part of the result and are not raised.

        Args:
            name: Such as `client.quota.callback.class`.

        Raises:
            UnsupportedError: This is a snapshot, which holds no configuration.
        """

    def alter(
        self, alterations: Sequence[Alteration], *, validate_only: bool = False, progress: Progress = no_progress
    ) -> AlterResult:
        """Send alterations, chunked by operations and bytes, one entry per entity.

        Stops at the first chunk of unknown outcome; what comes after it is `NOT_SENT`.

        Args:
            alterations: At most one per entity.
            validate_only: Let the broker check and change nothing.
            progress: Called after each chunk.

        Returns:
            One row per alteration, in the given order.

        Raises:
            ClusterError: Nothing at all was sent.
            ValueError: Two alterations of one entity, or one that no broker could read.
        """

    def alter_chunks(
        self, alterations: Sequence[Alteration], *, validate_only: bool = False, sending: Sending = no_sending
    ) -> Iterator[tuple[AlterRow, ...]]:
        """Do what `alter` does, one request each time the iterator is asked for the next rows.

        For callers who must know what was done whatever happens: an interrupt (Ctrl-C) while an answer is awaited
        is raised again only after the rows of that request were yielded as `UNKNOWN` and the rest as `NOT_SENT`.

        Args:
            alterations: At most one per entity.
            validate_only: Let the broker check and change nothing.
            sending: Called with the alterations of each request before any byte of it is sent.

        Returns:
            The rows of each request, which together are those of all alterations in the given order.

        Raises:
            ClusterError: While the first rows are asked for: nothing at all was sent.
            ValueError: At once: two alterations of one entity, or one that no broker could read.
        """

    def close(self) -> None:
        """Close all connections."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
