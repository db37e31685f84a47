"""Metadata (KIP-4, KIP-516), for one topic."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from dataclasses import dataclass

from quotaform.cluster.wire.codec import INT64, MalformedError, Reader, Writer
from quotaform.cluster.wire.message import BrokerRequest, BrokerResponse

_NO_ID = bytes(16)
"""What stands where a topic has no id: Uuid.ZERO_UUID."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedTopic(BrokerResponse):
    """A topic.

    Attributes:
        error_code: 0, or 3 if there is no such topic.
        topic_id: The id, which another topic of the same name does not have; `None` before Kafka 2.8.
        partitions: How many partitions it has.
    """

    error_code: int
    topic_id: str | None
    partitions: int


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
