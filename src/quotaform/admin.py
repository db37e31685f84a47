"""The client-quota API of KIP-546, whole: describe, alter, and the resolve that Kafka never shipped.

>>> from quotaform import Entity, EntityFilter, QuotaAdmin
>>> with QuotaAdmin.connect("localhost:9092") as admin:  # doctest: +SKIP
...     admin.describe(EntityFilter.contains(user="alice"))
...     admin.resolve(user="alice", client_id="app1")
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from quotaform.core.resolve.entry import Resolved
from quotaform.core.resolve.index import QuotaIndex, resolve_entities
from quotaform.core.resolve.request import request_of
from quotaform.model.alteration import Alteration, AlterResult
from quotaform.model.entity import CLIENT_ID, IP, USER, Entity
from quotaform.model.filter import EVERYTHING, EntityFilter
from quotaform.model.quotas import Quotas
from quotaform.model.snapshot import SnapshotFile

if TYPE_CHECKING:
    from quotaform.cluster.gateway import Gateway


class QuotaAdmin:
    """Client quotas of one cluster.

    A thin front to the same gateway that plan and apply use. It can stand on a snapshot file as well, which can be
    described and resolved but not altered. Not safe for use from several threads at a time.
    """

    def __init__(self, gateway: Gateway) -> None:
        """Use a gateway that is open already; `connect` opens one."""
        self._gateway = gateway

    @classmethod
    def connect(
        cls,
        bootstrap_servers: str | Iterable[str] = (),
        *,
        command_config: str | Path | None = None,
        properties: Mapping[str, str] | None = None,
        timeout: float = 10.0,
    ) -> Self:
        """Connect to a cluster.

        Args:
            bootstrap_servers: `host:port`, several with commas or as a list; none for those of the configuration.
            command_config: A Java-style client properties file: `security.protocol`, `sasl.*`, `ssl.*`.
            properties: The same keys as a mapping; they win over those of the file.
            timeout: Seconds after which connecting is given up.

        Raises:
            ConnectError: No server could be used; the message says why and what to do.
            AuthenticationError: A server did not accept the credentials.
            InvalidFilesError: The properties are invalid.
            UsageError: There is no server, or one is not `host:port`.
        """
        from quotaform.cluster.client.config import ClientConfig
        from quotaform.cluster.client.config_reader import from_properties, load_client_config
        from quotaform.cluster.kafka import KafkaGateway

        config = ClientConfig()
        if command_config is not None:
            config = load_client_config(Path(command_config), overrides=properties)
        elif properties:
            config = from_properties(properties)
        return cls(KafkaGateway.connect(bootstrap_servers, config, timeout=timeout))

    def cluster_id(self) -> str:
        """Return the id that the cluster gave itself."""
        return self._gateway.cluster_id()

    @property
    def snapshot(self) -> SnapshotFile | None:
        """The snapshot that answers in the place of a running cluster."""
        return self._gateway.snapshot

    def describe(self, entity_filter: EntityFilter = EVERYTHING) -> Quotas:
        """Return the quotas of the entities that a filter selects, exactly as the cluster has them.

        Args:
            entity_filter: Which entities; everything if left out.

        Returns:
            Entity to {quota key: value}. Unknown entity types and keys are passed through.

        Raises:
            AuthorizationError: The principal lacks DESCRIBE_CONFIGS on the cluster.
            InvalidRequestError: The filter makes no sense to the broker.
            UnsupportedError: The broker is older than 2.6, or does not know an entity type of the filter.
            ClusterError: The cluster could not be read.
        """
        return self._gateway.describe(entity_filter)

    def alter(self, alterations: Sequence[Alteration], *, validate_only: bool = False) -> AlterResult:
        """Set and remove values, entity by entity; each entity all or not at all.

        Removing a key that is not there is accepted and changes nothing. Large calls are split into requests
        that a controller can take, and stop after one whose outcome is unknown: the rows say what happened.

        Args:
            alterations: What to do, at most once per entity.
            validate_only: Let the broker check and change nothing.

        Returns:
            One row per alteration, in the given order; `raise_for_errors()` turns the first failure into its error.

        Raises:
            ClusterError: Nothing at all was sent.
            ValueError: Two alterations of one entity, a value that is not finite, or a name that Kafka's protocol
                cannot carry; nothing was sent.
        """
        return self._gateway.alter(alterations, validate_only=validate_only)

    def resolve(
        self, *, user: str | None = None, client_id: str | None = None, ip: str | None = None
    ) -> dict[str, Resolved]:
        """Resolve what limits a request (ResolveClientQuotas of KIP-546).

        Args:
            user: The name of the principal; without one, a user that no quota mentions.
            client_id: The client-id; without one the request has an empty client-id, which no quota with a client-id
                matches, not even a default (KAFKA-13341).
            ip: The address of a connection, alone.

        Returns:
            Every quota key that can limit the request; a key that nothing limits has no value and no source.

        Raises:
            ValueError: Neither a user, a client-id nor an ip is given, or an ip together with another.
            ClusterError: The cluster could not be read.
        """
        names = {kind: name for kind, name in ((USER, user), (CLIENT_ID, client_id), (IP, ip)) if name is not None}
        request = request_of(Entity(names))
        return QuotaIndex(self._gateway.describe()).resolve(request)

    def resolve_all(self, entities: Iterable[Entity]) -> dict[Entity, dict[str, Resolved]]:
        """Resolve many concrete entities against one read of the cluster; see `resolve`.

        Args:
            entities: (user, client-id) pairs, users, client-ids and ips, all named.

        Raises:
            ValueError: An entity is not concrete: it holds a default, or types that do not go together.
            ClusterError: The cluster could not be read.
        """
        return resolve_entities(self._gateway.describe(), entities)

    def close(self) -> None:
        """Let go of the connection."""
        self._gateway.close()

    def __enter__(self) -> Self:
        """Return the admin itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        self.close()
