"""Kafka's protocol: its primitive types, requests and responses, and those that open every connection.

Every length is checked. A message is either flexible (KIP-482: lengths are unsigned varints, one more than they are,
and every structure ends in tagged fields) or not (lengths are INT16 or INT32, -1 for null); which one it is follows
from its version.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from struct import Struct
from struct import error as StructError  # noqa: N812 (it is a class)
from typing import Any, ClassVar, Final, Generic, NamedTuple, TypeVar

from quotaform.model.entity import MAX_NAME_BYTES, spell_name
from quotaform.model.server import Server

T = TypeVar("T")

INT8: Final = Struct(">b")
INT16: Final = Struct(">h")
INT32: Final = Struct(">i")
INT64: Final = Struct(">q")
FLOAT64: Final = Struct(">d")

_MAX_VARINT_BITS: Final = 35


class MalformedError(Exception):
    """Bytes that are not a valid response of Kafka's protocol; the message describes the problem."""


def encode_text(text: str) -> bytes:
    """Return a text as it is sent. Raises `ValueError` if no broker can read it."""
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{spell_name(text)} contains a lone surrogate, which is not valid Unicode") from None
    if len(encoded) > MAX_NAME_BYTES:
        raise ValueError(f"a name has {len(encoded):,} bytes in UTF-8; a broker reads at most {MAX_NAME_BYTES:,}")
    return encoded


def _reader_of(kind: Struct) -> Callable[[ResponseReader], Any]:
    """Return a method that takes a field of a fixed size."""

    def read(reader: ResponseReader) -> Any:
        try:
            (value,) = kind.unpack_from(reader.data, reader.position)
        except StructError:
            raise MalformedError("it is truncated") from None
        reader.position += kind.size
        return value

    return read


class ResponseReader:
    """Reads one answer; each method takes the next field, or raises `MalformedError` when it is not there."""

    __slots__ = ("data", "is_flexible", "position")

    def __init__(self, data: bytes, position: int = 0, *, is_flexible: bool = False) -> None:
        self.data = data
        self.position = position
        self.is_flexible = is_flexible

    int8 = _reader_of(INT8)
    int16 = _reader_of(INT16)
    int32 = _reader_of(INT32)
    int64 = _reader_of(INT64)
    float64 = _reader_of(FLOAT64)  # KAFKA-9474
    uuid = _reader_of(Struct(">16s"))

    def uvarint(self) -> int:
        """Return an unsigned varint of up to 32 bits."""
        value = shift = 0
        try:
            while shift < _MAX_VARINT_BITS:
                byte = self.data[self.position]
                self.position += 1
                if byte < 0x80:
                    return value | byte << shift
                value |= (byte & 0x7F) << shift
                shift += 7
        except IndexError:
            raise MalformedError("it is truncated") from None
        raise MalformedError("a length in it is too large")

    def _length(self, fixed: Callable[[ResponseReader], Any]) -> int:
        length: int = self.uvarint() - 1 if self.is_flexible else fixed(self)
        # An element takes at least one byte, so a wrong length cannot cost more memory than the response.
        if not -1 <= length <= len(self.data) - self.position:
            raise MalformedError("a length in it exceeds the bytes that follow")
        return length

    def nullable_bytes(self, fixed: Callable[[ResponseReader], Any] = int32) -> bytes | None:
        """Return bytes, or `None` for null; `fixed` reads their length unless the message is flexible."""
        length = self._length(fixed)
        if length < 0:
            return None
        start, self.position = self.position, self.position + length
        return self.data[start : self.position]

    def nullable_string(self) -> str | None:
        """Return a string, or `None` for null."""
        content = self.nullable_bytes(ResponseReader.int16)
        try:
            return None if content is None else content.decode()
        except UnicodeDecodeError:
            raise MalformedError("a string in it is not UTF-8") from None

    def string(self) -> str:
        """Return a string."""
        text = self.nullable_string()
        if text is None:
            raise MalformedError("a string in it is null")
        return text

    def count(self, most: int | None = None, what: str = "") -> int:
        """Return how many elements the array has that begins here, 0 for null, and `most` of them."""
        count = max(self._length(ResponseReader.int32), 0)
        if most is not None and count > most:
            raise MalformedError(f"it has {count:,} {what}, more than the limit of {most:,}")
        return count

    def array(self, read: Callable[[], T], *, is_tagged: bool = True) -> list[T]:
        """Return the elements of an array, none for null; those that are structures have tagged fields."""
        found: list[T] = []
        for _ in range(self.count()):
            found.append(read())
            if is_tagged:
                self.tags()
        return found

    def tags(self) -> None:
        """Pass over the tagged fields at the end of a structure; a message that is not flexible has none."""
        if self.is_flexible and (count := self.uvarint()):
            for _ in range(count):
                self.uvarint()
                size = self.uvarint()
                self.position += size  # a wrong size leads beyond the end, where nothing can be read

    def end(self) -> None:
        """Make sure that nothing follows."""
        if self.position != len(self.data):
            raise MalformedError(f"{len(self.data) - self.position} bytes follow its end")


class Writer:
    """Writes one request; each method appends a field. Raises `ValueError` for a text that no broker can read."""

    __slots__ = ("data", "is_flexible")

    def __init__(self, *, is_flexible: bool = False) -> None:
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
            value = length + 1
            while value > 0x7F:
                self.data.append(value & 0x7F | 0x80)
                value >>= 7
            self.data.append(value)
            return
        self.data += fixed.pack(length)

    def bytes(self, value: bytes, fixed: Struct = INT32) -> None:
        """Append bytes; `fixed` is the type of their length unless the message is flexible."""
        self._length(len(value), fixed)
        self.data += value

    def string(self, value: str) -> None:
        """Append a string."""
        self.bytes(encode_text(value), INT16)

    def nullable_string(self, value: str | None) -> None:
        """Append a string, or null for `None`."""
        if value is None:
            self._length(-1, INT16)
        else:
            self.string(value)

    def array(self, items: Iterable[T], write: Callable[[T], None], *, is_tagged: bool = True) -> None:
        """Append an array whose elements `write` appends; those that are structures have tagged fields."""
        listed = list(items)
        self._length(len(listed), INT32)
        for item in listed:
            write(item)
            if is_tagged:
                self.tags()

    def tags(self) -> None:
        """Append that a structure has no tagged fields; a message that is not flexible has no place for them."""
        if self.is_flexible:
            self.data.append(0)


UNSUPPORTED_VERSION: Final = 35
_MAX_BROKERS: Final = 10_000

ResponseT = TypeVar("ResponseT")


class BrokerRequest(ABC, Generic[ResponseT]):
    """One request, which is answered by a `ResponseT`."""

    __slots__ = ()

    API_KEY: ClassVar[int]
    VERSIONS: ClassVar[Sequence[int]]  # the versions that this client speaks, the best one last
    FLEXIBLE_FROM: ClassVar[int]  # the first flexible version (KIP-482)
    IS_THROTTLED: ClassVar[bool] = True
    """Whether its answer begins with how long the broker asks the client to wait (KIP-219)."""
    MAX_RESPONSE: ClassVar[int] = 1 << 20
    """How many bytes its answer may have; a server without TLS and SASL may be anything."""
    NEEDS: ClassVar[str] = "use a later release of Kafka"
    """The remedy where brokers do not know it."""

    @abstractmethod
    def _write(self, writer: Writer, version: int) -> None:
        """Append the fields of a version."""

    @abstractmethod
    def _read(self, reader: ResponseReader, version: int) -> ResponseT:
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
        self._write(body, version)
        body.tags()
        return INT32.pack(len(header.data) + len(body.data)) + header.data + body.data

    def decode(self, answer: bytes, version: int) -> tuple[ResponseT, int]:
        """Return what an answer says, whose correlation id was read before, and the milliseconds to wait."""
        reader = ResponseReader(answer, INT32.size, is_flexible=version >= self.FLEXIBLE_FROM)
        if self.API_KEY != ApiVersions.API_KEY:
            reader.tags()
        throttle = reader.int32() if self.IS_THROTTLED else 0
        decoded = self._read(reader, version)
        reader.tags()
        reader.end()
        return decoded, throttle


class DescribeResponse(NamedTuple, Generic[T]):
    """The answer to a read."""

    error_code: int
    error_message: str | None
    found: T


Versions = Mapping[int, tuple[int, int]]
"""The lowest and the highest version that a broker speaks, by API key."""


@dataclass(frozen=True, slots=True)
class ApiVersions(BrokerRequest[tuple[int, Versions]]):
    """Ask which requests a broker knows (KIP-35, KIP-511), and get 0, or 35 if it does not know this version.

    The header of its answer is never flexible, and a broker that does not know the version answers in version 0: a
    client that does not know it yet must be able to read both.
    """

    API_KEY = 18
    VERSIONS = (0, 3)
    FLEXIBLE_FROM = 3
    IS_THROTTLED = False

    software_version: str

    def _write(self, writer: Writer, version: int) -> None:
        if version:
            writer.string("quotaform")
            writer.string(self.software_version)

    def _read(self, reader: ResponseReader, version: int) -> tuple[int, Versions]:
        error_code = reader.int16()
        if error_code == UNSUPPORTED_VERSION:
            version, reader.is_flexible = 0, False
        versions = dict(reader.array(lambda: (reader.int16(), (reader.int16(), reader.int16()))))
        if version:
            reader.int32()  # how long to wait
        return error_code, versions


class ClusterMetadata(NamedTuple):
    """Which cluster this is."""

    cluster_id: str | None
    brokers: Mapping[int, Server]  # where its brokers are, by node id, as they advertise themselves
    topics: Sequence[tuple[int, bytes]]  # of those asked for: 0 or an error code, and the id, 16 bytes


@dataclass(frozen=True, slots=True)
class Metadata(BrokerRequest[ClusterMetadata]):
    """Ask for the id of the cluster and its brokers, and for some topics, which are not created."""

    API_KEY = 3
    VERSIONS = range(4, 13)  # from 10 on with the ids of topics
    FLEXIBLE_FROM = 9

    topics: Sequence[str] = ()

    def _write(self, writer: Writer, version: int) -> None:
        def topic(name: str) -> None:
            if version >= 10:
                writer.data += bytes(16)
            writer.string(name)

        writer.array(self.topics, topic)
        writer.boolean(False)
        # Nor for lists of rights, of the cluster and of topics.
        if 8 <= version <= 10:
            writer.boolean(False)
        if version >= 8:
            writer.boolean(False)

    def _read(self, reader: ResponseReader, version: int) -> ClusterMetadata:
        def broker() -> tuple[int, Server]:
            found = reader.int32(), Server(reader.string(), reader.int32())
            reader.nullable_string()  # its rack
            return found

        def partition() -> None:
            reader.int16()
            for _ in ("index", "leader", "leader epoch")[: 3 if version >= 7 else 2]:
                reader.int32()
            for _ in ("replicas", "in sync", "offline")[: 3 if version >= 5 else 2]:
                reader.array(reader.int32, is_tagged=False)

        def topic() -> tuple[int, bytes]:
            code = reader.int16()
            reader.nullable_string()
            topic_id = reader.uuid() if version >= 10 else bytes(16)
            reader.int8()  # whether it is internal
            reader.array(partition)
            if version >= 8:
                reader.int32()  # rights
            return code, topic_id

        brokers = {node_id: server for node_id, server in reader.array(broker) if server.is_valid}
        if len(brokers) > _MAX_BROKERS:
            raise MalformedError(f"it names over {_MAX_BROKERS:,} brokers")
        cluster_id = reader.nullable_string()
        reader.int32()  # the controller, which any broker may be (KIP-590)
        topics = reader.array(topic)
        if 8 <= version <= 10:
            reader.int32()  # rights
        if len(topics) != len(self.topics):
            raise MalformedError("it has not one result for one topic")
        return ClusterMetadata(cluster_id, brokers, topics)


@dataclass(frozen=True, slots=True)
class SaslHandshake(BrokerRequest[int]):
    """Choose a SASL mechanism (KIP-43), and get 0 or an error code; from version 1 on tokens go in SaslAuthenticate."""

    API_KEY = 17
    VERSIONS = range(1, 2)
    FLEXIBLE_FROM = 2
    IS_THROTTLED = False

    mechanism: str

    def _write(self, writer: Writer, version: int) -> None:
        writer.string(self.mechanism)

    def _read(self, reader: ResponseReader, version: int) -> int:
        error_code: int = reader.int16()
        reader.array(reader.string, is_tagged=False)
        return error_code


@dataclass(frozen=True, slots=True)
class SaslAuthenticate(BrokerRequest[tuple[int, bytes, int]]):
    """Send one token of a SASL mechanism (KIP-152), and get the error code, a token, and the lifetime of the session.

    It is in milliseconds, after which one must authenticate again (KIP-368); 0 for never.
    """

    API_KEY = 36
    VERSIONS = range(3)
    FLEXIBLE_FROM = 2
    IS_THROTTLED = False

    token: bytes = field(repr=False)

    def _write(self, writer: Writer, version: int) -> None:
        writer.bytes(self.token)

    def _read(self, reader: ResponseReader, version: int) -> tuple[int, bytes, int]:
        error_code = reader.int16()
        reader.nullable_string()
        token = reader.nullable_bytes() or b""
        return error_code, token, reader.int64() if version >= 1 else 0
