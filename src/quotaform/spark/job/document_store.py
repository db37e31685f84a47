"""Documents that executors have rendered, on the driver's disk until somebody prints or writes them."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator
from functools import partial
from tempfile import TemporaryFile
from typing import Final
from weakref import finalize
from zlib import decompressobj

_PIECE: Final = 65_536

Reader = Callable[[], Iterator[str]]
"""Reads a document, as often as it is called."""


class DocumentStore:
    """Compressed documents in a temporary file, which is gone with the last one that is not forgotten."""

    def __init__(self) -> None:
        self._file = TemporaryFile()  # noqa: SIM115
        finalize(self, self._file.close)
        self._parts: dict[str, list[tuple[int, int]]] = {}

    def add(self, name: str, content: bytes) -> None:
        """Add a part of a document of the cluster that is at work."""
        begin = self._file.seek(0, 2)
        self._file.write(content)
        self._parts.setdefault(name, []).append((begin, len(content)))

    def take(self) -> dict[str, Reader]:
        """Return the documents of the cluster that is done, by name."""
        taken: dict[str, Reader] = {name: partial(self._read, parts) for name, parts in self._parts.items()}
        self._parts = {}
        return taken

    def _read(self, parts: list[tuple[int, int]]) -> Iterator[str]:
        decompressor = decompressobj()
        decoder = getincrementaldecoder("utf-8")("surrogatepass")
        for begin, length in parts:
            self._file.seek(begin)
            content = self._file.read(length)
            while content:
                yield decoder.decode(decompressor.decompress(content, _PIECE))
                content = decompressor.unconsumed_tail
        yield decoder.decode(decompressor.flush(), final=True)
