"""Tables that options name: files of Parquet and other formats, or of the catalog; checked before Spark starts.

Before Spark starts, only whether a path is there is looked at. What is not known without Spark is left to it: URLs,
globs, tables of a catalog, and all of it where the session exists already or is one of Spark Connect.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from re import MULTILINE, findall, match, sub
from typing import TYPE_CHECKING, Any, Final

import pyarrow
from py4j.protocol import Py4JError, Py4JNetworkError
from pyarrow import parquet
from pyspark.errors import PySparkException

from quotaform.fleet.launch import may_have_tables
from quotaform.fleet.options import SessionOptions
from quotaform.fleet.session import starts_java
from quotaform.model import rule
from quotaform.model.errors import EngineError, InvalidFilesError
from quotaform.model.finding import Location
from quotaform.model.text import inert, listed
from quotaform.resolve.spark import arrow_schema
from quotaform.system.files import staged_folder, sync_tree

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def make_table(spark: SparkSession, schema: StructType, rows: Iterable[tuple[Any, ...]]) -> DataFrame:
    """Return a DataFrame of rows on the driver; bit for bit, as Arrow keeps them."""
    return spark.createDataFrame(pyarrow.Table.from_batches([row_batch(schema, rows)]), schema)


def row_batch(schema: StructType, rows: Iterable[tuple[Any, ...]]) -> pyarrow.RecordBatch:
    """Return rows as Arrow has them; maps are given as pairs, and structs as mappings."""
    columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in schema]
    return pyarrow.record_batch(columns, schema=arrow_schema(schema))


def is_url(path: str) -> bool:
    """Whether a path says which file system it is on, so that this process need not see what is there.

    >>> is_url("s3a://lake/principals"), is_url("dbfs:/principals"), is_url("/data/principals"), is_url("2026:11/a")
    (True, True, False, False)
    """
    return match(r"[A-Za-z][A-Za-z0-9+.-]+:/", path) is not None


def located(path: str) -> str:
    """Return a path as Spark understands it, wherever its Java process runs, and whatever `fs.defaultFS` is.

    Without a scheme it is one of the file system of this process, which looks there whether something exists.

    >>> located("s3a://lake/principals"), located("/data/principals.csv")
    ('s3a://lake/principals', 'file:///data/principals.csv')
    """
    return path if is_url(path) else f"file://{Path(path).absolute()}"


def located_exactly(path: str) -> str:
    """Return a path to read as Spark understands it, which takes the signs of a glob for those alone.

    >>> located_exactly("/data/usage[1]")
    'file:///data/usage\\\\[1\\\\]'
    """
    return located(sub(r"[][{}*?\\\\]", r"\\\g<0>", path))


_FORMATS: Final = {f".{name}": name for name in ("parquet", "orc", "avro", "delta")}
FILE_FORMATS: Final = ("parquet", "orc", "avro")
"""The formats of directories in which each file has a schema of its own."""
NO_PATH: Final = "there is no such file or directory; correct the path"
NO_TABLE: Final = "there is neither such a file nor such a table in the catalog; correct the name"
NO_COLUMNS: Final = "there are no rows and no columns in it"
_REASONS: Final = {
    "PATH_NOT_FOUND": NO_PATH,
    "TABLE_OR_VIEW_NOT_FOUND": NO_TABLE,
    "UNABLE_TO_INFER_SCHEMA": NO_COLUMNS,
    "DATA_SOURCE_NOT_FOUND": "this session has nothing that reads the format",
}


def format_of(name: str) -> str | None:
    """Return the format of the files of a table; `None` for a table of the catalog.

    >>> format_of("quotas.orc"), format_of("data/quotas"), format_of("prod.quotas")
    ('orc', 'parquet', None)
    """
    path = Path(name)
    if (known := _FORMATS.get(path.suffix.lower())) is not None:
        return known
    if path.is_dir():
        return "delta" if (path / "_delta_log").is_dir() else "parquet"
    return "parquet" if "/" in name else None


def read_table(
    spark: SparkSession, name: str, schema: StructType | None = None, kind: str | None = None, **options: Any
) -> DataFrame:
    """Return a table, not read yet but for its schema.

    `schema`: that of files, which may have columns that some files lack; `None` takes that of one of them. `kind`: the
    format; `None` goes by the name.
    """
    kind = kind or format_of(name)
    try:
        reader = (spark.read if schema is None else spark.read.schema(schema)).options(**options)
        table = spark.table(name) if kind is None else reader.format(kind).load(located(name))
        _ = table.columns
    except (PySparkException, Py4JError) as error:
        raise bad_table(name, f"cannot be read: {reason_of(error)}") from error
    return table


def require_columns(name: str, table: DataFrame, columns: Sequence[str]) -> None:
    """Make sure that a table has columns."""
    if missing := [column for column in columns if column not in table.columns]:
        has = listed([inert(each) for each in table.columns])
        raise bad_table(name, f"lacks the column{'s' * (len(missing) > 1)} {', '.join(missing)}; it has {has}")


def existing_table(spark: SparkSession, name: str) -> DataFrame | None:
    """Return a table; `None` if nothing is there, or a directory without files, where rows can be written."""
    try:
        return read_table(spark, name)
    except InvalidFilesError as error:
        cause, nothing = error.__cause__, ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA", "DELTA_PATH_DOES_NOT_EXIST")
        if isinstance(cause, PySparkException) and (cause.getCondition() or "").startswith(nothing):
            return None
        raise


def bad_table(name: str, text: str) -> InvalidFilesError:
    """Return the error of a table that cannot be used."""
    problem = rule.TABLE.finding(f"the table {text}", location=Location(inert(name)))
    return InvalidFilesError([problem])


def reason_of(error: PySparkException | Py4JError) -> str:
    """Return why a table cannot be read, in one line. Raises the error itself if Spark's Java process has ended."""
    if isinstance(error, Py4JNetworkError):
        raise error
    text = str(error).strip()
    if isinstance(error, PySparkException):
        condition = error.getCondition() or ""
        known = next((reason for start, reason in _REASONS.items() if condition.startswith(start)), None)
        return known or inert(text.partition("\n")[0])
    causes = findall(r"^\s*Caused by: [\w.$]+: (.*)$", text, MULTILINE)
    return inert(causes[-1] if causes else text.partition("\n")[0])


@contextmanager
def staged_rows(rows: DataFrame, table: Path, expected: int | None, by: Sequence[str] = ()) -> Iterator[Path]:
    """Write rows to a folder in a table where no reader looks, and yield it; what is not moved from it is removed.

    They last through a power cut. `expected`: how many there are; `None` if unknown, but not 0. `by`: the columns by
    which they are in folders. Raises `EngineError` if Spark has written to a disk that this process does not see.
    """
    with staged_folder(table) as staged:
        rows.write.option("maxRecordsPerFile", 50_000_000).partitionBy(*by).parquet(located(str(staged)))
        found = sum(parquet.read_metadata(file).num_rows for file in staged.rglob("part-*.parquet"))
        if found != expected and (expected is not None or not found):
            wrote = "rows" if expected is None else f"{expected:,} rows"
            raise EngineError(
                f"Spark wrote {wrote} to {inert(str(table))}, and {found:,} of them are there on this machine: it runs "
                "elsewhere. Nothing was changed; name a directory that all machines share, or, where the command takes "
                "one, a URL or a table that Spark alone writes."
            )
        sync_tree(staged)
        yield staged


def is_of_spark(name: str, session: SessionOptions) -> bool:
    """Whether only Spark knows what a path is: a URL, a pattern, or anything where a session sees other files."""
    return is_url(name) or bool(set("*?[{").intersection(name)) or not starts_java(session)


def require_table(name: str, session: SessionOptions) -> None:
    """Make sure that there can be a table, before Spark is started. Raises `InvalidFilesError` if nothing is there."""
    reason = table_problem(name, session)
    if reason is not None:
        raise bad_table(name, f"cannot be read: {reason}")


def table_problem(name: str, session: SessionOptions) -> str | None:
    """Return why there is no table of a name; `None` if only Spark knows."""
    if is_of_spark(name, session):
        return None
    try:
        is_in_catalog, is_there = format_of(name) is None, Path(name).exists()
    except OSError as error:
        return error.strerror or str(error)
    if not is_in_catalog:
        return None if is_there else NO_PATH
    if may_have_tables(session):
        return None
    return "it is a file; name a directory of Parquet files, or a file *.parquet" if is_there else NO_TABLE
