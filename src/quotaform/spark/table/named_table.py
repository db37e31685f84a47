"""Tables that options name: files of Parquet and other formats, or tables of the session's catalog."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from re import MULTILINE
from re import compile as regex
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from quotaform.core.check import rule
from quotaform.errors import InvalidFilesError
from quotaform.model.location import Location
from quotaform.model.text import inert, listed
from quotaform.spark.table.path import located

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

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

    Args:
        name: A path of files, or the name of a table or view of the catalog.
        schema: The schema of files, which may have columns that some files lack; `None` takes that of one of them.
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
