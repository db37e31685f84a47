"""Recordings into a table of usage: all of their rows, or none."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, convert

from quotaform.desired.shape import check_shape
from quotaform.desired.tree import SourceFile, decode
from quotaform.desired.yaml.document import StopReadingError
from quotaform.desired.yaml.reader import read_document
from quotaform.fleet.job import kept_rows
from quotaform.fleet.options import SessionOptions
from quotaform.fleet.table import bad_table, read_table, require_columns
from quotaform.model import rule
from quotaform.model.errors import InvalidFilesError
from quotaform.model.finding import Finding
from quotaform.model.outcome import Progress, no_progress
from quotaform.model.text import option_of
from quotaform.repository.cluster_work import repeated
from quotaform.usage.format.table import TableMapping, guess_mapping, mapping_problem, usage_mapping
from quotaform.usage.format.text import TABLE
from quotaform.usage.ingest.ingest import Ingested, IngestedCluster, RejectedRecords, SampleCounts
from quotaform.usage.ingest.rows import counts_of, merged, parsed, parsed_table, rejected_rows, usage_rows
from quotaform.usage.ingest.source import (
    CSV,
    SourceTable,
    find_files,
    find_tables,
    recordings,
    require_sources,
    separator_of,
)
from quotaform.usage.metric_name import Origin
from quotaform.usage.sample import by_reason
from quotaform.usage.table.append import add_rows, require_free, require_writable, with_date
from quotaform.usage.table.schema import PARTITIONS, QUARANTINE, USAGE
from quotaform.usage.table.table import read_parts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_usage_mapping(source: SourceFile) -> TableMapping:
    """Return the mapping in a text, YAML or JSON. Raises `InvalidFilesError` if it is invalid; all problems at once."""
    text = decode(source)
    if isinstance(text, Finding):
        raise InvalidFilesError([text])
    document = read_document(source.name, text)
    mapping = None
    with suppress(StopReadingError):
        if not document.errors:
            check_shape(usage_mapping, document)
        if not document.errors:
            mapping = convert(document.root, TableMapping)
            if problem := mapping_problem(mapping):
                document.add_at(rule.BAD_MAPPING, problem[1], document.locate(problem[0]).key)
    findings = document.findings.all()
    if mapping is None or findings:
        raise InvalidFilesError(findings)
    return mapping


def read_parsed_table(
    spark: SparkSession, source: SourceTable, mapping: TableMapping | None, origin: Origin
) -> list[DataFrame]:
    """Return `PARSED` of the parts of a table.

    `mapping`: what its columns are; `None` to go by their names. Raises `InvalidFilesError` if it cannot be read, lacks
    columns, or nothing says what its columns are.
    """
    is_csv = source.kind == CSV
    options: dict[str, Any] = {"header": True, "sep": separator_of(source.name), "escape": '"'} if is_csv else {}
    table = read_table(spark, source.name, kind=source.kind, **options)
    is_usage = not is_csv and set(table.columns) >= set(USAGE.names)
    # Rows know their files no more once parts are brought together.
    parts = read_parts(spark, source.name) if is_usage else [table]
    chosen = guess_mapping(parts[0].columns) if mapping is None else mapping
    if isinstance(chosen, str):
        raise bad_table(source.name, f"cannot be read: {chosen} ({option_of('mapping')} FILE)")
    for part in parts:
        require_columns(source.name, part, sorted(chosen.names))
    return [parsed_table(part, source.name, source.kind, chosen, origin) for part in parts]


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
    others = [name for name in request.sources if name not in {table.name for table in tables}]
    files = find_files(spark, others)
    if request.shown is not None:
        files = [file._replace(shown=f"{request.shown}/{Path(file.name).name}") for file in files]
    read = [part for table in tables for part in read_parsed_table(spark, table, request.mapping, request.origin)]
    read += [parsed(each, request.format_name, request.origin) for each in recordings(spark, files)]
    rows = merged(reduce(lambda one, other: one.unionAll(other), read))
    with repeated(progress, "Ingesting"), kept_rows(rows) as found:
        counts = counts_of(found)
        first = _write_quarantine(found, request.quarantine) if counts.rejected else []
        add_rows(with_date(usage_rows(found)), request.usage, counts.rows, prefix="usage", by=PARTITIONS)
    return Ingested(
        usage=request.usage,
        files=len(files) + len(tables),
        empty_files=sum(not file.size for file in files),
        summary=SampleCounts.of(counts.samples, sum(counts.dropped.values()), counts.rejected),
        rows=counts.rows,
        dropped=by_reason(counts.dropped),
        quarantine=request.quarantine if counts.rejected else None,
        rejected=tuple(first),
        clusters=tuple(
            IngestedCluster(name=name, is_declared=None if request.declared is None else name in request.declared)
            for name in counts.clusters
        ),
        since=counts.since,
        until=counts.until,
    )


def _write_quarantine(found: DataFrame, quarantine: str) -> list[RejectedRecords]:
    """Add the records that could not be read, but for those that are there already, and return the first ones."""
    place = ["file", "position", "reason"]
    rejected = new = rejected_rows(found)
    # If there is none yet, all are new: what cannot be a quarantine was refused before.
    with suppress(InvalidFilesError):
        new = rejected.join(read_table(found.sparkSession, quarantine).select(*place), place, "left_anti")
    if number := new.count():
        add_rows(new.select(*QUARANTINE.names), quarantine, number, prefix="quarantine")
    first = rejected.select(*place).orderBy("file", "position").limit(20).collect()
    return [RejectedRecords(file=row.file, position=row.position, reason=row.reason) for row in first]
