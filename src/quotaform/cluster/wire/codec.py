"""Reads and writes the primitive types of Kafka's protocol, checking every length.

A message is either flexible (KIP-482: lengths are unsigned varints, one more than they are, and every structure ends in
tagged fields) or not (lengths are INT16 or INT32, -1 for null); which one it is follows from its version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from struct import Struct
from struct import error as StructError  # noqa: N812 (it is a class)
from typing import Any, Final, TypeVar

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

    Raises:
        IndexError: The data ends before.
        MalformedError: It is longer than 32 bits can be.
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

    def tags(self) -> None:
        """Pass over the tagged fields at the end of a structure; a message that is not flexible has none."""
        if not self.is_flexible:
            return
        for _ in range(self.uvarint()):
            self.uvarint()
            size = self.uvarint()
            if size > len(self.data) - self.position:
                raise MalformedError("a length in it exceeds the bytes that follow")
            self.position += size

    def end(self) -> None:
        """Make sure that nothing follows."""
        if self.position != len(self.data):
            raise MalformedError(f"{len(self.data) - self.position} bytes follow its end")


class Writer:
    """Writes one request; each method appends a field.

    Raises:
        ValueError: A text cannot be encoded or is too long for its length field.
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
        """Append an array whose elements `write` appends, each with its tagged fields."""
        listed = list(items)
        self._length(len(listed), INT32)
        for item in listed:
            write(item)

    def tags(self) -> None:
        """Append that a structure has no tagged fields; a message that is not flexible has no place for them."""
        if self.is_flexible:
            self.data.append(0)
