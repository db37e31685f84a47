"""Kafka's protocol: its primitive types, requests and responses, and those that open every connection."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from struct import Struct
from struct import error as StructError  # noqa: N812 (it is a class)
from typing import Any, ClassVar, Final, Generic, TypeVar

from quotaform.model.server import Server

# Reads and writes the primitive types of Kafka's protocol, checking every length.
#
# A message is either flexible (KIP-482: lengths are unsigned varints, one more than they are, and every structure
# ends in
# tagged fields) or not (lengths are INT16 or INT32, -1 for null); which one it is follows from its version.

T = TypeVar("T")

INT8: Final = Struct(">b")
INT16: Final = Struct(">h")
INT32: Final = Struct(">i")
INT64: Final = Struct(">q")
FLOAT64: Final = Struct(">d")

_MAX_VARINT_BITS: Final = 35


class MalformedError(Exception):
    """Bytes that are not a valid response of Kafka's protocol; the message describes the problem."""


def read_uvarint(data: bytes, position: int) -> tuple[int, int]:
    """Return the unsigned varint at a position, and the position after it.

    Raises `IndexError` if the data ends before, `MalformedError` if it is longer than 32 bits can be.
    """
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift >= _MAX_VARINT_BITS:
            raise MalformedError("a length in it is too large")


def uvarint(value: int) -> bytes:
    """Return an unsigned varint.

    >>> uvarint(300).hex()
    'ac02'
    """
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


class Reader:
    """Reads one answer from its first byte to its last; each method takes the next field.

    Every method raises `MalformedError` when the field is not there.
    """

    __slots__ = ("data", "is_flexible", "position")

    def __init__(self, data: bytes, position: int = 0, *, is_flexible: bool = False) -> None:
        """Read `data` from a position."""
        self.data = data
        self.position = position
        self.is_flexible = is_flexible

    def _number(self, kind: Struct) -> Any:
        try:
            (value,) = kind.unpack_from(self.data, self.position)
        except StructError:
            raise MalformedError("it is truncated") from None
        self.position += kind.size
        return value

    def int8(self) -> int:
        """Return an INT8."""
        return int(self._number(INT8))

    def int16(self) -> int:
        """Return an INT16."""
        return int(self._number(INT16))

    def int32(self) -> int:
        """Return an INT32."""
        return int(self._number(INT32))

    def int64(self) -> int:
        """Return an INT64."""
        return int(self._number(INT64))

    def float64(self) -> float:
        """Return a FLOAT64 (KAFKA-9474)."""
        return float(self._number(FLOAT64))

    def uvarint(self) -> int:
        """Return an unsigned varint."""
        try:
            value, self.position = read_uvarint(self.data, self.position)
        except IndexError:
            raise MalformedError("it is truncated") from None
        return value

    def _length(self, fixed: Struct) -> int:
        length = self.uvarint() - 1 if self.is_flexible else int(self._number(fixed))
        # An element takes at least one byte, so a wrong length cannot cost more memory than the response.
        if not -1 <= length <= len(self.data) - self.position:
            raise MalformedError("a length in it exceeds the bytes that follow")
        return length

    def nullable_bytes(self, fixed: Struct = INT32) -> bytes | None:
        """Return bytes, or `None` for null; `fixed` is the type of their length unless the message is flexible."""
        length = self._length(fixed)
        if length < 0:
            return None
        start, self.position = self.position, self.position + length
        return self.data[start : self.position]

    def nullable_string(self) -> str | None:
        """Return a string, or `None` for null."""
        encoded = self.nullable_bytes(INT16)
        try:
            return None if encoded is None else encoded.decode()
        except UnicodeDecodeError:
            raise MalformedError("a string in it is not UTF-8") from None

    def string(self) -> str:
        """Return a string."""
        text = self.nullable_string()
        if text is None:
            raise MalformedError("a string in it is null")
        return text

    def count(self) -> int | None:
        """Return how many elements the array has that begins here, or `None` for null."""
        count = self._length(INT32)
        return None if count < 0 else count

    def array(self, read: Callable[[], T]) -> list[T]:
        """Return the elements of an array, none for null."""
        return [read() for _ in range(self.count() or 0)]

    def structures(self, read: Callable[[], T]) -> list[T]:
        """Return the elements of an array of structures, each with its tagged fields."""

        def structure() -> T:
            found = read()
            self.tags()
            return found

        return self.array(structure)

    def tags(self) -> None:
        """Pass over the tagged fields at the end of a structure; a message that is not flexible has none."""
        if not self.is_flexible:
            return
        for _ in range(self.uvarint()):
            self.uvarint()
            size = self.uvarint()
            self.position += size  # a wrong size leads beyond the end, where nothing can be read

    def end(self) -> None:
        """Make sure that nothing follows."""
        if self.position != len(self.data):
            raise MalformedError(f"{len(self.data) - self.position} bytes follow its end")


class Writer:
    """Writes one request; each method appends a field.

    Raises `ValueError` for a text that cannot be encoded or is too long for its length field.
    """

    __slots__ = ("data", "is_flexible")

    def __init__(self, *, is_flexible: bool = False) -> None:
        """Begin with nothing."""
        self.data = bytearray()
        self.is_flexible = is_flexible

    def number(self, kind: Struct, value: float) -> None:
        """Append a number of a fixed size."""
        self.data += kind.pack(value)

    def boolean(self, value: bool) -> None:
        """Append a BOOLEAN."""
        self.data.append(value)

    def _length(self, length: int, fixed: Struct) -> None:
        if self.is_flexible:
            self.data += uvarint(length + 1)
            return
        try:
            self.data += fixed.pack(length)
        except StructError:
            raise ValueError(f"{length:,} is too long for Kafka's protocol") from None

    def bytes(self, value: bytes, fixed: Struct = INT32) -> None:
        """Append bytes; `fixed` is the type of their length unless the message is flexible."""
        self._length(len(value), fixed)
        self.data += value

    def string(self, value: str) -> None:
        """Append a string."""
        self.bytes(value.encode(), INT16)

    def nullable_string(self, value: str | None) -> None:
        """Append a string, or null for `None`."""
        if value is None:
            self._length(-1, INT16)
        else:
            self.string(value)

    def array(self, items: Iterable[T], write: Callable[[T], None]) -> None:
        """Append an array whose elements `write` appends."""
        listed = list(items)
        self._length(len(listed), INT32)
        for item in listed:
            write(item)

    def structures(self, items: Iterable[T], write: Callable[[T], None]) -> None:
        """Append an array of structures whose fields `write` appends, each with its tagged fields."""

        def structure(item: T) -> None:
            write(item)
            self.tags()

        self.array(items, structure)

    def tags(self) -> None:
        """Append that a structure has no tagged fields; a message that is not flexible has no place for them."""
        if self.is_flexible:
            self.data.append(0)


UNSUPPORTED_VERSION: Final = 35
_MAX_BROKERS: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerResponse:
    """What all answers have."""

    throttle_time_ms: int = 0  # how long the broker asks the client to wait with its next request (KIP-219)


ResponseT = TypeVar("ResponseT", bound=BrokerResponse)


class BrokerRequest(ABC, Generic[ResponseT]):
    """One request."""

    __slots__ = ()

    API_KEY: ClassVar[int]
    VERSIONS: ClassVar[range]  # the versions that this client speaks, the best one last
    FLEXIBLE_FROM: ClassVar[int]  # the first flexible version (KIP-482)
    MAX_RESPONSE: ClassVar[int] = 1 << 20
    """How many bytes its answer may have; a server without TLS and SASL may be anything."""

    @abstractmethod
    def write(self, writer: Writer, version: int) -> None:
        """Append the fields of a version."""

    @abstractmethod
    def read(self, reader: Reader, version: int) -> ResponseT:
        """Return the answer in a version."""

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
        """Return what an answer says, whose correlation id was read before."""
        reader = Reader(answer, INT32.size, is_flexible=version >= self.FLEXIBLE_FROM)
        if self.API_KEY != ApiVersions.API_KEY:
            reader.tags()
        decoded = self.read(reader, version)
        reader.end()
        return decoded


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerVersions(BrokerResponse):
    """What a broker speaks."""

    error_code: int  # 0, or 35 when it does not know the version of the request; then only API key 18 is listed
    versions: Mapping[int, tuple[int, int]]  # the lowest and the highest version by API key


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
        versions = dict(reader.structures(lambda: (reader.int16(), (reader.int16(), reader.int16()))))
        throttle = reader.int32() if version >= 1 else 0
        reader.tags()
        return BrokerVersions(throttle_time_ms=throttle, error_code=error_code, versions=versions)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMetadata(BrokerResponse):
    """Which cluster this is."""

    cluster_id: str | None
    brokers: Mapping[int, Server]  # where its brokers are, by node id, as they advertise themselves


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
            return found

        throttle = reader.int32()
        brokers = {node_id: server for node_id, server in reader.structures(broker) if server.is_valid}
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
    """What a server answers to a token."""

    error_code: int
    token: bytes = field(repr=False)
    session_lifetime_ms: int  # after how long one must authenticate again (KIP-368); 0 for never


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
