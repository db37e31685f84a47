"""Adds rows to a table of usage: a folder of Parquet files, another folder that Spark writes, or a table of a catalog.

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

from collections.abc import Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import functions as f

from quotaform.fleet.launch import may_have_tables
from quotaform.fleet.options import SessionOptions
from quotaform.fleet.table import (
    format_of,
    is_nothing_there,
    is_of_spark,
    is_url,
    located,
    read_table,
    require_columns,
    staged_rows,
)
from quotaform.model.errors import InvalidFilesError, UsageError
from quotaform.model.text import inert
from quotaform.resolve.spark_quotas import completed
from quotaform.system.files import sync_folder
from quotaform.usage.table.schema import PARTITIONS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_READY: Final = "_ready-"
_PARQUET: Final = "parquet"


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
    elif is_url(name) or kind not in (None, _PARQUET):
        try:
            has_folders = by and by[0] in read_table(spark, name).columns
        except InvalidFilesError as error:
            if not is_nothing_there(error):
                raise
            has_folders = True
        if by and not has_folders:
            rows, by = rows.drop(by[0]), ()
        rows.write.format(kind or _PARQUET).mode("append").partitionBy(*by).save(located(name))
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
    path = Path(name)
    is_local = not (is_catalog_table(spark, name) or is_url(name))
    if is_local:
        _require_folder(name, path)
    if is_local and not has_files(path):
        return
    try:
        table = read_table(spark, name)
    except InvalidFilesError as error:
        if is_url(name) and is_nothing_there(error):
            return
        raise
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
