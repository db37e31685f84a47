"""Requests and responses of Kafka's protocol, and those that open every connection."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final, Generic, TypeVar

from quotaform.cluster.wire.codec import INT16, INT32, MalformedError, Reader, Writer
from quotaform.model.server import Server

UNSUPPORTED_VERSION: Final = 35
_MAX_BROKERS: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerResponse:
    """What all answers have.

    Attributes:
        throttle_time_ms: How long the broker asks the client to wait with its next request (KIP-219).
    """

    throttle_time_ms: int = 0


ResponseT = TypeVar("ResponseT", bound=BrokerResponse)


class BrokerRequest(ABC, Generic[ResponseT]):
    """One request.

    Attributes:
        API_KEY: Its number.
        VERSIONS: The versions that this client speaks, the best one last.
        FLEXIBLE_FROM: The first flexible version (KIP-482).
        MAX_RESPONSE: How many bytes its answer may have; a server without TLS and SASL may be anybody.
    """

    __slots__ = ()

    API_KEY: ClassVar[int]
    VERSIONS: ClassVar[range]
    FLEXIBLE_FROM: ClassVar[int]
    MAX_RESPONSE: ClassVar[int] = 1 << 20

    @abstractmethod
    def write(self, writer: Writer, version: int) -> None:
        """Append the fields of a version.

        Raises:
            ValueError: Something in it cannot be encoded.
        """

    @abstractmethod
    def read(self, reader: Reader, version: int) -> ResponseT:
        """Return the answer in a version.

        Raises:
            MalformedError: The bytes are no such answer.
        """

    def encode(self, version: int, *, correlation_id: int = 0, client_id: str = "") -> bytes:
        """Return the request with its header, version 1 or (flexible) 2, and its length before it."""
        header = Writer()
        header.number(INT16, self.API_KEY)
        header.number(INT16, version)
        header.number(INT32, correlation_id)
        # Not compact in a flexible header either, so that brokers can read it of versions that they do not know.
        header.nullable_string(client_id)
        body = Writer(is_flexible=version >= self.FLEXIBLE_FROM)
        body.tags()
        self.write(body, version)
        return INT32.pack(len(header.data) + len(body.data)) + header.data + body.data

    def decode(self, answer: bytes, version: int) -> ResponseT:
        """Return what an answer says, whose correlation id was read before.

        Args:
            answer: Everything after its length.
            version: That of the request.

        Raises:
            MalformedError: The bytes are no such answer.
        """
        reader = Reader(answer, INT32.size, is_flexible=version >= self.FLEXIBLE_FROM)
        if self.API_KEY != ApiVersions.API_KEY:
            reader.tags()
        decoded = self.read(reader, version)
        reader.end()
        return decoded


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerVersions(BrokerResponse):
    """What a broker speaks.

    Attributes:
        error_code: 0, or 35 when it does not know the version of the request; then only API key 18 is listed.
        versions: The lowest and the highest version by API key.
    """

    error_code: int
    versions: Mapping[int, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class ApiVersions(BrokerRequest[BrokerVersions]):
    """Ask which requests a broker knows (KIP-35, KIP-511).

    The header of its answer is never flexible, and a broker that does not know the version answers in version 0: a
    client that does not know it yet must be able to read both.
    """

    API_KEY = 18
    VERSIONS = range(4)
    FLEXIBLE_FROM = 3

    software_version: str

    def write(self, writer: Writer, version: int) -> None:
        """Append the fields: from version 3 on, who is asking."""
        if version >= 3:
            writer.string("quotaform")
            writer.string(self.software_version)
            writer.tags()

    def read(self, reader: Reader, version: int) -> BrokerVersions:
        """Return the versions."""
        error_code = reader.int16()
        if error_code == UNSUPPORTED_VERSION:
            version, reader.is_flexible = 0, False

        def entry() -> tuple[int, tuple[int, int]]:
            found = reader.int16(), (reader.int16(), reader.int16())
            reader.tags()
            return found

        versions = dict(reader.array(entry))
        throttle = reader.int32() if version >= 1 else 0
        reader.tags()
        return BrokerVersions(throttle_time_ms=throttle, error_code=error_code, versions=versions)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMetadata(BrokerResponse):
    """Which cluster this is.

    Attributes:
        cluster_id: The id that it gave itself, if it has one.
        brokers: Where its brokers are, by node id, as they advertise themselves.
    """

    cluster_id: str | None
    brokers: Mapping[int, Server]


@dataclass(frozen=True, slots=True)
class Metadata(BrokerRequest[ClusterMetadata]):
    """Ask for the id of the cluster and its brokers, and for no topics."""

    API_KEY = 3
    VERSIONS = range(4, 13)
    FLEXIBLE_FROM = 9

    def write(self, writer: Writer, version: int) -> None:
        """Append the fields: no topics, nothing created, no lists of rights."""
        writer.array((), writer.string)
        writer.boolean(False)
        if 8 <= version <= 10:
            writer.boolean(False)
        if version >= 8:
            writer.boolean(False)
        writer.tags()

    def read(self, reader: Reader, version: int) -> ClusterMetadata:
        """Return the cluster."""

        def broker() -> tuple[int, Server]:
            found = reader.int32(), Server(reader.string(), reader.int32())
            reader.nullable_string()  # its rack
            reader.tags()
            return found

        throttle = reader.int32()
        brokers = {node_id: server for node_id, server in reader.array(broker) if server.is_valid}
        if len(brokers) > _MAX_BROKERS:
            raise MalformedError(f"it names over {_MAX_BROKERS:,} brokers")
        cluster_id = reader.nullable_string()
        reader.int32()  # the controller, which any broker may be (KIP-590)
        reader.array(reader.int8)  # no topics were asked for
        if 8 <= version <= 10:
            reader.int32()
        reader.tags()
        return ClusterMetadata(throttle_time_ms=throttle, cluster_id=cluster_id, brokers=brokers)


@dataclass(frozen=True, slots=True, kw_only=True)
class HandshakeResponse(BrokerResponse):
    """Whether a mechanism may be used; `error_code` is 0 if so."""

    error_code: int


@dataclass(frozen=True, slots=True)
class SaslHandshake(BrokerRequest[HandshakeResponse]):
    """Choose a SASL mechanism (KIP-43); from version 1 on the tokens go in SaslAuthenticate."""

    API_KEY = 17
    VERSIONS = range(1, 2)
    FLEXIBLE_FROM = 2

    mechanism: str

    def write(self, writer: Writer, version: int) -> None:
        """Append the fields."""
        writer.string(self.mechanism)

    def read(self, reader: Reader, version: int) -> HandshakeResponse:
        """Return whether the mechanism is offered."""
        error_code = reader.int16()
        reader.array(reader.string)
        return HandshakeResponse(error_code=error_code)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthenticateResponse(BrokerResponse):
    """What a server answers to a token.

    Attributes:
        error_code: 0 if all is well so far.
        token: Its own token.
        session_lifetime_ms: After how long one must authenticate again (KIP-368); 0 for never.
    """

    error_code: int
    token: bytes = field(repr=False)
    session_lifetime_ms: int


@dataclass(frozen=True, slots=True)
class SaslAuthenticate(BrokerRequest[AuthenticateResponse]):
    """Send one token of a SASL mechanism (KIP-152)."""

    API_KEY = 36
    VERSIONS = range(3)
    FLEXIBLE_FROM = 2

    token: bytes = field(repr=False)

    def write(self, writer: Writer, version: int) -> None:
        """Append the fields."""
        writer.bytes(self.token)
        writer.tags()

    def read(self, reader: Reader, version: int) -> AuthenticateResponse:
        """Return the server's token."""
        error_code = reader.int16()
        reader.nullable_string()
        token = reader.nullable_bytes() or b""
        lifetime = reader.int64() if version >= 1 else 0
        reader.tags()
        return AuthenticateResponse(error_code=error_code, token=token, session_lifetime_ms=lifetime)
