"""The Python API of one cluster: describe and alter client quotas (KIP-546), and resolve what limits a request.

>>> from quotaform import Entity, EntityFilter, QuotaAdmin
>>> with QuotaAdmin.connect("localhost:9092") as admin:  # doctest: +SKIP
...     admin.describe(EntityFilter.contains(user="alice"))
...     admin.resolve(user="alice", client_id="app1")

Arguments are checked before anything is sent: one of a wrong type is a `TypeError` that names it and what is expected,
one with a wrong value a `ValueError`. What a cluster answers or does not is a `quotaform.model.errors.ClusterError`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from threading import Lock
from types import NoneType
from typing import TYPE_CHECKING, Self

from quotaform.cluster.gateway import Connected, Gateway
from quotaform.model.alteration import Alteration, AlterResult
from quotaform.model.entity import CLIENT_ID, IP, USER, Entity
from quotaform.model.errors import ClusterError
from quotaform.model.filter import EVERYTHING, Described, EntityFilter
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import Quotas, SnapshotFile
from quotaform.model.text import require_items, require_type, spell_type
from quotaform.resolve.index import QuotaIndex, Request, Resolved, request_of
from quotaform.resolve.run import require_known_key
from quotaform.system.clock import SYSTEM_CLOCK, Clock, timestamp

if TYPE_CHECKING:
    from quotaform.desired.config import Cluster


class QuotaAdmin(Connected):
    """Client quotas of one cluster, or of a snapshot file, which can be described and resolved but not altered.

    Several threads may use one admin: their calls are made one after the other. `close` may be called at any time and
    ends a call that is waiting for an answer; every later call raises `ClusterError`.
    """

    def __init__(self, gateway: Gateway) -> None:
        """Use a gateway that is open already; `connect` and `from_snapshot` open one."""
        if not callable(getattr(gateway, "describe", None)):
            raise TypeError(
                f"gateway must be an open gateway, not {spell_type(gateway)}; use QuotaAdmin.connect() for a cluster, "
                "QuotaAdmin.from_snapshot() for a file"
            )
        self._gateway = gateway
        self._lock = Lock()
        self._is_closed = False

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

        `bootstrap_servers`: `host:port`, several with commas or as a list; none for those of the configuration.
        `command_config`: a Java-style client properties file: `security.protocol`, `sasl.*`, `ssl.*`. `properties`: the
        same keys as a mapping; they win over those of the file. `timeout`: seconds after which connecting is given up.

        Raises `ConnectError` if no server could be used, `AuthenticationError` if one did not accept the credentials,
        `InvalidFilesError` if the properties are invalid, and `UsageError` if there is no server.
        """
        from quotaform.cluster.client.config import ClientConfig
        from quotaform.cluster.client.reader import from_properties, load_client_config
        from quotaform.cluster.kafka import KafkaGateway

        servers = bootstrap_servers
        if not isinstance(servers, str):
            servers = require_items(servers, str, "bootstrap_servers", "HOST:PORT, each a string")
        require_type(command_config, (str, Path, NoneType), "command_config", "a path or None")
        require_type(properties, (Mapping, NoneType), "properties", "a mapping of client property to value, or None")
        for key, value in (properties or {}).items():
            require_type(key, str, "a key of properties", "a string")
            # Neither is quoted: a value may be a password, and a key what was typed in its place.
            require_type(value, str, "a value of properties", "a string")
        require_type(timeout, (int, float), "timeout", "a number of seconds")
        if not (isfinite(timeout) and timeout > 0):
            raise ValueError("timeout must be a positive number of seconds")
        config = ClientConfig()
        if command_config is not None:
            config = load_client_config(Path(command_config), overrides=properties)
        elif properties:
            config = from_properties(properties)
        return cls(KafkaGateway.connect(servers, config, timeout=timeout))

    @classmethod
    def from_snapshot(cls, path: str | Path) -> Self:
        """Use a file that `quotaform snapshot` wrote in the place of a cluster, offline.

        Raises `InvalidFilesError`, with all its problems, if it cannot be read or is not a snapshot.
        """
        from quotaform.cluster.gateway import SnapshotGateway, read_snapshot

        require_type(path, (str, Path), "path", "a path")
        return cls(SnapshotGateway(read_snapshot(Path(path)), path=str(path)))

    def cluster_id(self) -> str:
        """Return the cluster id."""
        with self._open() as gateway:
            return gateway.cluster_id()

    @property
    def snapshot(self) -> SnapshotFile | None:
        """The snapshot that is read instead of a running cluster."""
        return self._gateway.snapshot

    def describe(self, entity_filter: EntityFilter = EVERYTHING) -> Quotas:
        """Return the quotas of the entities that a filter selects, exactly as the cluster has them.

        The result maps entities to {quota key: value}, in the unit of the key: bytes per second, percent of one thread,
        partition mutations or connections per second. Unknown entity types and keys are passed through.

        Raises `AuthorizationError` if the principal lacks DESCRIBE_CONFIGS on the cluster, `InvalidRequestError` if the
        filter makes no sense to the broker, `UnsupportedError` if the broker is older than 2.6 or does not know an
        entity type of the filter, and `ClusterError` if the cluster could not be read.
        """
        require_type(
            entity_filter, EntityFilter, "entity_filter", "an EntityFilter such as EntityFilter.contains(user='alice')"
        )
        with self._open() as gateway:
            return gateway.describe(entity_filter)

    def alter(self, alterations: Iterable[Alteration], *, validate_only: bool = False) -> AlterResult:
        """Set and remove values, entity by entity; each entity all or not at all.

        Removing a key that is not there is accepted and changes nothing. Large calls are split into requests
        that a controller can take, and stop after one whose outcome is unknown: the rows say what happened. With
        `validate_only` the broker checks and changes nothing.

        The result has one row per alteration, in the given order; `raise_for_errors()` turns the first failure into its
        error. When this method itself raises an error, nothing was sent: a `ClusterError`, also of a snapshot, or a
        `ValueError` for two alterations of one entity, a value that is not finite or that no double holds exactly, or a
        name that Kafka's protocol cannot carry.
        """
        items = require_items(alterations, Alteration, "alterations", "Alteration")
        # A text such as "false" would be true.
        require_type(validate_only, bool, "validate_only", "True or False")
        with self._open() as gateway:
            return gateway.alter(items, validate_only=validate_only)

    def resolve(
        self, *, user: str | None = None, client_id: str | None = None, ip: str | None = None
    ) -> dict[str, Resolved]:
        """Resolve what limits a request (ResolveClientQuotas of KIP-546).

        `user`: the name of the principal; without one, a user that no quota mentions. `client_id`: without one, a
        client-id that no quota mentions, which is what nearly every client sends; `""` is an empty client-id, which no
        quota with a client-id matches, not even a default (KAFKA-13341). `ip`: the address of a connection, alone.

        The result has every quota key that can limit the request; a key that nothing limits has no value and no source.
        `Resolved.differs` is the number of users and client-ids that resolve to another value than a name that no quota
        mentions. Raises `ClusterError` if the cluster could not be read.
        """
        named = ((USER, user), (CLIENT_ID, client_id), (IP, ip))
        for (_, name), argument in zip(named, ("user", "client_id", "ip"), strict=True):
            require_type(name, (str, NoneType), argument, "a string, or None to leave it out")
        request = request_of(Entity({kind: name for kind, name in named if name is not None}))
        return dict(QuotaIndex(self.describe()).resolve(request))

    def resolve_all(self, entities: Iterable[Entity]) -> dict[Entity, Mapping[str, Resolved]]:
        """Resolve many concrete entities against one read of the cluster; see `resolve`.

        Entities are users, client-ids, pairs of both, and ips, all named; a type that is left out is a name that no
        quota mentions. The results are read-only, as entities that resolve alike may share one mapping.

        Raises `ClusterError` if the cluster could not be read, and `ValueError` if an entity is not concrete.
        """
        items = require_items(entities, Entity, "entities", "Entity")
        requests: dict[Entity, Request] = {entity: request_of(entity) for entity in items}
        resolve = QuotaIndex(self.describe()).resolve
        return {entity: resolve(request) for entity, request in requests.items()}

    def close(self) -> None:
        """Close the connection; a second time does nothing."""
        self._is_closed = True
        self._gateway.close()

    @contextmanager
    def _open(self) -> Iterator[Gateway]:
        """Give the gateway to one thread at a time."""
        with self._lock:
            if self._is_closed:
                raise ClusterError("This QuotaAdmin is closed; connect again.")
            yield self._gateway


def describe_cluster(
    cluster: Cluster,
    gateway: Gateway,
    *,
    entity_filter: EntityFilter = EVERYTHING,
    keys: Sequence[str] = (),
    clock: Clock = SYSTEM_CLOCK,
) -> Described:
    """Return the live quotas of the entities that match a filter, and have any of the keys if some are given.

    Raises `UsageError` if a key is known neither to this version nor to the cluster: most likely a typo.
    """
    admin = QuotaAdmin(gateway)
    found = admin.describe(entity_filter)
    if unknown := [key for key in keys if key not in QUOTA_KEYS]:
        held = found if entity_filter == EVERYTHING else admin.describe()
        for key in unknown:
            require_known_key(key, [held])
    if keys:
        chosen = {entity: {key: values[key] for key in values if key in keys} for entity, values in found.items()}
        found = {entity: values for entity, values in chosen.items() if values}
    return Described(
        quotas=found,
        cluster_name=cluster.label,
        cluster_id=admin.cluster_id(),
        read_at=timestamp(clock),
        heading=cluster.label if cluster.has_name else None,
        snapshot=admin.snapshot,
        entity_filter=entity_filter,
        keys=keys,
    )
