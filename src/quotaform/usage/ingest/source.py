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
_COMPRESSED: Final = frozenset({".gz", ".bz2", ".xz"})
CSV: Final = "csv"
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
    return Path(path.stem if path.suffix.lower() in _COMPRESSED else path.name).suffix.lower() == f".{CSV}"


def _is_table(name: str) -> bool:
    path = Path(name)
    if not path.is_file():
        return False
    with opened(Recording(name, 0.0, name)) as stream:
        return detect_format(head_of(stream)) == TABLE


def separator_of(name: str) -> str:
    """Return what separates the cells of CSV: that of the first file, by its first line."""
    path = Path(name)
    files = sorted(each for each in path.iterdir() if _is_csv(str(each))) if path.is_dir() else [path]
    if not files or not files[0].is_file():
        return ","
    with opened(Recording(name, 0.0, str(files[0]))) as stream:
        return csv_separator(head_of(stream))


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


def recordings(spark: SparkSession, files: Sequence[SourceFile]) -> DataFrame:
    """Return `RECORDINGS` of files, in tasks of about equally many bytes."""
    local = [file for file in files if not is_url(file.name)]
    task, filled, tasks = 0, 0, []
    for file in local:
        if filled and filled + file.size > _TASK_BYTES:
            task, filled = task + 1, 0
        filled += file.size
        tasks.append(task)
    nothing = [None] * len(local)
    columns: list[Sequence[object]] = [
        [file.shown or file.name for file in local],
        [file.at for file in local],
        [str(Path(file.name).absolute()) for file in local],
        nothing,
        nothing,
        tasks,
    ]
    table = make_table(spark, struct(RECORDINGS, "task integer"), columns)
    table = table.repartitionById(task + 1, f.col("task")).drop("task")
    remote = [file.name for file in files if is_url(file.name)]
    if not remote:
        return table
    content = _contents(spark, remote).select(
        f.col("path").alias("file"),
        (f.unix_micros("modificationTime") / 1e6).alias("at"),
        f.lit(None).cast("string").alias("path"),
        "content",
        f.lit(None).cast("long").alias("offset"),
    )
    return table.unionAll(content) if local else content
