"""Describes and alters the client quotas of a running cluster (KIP-546)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from math import floor
from time import monotonic
from typing import Final

from quotaform.cluster.age import FACTS, Age
from quotaform.cluster.alter_chunk import match_rows, rows_of, split_alterations
from quotaform.cluster.broker_gateway import ALTER_TIMEOUT, BrokerGateway
from quotaform.cluster.error_code import require_success
from quotaform.cluster.gateway import BrokerConfig, Progress, Sending, no_progress, no_sending
from quotaform.cluster.wire.client_quotas import AlterClientQuotas, DescribeClientQuotas
from quotaform.cluster.wire.codec import INT8, MalformedError, Reader, Writer
from quotaform.cluster.wire.failure import UnansweredError
from quotaform.cluster.wire.message import BrokerRequest, BrokerResponse
from quotaform.errors import ClusterError, UnsupportedError
from quotaform.model.alteration import Alteration, AlterResult, AlterRow, Outcome
from quotaform.model.entity import IP, Entity
from quotaform.model.filter import EVERYTHING, EntityFilter, select
from quotaform.model.quota_key import QUOTA_KEYS, NumberKind
from quotaform.model.quotas import Quotas, Values
from quotaform.model.scram import ScramMechanism
from quotaform.model.snapshot import SnapshotFile

BROKER_TIMEOUT: Final = 5.0
"""The timeout in seconds of requests to one particular broker, which are never essential to a command."""

FEW_ENTITIES: Final = 16
"""Up to this number, entities are described one by one; for more, a describe of everything is faster."""

_TRIES: Final = 4
_INVALID_REQUEST: Final = 42
_DRY_RUN_SILENCE: Final = 5.0
"""The timeout in seconds of the first try of a dry run, which a broker forwards to the controller."""


class KafkaGateway(BrokerGateway):
    """A running cluster, as a `quotaform.cluster.gateway.Gateway`."""

    @property
    def is_live(self) -> bool:
        """A running cluster: True."""
        return True

    @property
    def snapshot(self) -> SnapshotFile | None:
        """None: it is a running cluster."""
        return None

    @property
    def broker_count(self) -> int | None:
        """How many brokers the cluster named when it was connected to; nothing is sent for it."""
        return len(self.connection.brokers) or None

    def cluster_id(self) -> str:
        """Return the cluster id.

        Raises:
            UnsupportedError: The brokers are older than Kafka 0.10.1 and have none.
        """
        if not self.connection.cluster_id:
            raise UnsupportedError(f"{self.name} has no cluster id; its brokers are too old for client quotas.")
        return self.connection.cluster_id

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
        if self.age.has_zookeeper and any(each.match == "" for each in entity_filter.for_brokers().components):
            # Nobody has an empty name there, and the broker answers code -1.
            return {}
        answer = self._read(
            _describe_request(entity_filter),
            problem=f"Cannot read the quotas of {self.name}",
            request_timeout=self._request_timeout,
            api_timeout=self._api_timeout if timeout is None else timeout,
            tries=_TRIES,
        )
        require_success(
            answer.error_code,
            answer.error_message,
            subject=f"the client quotas of {self.name}",
            right="DESCRIBE_CONFIGS",
            problem=f"Cannot read the quotas of {self.name}; the broker responded with",
            hint=self.service_hint,
        )
        return answer.quotas if entity_filter.is_answered_by_brokers else select(answer.quotas, entity_filter)

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
        for node_id in sorted(self.connection.brokers):
            if monotonic() > deadline:
                errors[node_id] = ClusterError(
                    f"Broker {node_id} was not read, because others took too long to respond."
                )
                continue
            try:
                values[node_id] = self._ask_broker(node_id, name)
            except UnansweredError as error:
                errors[node_id] = ClusterError(str(error))
            except ClusterError as error:
                errors[node_id] = error
        return BrokerConfig(values, errors)

    def _ask_broker(self, node_id: int, name: str) -> str | None:
        answer = self.connection.send_to(node_id, DescribeBrokerConfig(node_id, name), timeout=BROKER_TIMEOUT)
        require_success(
            answer.error_code,
            answer.error_message,
            subject=f"the configuration of broker {node_id}",
            right="DESCRIBE_CONFIGS",
            problem=f"Broker {node_id} does not return its configuration; it responded with",
        )
        return answer.value

    def alter(
        self, alterations: Sequence[Alteration], *, validate_only: bool = False, progress: Progress = no_progress
    ) -> AlterResult:
        """Send alterations; see `quotaform.cluster.gateway.Gateway.alter`."""
        rows: list[AlterRow] = []
        for chunk in self.alter_chunks(alterations, validate_only=validate_only):
            rows += chunk
            progress("Validating on the broker" if validate_only else "Applying", len(rows), len(alterations))
        return AlterResult(tuple(rows))

    def alter_chunks(
        self, alterations: Sequence[Alteration], *, validate_only: bool = False, sending: Sending = no_sending
    ) -> Iterator[tuple[AlterRow, ...]]:
        """Send alterations request by request; see `quotaform.cluster.gateway.Gateway.alter_chunks`."""
        chunks = split_alterations(alterations)
        return self._alter_chunks(alterations, chunks, validate_only, sending)

    def _alter_chunks(
        self, alterations: Sequence[Alteration], chunks: Sequence[range], validate_only: bool, sending: Sending
    ) -> Iterator[tuple[AlterRow, ...]]:
        for indices in chunks:
            chunk = alterations[indices.start : indices.stop]
            reason, interrupt = "", None  # type: str, BaseException | None
            sending(chunk)
            try:
                rows = self._alter_one(chunk, validate_only)
            except ClusterError as error:
                if indices.start == 0:
                    raise
                reason = f"Not sent: {error}"
                rows = rows_of(chunk, Outcome.NOT_SENT, reason)
            except (KeyboardInterrupt, SystemExit) as error:
                interrupt, reason = error, "Not sent: interrupted."
                rows = rows_of(chunk, Outcome.UNKNOWN, "Interrupted while waiting for the response of the broker.")
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
        """Send what the newest brokers would accept; the rest is refused here, whatever this broker would do."""
        age = self.age
        refused = {each.entity: words for each in chunk if (words := refusal_of(each, age))}
        if not refused:
            return self._send_alter(chunk, validate_only)
        sent = [each for each in chunk if each.entity not in refused]
        rows = {row.entity: row for row in (self._send_alter(sent, validate_only) if sent else ())}
        rows |= {entity: AlterRow(entity, Outcome.REFUSED, _INVALID_REQUEST, refused[entity]) for entity in refused}
        return tuple(rows[each.entity] for each in chunk)

    def _send_alter(self, chunk: Sequence[Alteration], validate_only: bool) -> tuple[AlterRow, ...]:
        request = AlterClientQuotas(chunk, validate_only)
        try:
            if validate_only:
                answer = self._ask(
                    request,
                    request_timeout=ALTER_TIMEOUT,
                    api_timeout=ALTER_TIMEOUT,
                    tries=_TRIES,
                    silence=_DRY_RUN_SILENCE,
                )
            else:
                answer = self._alter(request)
        except UnansweredError as error:
            more = "" if validate_only else " The change may have been made, or may still be made."
            return rows_of(chunk, Outcome.UNKNOWN, f"{error}{more}")
        return match_rows(chunk, answer.rows, self.service_hint)


def _describe_request(entity_filter: EntityFilter) -> DescribeClientQuotas:
    return DescribeClientQuotas(entity_filter if entity_filter.is_answered_by_brokers else entity_filter.for_brokers())


_BROKER: Final = 4
"""ConfigResource.Type.BROKER."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedConfig(BrokerResponse):
    """One configuration value; `None` when the broker has none."""

    error_code: int
    error_message: str | None
    value: str | None


@dataclass(frozen=True, slots=True)
class DescribeBrokerConfig(BrokerRequest[DescribedConfig]):
    """Ask a broker for one of its configuration values, which only that broker answers."""

    API_KEY = 32
    VERSIONS = range(1, 5)
    FLEXIBLE_FROM = 4

    node_id: int
    name: str

    def write(self, writer: Writer, version: int) -> None:
        """Append the fields: one resource, one key, neither synonyms nor documentation."""

        def resource(node_id: int) -> None:
            writer.number(INT8, _BROKER)
            writer.string(str(node_id))
            writer.array([self.name], writer.string)
            writer.tags()

        writer.array([self.node_id], resource)
        writer.boolean(False)
        if version >= 3:
            writer.boolean(False)
        writer.tags()

    def read(self, reader: Reader, version: int) -> DescribedConfig:
        """Return the value."""

        def synonym() -> None:
            reader.string()
            reader.nullable_string()
            reader.int8()
            reader.tags()

        def config() -> tuple[str, str | None]:
            found = reader.string(), reader.nullable_string()
            for _ in ("read-only", "source", "sensitive"):
                reader.int8()
            reader.array(synonym)
            if version >= 3:
                reader.int8()  # its type
                reader.nullable_string()  # its documentation
            reader.tags()
            return found

        def result() -> tuple[int, str | None, dict[str, str | None]]:
            code, message = reader.int16(), reader.nullable_string()
            reader.int8()
            reader.string()
            found = code, message, dict(reader.array(config))
            reader.tags()
            return found

        throttle = reader.int32()
        results = reader.array(result)
        reader.tags()
        if len(results) != 1:
            raise MalformedError("it has not one result for one resource")
        [(code, message, values)] = results
        value = values.get(self.name) or None
        return DescribedConfig(throttle_time_ms=throttle, error_code=code, error_message=message, value=value)


_TOLERANCE: Final = 1e-6
"""How far above a whole number a value of a LONG or INT key may be (`ClientQuotaControlManager`, Kafka 4)."""

_FOREIGN: Final = frozenset(ScramMechanism)


def refusal_of(alteration: Alteration, age: Age) -> str | None:
    """Return why an alteration must not be sent to a broker, in the words of Kafka 4; `None` if it may be.

    What all brokers refuse themselves is left to them.
    """
    if age.has_zookeeper and ":" in (address := alteration.entity.names.get(IP) or ""):
        return f"{address} is an IPv6 address; {FACTS['ipv6'].remedy}."
    for key, value in alteration.ops.items():
        if value is None:
            continue
        if key in _FOREIGN:
            return f"Invalid configuration key {key}"
        known = QUOTA_KEYS.get(key)
        if known is None or not known.fits(alteration.entity):
            continue
        if value <= 0:
            return f"Quota {key} must be greater than 0"
        if not known.is_whole:
            continue
        if value > known.maximum:
            kind = "a LONG" if known.kind is NumberKind.LONG else "an INT"
            return f"Proposed value for {key} is too large for {kind}."
        if value - floor(value) > (0.0 if age.has_zookeeper else _TOLERANCE):
            return f"{key} cannot be a fractional value."
    return None
