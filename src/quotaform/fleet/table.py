"""Tables that options name: files of Parquet and other formats, or of the catalog; checked before Spark starts.

What is not known without Spark is left to it: URLs, globs, tables of a catalog, formats other than Parquet, and all of
it where the session exists already or is one of Spark Connect, whose server may see other files.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from re import MULTILINE
from re import compile as regex
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql.types import MapType, StructField, StructType

from quotaform.fleet.launch import may_have_tables
from quotaform.fleet.options import SessionOptions
from quotaform.fleet.session import starts_java
from quotaform.model import rule
from quotaform.model.errors import InvalidFilesError
from quotaform.model.finding import Location
from quotaform.model.text import inert, listed, quote
from quotaform.resolve.spark_quotas import arrow_schema

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession


def make_table(spark: SparkSession, schema: StructType, columns: Iterable[Sequence[object]]) -> DataFrame:
    """Return a DataFrame of values on the driver, given column by column; bit for bit, as Arrow keeps them."""
    import pyarrow

    return spark.createDataFrame(pyarrow.table(list(columns), schema=arrow_schema(schema)), schema)


def row_batch(schema: StructType, rows: Sequence[tuple[Any, ...]]) -> pyarrow.RecordBatch:
    """Return rows as Arrow has them; maps are given as mappings, and structs as tuples."""
    import pyarrow

    columns = zip(*rows, strict=True) if rows else ([] for _ in schema)
    return pyarrow.record_batch(
        [_spelled(field, list(column)) for field, column in zip(schema, columns, strict=True)],
        schema=arrow_schema(schema),
    )


def _spelled(field: StructField, values: list[Any]) -> list[Any]:
    """Return the values of a column as Arrow takes them."""
    if isinstance(field.dataType, MapType):
        return [None if value is None else list(value.items()) for value in values]
    if isinstance(field.dataType, StructType):
        names = field.dataType.names
        return [None if value is None else dict(zip(names, value, strict=True)) for value in values]
    return values


_SCHEME: Final = regex(r"[A-Za-z][A-Za-z0-9+.-]+:/").match

_GLOB_SIGN: Final = regex(r"[][{}*?\\\\]")
_ESCAPED: Final = r"\\\g<0>"


def is_url(path: str) -> bool:
    """Whether a path says which file system it is on, so that this process need not see what is there.

    >>> is_url("s3a://lake/principals"), is_url("dbfs:/principals"), is_url("/data/principals"), is_url("2026:11/a")
    (True, True, False, False)
    """
    return _SCHEME(path) is not None


def located(path: str) -> str:
    """Return a path as Spark understands it wherever its Java process runs, and whatever `fs.defaultFS` is.

    A path without a scheme is one of the file system that this process sees, from the current folder on: that is where
    the checks look whether something is there.

    >>> located("s3a://lake/principals"), located("/data/principals.csv")
    ('s3a://lake/principals', 'file:///data/principals.csv')
    """
    return path if is_url(path) else f"file://{Path(path).absolute()}"


def located_exactly(path: str) -> str:
    """Return a path to read as Spark understands it, which takes the signs of a glob for those alone.

    >>> located_exactly("/data/usage[1]")
    'file:///data/usage\\\\[1\\\\]'
    """
    return located(_GLOB_SIGN.sub(_ESCAPED, path))


_FORMATS: Final = {f".{name}": name for name in ("parquet", "orc", "avro", "delta")}
FILE_FORMATS: Final = ("parquet", "orc", "avro")
"""The formats of directories in which each file has a schema of its own."""
_CAUSE: Final = regex(r"^\s*Caused by: [\w.$]+: (.*)$", MULTILINE).findall
NO_PATH: Final = "there is no such file or directory; correct the path"
NO_TABLE: Final = "there is neither such a file nor such a table in the catalog; correct the name"
NO_COLUMNS: Final = "there are no rows and no columns in it"
_REASONS: Final = {
    "PATH_NOT_FOUND": NO_PATH,
    "TABLE_OR_VIEW_NOT_FOUND": NO_TABLE,
    "UNABLE_TO_INFER_SCHEMA": NO_COLUMNS,
    "DATA_SOURCE_NOT_FOUND": "this session has nothing that reads the format",
}

_NOTHING_THERE: Final = ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA", "DELTA_PATH_DOES_NOT_EXIST")
"""What Spark says of a path where rows can be written, as nothing is there, or a directory without files."""


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


def read_table(spark: SparkSession, name: str, schema: StructType | None = None) -> DataFrame:
    """Return a table, not read yet but for its schema.

    `schema`: The schema of files, which may have columns that some files lack; `None` takes that of one of them.
    """
    kind = format_of(name)
    try:
        reader = spark.read if schema is None else spark.read.schema(schema)
        table = spark.table(name) if kind is None else reader.format(kind).load(located(name))
        _ = table.columns
    except (PySparkException, Py4JError) as error:
        raise bad_table(name, f"cannot be read: {reason_of(error)}") from error
    return table


def require_columns(name: str, table: DataFrame, columns: Sequence[str]) -> None:
    """Make sure that a table has columns."""
    missing = [column for column in columns if column not in table.columns]
    if missing:
        raise lacking_columns(name, missing, table.columns)


def lacking_columns(name: str, missing: Sequence[str], columns: Sequence[str]) -> InvalidFilesError:
    """Return the error of a table without some columns."""
    has = listed([inert(each) for each in columns])
    return bad_table(name, f"lacks the column{'s' * (len(missing) > 1)} {', '.join(missing)}; it has {has}")


def is_nothing_there(error: InvalidFilesError) -> bool:
    """Whether `read_table` failed since nothing is there."""
    cause = error.__cause__
    return isinstance(cause, PySparkException) and (cause.getCondition() or "").startswith(_NOTHING_THERE)


def bad_table(name: str, text: str) -> InvalidFilesError:
    """Return the error of a table that cannot be used."""
    return InvalidFilesError([rule.TABLE.finding(f"the table {text}", location=Location(inert(name)))])


def reason_of(error: PySparkException | Py4JError) -> str:
    """Return why a table cannot be read, in one line."""
    text = str(error).strip()
    if isinstance(error, PySparkException):
        condition = error.getCondition() or ""
        known = next((reason for start, reason in _REASONS.items() if condition.startswith(start)), None)
        return known or inert(text.partition("\n")[0])
    causes = _CAUSE(text)
    return inert(causes[-1] if causes else text.partition("\n")[0])


_PATTERN: Final = frozenset("*?[{")
"""With one of these, Spark takes a path for a pattern."""
_MAGIC: Final = (b"PAR1", b"PARE")
"""What a file of Parquet begins with, encrypted or not."""
_PARQUET: Final = "parquet"
_MOST_FILES: Final = 1000
"""In how many files columns are looked for that the first one lacks: some sessions merge the schemas of all."""


def is_of_spark(name: str, session: SessionOptions) -> bool:
    """Whether only Spark knows what a path is: a URL, a pattern, or anything where a session sees other files."""
    return is_url(name) or bool(_PATTERN.intersection(name)) or not starts_java(session)


def require_table(name: str, columns: Collection[str], session: SessionOptions) -> None:
    """Make sure that a table can be there which `named_table.read_table` is to read, with columns.

    Raises `InvalidFilesError`: There is nothing at the path, or something else.
    """
    reason = table_problem(name, session)
    if reason is not None:
        raise bad_table(name, f"cannot be read: {reason}")
    if format_of(name) == _PARQUET and not is_of_spark(name, session):
        _require_columns(name, Path(name), columns)


def table_problem(name: str, session: SessionOptions) -> str | None:
    """Return why Spark would not read a table; `None` if only Spark knows."""
    if is_of_spark(name, session):
        return None
    try:
        return _problem(Path(name), format_of(name), session)
    except OSError as error:
        return error.strerror or str(error)


def _problem(path: Path, kind: str | None, session: SessionOptions) -> str | None:
    if kind is None:
        if may_have_tables(session):
            return None
        is_file = path.exists()
        return "it is a file; name a directory of Parquet files, or a file *.parquet" if is_file else NO_TABLE
    if not path.exists():
        return NO_PATH
    if kind != _PARQUET or not os.access(path, os.R_OK):
        return None
    if not path.is_dir():
        return None if is_parquet(path) else "it is not a Parquet file"
    first = next(data_files(path), None)
    if first is None:
        return NO_COLUMNS
    return None if is_parquet(first) else f"{quote(str(first.relative_to(path)))} in it is not a Parquet file"


def _require_columns(name: str, path: Path, columns: Collection[str]) -> None:
    """Make sure that the first files have each column; no more of them are opened than it takes to find them."""
    found: dict[str, None] = {}
    for number, file in enumerate(data_files(path) if path.is_dir() else [path]):
        own = _columns_of(file)
        if own is None or number == _MOST_FILES:
            return
        found |= dict.fromkeys([*own, *_partitions(file.relative_to(path))])
        if found.keys() >= set(columns):
            return
    raise lacking_columns(name, [each for each in columns if each not in found], list(found))


def _columns_of(file: Path) -> list[str] | None:
    """Return the columns of a file; `None` if it is for Spark to say why it cannot be read."""
    from pyarrow import ArrowException, parquet

    try:
        return [str(each) for each in parquet.read_schema(file).names]
    except (ArrowException, OSError):
        return None


def _partitions(file: Path) -> Iterator[str]:
    """Yield the columns that the names of directories give to a file: `cluster=lab/day=1/part-0.parquet`."""
    for part in file.parts[:-1]:
        name, separator, _ = part.partition("=")
        if separator:
            yield name


def data_files(folder: Path) -> Iterator[Path]:
    """Yield the files that Spark reads: not those, or in directories, whose names begin with `_` or a dot."""
    for root, folders, names in os.walk(folder, followlinks=True):
        folders[:] = sorted(each for each in folders if not each.startswith(".") and ("=" in each or each[0] != "_"))
        yield from (Path(root, each) for each in sorted(names) if each[0] not in "._")


def is_parquet(file: Path) -> bool:
    """Whether a file begins as those of Parquet do; also if it cannot be read, as Spark is to say why."""
    try:
        with file.open("rb") as opened:
            return opened.read(4) in _MAGIC
    except OSError:
        return True
