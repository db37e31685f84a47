"""Adds rows to a table of usage, and brings its files together.

| table | rows |
| --- | --- |
| a folder of this file system | are written to a folder in it that readers ignore, and then moved |
| a URL | Spark writes and moves; a table that has no folders of days keeps having none |
| a table of the catalog | the catalog appends the columns that it has |

So an ingest that fails or is killed adds nothing, as far as a file system or catalog at a URL keeps such a promise. In
a folder, the one moment that counts is when the folder is renamed to
`_ready-…`: what was killed after it is completed by the next run that adds rows, and what was killed before is removed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from itertools import chain
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from py4j.protocol import Py4JError
from pyarrow import ArrowException, compute, parquet
from pyspark.errors import PySparkException
from pyspark.sql import functions as f

from quotaform.fleet.launch import may_have_tables
from quotaform.fleet.options import SessionOptions
from quotaform.fleet.table import (
    existing_table,
    format_of,
    is_of_spark,
    is_url,
    located,
    located_exactly,
    read_table,
    require_columns,
    staged_rows,
)
from quotaform.model.errors import FileReadError, UsageError
from quotaform.model.text import inert
from quotaform.resolve.spark import completed, struct
from quotaform.system.files import sync_folder
from quotaform.usage.ingest.ingest import Compacted
from quotaform.usage.table.schema import PARTITIONS, SERIES, USAGE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_READY: Final = "_ready-"


def is_catalog_table(spark: SparkSession, name: str) -> bool:
    """Whether a name is that of a table of the catalog; a directory of that name takes precedence."""
    if is_url(name) or format_of(name) is not None:
        return False
    try:
        return bool(spark.catalog.tableExists(name))
    except (PySparkException, Py4JError):
        # What has signs that no name of a table has is a directory.
        return False


def with_date(rows: DataFrame) -> DataFrame:
    """Return rows of usage with the column `date` of `PARTITIONS`."""
    # Days since 1970: a timestamp would be cast to a date in the time zone of the session.
    day = f.floor(f.unix_micros("ts") / 86_400_000_000).cast("int")
    return rows.withColumn(PARTITIONS[0], f.date_from_unix_date(day))


def add_rows(rows: DataFrame, name: str, expected: int, *, prefix: str, by: Sequence[str] = ()) -> None:
    """Add rows to a table, all or none.

    `rows`: made already, as what is appended cannot be taken back. `name`: the table; see `require_writable`.
    `expected`: how many there are. `prefix`: what the names of new files begin with. `by`: the columns by which they
    are in folders. Raises `EngineError` if Spark has written them to a file system that this process does not see.
    """
    if not expected:
        return
    kind, spark = format_of(name), rows.sparkSession
    if is_catalog_table(spark, name):
        completed(rows, spark.table(name).schema).write.insertInto(name)
    elif is_url(name) or kind not in (None, "parquet"):
        table = existing_table(spark, name) if by else None
        if table is not None and by[0] not in table.columns:
            rows, by = rows.drop(by[0]), ()
        rows.write.format(kind or "parquet").mode("append").partitionBy(*by).save(located(name))
    else:
        folder = Path(name)
        try:
            with staged_rows(rows, folder, expected, by) as staged:
                staged.rename(folder / f"{_READY}{prefix}-{uuid4().hex[:12]}")
            complete(folder)
        finally:
            with suppress(OSError):
                # If nothing was added to a new table.
                folder.rmdir()


def complete(folder: Path) -> None:
    """Move files to where readers see them that a run which was killed had no time to move."""
    for ready in sorted(folder.glob(f"{_READY}*")):
        take_places(ready, folder, ready.name.removeprefix(_READY))
        rmtree(ready, ignore_errors=True)


def take_places(made: Path, folder: Path, prefix: str) -> list[Path]:
    """Move files that Spark has made to where readers of a table see them, and return the places."""
    places: list[Path] = []
    for file in sorted(made.rglob("part-*.parquet")):
        place = folder / file.relative_to(made).parent / f"{prefix}-{file.name.removeprefix('part-')}"
        place.parent.mkdir(parents=True, exist_ok=True)
        places.append(place)
        # Another run may do the same now.
        with suppress(FileNotFoundError):
            file.replace(place)
    for parent in {above for place in places for above in place.parents if above.is_relative_to(folder)}:
        sync_folder(parent)
    return places


def require_writable(spark: SparkSession, name: str, schema: StructType) -> None:
    """Make sure that rows can be added, before any work is done.

    Raises `InvalidFilesError` if there is a table of other rows, or files that are no table, and `UsageError` if there
    is a file.
    """
    if not (is_catalog_table(spark, name) or is_url(name)):
        _require_folder(name, Path(name))
        if not has_files(Path(name)):
            return
    table = existing_table(spark, name) if is_url(name) else read_table(spark, name)
    if table is not None:
        require_columns(name, table, schema.names)


def require_free(name: str, session: SessionOptions) -> None:
    """Make sure that rows can be added, as far as is known before Spark is started; see `require_writable`."""
    if not (is_of_spark(name, session) or (format_of(name) is None and may_have_tables(session))):
        _require_folder(name, Path(name))


def _require_folder(name: str, path: Path) -> None:
    if path.exists() and not path.is_dir():
        raise UsageError(
            f"{inert(name)} is a file, and a table that rows are added to is a directory; name another one"
        )


def has_files(path: Path) -> bool:
    """Whether there is anything in a folder that readers of a table see; folders alone are what a kill may leave."""
    if not path.is_dir():
        return False
    seen = (each for each in path.iterdir() if not each.name.startswith((".", "_")))
    return any(file.is_file() for each in seen for file in chain((each,), each.rglob("*")))


# Brings the files of each day and cluster of a table together in one, and removes what is older than it is kept.
#
# Files of days that are over are read and written anew as `date=…/cluster=…/day-…`, sorted, each row once; also those
# that lie next to these folders. The new file takes its place before those that it replaces are removed: a run that is
# killed in between leaves rows twice, which readers count once, and the next run removes.

_WHOLE: Final = "day-"
"""How the names of files begin that have all rows of a day and cluster."""


def compact(spark: SparkSession, usage: str, now: datetime, keep: timedelta | None = None) -> Compacted:
    """Bring the files of days that are over together.

    `keep`: how long rows are kept; `None` for ever. Raises `FileReadError` if a file cannot be read. Raises
    `EngineError` if Spark has written to a file system that this process does not see; nothing was removed.
    """
    folder = Path(usage).absolute()
    complete(folder)
    today = now.astimezone(UTC).date()
    kept_from = None if keep is None else (now.astimezone(UTC) - keep).date()
    days = dict(_days(folder))
    expired = {path for path, (_, last) in days.items() if kept_from is not None and last < kept_from}
    by_place: dict[Path, list[Path]] = {}
    for path, (_, last) in days.items():
        if last < today and path not in expired:
            by_place.setdefault(path.parent, []).append(path)
    replaced = by_place.pop(folder, [])
    loose = (days[path] for path in replaced)
    again = {first + timedelta(number) for first, last in loose for number in range((last - first).days + 1)}
    for own in by_place.values():
        if len(own) > 1 or days[own[0]][0] in again or not own[0].name.startswith(_WHOLE):
            replaced += own
    made = _rewritten(spark, folder, replaced, kept_from) if replaced else {}
    for path in (*replaced, *expired):
        path.unlink(missing_ok=True)
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
        # Of a day that is gone.
        for parent in (path.parent, path.parent.parent):
            with suppress(OSError):
                if folder in parent.parents:
                    parent.rmdir()
    sync_folder(folder)
    return Compacted(
        usage=usage,
        files=len(days),
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


def _days(folder: Path) -> Iterator[tuple[Path, tuple[date, date]]]:
    """Yield the files of a table, each with its first and last day.

    They are those in folders by `PARTITIONS`, and those next to these folders, if they have a time.
    """
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
        yield path, (first, last)


def _no_usage(path: Path, error: Exception) -> FileReadError:
    return FileReadError(str(path), f"it is no file of a usage table: {error}")


def _rewritten(spark: SparkSession, folder: Path, paths: Sequence[Path], kept_from: date | None) -> Mapping[Path, int]:
    """Write the rows of files anew, and return the files that have them and how many they have."""
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
