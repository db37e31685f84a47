"""A running Kafka cluster: describe and alter client quotas (KIP-546).

kafka-python is behind `quotaform.cluster.wire.link`, which is imported when a gateway connects and not before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from time import monotonic, sleep
from types import TracebackType
from typing import Any, Final, Protocol, Self

from quotaform.cluster.alter_chunk import match_rows, rows_of, split_alterations, wire_entries
from quotaform.cluster.answer import read_config, read_quotas, require_described
from quotaform.cluster.client.config import ClientConfig
from quotaform.cluster.gateway import BrokerConfig, Progress, no_progress
from quotaform.cluster.wire.connect_error import UnansweredError
from quotaform.collector import paused_collector
from quotaform.errors import ClusterError, UnsupportedError
from quotaform.model.alteration import Alteration, AlterResult, AlterRow, Outcome
from quotaform.model.entity import Entity
from quotaform.model.filter import EVERYTHING, EntityFilter, Rule, select
from quotaform.model.quotas import Quotas, Values
from quotaform.model.server import Server, parse_servers

CONNECT_TIMEOUT: Final = 10.0
"""Seconds to get a usable connection."""
ALTER_TIMEOUT: Final = 65.0
"""Seconds to wait for an alter: a broker forwards it to the controller for up to 60 s before it gives up."""
BROKER_TIMEOUT: Final = 5.0
"""Seconds for what is asked of one certain broker; that is never what a command is about."""

FEW_ENTITIES: Final = 16
"""Up to so many entities are described one by one; beyond, one describe of everything takes less time."""

_TRIES: Final = 4

_MATCH_TYPES: Final = {Rule.EXACT: 0, Rule.DEFAULT: 1, Rule.ANY: 2}
"""The match types of DescribeClientQuotasRequest (KIP-546)."""

MakeRequest = Callable[[], Any]
"""Makes a kafka-python request; a new one per attempt, since the protocol version sticks to it."""


class Link(Protocol):
    """A way to send one request and get its response; the seam at which tests let brokers fail."""

    cluster_id: str | None
    brokers: Mapping[int, Server]
    """The brokers that the cluster named, by node id."""

    def send(self, make_request: MakeRequest, *, timeout: float) -> Any:
        """Send a request to any broker and return its response.

        Raises:
            UnansweredError: It went out, and no answer came.
            ClusterError: It never went out.
        """

    def send_to(self, node_id: int, make_request: MakeRequest, *, timeout: float) -> Any:
        """Send a request to one of `brokers`, connecting to it for that if need be, and return its response.

        Raises:
            UnansweredError: It went out, and no answer came.
            ClusterError: It never went out.
        """

    def close(self) -> None:
        """Let go of the connection; more than once is fine."""


class KafkaGateway:
    """A running cluster, as a `quotaform.cluster.gateway.Gateway`.

    Not safe for use from several threads at a time.
    """

    def __init__(self, link: Link, *, name: str, request_timeout: float = 30.0, api_timeout: float = 60.0) -> None:
        """Make a gateway from a link; `connect` makes both.

        Args:
            link: How to reach the brokers.
            name: What messages call the cluster.
            request_timeout: Seconds for one request; an alter is given 65 at least.
            api_timeout: Seconds for a read with all its retries.
        """
        self.name = name
        self._link = link
        self._request_timeout = request_timeout
        self._api_timeout = api_timeout

    @classmethod
    def connect(
        cls,
        bootstrap_servers: str | Iterable[str] = (),
        client_config: ClientConfig | None = None,
        *,
        name: str | None = None,
        timeout: float = CONNECT_TIMEOUT,
    ) -> Self:
        """Connect to a cluster.

        Args:
            bootstrap_servers: `host:port`, several with commas or as a list; none for those of the client config.
            client_config: Protocol, credentials and times; plain if not given.
            name: What messages call the cluster; its bootstrap servers if not given.
            timeout: Seconds after which it is given up. Most problems are certain, and told, much earlier.

        Raises:
            ConnectError: No server could be used; the message says why and what to do.
            AuthenticationError: A server did not accept the credentials; no other was tried.
            UsageError: There is no server, or one is not `host:port`.
        """
        from quotaform.cluster.wire.link import KafkaLink

        config = client_config or ClientConfig()
        servers = parse_servers(bootstrap_servers or config.bootstrap_servers)
        label = name or ",".join(map(str, servers))
        link = KafkaLink(servers, config, name=label, timeout=timeout)
        return cls(link, name=label, request_timeout=config.request_timeout, api_timeout=config.api_timeout)

    @property
    def is_live(self) -> bool:
        """A running cluster: True."""
        return True

    def cluster_id(self) -> str:
        """Return the id that the cluster gave itself.

        Raises:
            UnsupportedError: The brokers are older than Kafka 0.10.1 and have none.
        """
        if not self._link.cluster_id:
            raise UnsupportedError(f"{self.name} has no cluster id; its brokers are too old for client quotas.")
        return self._link.cluster_id

    def describe(self, entity_filter: EntityFilter = EVERYTHING, *, timeout: float | None = None) -> Quotas:
        """Return the quotas of the entities that a filter selects, exactly as one broker has them at one moment.

        What a broker can evaluate is sent as it is; PREFIX, NOT and a type that is asked twice are evaluated
        here, over what the rest of the filter selects. A lost connection is no failure: reading again is harmless.

        Raises:
            InvalidRequestError: The filter makes no sense to the broker.
            AuthorizationError: The principal lacks DESCRIBE_CONFIGS on the cluster.
            UnsupportedError: The brokers are older than Kafka 2.6.
            ClusterError: The cluster could not be read.
        """
        asked = entity_filter if entity_filter.is_answered_by_brokers else entity_filter.for_brokers()
        with paused_collector():
            response = self._ask(lambda: _describe_request(asked), timeout)
            require_described(self.name, response.error_code, response.error_message)
            quotas = read_quotas(response.entries)
        return quotas if asked is entity_filter else select(quotas, entity_filter)

    def describe_entities(self, entities: Collection[Entity], *, timeout: float | None = None) -> Quotas:
        """Read some entities, each by itself when they are few; see `quotaform.cluster.gateway.Gateway`."""
        if len(entities) > FEW_ENTITIES:
            return self.describe(timeout=timeout)
        found: dict[Entity, Values] = {}
        for entity in entities:
            found.update(self.describe(EntityFilter.contains_only(entity.names), timeout=timeout))
        return found

    def broker_config(self, name: str) -> BrokerConfig:
        """Ask every broker for one of its configuration values; see `quotaform.cluster.gateway.Gateway`."""
        values: dict[int, str | None] = {}
        errors: dict[int, ClusterError] = {}
        deadline = monotonic() + 2 * BROKER_TIMEOUT
        for node_id in sorted(self._link.brokers):
            if monotonic() > deadline:
                errors[node_id] = ClusterError(f"Broker {node_id} was not asked, after others took too long to answer.")
                continue
            try:
                values[node_id] = read_config(node_id, self._ask_broker(node_id, name))
            except UnansweredError as error:
                errors[node_id] = ClusterError(str(error))
            except ClusterError as error:
                errors[node_id] = error
        return BrokerConfig(values, errors)

    def _ask_broker(self, node_id: int, name: str) -> Any:
        from quotaform.cluster.wire.link import broker_config_request

        return self._link.send_to(node_id, lambda: broker_config_request(node_id, name), timeout=BROKER_TIMEOUT)

    def _ask(self, make_request: MakeRequest, api_timeout: float | None = None) -> Any:
        deadline = monotonic() + (self._api_timeout if api_timeout is None else api_timeout)
        attempt = 1
        while True:
            try:
                return self._link.send(
                    make_request, timeout=max(1.0, min(self._request_timeout, deadline - monotonic()))
                )
            except UnansweredError as error:
                if attempt == _TRIES or monotonic() >= deadline:
                    raise ClusterError(f"Cannot read the quotas of {self.name}: {error}") from None
            sleep(0.1 * 2**attempt)
            attempt += 1

    def alter(
        self, alterations: Sequence[Alteration], *, validate_only: bool = False, progress: Progress = no_progress
    ) -> AlterResult:
        """Send alterations; see `quotaform.cluster.gateway.Gateway.alter`."""
        rows: list[AlterRow] = []
        for chunk in self.alter_chunks(alterations, validate_only=validate_only):
            rows += chunk
            progress("Checking with the broker" if validate_only else "Applying", len(rows), len(alterations))
        return AlterResult(tuple(rows))

    def alter_chunks(
        self, alterations: Sequence[Alteration], *, validate_only: bool = False
    ) -> Iterator[tuple[AlterRow, ...]]:
        """Send alterations request by request; see `quotaform.cluster.gateway.Gateway.alter_chunks`."""
        chunks = split_alterations(alterations)
        return self._alter_chunks(alterations, chunks, validate_only)

    def _alter_chunks(
        self, alterations: Sequence[Alteration], chunks: Sequence[range], validate_only: bool
    ) -> Iterator[tuple[AlterRow, ...]]:
        for indices in chunks:
            chunk = alterations[indices.start : indices.stop]
            reason, interrupt = "", None  # type: str, BaseException | None
            try:
                rows = self._alter_one(chunk, validate_only)
            except ClusterError as error:
                if indices.start == 0:
                    raise
                reason = f"Not sent: {error}"
                rows = rows_of(chunk, Outcome.NOT_SENT, reason)
            except (KeyboardInterrupt, SystemExit) as error:
                interrupt, reason = error, "Not sent: interrupted."
                rows = rows_of(chunk, Outcome.UNKNOWN, "Interrupted while the broker's answer was awaited.")
            except Exception as error:  # a mistake of our own, after which nobody knows
                interrupt, reason = error, "Not sent: an internal error."
                rows = rows_of(chunk, Outcome.UNKNOWN, f"An internal error while it was sent: {error!r}")
            if not reason and any(row.outcome is Outcome.UNKNOWN for row in rows):
                reason = "Not sent, because the outcome of an earlier request is unknown."
            yield rows
            if not reason:
                continue
            if rest := alterations[indices.stop :]:
                yield rows_of(rest, Outcome.NOT_SENT, reason)
            if interrupt is not None:
                raise interrupt
            return

    def _alter_one(self, chunk: Sequence[Alteration], validate_only: bool) -> tuple[AlterRow, ...]:
        timeout = max(ALTER_TIMEOUT, self._request_timeout)
        try:
            response = self._link.send(lambda: _alter_request(chunk, validate_only), timeout=timeout)
        except UnansweredError as error:
            return rows_of(chunk, Outcome.UNKNOWN, f"{error} The change may have been made, or may be made yet.")
        answer = (
            ([(part.entity_type, part.entity_name) for part in row.entity], row.error_code, row.error_message)
            for row in response.entries
        )
        return match_rows(chunk, answer)

    def close(self) -> None:
        """Let go of the connection."""
        self._link.close()

    def __enter__(self) -> Self:
        """Return the gateway itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the gateway."""
        self.close()


def _describe_request(entity_filter: EntityFilter) -> Any:
    from quotaform.cluster.wire.link import describe_request

    components = [
        (component.entity_type, _MATCH_TYPES[component.rule], component.match) for component in entity_filter.components
    ]
    return describe_request(components, is_strict=entity_filter.is_strict)


def _alter_request(chunk: Sequence[Alteration], validate_only: bool) -> Any:
    from quotaform.cluster.wire.link import alter_request

    return alter_request(list(wire_entries(chunk)), validate_only=validate_only)
