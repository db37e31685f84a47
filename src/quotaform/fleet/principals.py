"""Reads who makes requests: from Parquet and other tables of files, from CSV or JSON lines, or from a catalog.

| name | what is read |
| --- | --- |
| ends in `.csv` or `.txt` | CSV with a line that names the columns, as `quotaform.resolve.request_file` has it |
| ends in `.json`, `.jsonl` or `.ndjson` | JSON lines, one object per line, with the same columns |
| ends in `.orc`, `.avro` or `.delta`, or a folder with `_delta_log` | that format |
| ends in `.parquet`, or any other folder | Parquet |
| any other | a table or view of the session's catalog |

Names in CSV are read as results print them: an empty field is a name that no quota mentions, and `""` an empty
client-id. Unlike in one process, a field cannot have a line break: such a name is a JSON string, as results have it.
A table may have other columns, which are ignored; in a CSV or JSON lines file, one that is not known is an error.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import functions as f
from pyspark.sql.types import StringType

from quotaform.fleet.options import SessionOptions
from quotaform.fleet.table import NO_PATH, format_of, is_of_spark, located, reason_of, table_problem
from quotaform.model import rule
from quotaform.model.entity import CLIENT_ID, IP, KNOWN_TYPES, USER, read_name
from quotaform.model.errors import InvalidFilesError
from quotaform.model.finding import Location
from quotaform.model.text import inert, listed, quote
from quotaform.resolve.request_file import COLUMNS, nameless_note, read_header, unreadable, unusable
from quotaform.resolve.spark_quotas import CLUSTER, PRINCIPALS

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, Row, SparkSession


BROKEN: Final = "broken_row"
"""The column of principals in which a row of a text file is that cannot be read; else null."""

_TEXTS: Final = {
    **dict.fromkeys((".csv", ".txt"), "csv"),
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), "json"),
}
_CSV: Final = {"header": "true", "quote": '"', "escape": '"', "mode": "PERMISSIVE", "columnNameOfCorruptRecord": BROKEN}
_COLUMNS: Final = {spelling: row.parameter for row in KNOWN_TYPES.values() for spelling in (row.parameter, row.name)}
_USER, _CLIENT, _IP = (KNOWN_TYPES[kind].parameter for kind in (USER, CLIENT_ID, IP))


def is_text(name: str) -> bool:
    """Whether a name is that of a CSV or JSON lines file.

    >>> is_text("principals.csv"), is_text("principals.parquet")
    (True, False)
    """
    return Path(name).suffix.lower() in _TEXTS


def require_files(name: str, session: SessionOptions) -> None:
    """Make sure that principals can be there, as far as is known before Spark is started.

    Raises `InvalidFilesError`: There is nothing at the path, or something else.
    """
    if is_text(name):
        problem = None if is_of_spark(name, session) or Path(name).exists() else NO_PATH
    else:
        problem = table_problem(name, session)
    if problem is not None:
        raise unreadable(name, problem)


_SHOWN: Final = 3
"""How many rows of each kind of problem are shown."""


class PrincipalCounts(NamedTuple):
    """How many principals there are."""

    clients: int  # Users, client-ids and pairs of them, repeated ones included
    ips: int  # Addresses

    @property
    def total(self) -> int:
        """All clients and addresses."""
        return self.clients + self.ips


def load_principals(
    spark: SparkSession, name: str, warn: Callable[[str], None], *, cluster: str | None = None
) -> tuple[DataFrame, PrincipalCounts]:
    """Return `PRINCIPALS` that can be resolved, and how many there are: one Spark job. A column `cluster` is kept.

    `warn`: called with a sentence about rows that name no client, which are left out. `cluster`: the one of which those
    are meant, if the table has a column `cluster`; `None` for all. Raises `InvalidFilesError`: It cannot be read, does
    not have the columns, or has no principals, or rows from which no request can come: with an ip as well as a user or
    client-id, with an empty user or ip, or not readable. It counts them and shows the first.
    """
    rows, of = _read(spark, name), ""
    if cluster is not None and CLUSTER in rows.columns:
        rows, of = rows.where(f.col(CLUSTER) == cluster), f" of cluster {quote(cluster)}"
    has_client, is_ip = f.col(_USER).isNotNull() | f.col(_CLIENT).isNotNull(), f.col(_IP).isNotNull()
    is_read = f.col(BROKEN).isNull()
    problems = {
        "cannot be read or have another number of fields than the first line": ~is_read,
        "with an ip and a user or client-id, which cannot be combined": is_ip & has_client,
        "with an empty user; only a client-id can be empty": f.col(_USER) == "",
        "with an empty ip; only a client-id can be empty": f.col(_IP) == "",
    }
    conditions = [has_client & ~is_ip, is_ip, is_read & ~has_client & ~is_ip, *problems.values()]
    [counts] = rows.agg(*(f.count_if(each).alias(str(place)) for place, each in enumerate(conditions))).collect()
    clients, ips, nameless, *wrong = counts
    findings = []
    for (text, condition), count in zip(problems.items(), wrong, strict=True):
        if count:
            shown = "; ".join(map(_shown, rows.where(condition).limit(_SHOWN).collect()))
            number = "1 row" if count == 1 else f"{count:,} rows"
            first = "" if count == 1 else "the first are " if count > _SHOWN else "they are "
            findings.append(f"{number} {text}: {first}{shown}")
    if not (findings or clients or ips):
        findings.append(f"there are no principals{of} in it")
    if findings:
        raise InvalidFilesError([rule.REQUESTS.finding(text, location=Location(name)) for text in findings])
    if nameless:
        warn(nameless_note(name, nameless))
        rows = rows.where(has_client | is_ip)
    return rows, PrincipalCounts(clients, ips)


def _shown(row: Row) -> str:
    if row[BROKEN] is not None:
        return quote(row[BROKEN])
    cells = ((each, row[each]) for each in PRINCIPALS.names)
    return ", ".join(f"{each} {'null' if cell is None else quote(cell)}" for each, cell in cells)


def _read(spark: SparkSession, name: str) -> DataFrame:
    """Return `PRINCIPALS` and `BROKEN`, not read yet but for its schema; a column `cluster` of a table is kept."""
    kind = _TEXTS.get(Path(name).suffix.lower()) or format_of(name)
    try:
        table = _opened(spark, kind, name)
        fields = table.schema.fields
    except (PySparkException, Py4JError) as error:
        raise unreadable(name, reason_of(error)) from error
    wanted = {field.name: _COLUMNS[field.name] for field in fields if field.name in _COLUMNS}
    unknown = [quote(field.name) for field in fields if field.name not in {*wanted, BROKEN}]
    if kind == "json" and unknown:
        raise unreadable(name, f"unknown field {', '.join(unknown)}; the fields are {COLUMNS}")
    if len(set(wanted.values())) < len(wanted):
        raise unreadable(name, "the columns client_id and client-id are the same; leave one of them out")
    if not wanted:
        has = f"has {listed([inert(field.name) for field in fields])}" if fields else "has none"
        raise unusable(
            name, f"it needs one or more of the columns {COLUMNS}, and {has}; rename them, or give another table"
        )
    others = [each for each in (CLUSTER, BROKEN) if each in table.columns]
    for field in fields:
        if field.name in (*wanted, *others) and not isinstance(field.dataType, StringType):
            raise unreadable(name, f"{inert(field.name)} is {field.dataType.simpleString()}, and names are strings")
    found = table.select(*(f.col(f"`{each}`").alias(column) for each, column in wanted.items()), *others)
    if kind == "csv":
        found = _with_names(found, list(wanted.values()))
    missing = [each for each in (*PRINCIPALS.names, BROKEN) if each not in found.columns]
    return found.select("*", *(f.lit(None).cast("string").alias(each) for each in missing))


def _opened(spark: SparkSession, kind: str | None, name: str) -> DataFrame:
    if kind is None:
        return spark.table(name)
    path = located(name)
    if kind == "json":
        return spark.read.json(path, mode="PERMISSIVE", columnNameOfCorruptRecord=BROKEN)
    if kind != "csv":
        return spark.read.format(kind).load(path)
    columns = ", ".join(f"`{column}` string" for column in (*_csv_columns(spark, name), BROKEN))
    return spark.read.options(**_CSV).schema(columns).csv(path)


def _csv_columns(spark: SparkSession, name: str) -> list[str]:
    """Return the columns that the first line of CSV names."""
    lines = spark.read.text(located(name)).limit(1).toArrow().column(0).to_pylist()
    if not lines:
        raise unreadable(name, f"the file is empty; its first line must name one or more of the columns {COLUMNS}")
    names = [column.strip() for column in next(csv.reader([lines[0].removeprefix("\ufeff")]))]
    try:
        return [KNOWN_TYPES[kind].parameter for kind in read_header(names)]
    except ValueError as error:
        raise unreadable(name, str(error)) from None


def _with_names(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Return rows of CSV with the names that the fields stand for."""

    def read(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        import pyarrow

        for batch in batches:
            for column in columns:
                # Quotes around nothing are no name either, as in one process.
                names = [read_name(text) if text else None for text in batch.column(column).to_pylist()]
                batch = batch.set_column(batch.schema.get_field_index(column), column, pyarrow.array(names, "string"))
            yield batch

    return rows.mapInArrow(read, rows.schema)
