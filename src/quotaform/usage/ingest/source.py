"""The files and tables that sources name, and the recordings that tasks read, whatever their format.

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
from contextlib import contextmanager, suppress
from datetime import UTC
from glob import glob
from io import BytesIO
from pathlib import Path
from re import compile as regex
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import functions as f

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
from quotaform.model.errors import FileReadError, QuotaformError, UsageError
from quotaform.model.text import MIB, inert, option_of, quote
from quotaform.resolve.spark_quotas import struct
from quotaform.usage.format import FORMATS
from quotaform.usage.format.text import HEAD_BYTES, TABLE, detect_format
from quotaform.usage.sample import Item, Rejected, reject

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from quotaform.usage.metric_name import Origin


RECORDINGS: Final = struct("file string", "at double", "path string", "content binary", "offset long")
"""The fields of a `RawRecording`."""
CSV: Final = "csv"
_CSV_NAME = regex(r"(?is).*\.csv(?:\.gz|\.bz2|\.xz)?").fullmatch
_QUOTED: Final = regex(rb'"[^"\n]*"')
_TABLES: Final = frozenset({".parquet", ".orc", ".avro", ".delta"})
_TASK_BYTES: Final = 64 * MIB
"""How many bytes of files a task reads, about."""
_LARGEST_REMOTE: Final = 512 * MIB


class InputFile(NamedTuple):
    """A file."""

    name: str  # What it is called; for Spark, a URL is also where it is
    size: int  # Its bytes
    at: float  # When it was written, in seconds since the epoch
    shown: str = ""  # What it is called in messages and in the quarantine; its name if it is empty


class SourceTable(NamedTuple):
    """A table whose rows are samples."""

    name: str  # A path, or the name of a table of the catalog
    kind: str | None  # The format of its files; `None` if it is one of the catalog


def find_tables(names: Sequence[str], *, has_tables: bool) -> list[SourceTable]:
    """Return the sources that are tables: those of a format of tables, and CSV that JmxTool has not written."""
    found = []
    for name in names:
        path = Path(name)
        is_table = has_tables or path.suffix.lower() in _TABLES
        if path.is_dir() and not is_table:
            # Also in partitions.
            files = (each for pattern in ("*", "*=*/*", "*=*/*=*/*") for each in path.glob(pattern))
            is_table = (path / "_delta_log").is_dir() or any(each.suffix.lower() in _TABLES for each in files)
        if _csv_files(name) and (has_tables or (path.is_file() and detect_format(_head(path)) == TABLE)):
            found.append(SourceTable(name, CSV))
        elif is_table:
            found.append(SourceTable(name, format_of(name)))
    return found


def _csv_files(name: str) -> list[Path]:
    """Return the files of CSV that a name is of, compressed or not: it, or those in it."""
    path = Path(name)
    files = [each for each in sorted(path.glob("*")) if each.is_file()] if path.is_dir() else [path]
    return [each for each in files if _CSV_NAME(each.name)]


def _head(path: Path) -> bytes:
    with opened(RawRecording(str(path), 0.0, str(path))) as stream:
        return head_of(stream)


def separator_of(name: str) -> str:
    """Return what separates the cells of CSV: that of the first file, by its first line."""
    path = next(iter(_csv_files(name)), None)
    head = _head(path).lstrip() if path and path.is_file() else b""
    line = _QUOTED.sub(b"", head.partition(b"\n")[0])
    return max((b",", b";", b"\t"), key=line.count).decode()


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


def find_files(spark: SparkSession, names: Sequence[str]) -> list[InputFile]:
    """Return the files that sources name, each once.

    Raises `FileReadError` if a URL cannot be listed, or a file on it is too large to be held in memory.
    """
    found: dict[str, InputFile] = {}
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


def _local_files(name: str) -> Iterator[InputFile]:
    paths = [name] if Path(name).exists() else sorted(glob(name, recursive=True))  # noqa: PTH207 (as it is written)
    for path in paths:
        yield from _files_at(Path(path))


def _files_at(path: Path) -> Iterator[InputFile]:
    try:
        if path.is_dir():
            for child in sorted(path.iterdir()):
                if not child.name.startswith((".", "_")):
                    yield from _files_at(child)
        else:
            status = path.stat()
            yield InputFile(str(path), status.st_size, status.st_mtime)
    except OSError as error:
        raise FileReadError(str(path), error.strerror or "it cannot be read") from error


def _remote_files(spark: SparkSession, name: str) -> list[InputFile]:
    try:
        listed = _contents(spark, [name]).select("path", "length", "modificationTime").collect()
    except (PySparkException, Py4JError) as error:
        raise FileReadError(inert(name), reason_of(error)) from error
    files = [InputFile(row.path, row.length, row.modificationTime.replace(tzinfo=UTC).timestamp()) for row in listed]
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


def recordings(spark: SparkSession, files: Sequence[InputFile]) -> list[DataFrame]:
    """Return `RECORDINGS` of the files that executors see, in tasks of so many bytes, and of the others."""
    local, remote = ([file for file in files if is_url(file.name) is is_remote] for is_remote in (False, True))
    parts: list[DataFrame] = []
    if local:
        rows = [(each.shown or each.name, each.at, str(Path(each.name).absolute()), None, None) for each in local]
        tasks = 1 + sum(each.size for each in local) // _TASK_BYTES
        parts.append(make_table(spark, RECORDINGS, rows).repartition(tasks))
    if remote:
        content = _contents(spark, [file.name for file in remote]).select(
            f.col("path").alias("file"),
            (f.unix_micros("modificationTime") / 1e6).alias("at"),
            f.lit(None).cast("string").alias("path"),
            "content",
            f.lit(None).cast("long").alias("offset"),
        )
        parts.append(content)
    return parts


class RawRecording(NamedTuple):
    """What is read: a file that executors see, or its content."""

    file: str  # What it is called in messages and in the quarantine
    at: float  # When it was written, in seconds since the epoch
    path: str | None = None
    content: bytes | None = None  # `None` also of a record of a topic without a value
    offset: int | None = None  # That of a record of a topic


_OPENERS: Final[dict[bytes, Callable[[IO[bytes]], Any]]] = {
    b"\x1f\x8b": lambda raw: gzip.GzipFile(fileobj=raw),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\0": lzma.LZMAFile,
}
"""What reads compressed files, by their first bytes."""
_BROKEN: Final = (OSError, EOFError, zlib.error, lzma.LZMAError)
_UNKNOWN: Final = (
    "the file is of no format that is known: neither an answer of Prometheus, metrics of an exporter, CSV of JmxTool, "
    f"JSON of OpenTelemetry, nor a table; name it with {option_of('input_format')} if it is one of these, or write its "
    "values into a table (docs/usage-recordings.md#tables)"
)
_IS_TABLE: Final = (
    f"the file is a table; give {option_of('input_format')} table, and {option_of('mapping')} if its columns have "
    "other names"
)


def items_of(recording: RawRecording, format_name: str | None, origin: Origin) -> Iterator[Item]:
    """Yield what is in a recording; all that cannot be read is rejected.

    `format_name`: its format; `None` to find out. Raises `FileReadError` if it is a file that cannot be opened.
    """
    for item in _items(recording, format_name, origin):
        if isinstance(item, Rejected) and recording.offset is not None:
            item = item._replace(position=recording.offset, reason=f"offset {recording.offset}: {item.reason}")
        yield item


def _items(recording: RawRecording, format_name: str | None, origin: Origin) -> Iterator[Item]:
    if recording.path is None and recording.content is None:
        yield reject(0, "the record has no value", "")
        return
    head = b""
    try:
        with opened(recording) as stream:
            head = head_of(stream)
            name = format_name or detect_format(head)
            if name in FORMATS:
                # The last line of a file may be cut; that of a record is whole.
                source = stream if recording.offset is None else stream.read()
                yield from FORMATS[name](source, origin, recording.at)
            elif head.strip():
                yield reject(0, _UNKNOWN if name is None else _IS_TABLE, head[:200].decode("utf-8", "replace"))
    except (QuotaformError, MemoryError):
        raise
    except _BROKEN as error:
        problem = "it ends too early" if isinstance(error, EOFError) else "its content is damaged"
        yield reject(0, f"the file is cut or broken, and read up to there: {problem}", "")
    except Exception as error:
        # Nothing else may end with it: a stream would meet the same record each time that it begins again.
        reason = (
            f"internal error: {type(error).__name__}, from which on nothing is read; please report it with the file"
        )
        yield reject(0, reason, head[:200].decode("utf-8", "replace"))


@contextmanager
def opened(recording: RawRecording) -> Iterator[IO[bytes]]:
    """Open a recording, whether or not it is compressed. Raises `FileReadError` if it cannot be opened."""
    raw: IO[bytes]
    if recording.path is None:
        raw = BytesIO(recording.content or b"")
    else:
        try:
            raw = Path(recording.path).open("rb")  # noqa: SIM115
        except OSError as error:
            reason = error.strerror or "it cannot be opened"
            raise FileReadError(recording.file, f"{reason} (executors read it at this path)") from error
    with raw:
        magic = raw.read(max(map(len, _OPENERS)))
        raw.seek(0)
        opener = next((opener for start, opener in _OPENERS.items() if magic.startswith(start)), None)
        yield raw if opener is None else opener(raw)


def head_of(stream: Any) -> bytes:
    """Return how a recording begins, which is read again from its beginning."""
    found = b""
    with suppress(*_BROKEN):
        while len(found) < HEAD_BYTES and (more := stream.read1(HEAD_BYTES)):
            found += more
    stream.seek(0)
    return found[:HEAD_BYTES]
