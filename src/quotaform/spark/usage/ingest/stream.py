"""Opens recordings: files and contents, compressed or not, of which a task reads a range."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import IO, Final, NamedTuple, Protocol

from quotaform.core.usage.format.recording_format import HEAD_BYTES
from quotaform.errors import FileReadError


class _Readable(Protocol):
    def read1(self, size: int, /) -> bytes: ...


_OPENERS: Final[dict[bytes, Callable[[IO[bytes]], _Readable]]] = {
    b"\x1f\x8b": lambda raw: gzip.GzipFile(fileobj=raw),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\0": lzma.LZMAFile,
}
"""What reads compressed files, by their first bytes."""
_LONGEST_MAGIC: Final = max(map(len, _OPENERS))
_BROKEN: Final = (OSError, EOFError, zlib.error, lzma.LZMAError)
COMPRESSED: Final = frozenset({".gz", ".bz2", ".xz"})
"""Suffixes of files that are read by one task, as they can't be read from the middle."""


class Range(NamedTuple):
    """What a task reads of a recording.

    Attributes:
        start: The byte from which on parts are read.
        end: The byte at which no part begins any more; `None` is the end of the file.
        at: When the file was written, in seconds since the epoch.
        content: The whole content, if it is not a file that this machine sees.
        path: The file.
    """

    file: str
    start: int
    end: int | None
    at: float
    content: bytes | None = None
    path: str | None = None


class Stream:
    """A recording from a byte on; a broken compression ends it.

    Attributes:
        head: How it begins, wherever it is read from.
        is_compressed: Whether it is; then it is read from its beginning.
        problem: Why it ended before its end, if it did.
        position: How many bytes were read of it.
    """

    def __init__(self, source: Range) -> None:
        """Open it. Raises `FileReadError` if there is no such file, or it may not be read."""
        self.problem: str | None = None
        self._raw = self._opened(source)
        magic = self._raw.read(_LONGEST_MAGIC)
        opener = next((opener for start, opener in _OPENERS.items() if magic.startswith(start)), None)
        self._raw.seek(0)
        self.is_compressed = opener is not None
        self._stream: _Readable = self._raw if opener is None else opener(self._raw)
        self.position = 0
        self.head = self._again = self._next(HEAD_BYTES)

    @staticmethod
    def _opened(source: Range) -> BufferedReader | BytesIO:
        if source.path is None:
            return BytesIO(source.content or b"")
        try:
            return Path(source.path).open("rb")
        except OSError as error:
            reason = error.strerror or "it cannot be opened"
            raise FileReadError(source.file, f"{reason} (executors read it at this path)") from error

    def seek(self, position: int) -> None:
        """Go to a byte of a recording that is not compressed."""
        self._raw.seek(position)
        self._again, self.position = b"", position

    def read(self, size: int) -> bytes:
        """Return the next bytes; none at the end, or where the compression is broken."""
        data, self._again = self._again or self._next(size), b""
        self.position += len(data)
        return data

    def _next(self, size: int) -> bytes:
        found = bytearray()
        try:
            # `read` would lose what it has when the compression is broken.
            while self.problem is None and len(found) < size and (data := self._stream.read1(size - len(found))):
                found += data
        except _BROKEN as error:
            self.problem = "it ends too early" if isinstance(error, EOFError) else "its content is damaged"
        return bytes(found)

    def close(self) -> None:
        """Close it."""
        self._raw.close()
