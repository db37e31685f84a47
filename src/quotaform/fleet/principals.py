"""Who makes requests, any number of them: read from tables and files, and resolved on one cluster into a table.

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
from typing import TYPE_CHECKING, Final

import pyarrow
from msgspec import Struct
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import functions as f
from pyspark.sql.types import StringType

from quotaform.fleet.options import SessionOptions
from quotaform.fleet.table import NO_PATH, format_of, is_of_spark, located, reason_of, table_problem
from quotaform.model.entity import CLIENT_ID, IP, KNOWN_TYPES, USER, Entity, read_name, spell_name
from quotaform.model.errors import ArgumentError
from quotaform.model.outcome import Progress
from quotaform.model.quota_key import QUOTA_KEYS, key_order
from quotaform.model.records.record import ClusterRecord
from quotaform.model.text import inert, listed, option_of, quote
from quotaform.report.text import counted
from quotaform.repository.gateway import open_pinned_gateway
from quotaform.resolve.request_file import COLUMNS, RequestFile, nameless_note, read_header, unreadable, unusable
from quotaform.resolve.resolve import AssumedPlan, ResolveHeader, ResolveOptions, TableReport
from quotaform.resolve.run import require_keys
from quotaform.resolve.spark import CLUSTER, PRINCIPALS, HeldQuotas, entity_of_row, resolved
from quotaform.system.clock import SYSTEM_CLOCK, timestamp
from quotaform.system.files import REQUESTS_LIMIT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

    from quotaform.desired.config import Cluster


BROKEN: Final = "broken_row"
"""The column of principals in which a row of a text file is that cannot be read; else null."""

_TEXTS: Final = {".csv": "csv", ".txt": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json"}
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
    """Check before Spark is started that principals can be at a path. Raises `InvalidFilesError` if not."""
    if is_text(name):
        problem = None if is_of_spark(name, session) or Path(name).exists() else NO_PATH
    else:
        problem = table_problem(name, session)
    if problem is not None:
        raise unreadable(name, problem)


def load_principals(
    spark: SparkSession, name: str, warn: Callable[[str], None], *, cluster: str | None = None
) -> tuple[DataFrame, int, int]:
    """Return `PRINCIPALS` that can be resolved, and how many clients and addresses there are, repeated ones included.

    One Spark job. `warn`: called about rows that name no client, which are left out. `cluster`: the one that is meant,
    if the table has a column `cluster`, which is kept; `None` for all. Raises `InvalidFilesError` if it cannot be read,
    lacks the columns, has no principals, or has rows from which no request can come, which it counts and shows.
    """
    rows, of = _read(spark, name), ""
    if cluster is not None and CLUSTER in rows.columns:
        rows, of = rows.where(f.col(CLUSTER) == cluster), f" of cluster {quote(cluster)}"
    has_client = f.col(_USER).isNotNull() | f.col(_CLIENT).isNotNull()
    is_ip = f.col(_IP).isNotNull()
    # Of a text file, one that cannot be read or has another number of fields than the first line.
    is_broken = f.col(BROKEN).isNotNull()
    wrong = is_broken | (is_ip & has_client) | (f.col(_USER) == "") | (f.col(_IP) == "")
    conditions = [has_client & ~is_ip, is_ip, ~is_broken & ~has_client & ~is_ip, wrong]
    [counts] = rows.agg(*(f.count_if(each).alias(str(place)) for place, each in enumerate(conditions))).collect()
    clients, ips, nameless, unread = counts
    if unread:
        shown = "; ".join(map(_shown, rows.where(wrong).limit(3).collect()))
        why = "a row has a user, a client_id or both, or an ip, and of these only a client_id can be empty"
        raise unusable(name, f"{counted(unread, 'row')} cannot be used, such as {shown}; {why}")
    if not clients and not ips:
        raise unusable(name, f"there are no principals{of} in it")
    if nameless:
        warn(nameless_note(name, nameless))
        rows = rows.where(has_client | is_ip)
    return rows, clients, ips


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
    # The first line of CSV names the columns.
    lines = spark.read.text(path).limit(1).toArrow().column(0).to_pylist()
    if not lines:
        raise unreadable(name, f"the file is empty; its first line must name one or more of the columns {COLUMNS}")
    header = [column.strip() for column in next(csv.reader([lines[0].removeprefix("\ufeff")]))]
    try:
        names = [KNOWN_TYPES[kind].parameter for kind in read_header(header)]
    except ValueError as error:
        raise unreadable(name, str(error)) from None
    columns = ", ".join(f"`{column}` string" for column in (*names, BROKEN))
    return spark.read.options(**_CSV).schema(columns).csv(path)


def _with_names(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    def read(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        for batch in batches:
            for column in columns:
                # Quotes around nothing are no name either, as in one process.
                names = [read_name(text) if text else None for text in batch.column(column).to_pylist()]
                batch = batch.set_column(batch.schema.get_field_index(column), column, pyarrow.array(names, "string"))
            yield batch

    return rows.mapInArrow(read, rows.schema)


_TABLE: Final = "table"
_CSV_FILES: Final = "csv"
_CSV_OPTIONS: Final = {"header": "true", "quote": '"', "escape": '"', "nullValue": "", "emptyValue": '""'}


class OutputTarget(Struct, frozen=True):
    """Where a table is written. Nothing is overwritten; a table without the file _SUCCESS was not written whole."""

    kind: str  # `parquet`, `csv` or `table`
    name: str  # A folder, or the name of a table

    def require_free(self, spark: SparkSession) -> None:
        """Make sure that there is nothing yet, before any work is done."""
        problem, folder = None, Path(self.name)
        if self.kind == _TABLE:
            if spark.catalog.tableExists(self.name):
                problem = "table exists; drop it, or name another"
        elif folder.exists():
            is_cut = folder.is_dir() and not (folder / "_SUCCESS").exists()
            state = "exists, and is not a finished table (it has no _SUCCESS)" if is_cut else "exists"
            problem = f"{state}; remove it, or name another folder"
        if problem is not None:
            raise ArgumentError(f"{{out}} {self.kind}={{}}: this {problem}", inert(self.name))

    def write(self, rows: DataFrame) -> DataFrame:
        """Write rows, and return what was written."""
        writer, spark = rows.write.mode("error"), rows.sparkSession
        if self.kind == _TABLE:
            writer.saveAsTable(self.name)
            return spark.table(self.name)
        options = _CSV_OPTIONS if self.kind == _CSV_FILES else {}
        writer.format(self.kind).options(**options).save(located(self.name))
        return spark.read.format(self.kind).options(**options).schema(rows.schema).load(located(self.name))


_MOST_PRINTED: Final = 10_000
"""How many principals are resolved to be printed; a table may have any number."""


def write_resolved(
    spark: SparkSession,
    cluster: Cluster,
    source: str,
    target: OutputTarget,
    *,
    plan: AssumedPlan | None = None,
    detail: ResolveOptions,
    progress: Progress,
    warn: Callable[[str], None],
) -> TableReport:
    """Write `RESOLVED` of principals; with a plan as if that were applied, and with `BEFORE`.

    `source`: the path or table of the principals. Raises `UsageError`, `InvalidFilesError`, `ClusterError`, or
    `StaleError` if the plan is for another cluster.
    """
    target.require_free(spark)
    with open_pinned_gateway(cluster) as gateway:
        cluster_id, snapshot = gateway.cluster_id(), gateway.snapshot
        if plan is not None:
            plan.require_cluster(cluster_id)
        progress(f"Reading principals of {inert(source)}", 0, 0)
        principals, clients, ips = load_principals(spark, source, warn, cluster=cluster.name)
        progress(f"Reading quotas of {spell_name(cluster.label)}", 0, 0)
        actual = gateway.describe()
    require_keys(detail.keys, actual, has_clients=clients > 0, has_ips=ips > 0)
    after = actual if plan is None else {**actual, **plan.after(actual)}
    before: HeldQuotas | None = None if plan is None else {cluster.name: actual}
    rows = resolved(principals, {cluster.name: after}, keys=detail.keys, before=before, inherited=detail.inherited)
    progress(f"Resolving {clients + ips:,} principals", 0, 0)
    found = _key_counts(target.write(rows))
    header = ResolveHeader(
        cluster=ClusterRecord(name=cluster.name, id=cluster_id),
        read_at=timestamp(SYSTEM_CLOCK),
        plan_id=plan.plan_id if plan else None,
        options=detail,
        snapshot=snapshot,
    )
    return TableReport(header=header, target=target.name, clients=clients, ips=ips, keys=found)


def few_principals(spark: SparkSession, name: str, cluster: str, warn: Callable[[str], None]) -> list[Entity]:
    """Return principals of a cluster that are few enough to be printed, as concrete entities.

    A file that one process can read is read as without Spark, in its order. Raises `InvalidFilesError` if they cannot
    be read, or are too many.
    """
    path, found, principals = Path(name), None, None
    if is_text(name) and path.is_file() and path.stat().st_size <= REQUESTS_LIMIT:
        found = RequestFile.read(path)
        if found.nameless:
            warn(nameless_note(name, found.nameless))
        total = len(found)
    else:
        principals, clients, ips = load_principals(spark, name, warn, cluster=cluster)
        total = clients + ips
    if total > _MOST_PRINTED:
        text = f"{total:,} principals are more than the {_MOST_PRINTED:,} that are printed"
        raise unreadable(name, f"{text}; add {option_of('out')} parquet=FOLDER")
    if principals is None:
        return list(found or ())
    return [entity_of_row(*row.values()) for row in principals.select(*PRINCIPALS.names).toArrow().to_pylist()]


def _key_counts(rows: DataFrame) -> list[tuple[str, int, int, int | None]]:
    limited = f.col("value").isNotNull() & (f.col("value") != float("inf"))
    for key in QUOTA_KEYS.values():
        limited &= ~((f.col("key") == key.name) & (f.col("value") >= key.maximum) & ~f.isnan("value"))
    changed = ~f.col("value").eqNullSafe(f.col("before_value")) if "before_value" in rows.columns else None
    found = rows.groupBy("key").agg(
        f.count_if(limited).alias("limited"),
        f.count_if(~limited).alias("unlimited"),
        (f.lit(None) if changed is None else f.count_if(changed)).alias("changed"),
    )
    return sorted(map(tuple, found.collect()), key=lambda row: key_order(row[0]))
