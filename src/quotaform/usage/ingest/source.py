"""The files and tables that sources name, and the recordings that tasks read.

| source | files |
| --- | --- |
| a file | it |
| a directory | all files below it, but those whose name begins with `.` or `_` |
| a glob | the files that it fits, and those in directories that it fits |
| a URL, such as `s3a://bucket/recordings` | as Spark lists it; each file is held in memory while it is read |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC
from glob import glob
from pathlib import Path
from re import compile as regex
from typing import TYPE_CHECKING, Final, NamedTuple

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
from quotaform.model.errors import FileReadError, UsageError
from quotaform.model.text import MIB, inert, quote
from quotaform.resolve.spark_quotas import struct
from quotaform.usage.format.text import TABLE, csv_separator, detect_format
from quotaform.usage.ingest.recording import Recording, head_of, opened

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


RECORDINGS: Final = struct("file string", "at double", "path string", "content binary", "offset long")
"""The fields of a `Recording`."""
CSV: Final = "csv"
_CSV_NAME = regex(r"(?is).*\.csv(?:\.gz|\.bz2|\.xz)?").fullmatch
_TABLES: Final = frozenset({".parquet", ".orc", ".avro", ".delta"})
_TASK_BYTES: Final = 64 * MIB
"""How many bytes of small files a task reads."""
_LARGEST_REMOTE: Final = 512 * MIB


class SourceFile(NamedTuple):
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
        if _csv_files(name) and (has_tables or (path.is_file() and detect_format(_head(path)) == TABLE)):
            found.append(SourceTable(name, CSV))
        elif has_tables or path.suffix.lower() in _TABLES or _is_table_folder(path):
            found.append(SourceTable(name, format_of(name)))
    return found


def _csv_files(name: str) -> list[Path]:
    """Return the files of CSV that a name is of, compressed or not: it, or those in it."""
    path = Path(name)
    files = [each for each in sorted(path.glob("*")) if each.is_file()] if path.is_dir() else [path]
    return [each for each in files if _CSV_NAME(each.name)]


def _head(path: Path) -> bytes:
    with opened(Recording(str(path), 0.0, str(path))) as stream:
        return head_of(stream)


def separator_of(name: str) -> str:
    """Return what separates the cells of CSV: that of the first file, by its first line."""
    files = _csv_files(name)
    return csv_separator(_head(files[0])) if files and files[0].is_file() else ","


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


def recordings(spark: SparkSession, files: Sequence[SourceFile]) -> list[DataFrame]:
    """Return `RECORDINGS` of the files that executors see, in tasks of about equally many bytes, and of the others."""
    local, remote = ([file for file in files if is_url(file.name) is is_remote] for is_remote in (False, True))
    parts: list[DataFrame] = []
    if local:
        task = filled = 0
        rows: list[tuple[object, ...]] = []
        for file in local:
            if filled and filled + file.size > _TASK_BYTES:
                task, filled = task + 1, 0
            filled += file.size
            rows.append((file.shown or file.name, file.at, str(Path(file.name).absolute()), None, None, task))
        table = make_table(spark, struct(RECORDINGS, "task integer"), rows)
        parts.append(table.repartitionById(task + 1, f.col("task")).drop("task"))
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
