"""The files that sources name, and the ranges of them that tasks read.

| source | files |
| --- | --- |
| a file | it |
| a directory | all files below it, but those whose name begins with `.` or `_` |
| a glob | the files that it fits, and those in directories that it fits |
| a URL, such as `s3a://bucket/recordings` | as Spark lists it; each file is held in memory while it is read |
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import UTC
from glob import glob
from io import BufferedReader, BytesIO
from itertools import pairwise
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import functions as f
from pyspark.sql.types import DoubleType, IntegerType, LongType, StringType, StructField, StructType

from quotaform.fleet.options import SessionOptions
from quotaform.fleet.table import (
    NO_PATH,
    bad_table,
    format_of,
    is_of_spark,
    is_url,
    make_table,
    reason_of,
    require_table,
)
from quotaform.model.errors import FileReadError, UsageError
from quotaform.model.text import inert, quote
from quotaform.usage.format.text import HEAD_BYTES, TABLE, csv_separator, detect_format
from quotaform.usage.table.schema import struct_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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
    """What a task reads of a recording."""

    file: str
    start: int  # The byte from which on parts are read
    end: int | None  # The byte at which no part begins any more; `None` is the end of the file
    at: float  # When the file was written, in seconds since the epoch
    content: bytes | None = None  # The whole content, if it is not a file that this machine sees
    path: str | None = None  # The file


class Stream:
    """A recording from a byte on; a broken compression ends it.

    `head`: how it begins, wherever it is read from. `is_compressed`: whether it is; then it is read from its beginning.
    `problem`: why it ended before its end, if it did. `position`: how many bytes were read of it.
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


RANGES: Final = struct_type("file string", "start end long", "at double", "content binary", "path string")
"""The fields of a `Range`."""
CSV: Final = "csv"
_TABLES: Final = frozenset({".parquet", ".orc", ".avro", ".delta"})
_TASK: Final = StructField("task", IntegerType())
_RANGE_BYTES: Final = 64 * 2**20
_MOST_TASKS: Final = 10_000
_LARGEST_REMOTE: Final = 512 * 2**20
_TABLE_COMPRESSION: Final = 4
_REMOTE_TABLE: Final = 16 * 2**30
"""The bytes of a table that this machine does not see."""
_COMPRESSION: Final = 10
"""How many times larger what is compressed is, about."""


class SourceFile(NamedTuple):
    """A file."""

    name: str  # What it is called; for Spark, a URL is also where it is
    size: int  # Its bytes
    at: float  # When it was written, in seconds since the epoch
    shown: str = ""  # What it is called in messages and in the quarantine; its name if it is empty

    @property
    def is_compressed(self) -> bool:
        """Whether its name says that it is compressed."""
        return Path(self.name).suffix.lower() in COMPRESSED


class SourceTable(NamedTuple):
    """A table whose rows are samples."""

    name: str  # A path, or the name of a table of the catalog
    kind: str | None  # The format of its files; `None` if it is one of the catalog


def find_tables(names: Sequence[str], *, has_tables: bool) -> list[SourceTable]:
    """Return the sources that are tables: those of a format of tables, and CSV that JmxTool has not written."""
    found = []
    for name in names:
        suffix = Path(name).suffix.lower()
        if _is_csv(name) and (has_tables or _is_table(name)):
            found.append(SourceTable(name, CSV))
        elif has_tables or suffix in _TABLES or _is_table_folder(Path(name)):
            found.append(SourceTable(name, format_of(name)))
    return found


def _is_csv(name: str) -> bool:
    """Whether a name is that of CSV files, compressed or not, or of a directory of them."""
    path = Path(name)
    if path.is_dir():
        return any(_is_csv(str(child)) for child in path.iterdir() if child.is_file())
    return Path(path.stem if path.suffix.lower() in COMPRESSED else path.name).suffix.lower() == f".{CSV}"


def _is_table(name: str) -> bool:
    path = Path(name)
    if not path.is_file():
        return False
    with closing(Stream(Range(name, 0, None, 0.0, None, str(path)))) as stream:
        return detect_format(stream.head) == TABLE


def separator_of(name: str) -> str:
    """Return what separates the cells of CSV: that of the first file, by its first line."""
    path = Path(name)
    files = sorted(each for each in path.iterdir() if _is_csv(str(each))) if path.is_dir() else [path]
    if not files or not files[0].is_file():
        return ","
    with closing(Stream(Range(name, 0, None, 0.0, None, str(files[0])))) as stream:
        return csv_separator(stream.head)


def _is_table_folder(path: Path) -> bool:
    """Whether a directory has files of tables, also in partitions."""
    if not path.is_dir():
        return False
    if (path / "_delta_log").is_dir():
        return True
    return any(each.suffix.lower() in _TABLES for pattern in ("*", "*=*/*", "*=*/*=*/*") for each in path.glob(pattern))


def require_sources(names: Sequence[str], tables: Sequence[SourceTable], session: SessionOptions) -> None:
    """Make sure that there is something to read, as far as is known before Spark is started.

    Raises `UsageError` if a source names no file; see `find_files`. Raises `InvalidFilesError` if a table cannot be
    read. Raises `FileReadError` if a directory cannot be read.
    """
    for table in tables:
        if table.kind != CSV:
            require_table(table.name, session)
        elif not (is_of_spark(table.name, session) or Path(table.name).exists()):
            raise bad_table(table.name, f"cannot be read: {NO_PATH}")
    for name in names:
        is_table = any(table.name == name for table in tables)
        if not (is_table or is_url(name)) and next(_local_files(name), None) is None:
            raise _no_files(name)


def find_files(spark: SparkSession, names: Sequence[str]) -> list[SourceFile]:
    """Return the files that sources name, each once.

    Raises `FileReadError` if a URL cannot be listed, or a file on it is too large to be held in memory.
    """
    found: dict[str, SourceFile] = {}
    for name in names:
        files = _remote_files(spark, name) if is_url(name) else list(_local_files(name))
        if not files:
            raise _no_files(name)
        found |= {file.name: file for file in files}
    return list(found.values())


def _no_files(name: str) -> UsageError:
    is_folder = not is_url(name) and Path(name).is_dir()
    what = "has no files" if is_folder else "is not a file, and no file matches it as a glob"
    return UsageError(f"{quote(name)} {what}; name files, directories or globs of recordings")


def _local_files(name: str) -> Iterator[SourceFile]:
    paths = [name] if Path(name).exists() else sorted(glob(name, recursive=True))  # noqa: PTH207 (as it is written)
    for path in paths:
        yield from _files_at(Path(path))


def _files_at(path: Path) -> Iterator[SourceFile]:
    try:
        if path.is_dir():
            for child in sorted(path.iterdir()):
                if not child.name.startswith((".", "_")):
                    yield from _files_at(child)
        else:
            status = path.stat()
            yield SourceFile(str(path), status.st_size, status.st_mtime)
    except OSError as error:
        raise FileReadError(str(path), error.strerror or "it cannot be read") from error


def _remote_files(spark: SparkSession, name: str) -> list[SourceFile]:
    try:
        listed = _contents(spark, [name]).select("path", "length", "modificationTime").collect()
    except (PySparkException, Py4JError) as error:
        raise FileReadError(inert(name), reason_of(error)) from error
    files = [SourceFile(row.path, row.length, row.modificationTime.replace(tzinfo=UTC).timestamp()) for row in listed]
    for file in files:
        if file.size > _LARGEST_REMOTE:
            raise FileReadError(
                inert(file.name),
                f"it has {file.size:,} bytes, and a file on this file system may have {_LARGEST_REMOTE:,}; copy it to "
                "a directory that the executors see, or split it",
            )
    return sorted(files)


def _contents(spark: SparkSession, names: Sequence[str]) -> DataFrame:
    return spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(list(names))


def ranges(spark: SparkSession, files: Sequence[SourceFile]) -> DataFrame:
    """Return `RANGES` of files, in tasks of about equally many bytes."""
    rows = list(_in_tasks([each for file in files if not is_url(file.name) for each in _ranges_of(file)]))
    columns = list(zip(*rows, strict=True)) if rows else [()] * (len(RANGES) + 1)
    tasks = 1 + max(columns[-1], default=0)
    table = make_table(spark, StructType([*RANGES.fields, _TASK]), columns)
    table = table.repartitionById(tasks, f.col(_TASK.name)).drop(_TASK.name)
    remote = [file.name for file in files if is_url(file.name)]
    if not remote:
        return table
    content = _contents(spark, remote).select(
        f.col("path").alias("file"),
        f.lit(0).cast(LongType()).alias("start"),
        f.lit(None).cast(LongType()).alias("end"),
        f.unix_micros("modificationTime").cast(DoubleType()).__truediv__(1e6).alias("at"),
        "content",
        f.lit(None).cast(StringType()).alias("path"),
    )
    return table.unionAll(content) if rows else content


def _ranges_of(file: SourceFile) -> Iterator[tuple[Range, int]]:
    """Yield the ranges of a file, each with how many bytes are read of it, about."""
    path = str(Path(file.name).absolute())
    if file.is_compressed or file.size <= _RANGE_BYTES:
        yield (
            Range(file.shown or file.name, 0, None, file.at, None, path),
            file.size * (_COMPRESSION if file.is_compressed else 1),
        )
        return
    count = -(-file.size // _RANGE_BYTES)
    ends = [file.size * number // count for number in range(count + 1)]
    for start, end in pairwise(ends):
        is_last = end == file.size
        yield Range(file.shown or file.name, start, None if is_last else end, file.at, None, path), end - start


def _in_tasks(found: Sequence[tuple[Range, int]]) -> Iterator[tuple[Any, ...]]:
    """Yield ranges, each with the number of its task."""
    total = sum(size for _, size in found)
    share = max(_RANGE_BYTES, total // _MOST_TASKS)
    task, filled = 0, 0
    for range_of, size in found:
        if filled and filled + size > share:
            task, filled = task + 1, 0
        filled += size
        yield (*range_of, task)


def total_bytes(files: Sequence[SourceFile]) -> int:
    """Return how many bytes files have, about, when they are not compressed."""
    return sum(file.size * (_COMPRESSION if file.is_compressed else 1) for file in files)


def table_bytes(table: SourceTable) -> int:
    """Return how many bytes the rows of a table have, about; that of a small one if it is not known."""
    path = Path(table.name)
    paths = path.rglob("*") if path.is_dir() else glob(table.name)  # noqa: PTH207 (as it is written)
    return sum(each.stat().st_size for each in map(Path, paths) if each.is_file()) * _TABLE_COMPRESSION or _REMOTE_TABLE
