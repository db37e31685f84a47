"""A running cluster: connects, reads with retries, describes and alters client quotas (KIP-546)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from time import monotonic, sleep
from typing import Final, Self

from quotaform.cluster.broker import (
    AlterClientQuotas,
    AlteredEntity,
    BrokerRelease,
    DescribeBrokerConfig,
    DescribeClientQuotas,
    ItemT,
    match_rows,
    refusal_of,
    require_success,
    rows_of,
    service_hint,
    split_alterations,
)
from quotaform.cluster.client.config import ClientConfig
from quotaform.cluster.gateway import BeforeSend, BrokerConfig, Connected, Gateway, do_nothing
from quotaform.cluster.wire.cluster_connection import ClusterConnection
from quotaform.cluster.wire.failure import UnansweredError
from quotaform.cluster.wire.message import BrokerRequest, ResponseT
from quotaform.model.alteration import Alteration, AlterRow, Outcome, RowT
from quotaform.model.entity import Entity
from quotaform.model.errors import ClusterError, UnsupportedError, as_usage_error
from quotaform.model.filter import EVERYTHING, EntityFilter, select
from quotaform.model.quotas import Quotas, Values
from quotaform.model.server import Server, parse_servers

CONNECT_TIMEOUT: Final = 10.0
"""Seconds to get a usable connection."""
SILENCE: Final = 4.0
"""Seconds without data after which a read is sent to another broker on the first try; 100,000 quotas take 2."""
LONE_SILENCE: Final = 10.0
"""The same if there is no other broker and only the connection can be at fault."""
ZOOKEEPER_SILENCE: Final = 30.0
"""The same for brokers that read each quota from ZooKeeper: 6,000 quotas take 8."""
ALTER_TIMEOUT: Final = 65.0
"""The timeout of an alter in seconds: a broker may take up to 60 to forward it to the controller."""


def send_in_turn(
    chunks: Sequence[Sequence[ItemT]],
    send: Callable[[Sequence[ItemT]], tuple[RowT, ...]],
    rows_of: Callable[[Sequence[ItemT], Outcome, str], tuple[RowT, ...]],
) -> Iterator[tuple[RowT, ...]]:
    """Yield the rows of each chunk that is sent, until the outcome of one is unknown; those of the rest are not sent.

    An interrupt while an answer is awaited is raised when all rows were yielded. Raises `ClusterError` while the first
    rows are asked for: nothing at all was sent.
    """
    reason, interrupt = "", None  # type: str, BaseException | None
    for number, chunk in enumerate(chunks):
        if reason:
            yield rows_of(chunk, Outcome.NOT_SENT, reason)
            continue
        try:
            rows = send(chunk)
        except ClusterError as error:
            if number == 0:
                raise
            reason = f"Not sent: {error}"
            rows = rows_of(chunk, Outcome.NOT_SENT, reason)
        except (KeyboardInterrupt, SystemExit) as error:
            interrupt, reason = error, "Not sent: interrupted."
            rows = rows_of(chunk, Outcome.UNKNOWN, "Interrupted while waiting for the response of the broker.")
        except Exception as error:  # a bug, after which the outcome is unknown
            interrupt, reason = error, "Not sent: an internal error."
            rows = rows_of(chunk, Outcome.UNKNOWN, f"An internal error while it was sent: {error!r}")
        if not reason and any(row.outcome is Outcome.UNKNOWN for row in rows):
            reason = "Not sent, because the outcome of an earlier request is unknown."
        yield rows
    if interrupt is not None:
        raise interrupt


class BrokerGateway(Connected):
    """A running cluster. Not safe for use from several threads at a time, `close` aside."""

    def __init__(self, connection: ClusterConnection, *, name: str, config: ClientConfig | None = None) -> None:
        """Make a gateway; `config` says how long is waited for an answer."""
        self.name = name
        self.connection = connection
        self._config = config or ClientConfig()
        self._alter_timeout = max(ALTER_TIMEOUT, self._config.request_timeout)  # for an alter, which is sent once

    @classmethod
    def connect(
        cls,
        bootstrap_servers: str | Iterable[str | Server] = (),
        client_config: ClientConfig | None = None,
        *,
        name: str | None = None,
        timeout: float = CONNECT_TIMEOUT,
    ) -> Self:
        """Connect to a cluster.

        Servers are `host:port`, several with commas or as a list; without any, those of the client config.
        `timeout` is in seconds; most problems are certain, and reported, much earlier.

        Raises `ConnectError` if no server could be used, `AuthenticationError` if one did not accept the credentials
        (no other was tried then), and `UsageError` if there is none, or one is not `host:port`.
        """
        config = client_config or ClientConfig()
        with as_usage_error():
            servers = parse_servers(bootstrap_servers or config.bootstrap_servers)
        label = name or ",".join(map(str, servers))
        connection = ClusterConnection(servers, config, name=label, timeout=timeout)
        return cls(connection, name=label, config=config)

    def _read(self, request: BrokerRequest[ResponseT], timeout: float, *, subject: str, hint: str = "") -> ResponseT:
        """Send a read until it is answered; a lost connection is no failure, since reading again is harmless."""
        try:
            return self._ask(request, timeout, request_timeout=self._config.request_timeout)
        except UnansweredError as error:
            raise ClusterError(f"Cannot read {subject}: {error}{hint}") from None

    def _ask(
        self,
        request: BrokerRequest[ResponseT],
        timeout: float,
        *,
        request_timeout: float,
        silence: float | None = None,
    ) -> ResponseT:
        """Send what changes nothing until it is answered: after a lost connection, and after a silence, to the next.

        A broker that is frozen must not use up all the time while others are well, and one that is busy with a large
        answer must not be given up: each try waits twice as long for a byte as the one before.
        """
        deadline = monotonic() + timeout
        if silence is None and self.release.has_zookeeper:
            silence = ZOOKEEPER_SILENCE
        elif silence is None:
            silence = SILENCE if len(self.connection.brokers) > 1 else LONE_SILENCE
        attempt = 0
        while True:
            attempt += 1
            left = max(1.0, min(request_timeout, deadline - monotonic()))
            try:
                return self.connection.send(request, timeout=left, silence=silence)
            except UnansweredError:
                if attempt == _TRIES or monotonic() >= deadline:
                    raise
            sleep(0.1 * 2**attempt)
            silence *= 2

    @property
    def release(self) -> BrokerRelease:
        """Which release the brokers are, as far as the one in use tells."""
        return BrokerRelease.of(self.connection.versions)

    @property
    def service_hint(self) -> str:
        """Where quotas are set instead, if the brokers are of a service that manages them itself; empty if not."""
        return service_hint(server.host for server in self.connection.brokers.values())

    def close(self) -> None:
        self.connection.close()


BROKER_TIMEOUT: Final = 5.0
"""The timeout in seconds of requests to one particular broker, which are never essential to a command."""

FEW_ENTITIES: Final = 16
"""Up to this number, entities are described one by one; for more, a describe of everything is faster."""

_TRIES: Final = 4
_INVALID_REQUEST: Final = 42
_DRY_RUN_SILENCE: Final = 5.0
"""The timeout in seconds of the first try of a dry run, which a broker forwards to the controller."""


class KafkaGateway(BrokerGateway, Gateway):
    """The quotas of a running cluster."""

    @property
    def broker_count(self) -> int | None:
        """How many brokers the cluster named when it was connected to; nothing is sent for it."""
        return len(self.connection.brokers) or None

    def cluster_id(self) -> str:
        if not self.connection.cluster_id:
            raise UnsupportedError(f"{self.name} has no cluster id; its brokers are too old for client quotas.")
        return self.connection.cluster_id

    def describe(self, entity_filter: EntityFilter = EVERYTHING, *, timeout: float | None = None) -> Quotas:
        """Return the quotas of the entities that a filter selects, exactly as one broker has them at one moment.

        What a broker can evaluate is sent as it is; PREFIX, NOT and a type that is asked twice are evaluated
        here, over what the rest of the filter selects. A lost connection is no failure: reading again is harmless.
        """
        asked = entity_filter.for_brokers()
        if self.release.has_zookeeper and any(each.match == "" for each in asked.components):
            # No entity has an empty name there, and the broker answers code -1.
            return {}
        subject = f"the client quotas of {self.name}"
        seconds = self._config.api_timeout if timeout is None else timeout
        answer = self._read(DescribeClientQuotas(asked), seconds, subject=subject)
        require_success(answer, subject=subject, right="DESCRIBE_CONFIGS", hint=self.service_hint)
        return answer.found if asked == entity_filter else select(answer.found, entity_filter)

    def describe_entities(self, entities: Collection[Entity], *, timeout: float | None = None) -> Quotas:
        if len(entities) > FEW_ENTITIES:
            return self.describe(timeout=timeout)
        found: dict[Entity, Values] = {}
        for entity in entities:
            found.update(self.describe(EntityFilter.contains_only(entity.names), timeout=timeout))
        return found

    def broker_config(self, name: str) -> BrokerConfig:
        values: dict[int, str | None] = {}
        errors: dict[int, ClusterError] = {}
        deadline = monotonic() + 2 * BROKER_TIMEOUT
        for node_id in sorted(self.connection.brokers):
            if monotonic() > deadline:
                errors[node_id] = ClusterError(
                    f"Broker {node_id} was not read, because others took too long to respond."
                )
                continue
            request = DescribeBrokerConfig(node_id, name)
            try:
                answer = self.connection.send_to(node_id, request, timeout=BROKER_TIMEOUT)
                require_success(answer, subject=f"the configuration of broker {node_id}", right="DESCRIBE_CONFIGS")
                values[node_id] = answer.found
            except ClusterError as error:
                errors[node_id] = error
        return BrokerConfig(values, errors)

    def alter_chunks(
        self, alterations: Sequence[Alteration], *, validate_only: bool = False, before_send: BeforeSend = do_nothing
    ) -> Iterator[tuple[AlterRow, ...]]:
        def send(chunk: Sequence[Alteration]) -> tuple[AlterRow, ...]:
            before_send(chunk)
            return self._alter_one(chunk, validate_only)

        return send_in_turn(split_alterations(alterations), send, rows_of)

    def _alter_one(self, chunk: Sequence[Alteration], validate_only: bool) -> tuple[AlterRow, ...]:
        """Send what the newest brokers would accept; the rest is refused here, whatever this broker would do."""
        release = self.release
        refused = {each.entity: words for each in chunk if (words := refusal_of(each, release))}
        sent = [each for each in chunk if each.entity not in refused]
        request = AlterClientQuotas(sent, validate_only)
        try:
            if not sent:
                answer: Sequence[AlteredEntity] = ()
            elif validate_only:
                answer = self._ask(request, ALTER_TIMEOUT, request_timeout=ALTER_TIMEOUT, silence=_DRY_RUN_SILENCE)
            else:
                answer = self.connection.send(request, timeout=self._alter_timeout)
        except UnansweredError as error:
            more = "" if validate_only else " The change may have been made, or may still be made."
            found = rows_of(sent, Outcome.UNKNOWN, f"{error}{more}")
        else:
            found = match_rows(sent, answer, self.service_hint)
        rows = {row.entity: row for row in found}
        rows |= {entity: AlterRow(entity, Outcome.REFUSED, _INVALID_REQUEST, refused[entity]) for entity in refused}
        return tuple(rows[each.entity] for each in chunk)
