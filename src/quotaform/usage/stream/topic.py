"""Describes a topic of a running cluster."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from dataclasses import dataclass
from os import environ
from typing import Final

from quotaform.cluster.kafka import BrokerGateway
from quotaform.cluster.wire.message import INT64, BrokerRequest, BrokerResponse, MalformedError, Reader, Writer
from quotaform.model.errors import AuthorizationError, ClusterError, ConnectError, UsageError
from quotaform.model.text import quote

_TIMEOUT: Final = 15.0
"""Seconds for a read with all its retries; a topic that was made just now may take a moment."""
_TRIES: Final = 3
_UNKNOWN_TOPIC: Final = 3
_INVALID_TOPIC: Final = 17
_NOT_AUTHORIZED: Final = 29


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic."""

    name: str  # Its name
    topic_id: str | None  # What tells it from a topic of the same name that was there before; `None` before Kafka 2.8
    partitions: int  # How many partitions it has
    cluster_id: str | None  # The id of its cluster, if that has one


class TopicGateway(BrokerGateway):
    """The topics of one cluster."""

    def topic(self, name: str) -> Topic | None:
        """Return a topic; `None` if there is none of that name.

        Raises `AuthorizationError` if the principal lacks DESCRIBE on the topic. Raises `UsageError` if no topic can
        have such a name. Raises `ConnectError` if a broker is not in `QUOTAFORM_ALLOWED_HOSTS`, and Spark connects to
        all of them by itself. Raises `ClusterError` if the cluster could not be read.
        """
        for server in self.connection.brokers.values():
            if problem := server.problem(environ):
                raise ConnectError(f"{server} {problem}")
        try:
            request = DescribeTopic(name)
            answer = self._read(
                request,
                problem=f"Cannot read the topic {quote(name)} of {self.name}",
                request_timeout=_TIMEOUT,
                api_timeout=_TIMEOUT,
                tries=_TRIES,
            )
        except ValueError as error:
            raise UsageError(f"{quote(name)} is not the name of a topic: {error}") from None
        if answer.error_code == _UNKNOWN_TOPIC:
            return None
        if answer.error_code == _INVALID_TOPIC:
            raise UsageError(
                f"{quote(name)} is not the name of a topic; a name has up to 249 of the characters a-z, A-Z, 0-9, "
                "dot, underscore and hyphen"
            )
        if answer.error_code == _NOT_AUTHORIZED:
            raise AuthorizationError(
                f"The principal is not authorised to read the topic {quote(name)} of {self.name}",
                remedy="grant it READ and DESCRIBE on the topic.",
                code=answer.error_code,
            )
        if answer.error_code:
            raise ClusterError(
                f"Cannot read the topic {quote(name)} of {self.name}; the broker responded with error code "
                f"{answer.error_code}",
                code=answer.error_code,
            )
        return Topic(
            name=name,
            topic_id=answer.topic_id,
            partitions=answer.partitions,
            cluster_id=self.connection.cluster_id,
        )


_NO_ID = bytes(16)
"""What stands where a topic has no id: Uuid.ZERO_UUID."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedTopic(BrokerResponse):
    """A topic."""

    error_code: int  # 0, or 3 if there is no such topic
    topic_id: str | None  # The id, which another topic of the same name does not have; `None` before Kafka 2.8
    partitions: int  # How many partitions it has


@dataclass(frozen=True, slots=True)
class DescribeTopic(BrokerRequest[DescribedTopic]):
    """Ask for one topic, which is not created if it does not exist."""

    API_KEY = 3
    VERSIONS = range(4, 13)
    FLEXIBLE_FROM = 9

    name: str

    def write(self, writer: Writer, version: int) -> None:
        """Append the fields: one topic, nothing created, no lists of rights."""

        def topic(name: str) -> None:
            if version >= 10:
                writer.number(INT64, 0)
                writer.number(INT64, 0)
            writer.string(name)
            writer.tags()

        writer.array([self.name], topic)
        writer.boolean(False)
        if 8 <= version <= 10:
            writer.boolean(False)
        if version >= 8:
            writer.boolean(False)
        writer.tags()

    def read(self, reader: Reader, version: int) -> DescribedTopic:
        """Return the topic."""

        def broker() -> None:
            reader.int32()
            reader.string()
            reader.int32()
            reader.nullable_string()
            reader.tags()

        def partition() -> None:
            reader.int16()
            for _ in ("index", "leader", "leader epoch")[: 3 if version >= 7 else 2]:
                reader.int32()
            for _ in ("replicas", "in sync", "offline")[: 3 if version >= 5 else 2]:
                reader.array(reader.int32)
            reader.tags()

        def topic() -> tuple[int, bytes, int]:
            code = reader.int16()
            reader.nullable_string()
            # An id is 16 bytes, two INT64.
            numbers = (reader.int64(), reader.int64()) if version >= 10 else (0, 0)
            reader.int8()
            count = len(reader.array(partition))
            if version >= 8:
                reader.int32()
            reader.tags()
            return code, b"".join(map(INT64.pack, numbers)), count

        throttle = reader.int32()
        reader.array(broker)
        reader.nullable_string()
        reader.int32()
        topics = reader.array(topic)
        if 8 <= version <= 10:
            reader.int32()
        reader.tags()
        if len(topics) != 1:
            raise MalformedError("it has not one result for one topic")
        [(code, topic_id, partitions)] = topics
        return DescribedTopic(
            throttle_time_ms=throttle,
            error_code=code,
            topic_id=None if topic_id == _NO_ID else urlsafe_b64encode(topic_id).decode().rstrip("="),
            partitions=partitions,
        )
