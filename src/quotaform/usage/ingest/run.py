"""Recordings into a table of usage: all of their rows, or none.

| source | files |
| --- | --- |
| a file | it |
| a directory | all files below it, but those whose name begins with `.` or `_` |
| a glob | the files that it fits, and those in directories that it fits |
| a URL, such as `s3a://bucket/recordings` | as Spark lists it; each file is held in memory while it is read |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import reduce
from glob import glob
from pathlib import Path
from re import compile as regex
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec import Struct, convert
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import functions as f

from quotaform.desired.shape import check_shape
from quotaform.desired.tree import SourceFile
from quotaform.desired.yaml.document import StopReadingError
from quotaform.desired.yaml.reader import read_document
from quotaform.fleet.job import kept_rows
from quotaform.fleet.options import SessionOptions
from quotaform.fleet.table import (
    NO_PATH,
    bad_table,
    format_of,
    is_of_spark,
    is_url,
    make_table,
    read_table,
    reason_of,
    require_columns,
    require_table,
)
from quotaform.model import rule
from quotaform.model.errors import FileReadError, InvalidFilesError, UsageError
from quotaform.model.outcome import Progress, no_progress
from quotaform.model.text import MIB, inert, option_of, quote
from quotaform.repository.gateway import repeated
from quotaform.resolve.spark import completed, struct
from quotaform.usage.bucket.bucket import moment_of
from quotaform.usage.format.table import TableMapping, guess_mapping, mapping_problem, usage_mapping
from quotaform.usage.format.text import TABLE, detect_format
from quotaform.usage.ingest.ingest import Ingested, IngestedCluster, RejectedRecords, SampleCounts
from quotaform.usage.ingest.rows import RECORDINGS, RawRecording, head_of, merged, opened, parsed, parsed_table
from quotaform.usage.metric_name import Origin
from quotaform.usage.sample import DropReason, by_reason
from quotaform.usage.table.files import add_rows, require_free, require_writable, with_date
from quotaform.usage.table.schema import PARTITIONS, QUARANTINE, USAGE
from quotaform.usage.table.table import read_parts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_usage_mapping(source: SourceFile) -> TableMapping:
    """Return the mapping in a text, YAML or JSON. Raises `InvalidFilesError` if it is invalid; all problems at once."""
    document = read_document(source)
    with suppress(StopReadingError):
        if not document.errors:
            check_shape(usage_mapping, document)
        if not document.errors:
            mapping = convert(document.root, TableMapping)
            if problem := mapping_problem(mapping):
                place = document.locate(problem[0]).key
                document.add_finding(rule.BAD_MAPPING.finding(problem[1], location=place))
            elif not document.findings.all():
                return mapping
    raise InvalidFilesError(document.findings.all())


CSV: Final = "csv"
_CSV_NAME = regex(r"(?is).*\.csv(?:\.gz|\.bz2|\.xz)?").fullmatch
_QUOTED: Final = regex(rb'"[^"\n]*"')
_TABLES: Final = frozenset({".parquet", ".orc", ".avro", ".delta"})
_TASK_BYTES: Final = 64 * MIB
"""How many bytes of small files a task reads."""
_LARGEST_REMOTE: Final = 512 * MIB


class InputFile(NamedTuple):
    """A file."""

    name: str  # What it is called; for Spark, a URL is also where it is
    size: int  # Its bytes
    at: float  # When it was written, in seconds since the epoch


def _csv_files(name: str) -> list[Path]:
    """Return the files of CSV that a name is of, compressed or not: it, or those in it."""
    path = Path(name)
    files = [each for each in sorted(path.glob("*")) if each.is_file()] if path.is_dir() else [path]
    return [each for each in files if _CSV_NAME(each.name)]


def _head(path: Path) -> bytes:
    with opened(RawRecording(str(path), 0.0, str(path))) as stream:
        return head_of(stream)


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
    waiting = [*map(Path, reversed(paths))]
    while waiting:
        path = waiting.pop()
        try:
            if path.is_dir():
                children = (child for child in path.iterdir() if not child.name.startswith((".", "_")))
                waiting += sorted(children, reverse=True)
                continue
            status = path.stat()
        except OSError as error:
            raise FileReadError(str(path), error.strerror or "it cannot be read") from error
        yield InputFile(str(path), status.st_size, status.st_mtime)


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


def recordings(spark: SparkSession, files: Sequence[InputFile], shown: str | None = None) -> list[DataFrame]:
    """Return `RECORDINGS` of the files that executors see, packed into tasks by their bytes, and of the others.

    `shown`: see `IngestRequest`.
    """
    local, remote = ([file for file in files if is_url(file.name) is is_remote] for is_remote in (False, True))
    parts: list[DataFrame] = []
    if local:
        task = filled = 0
        rows: list[tuple[Any, ...]] = []
        for file in local:
            if filled and filled + file.size > _TASK_BYTES:
                task, filled = task + 1, 0
            filled += file.size
            called = file.name if shown is None else f"{shown}/{Path(file.name).name}"
            rows.append((called, file.at, str(Path(file.name).absolute()), None, None, task))
        table = make_table(spark, struct(RECORDINGS, "task integer"), rows)
        parts.append(table.repartitionById(task + 1, f.col("task")).drop("task"))
    if remote:
        at = (f.unix_micros("modificationTime") / 1e6).alias("at")
        content = _contents(spark, [file.name for file in remote])
        parts.append(completed(content.select(f.col("path").alias("file"), at, "content"), RECORDINGS))
    return parts


def read_parsed_table(
    spark: SparkSession, name: str, kind: str | None, mapping: TableMapping | None, origin: Origin
) -> list[DataFrame]:
    """Return `PARSED` of the parts of a table.

    `kind`: the format of its files; `None` if it is one of the catalog. `mapping`: what its columns are; `None` to go
    by their names. Raises `InvalidFilesError` if it cannot be read, lacks columns, or its columns cannot be told by
    their names.
    """
    options: dict[str, Any] = {}
    if kind == CSV:
        # What separates the cells of the first file, by its first line.
        path = next(iter(_csv_files(name)), None)
        head = _head(path).lstrip() if path and path.is_file() else b""
        line = _QUOTED.sub(b"", head.partition(b"\n")[0])
        options = {"header": True, "sep": max((b",", b";", b"\t"), key=line.count).decode(), "escape": '"'}
    table = read_table(spark, name, kind=kind, **options)
    is_usage = kind != CSV and {*USAGE.names} - {*table.columns} <= {"instance"}
    # Rows know their files no more once parts are brought together.
    parts = read_parts(spark, name) if is_usage else [table]
    chosen = guess_mapping(parts[0].columns) if mapping is None else mapping
    if isinstance(chosen, str):
        raise bad_table(name, f"cannot be read: {chosen} ({option_of('mapping')} FILE)")
    for part in parts:
        require_columns(name, part, sorted(chosen.names))
    return [parsed_table(part, name, kind, chosen, origin) for part in parts]


class Counts(NamedTuple):
    """What is in `MERGED`."""

    samples: int  # Samples of the rows
    dropped: dict[DropReason, int]  # Samples that are left out, by reason
    rejected: int  # Records that could not be read
    rows: int
    clusters: Sequence[str]
    since: datetime | None  # The first time of the rows
    until: datetime | None  # The last one


@contextmanager
def ingested(read: DataFrame) -> Iterator[tuple[Counts, DataFrame, DataFrame]]:
    """Yield what is in `PARSED`: how much, the rows of `USAGE` with their date, and those of `QUARANTINE`.

    The rows are kept until the end; the time of those that could not be read is that at which they are asked for.
    """
    with kept_rows(merged(read)) as found:
        samples, is_row = f.col("samples"), f.col("ts").isNotNull()
        [row] = found.agg(
            f.coalesce(f.sum(f.when(is_row, samples)), f.lit(0)).alias("samples"),
            f.count("reason").alias("rejected"),
            f.count("ts").alias("rows"),
            f.sort_array(f.collect_set("cluster")).alias("clusters"),
            f.unix_micros(f.min("ts")).alias("since"),
            f.unix_micros(f.max("ts")).alias("until"),
            *(f.sum(f.when(f.col("dropped") == each.name, samples)).alias(each.name) for each in DropReason),
        ).collect()
        counts = row.asDict()
        dropped = {reason: count for reason in DropReason if (count := counts.pop(reason.name))}
        counts |= {name: moment_of(counts[name]) for name in ("since", "until") if counts[name] is not None}
        at = f.current_timestamp().alias("ingested_at")
        rejected = found.where(f.col("reason").isNotNull()).select(*QUARANTINE.names[:-1], at)
        yield Counts(**counts, dropped=dropped), with_date(found.where(is_row).select(*USAGE.names)), rejected


class IngestRequest(Struct, frozen=True, kw_only=True):
    """What to ingest."""

    sources: Sequence[str]  # Files, directories, globs and URLs
    usage: str  # The table that rows are added to
    quarantine: str  # The table that records are added to which cannot be read
    format_name: str | None  # The format of the sources; `None` to find out for each file
    mapping: TableMapping | None = None  # What the columns of tables are; `None` to go by their names
    origin: Origin
    declared: frozenset[str] | None  # The clusters of quotaform.yaml; `None` if there is none
    shown: str | None = None
    """What stands for the sources in the names of their files, if they are copies of something else."""

    def tables(self) -> dict[str, str | None]:
        """Return the sources that are tables: those of a format of tables, and CSV that JmxTool has not written.

        Each has the format of its files; `None` if it is a table of the catalog.
        """
        found: dict[str, str | None] = {}
        if self.format_name not in (None, TABLE):
            return found
        has_tables = self.format_name == TABLE or self.mapping is not None
        for name in self.sources:
            path = Path(name)
            is_table = has_tables or path.suffix.lower() in _TABLES
            if path.is_dir() and not is_table:
                # Also in partitions.
                files = (each for pattern in ("*", "*=*/*", "*=*/*=*/*") for each in path.glob(pattern))
                is_table = (path / "_delta_log").is_dir() or any(each.suffix.lower() in _TABLES for each in files)
            if _csv_files(name) and (has_tables or (path.is_file() and detect_format(_head(path)) == TABLE)):
                found[name] = CSV
            elif is_table:
                found[name] = format_of(name)
        return found


def require_ingestible(request: IngestRequest, session: SessionOptions) -> None:
    """Make sure that there is something to ingest and a place for it, as far as is known before Spark is started.

    Raises `UsageError` if a source names no file, or a table is a file. Raises `InvalidFilesError` if a source is no
    table, or there is another table where rows are to be added. Raises `FileReadError` if a directory cannot be read.
    """
    tables = request.tables()
    for name, kind in tables.items():
        if kind != CSV:
            require_table(name, session)
        elif not (is_of_spark(name, session) or Path(name).exists()):
            raise bad_table(name, f"cannot be read: {NO_PATH}")
    for name in request.sources:
        if not (name in tables or is_url(name)) and next(_local_files(name), None) is None:
            raise _no_files(name)
    require_free(request.usage, session)
    require_free(request.quarantine, session)


def ingest(spark: SparkSession, request: IngestRequest, *, progress: Progress = no_progress) -> Ingested:
    """Add recordings to a table of usage.

    Raises `UsageError` if a source names no file, or a table is a file. Raises `InvalidFilesError` if there is another
    table where rows are to be added. Raises `FileReadError` if a file cannot be read. Raises `EngineError` if rows were
    written where this process does not see them; nothing was added.
    """
    require_writable(spark, request.usage, USAGE)
    require_writable(spark, request.quarantine, QUARANTINE)
    progress("Looking for files", 0, 0)
    tables = request.tables()
    files = find_files(spark, [name for name in request.sources if name not in tables])
    mapping, origin = request.mapping, request.origin
    read = [part for each in tables.items() for part in read_parsed_table(spark, *each, mapping, origin)]
    read += [parsed(each, request.format_name, origin) for each in recordings(spark, files, request.shown)]
    whole = reduce(lambda one, other: one.unionAll(other), read)
    with repeated(progress, "Ingesting"), ingested(whole) as (counts, rows, rejected):
        place, new = ["file", "position", "reason"], rejected
        if counts.rejected:
            # Those are left out that are there already; what cannot be a quarantine was refused before.
            with suppress(InvalidFilesError):
                new = rejected.join(read_table(spark, request.quarantine).select(*place), place, "left_anti")
            add_rows(new.select(*QUARANTINE.names), request.quarantine, new.count(), prefix="quarantine")
        first = rejected.select(*place).orderBy("file", "position").limit(20).collect() if counts.rejected else []
        add_rows(rows, request.usage, counts.rows, prefix="usage", by=PARTITIONS)
    return Ingested(
        usage=request.usage,
        files=len(files) + len(tables),
        empty_files=sum(not file.size for file in files),
        summary=SampleCounts(written=counts.samples, dropped=sum(counts.dropped.values()), quarantined=counts.rejected),
        rows=counts.rows,
        dropped=by_reason(counts.dropped),
        quarantine=request.quarantine if counts.rejected else None,
        rejected=tuple(RejectedRecords(file=row.file, position=row.position, reason=row.reason) for row in first),
        clusters=tuple(
            IngestedCluster(name=name, is_declared=None if request.declared is None else name in request.declared)
            for name in counts.clusters
        ),
        since=counts.since,
        until=counts.until,
    )
