"""Recordings into a table of usage: one pass over them, and another one if there are records that cannot be read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Observation
from pyspark.sql import functions as f

from quotaform.fleet.options import SessionOptions
from quotaform.fleet.table import bad_table, located, read_table, reason_of, require_columns
from quotaform.model.errors import EngineError, InvalidFilesError
from quotaform.model.outcome import Progress, no_progress
from quotaform.repository.cluster_work import repeated
from quotaform.system.clock import SYSTEM_CLOCK, Clock
from quotaform.usage.format.table import TableMapping, guess_mapping
from quotaform.usage.format.text import TABLE
from quotaform.usage.ingest.ingest import Ingested, IngestedCluster, RejectedRecords, SampleCounts
from quotaform.usage.ingest.rows import PARSED, merged, usage_rows
from quotaform.usage.ingest.source import (
    CSV,
    SourceFile,
    SourceTable,
    find_files,
    find_tables,
    ranges,
    require_sources,
    separator_of,
    table_bytes,
    total_bytes,
)
from quotaform.usage.ingest.table_rows import parsed_table
from quotaform.usage.metric_name import Origin
from quotaform.usage.sample import DropReason, by_reason
from quotaform.usage.table.append import add_rows, require_free, require_writable
from quotaform.usage.table.schema import QUARANTINE, USAGE, first_columns
from quotaform.usage.table.table import with_later_columns

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import Column, DataFrame, SparkSession


def read_parsed_table(
    spark: SparkSession, source: SourceTable, mapping: TableMapping | None, origin: Origin
) -> DataFrame:
    """Return `parsed_rows.PARSED` of a table.

    `mapping`: what its columns are; `None` to go by their names. Raises `InvalidFilesError` if it cannot be read, lacks
    columns, or nothing says what its columns are.
    """
    table = _csv(spark, source.name) if source.kind == CSV else read_table(spark, source.name)
    if source.kind != CSV and set(table.columns) >= set(first_columns(USAGE)):
        table = with_later_columns(source.name, table)
    chosen = guess_mapping(table.columns) if mapping is None else mapping
    if isinstance(chosen, str):
        raise bad_table(source.name, f"cannot be read: {chosen} (--mapping FILE)")
    require_columns(source.name, table, sorted(chosen.names))
    return parsed_table(table, source.name, source.kind, chosen, origin)


def _csv(spark: SparkSession, name: str) -> DataFrame:
    try:
        table = spark.read.csv(located(name), header=True, sep=separator_of(name), escape='"', mode="PERMISSIVE")
        _ = table.columns
    except (PySparkException, Py4JError) as error:
        raise bad_table(name, f"cannot be read: {reason_of(error)}") from error
    return table


def parsed(ranges: DataFrame, format_name: str | None, origin: Origin) -> DataFrame:
    """Return `parsed_rows.PARSED` of recordings.

    `ranges`: `source.RANGES`: ranges of files, or whole contents. `format_name`: their format, one of
    `quotaform.core.usage.format.FORMATS`; `None` to find out for each.
    """
    return ranges.mapInArrow(partial(_parsed, format_name, origin), PARSED)


def _parsed(
    format_name: str | None, origin: Origin, batches: Iterator[pyarrow.RecordBatch]
) -> Iterator[pyarrow.RecordBatch]:
    """Parse ranges; runs on an executor."""
    from quotaform.usage.ingest.document import add_recording
    from quotaform.usage.ingest.rows import ParsedRows
    from quotaform.usage.ingest.source import Range

    rows = ParsedRows()
    for batch in batches:
        for number in range(batch.num_rows):
            (cells,) = batch.slice(number, 1).to_pylist()
            for _ in add_recording(Range(**cells), format_name, origin, rows):
                yield from rows.batches()
    yield from rows.rest()


_MOST_SHOWN: Final = 20
_MERGED_BYTES: Final = 256 * 2**20
"""How many bytes of recordings a task brings together, at most; half of that of samples, about."""
_MOST_TASKS: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestRequest:
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

    def tables(self) -> list[SourceTable]:
        """Return the sources that are tables."""
        if self.format_name not in (None, TABLE):
            return []
        return find_tables(self.sources, has_tables=self.format_name == TABLE or self.mapping is not None)


def require_ingestible(request: IngestRequest, session: SessionOptions) -> None:
    """Make sure that there is something to ingest and a place for it, as far as is known before Spark is started.

    Raises `UsageError` if a source names no file, or a table is a file. Raises `InvalidFilesError` if there is another
    table where rows are to be added, or a source that is none. Raises `FileReadError` if a directory cannot be read.
    """
    require_sources(request.sources, request.tables(), session)
    require_free(request.usage, session)
    require_free(request.quarantine, session)


def ingest(
    spark: SparkSession, request: IngestRequest, *, clock: Clock = SYSTEM_CLOCK, progress: Progress = no_progress
) -> Ingested:
    """Add recordings to a table of usage.

    Raises `UsageError` if a source names no file, or a table is a file. Raises `InvalidFilesError` if there is another
    table where rows are to be added. Raises `FileReadError` if a file cannot be read. Raises `EngineError` if samples
    were lost on the way; nothing was added.
    """
    require_writable(spark, request.usage, USAGE)
    require_writable(spark, request.quarantine, QUARANTINE)
    progress("Looking for files", 0, 0)
    tables = request.tables()
    others = [name for name in request.sources if name not in {table.name for table in tables}]
    files = find_files(spark, others)
    if request.shown is not None:
        files = [file._replace(shown=f"{request.shown}/{Path(file.name).name}") for file in files]
    found = [read_parsed_table(spark, table, request.mapping, request.origin) for table in tables]
    if files:
        found.append(parsed(ranges(spark, files), request.format_name, request.origin))
    rows = reduce(lambda one, other: one.unionAll(other), found)
    return _Ingest(request, files, tables, clock.now()).run(rows, progress)


@dataclass(frozen=True, slots=True)
class _Ingest:
    request: IngestRequest
    files: Sequence[SourceFile]
    tables: Sequence[SourceTable]
    now: datetime

    def run(self, rows: DataFrame, progress: Progress) -> Ingested:
        before, after = Counter(), Counter()
        first: list[RejectedRecords] = []
        size = total_bytes(self.files) + sum(table_bytes(table) for table in self.tables)
        tasks = max(1, min(_MOST_TASKS, -(-size // _MERGED_BYTES)))
        found = usage_rows(after.merged(merged(before.parsed(rows), tasks)))

        def check() -> int:
            read, made = before.counts(), after.counts()
            if read.samples != made.samples + sum(made.dropped.values()):
                raise _lost(f"{read.samples:,} samples were read, and {made.samples:,} made it into rows")
            return made.rows

        def quarantine() -> None:
            if rejected := before.counts().rejected:
                first.extend(self._write_quarantine(rows, rejected, progress))

        with repeated(progress, "Ingesting"):
            add_rows(found, self.request.usage, check, prefix="usage", before=quarantine)
        return self._result(before.counts(), after.counts(), first)

    def _write_quarantine(self, rows: DataFrame, expected: int, progress: Progress) -> list[RejectedRecords]:
        """Add the records that could not be read, but for those that are there already, and return the first ones."""
        found = rows.where(f.col("reason").isNotNull()).select("file", "position", "reason", "record").persist()
        try:
            with repeated(progress, "Writing the quarantine"):
                if (again := found.count()) != expected:
                    raise _lost(f"{expected:,} records could not be read, and {again:,} when they were read again")
                new = self._not_known(found)
                number = new.count()
                if number:
                    add_rows(new, self.request.quarantine, lambda: number, prefix="quarantine")
                first = found.orderBy("file", "position").limit(_MOST_SHOWN).collect()
        finally:
            found.unpersist()
        return [RejectedRecords(file=row.file, position=row.position, reason=row.reason) for row in first]

    def _not_known(self, found: DataFrame) -> DataFrame:
        """Return `QUARANTINE` of records that it does not have, as when a file is ingested again."""
        found = found.withColumn("ingested_at", f.lit(self.now)).select(*QUARANTINE.names)
        try:
            known = read_table(found.sparkSession, self.request.quarantine)
        except InvalidFilesError:
            return found  # There is none yet: what cannot be a quarantine was refused before.
        return found.join(known.select("file", "position", "reason"), ["file", "position", "reason"], "left_anti")

    def _result(self, read: Counts, made: Counts, first: Sequence[RejectedRecords]) -> Ingested:
        request = self.request
        dropped = {each: read.dropped.get(each, 0) + made.dropped.get(each, 0) for each in read.dropped | made.dropped}
        return Ingested(
            usage=request.usage,
            files=len(self.files) + len(self.tables),
            empty_files=sum(not file.size for file in self.files),
            summary=SampleCounts(
                read=read.samples + sum(read.dropped.values()) + read.rejected,
                written=made.samples,
                dropped=sum(dropped.values()),
                quarantined=read.rejected,
            ),
            rows=made.rows,
            dropped=by_reason(dropped.items()),
            quarantine=request.quarantine if read.rejected else None,
            rejected=tuple(first),
            clusters=tuple(
                IngestedCluster(name=name, is_declared=None if request.declared is None else name in request.declared)
                for name in made.clusters
            ),
            since=made.since,
            until=made.until,
        )


def _lost(what: str) -> EngineError:
    return EngineError(
        f"The counts do not add up: {what}; a file was changed meanwhile, or a task ran twice. Try again."
    )


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SAMPLES: Final = "samples"
_REJECTED: Final = "rejected"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What went through."""

    samples: int  # Samples that are for the table
    dropped: dict[DropReason, int]  # Samples that are left out, by reason
    rejected: int = 0  # Records that could not be read
    rows: int = 0
    clusters: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Counter:
    """Counts the rows of a DataFrame while something else uses them."""

    observation: Observation = field(default_factory=Observation)

    def parsed(self, rows: DataFrame) -> DataFrame:
        """Return `parsed_rows.PARSED`, whose samples will be counted."""
        is_rejected = f.col("reason").isNotNull()
        is_sample = f.col("ts").isNotNull()
        return rows.observe(self.observation, _sum(is_sample, _SAMPLES), _sum(is_rejected, _REJECTED), *_dropped())

    def merged(self, rows: DataFrame) -> DataFrame:
        """Return `merged.MERGED`, whose samples and rows will be counted."""
        points = f.col("points")
        return rows.observe(
            self.observation,
            _sum(points.isNotNull(), _SAMPLES),
            f.sum(f.size(points)).alias("rows"),
            f.collect_set("cluster").alias("clusters"),
            f.min(f.element_at(points, 1)["ts"]).alias("since"),
            f.max(f.element_at(points, -1)["ts"]).alias("until"),
            *_dropped(),
        )

    def counts(self) -> Counts:
        """Return what was counted, when the rows have been used."""
        found: dict[str, Any] = self.observation.get
        return Counts(
            samples=found.get(_SAMPLES) or 0,
            dropped={each: count for each in DropReason if (count := found.get(each.name) or 0)},
            rejected=found.get(_REJECTED) or 0,
            rows=found.get("rows") or 0,
            clusters=tuple(sorted(found.get("clusters") or ())),
            since=_moment(found.get("since")),
            until=_moment(found.get("until")),
        )


def _sum(is_counted: Column, name: str) -> Column:
    return f.sum(f.when(is_counted, f.col("samples"))).alias(name)


def _dropped() -> list[Column]:
    return [_sum(f.col("dropped") == reason.value, reason.name) for reason in DropReason]


def _moment(micros: int | None) -> datetime | None:
    return None if micros is None else _EPOCH + timedelta(microseconds=micros)
