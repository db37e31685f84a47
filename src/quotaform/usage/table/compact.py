"""Brings the files of each day and cluster of a usage table together in one, and removes what is older than it is kept.

Files of days that are over are read and written anew as `date=…/cluster=…/day-…`, sorted, each row once; also those
that lie next to these folders. The new file takes its place before those that it replaces are
removed: a run that is killed in between leaves rows twice, which readers count once, and the next run removes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple
from uuid import uuid4

from quotaform.model.errors import FileReadError, UsageError
from quotaform.model.records.record import Count, Record, about
from quotaform.model.text import inert
from quotaform.report.text import PLAIN, Style, counted
from quotaform.system.files import sync_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WHOLE: Final = "day-"
"""How the names of files begin that have all rows of a day and cluster."""


class Compacted(Record, document="usage-compact"):
    """The result of quotaform usage compact."""

    usage: Annotated[str, about("The usage table, as given.")]
    files: Annotated[Count, about("How many files it had.")]
    replaced: Annotated[Count, about("How many of them were brought together with others of their day and cluster.")]
    written: Annotated[Count, about("How many files were written in their place: one for each day and cluster.")]
    rows: Annotated[Count, about("How many rows those have; what was there twice is there once.")]
    expired: Annotated[Count, about("How many files were removed because all of their rows are too old.")]
    kept_from: Annotated[str | None, about("The first day that is kept (UTC), as YYYY-MM-DD; null if all are.")]


def render_compacted(result: Compacted, style: Style = PLAIN) -> str:
    """Return what became of the files of a table as text."""
    removed = (
        f"  Removed  {counted(result.expired, 'file')} from before {result.kept_from}\n" if result.kept_from else ""
    )
    made = f"{counted(result.replaced, 'file')} became {result.written:,}, with {counted(result.rows, 'row')}"
    end = style.paint(f"Files: {made}; {result.files:,} before.", "bold")
    return f"Usage  {style.paint(inert(result.usage), 'bold')}\n{removed}\n{end}\n"


def compact(spark: SparkSession, usage: str, now: datetime, keep: timedelta | None = None) -> Compacted:
    """Bring the files of days that are over together.

    `keep`: how long rows are kept; `None` for ever. Raises `FileReadError` if a file cannot be read. Raises
    `EngineError` if Spark has written to a file system that this process does not see; nothing was removed.
    """
    from quotaform.usage.table.append import complete

    folder = Path(usage).absolute()
    complete(folder)
    today, kept_from = now.astimezone(UTC).date(), None if keep is None else (now.astimezone(UTC) - keep).date()
    files = list(_files(folder))
    expired = {each for each in files if kept_from is not None and each.last < kept_from}
    over = [each for each in files if each.last < today and each not in expired]
    by_place: dict[object, list[_File]] = {}
    for each in over:
        by_place.setdefault(each.path.parent, []).append(each)
    loose = by_place.pop(folder, [])
    again = {each.first + timedelta(number) for each in loose for number in range((each.last - each.first).days + 1)}
    replaced = [*loose]
    for own in by_place.values():
        if len(own) > 1 or own[0].first in again or not own[0].path.name.startswith(_WHOLE):
            replaced += own
    made = _rewritten(spark, folder, [each.path for each in replaced], kept_from) if replaced else {}
    for each in (*replaced, *expired):
        each.path.unlink(missing_ok=True)
        each.path.with_name(f".{each.path.name}.crc").unlink(missing_ok=True)
        # Of a day that is gone.
        for parent in (each.path.parent, each.path.parent.parent):
            with suppress(OSError):
                if folder in parent.parents:
                    parent.rmdir()
    sync_folder(folder)
    return Compacted(
        usage=usage,
        files=len(files),
        replaced=len(replaced),
        written=len(made),
        rows=sum(made.values()),
        expired=len(expired),
        kept_from=None if kept_from is None else kept_from.isoformat(),
    )


def require_folder(usage: str) -> None:
    """Make sure that a table is a directory. Raises `UsageError`."""
    if not Path(usage).is_dir():
        raise UsageError(
            f"{inert(usage)} is not a directory; a table at a URL or of a catalog is compacted by what keeps it, for "
            "example by OPTIMIZE of Delta Lake"
        )


class _File(NamedTuple):
    path: Path
    first: date
    last: date


def _files(folder: Path) -> Iterator[_File]:
    """Yield the files of a table: those in folders by `PARTITIONS`, and those next to them, if they have a time."""
    from pyarrow import ArrowException, compute, parquet

    for path in sorted([*folder.glob("date=*/cluster=*/*.parquet"), *folder.glob("*.parquet")]):
        try:
            if path.parent != folder:
                first = last = date.fromisoformat(path.parent.parent.name.partition("=")[2])
            else:
                times = compute.min_max(parquet.read_table(path, columns=["ts"]).column("ts")).as_py().values()
                if None in times:
                    continue
                # A time without a zone is one of UTC.
                first, last = ((each.astimezone(UTC) if each.tzinfo else each).date() for each in times)
        except (ValueError, KeyError, OSError, ArrowException) as error:
            raise _no_usage(path, error) from None
        yield _File(path, first, last)


def _no_usage(path: Path, error: Exception) -> FileReadError:
    return FileReadError(str(path), f"it is no file of a usage table: {error}")


def _rewritten(spark: SparkSession, folder: Path, paths: Sequence[Path], kept_from: date | None) -> Mapping[Path, int]:
    """Write the rows of files anew, and return the files that have them and how many they have."""
    from pyarrow import ArrowException, parquet
    from pyspark.sql import functions as f

    from quotaform.fleet.table import located, located_exactly, staged_rows
    from quotaform.resolve.spark_quotas import struct
    from quotaform.usage.table.append import take_places, with_date
    from quotaform.usage.table.schema import PARTITIONS, SERIES, USAGE

    for path in paths:
        try:
            names = {*parquet.ParquetFile(path).schema_arrow.names}
        except (ArrowException, OSError) as error:
            raise _no_usage(path, error) from None
        if others := sorted(names - {*USAGE.names}):
            raise FileReadError(str(path), f"it has the column {inert(others[0])}, which no usage table has")
    rows = spark.createDataFrame([], USAGE)
    # Spark does not read files next to folders along with those in them.
    for own in ([path for path in paths if path.parent == folder], [path for path in paths if path.parent != folder]):
        if own:
            reader = spark.read.schema(struct("date date", USAGE)).option("basePath", located(str(folder)))
            found = reader.parquet(*(located_exactly(str(path)) for path in own))
            rows = rows.unionByName(found.select(*USAGE.names))
    rows = with_date(rows.where(f.col("ts").isNotNull()).dropDuplicates())
    if kept_from is not None:
        rows = rows.where(f.col("date") >= f.lit(kept_from))
    in_order = rows.repartition(*PARTITIONS).sortWithinPartitions(*PARTITIONS, *SERIES, "ts")
    with staged_rows(in_order, folder, rows.count(), PARTITIONS) as staged:
        places = take_places(staged, folder, f"{_WHOLE}{uuid4().hex[:12]}")
    return {place: parquet.read_metadata(place).num_rows for place in places}
