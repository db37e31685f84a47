"""Reading the usage table: its rows, the clusters they belong to, and the quotas that they are compared with."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow
from msgspec import Struct, field
from pyarrow import compute, dataset
from pyarrow.fs import LocalFileSystem
from pyspark.sql import functions as f
from pyspark.sql.types import NumericType, StringType, TimestampType

from quotaform.fleet.data_source import read_failure
from quotaform.fleet.session import is_connect
from quotaform.fleet.table import (
    FILE_FORMATS,
    bad_table,
    existing_table,
    format_of,
    is_url,
    read_table,
    require_columns,
)
from quotaform.http.client import file_of
from quotaform.model.entity import spell_name
from quotaform.model.moment import spell_moment
from quotaform.model.outcome import ClusterOutcome
from quotaform.model.text import MIB, inert, listed
from quotaform.resolve.spark import CLUSTER, QUOTAS, HeldQuotas, completed, held_in, struct
from quotaform.usage.table.schema import PARTITIONS, USAGE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_DAY: Final = timedelta(days=1)


def read_usage(
    spark: SparkSession, name: str, since: datetime | None = None, until: datetime | None = None
) -> DataFrame:
    """Return `USAGE` of a table, not read yet but for its schema: rows that say when and what they measure.

    | column of `USAGE` is | the table may have |
    | --- | --- |
    | a time | a time with a time zone |
    | a number | any number |
    | a text | a text or a number, as partition columns are |

    The column `instance` may be missing where brokers measured.

    `name`: a path of files, or the name of a table or view of the catalog. `since`: the first moment; `None` for all
    before `until`. `until`: the moment after the last one. Raises `InvalidFilesError` if it cannot be read, lacks a
    column, or has one of another type.
    """
    whole, *more = read_parts(spark, name, since, until)
    for part in more:
        whole = whole.unionByName(part, allowMissingColumns=True)
    usage = as_usage(name, whole).where(f.col("ts").isNotNull() & f.col("key").isNotNull())
    if since is not None:
        usage = usage.where(f.col("ts") >= f.lit(since))
    return usage if until is None else usage.where(f.col("ts") < f.lit(until))


def read_parts(
    spark: SparkSession, name: str, since: datetime | None = None, until: datetime | None = None
) -> list[DataFrame]:
    """Return a table of usage with its own columns: of those days what is in folders by `PARTITIONS`, and the rest.

    Spark takes a cluster named 7 for a number there, and reads no files next to folders, which were there before.
    """
    table = _with_instance(name, read_table(spark, name))
    if format_of(name) not in FILE_FORMATS or not {*PARTITIONS} <= {*table.columns}:
        return [table]
    day = PARTITIONS[0]
    others = [each for each in table.schema if each.name not in PARTITIONS]
    rows = read_table(spark, name, struct(*others, f"{day} date", f"{CLUSTER} string"))
    # Such a table by another program may have the days of another time zone.
    if since is not None:
        rows = rows.where(f.col(day) >= f.lit((since.astimezone(UTC) - _DAY).date()))
    if until is not None:
        rows = rows.where(f.col(day) <= f.lit((until.astimezone(UTC) + _DAY).date()))
    files = f"{name.rstrip('/')}/*.{format_of(name)}"
    beside = existing_table(spark, files)
    return [rows] if beside is None else [rows, _with_instance(files, beside)]


def _with_instance(name: str, table: DataFrame) -> DataFrame:
    """Return a table of usage with `instance`, which some of its files may have: Spark takes the schema of one."""
    if format_of(name) in FILE_FORMATS and {*USAGE.names} - {*table.columns} == {"instance"}:
        return read_table(table.sparkSession, name, struct(*table.schema, "instance string"))
    return table


def as_usage(name: str, table: DataFrame) -> DataFrame:
    """Return `USAGE` of rows that somebody else made; `name` is what messages call them. See `read_usage`."""
    if "instance" not in table.columns:
        table = table.withColumn("instance", f.lit(None).cast("string"))
    require_columns(name, table, USAGE.names)
    for column in USAGE:
        kind, wanted = table.schema[column.name].dataType, column.dataType
        if isinstance(wanted, TimestampType):
            fits = isinstance(kind, TimestampType)
        else:
            fits = isinstance(kind, NumericType) or (isinstance(wanted, StringType) and isinstance(kind, StringType))
        if not fits:
            found = inert(kind.simpleString())
            raise bad_table(name, f"has the column {column.name} of type {found}; it must be {wanted.simpleString()}")
    return table.select(*(f.col(field.name).cast(field.dataType).alias(field.name) for field in USAGE))


# Which cluster the rows of a usage table belong to.
#
# | rows | belong to |
# | --- | --- |
# | that name a cluster | that cluster |
# | that name none, if one cluster alone is selected | that cluster |
# | that name none otherwise | no cluster |


class Clusters(Struct, frozen=True):
    """Whose usage counts, and by which names."""

    names: frozenset[str | None] | None = None  # All of them if `None`
    renamed: Mapping[str | None, str] = field(default_factory=dict)  # What clusters are called that have other names

    def name_of(self, cluster: str | None) -> str | None:
        """Return the name of the cluster that rows belong to."""
        return self.renamed.get(cluster, cluster)


EVERY_CLUSTER: Final = Clusters()


class PlainFiles(Struct, frozen=True):
    """Parquet files of usage that tasks read by themselves: to be handed each row by Spark is most of the work."""

    folder: Path
    tasks: Sequence[Sequence[tuple[str, int, int]]]  # What each task reads: a file, and which of how many parts of it
    since: datetime | None  # The first moment; `None` for all before `until`
    until: datetime | None  # The moment after the last one
    rows: int  # About how many there are

    def read(self, task: int) -> Iterator[pyarrow.RecordBatch]:
        """Yield the rows that a task reads as `ROWS`: of those times, and that say when and what they measure."""
        for path, part, parts in self.tasks[task]:
            try:
                file = _opened(path, self.folder)
                kind = file.physical_schema.field("ts").type
                ts = dataset.field("ts")
                is_meant = ts.is_valid() & dataset.field("key").is_valid()
                if self.since is not None:
                    is_meant &= ts >= pyarrow.scalar(self.since, kind)
                if self.until is not None:
                    is_meant &= ts < pyarrow.scalar(self.until, kind)
                groups = file.subset(row_group_ids=range(part, file.num_row_groups, parts))
                # What folders say would be null in a dictionary where it is null.
                columns = ROWS.set(0, pyarrow.field("ts", kind)).set(_CLUSTER, pyarrow.field(CLUSTER, pyarrow.string()))
                for batch in groups.to_batches(columns, filter=is_meant, batch_size=100_000, use_threads=False):
                    at = batch["ts"].cast(pyarrow.timestamp("us", kind.tz), safe=False).view("int64")
                    rows = [at, *batch.columns[1:]]
                    rows[_CLUSTER] = batch[CLUSTER].dictionary_encode()
                    yield pyarrow.record_batch(rows, schema=ROWS)
            except (pyarrow.ArrowException, OSError) as error:
                raise OSError(f"{path} cannot be read: {error}") from error


_TEXTS: Final = [column.name for column in USAGE if isinstance(column.dataType, StringType)]
ROWS: Final = pyarrow.schema(
    [
        ("at", pyarrow.int64()),
        *((column.name, pyarrow.float64()) for column in USAGE if column.name in ("rate", "window_s", "throttle_ms")),
        *((name, pyarrow.dictionary(pyarrow.int32(), pyarrow.string())) for name in _TEXTS),
    ]
)
"""`USAGE` with times in microseconds since 1970."""
_CLUSTER: Final = ROWS.names.index(CLUSTER)
_FORMAT: Final = dataset.ParquetFileFormat(dictionary_columns=_TEXTS, coerce_int96_timestamp_unit="us")
_FOLDERS: Final = dataset.partitioning(pyarrow.schema([(name, pyarrow.string()) for name in PARTITIONS]), flavor="hive")


def _opened(path: str | Path, folder: Path) -> Any:
    place = _FOLDERS.parse(str(Path(path).relative_to(folder)))
    return _FORMAT.make_fragment(str(path), LocalFileSystem(), place)


def plain_files(
    usage: DataFrame,
    name: str,
    clusters: Clusters = EVERY_CLUSTER,
    since: datetime | None = None,
    until: datetime | None = None,
) -> PlainFiles | None:
    """Return the files of usage, as far as they are needed; `None` if only Spark can read them.

    `usage`: `read_usage` of a name and times.
    """
    folder = Path(name).absolute()
    if is_connect(usage.sparkSession) or is_url(name) or format_of(name) != "parquet" or not folder.is_dir():
        return None
    sizes: dict[Path, int] = {}
    for uri in sorted(usage.inputFiles()):
        path = Path(file_of(uri) or "")
        if not path.is_relative_to(folder) or not path.is_file():
            return None
        inside = path.relative_to(folder)
        if [each.partition("=")[0] for each in inside.parent.parts] not in ([], [*PARTITIONS]):
            return None
        place = dataset.get_partition_keys(_FOLDERS.parse(str(inside)))
        # Such a table by another program may have the days of another time zone.
        is_needed = not place or not (
            (clusters.names is not None and clusters.name_of(place[CLUSTER]) not in clusters.names)
            or (since is not None and place["date"] < (since.astimezone(UTC) - _DAY).date().isoformat())
            or (until is not None and place["date"] > (until.astimezone(UTC) + _DAY).date().isoformat())
        )
        if is_needed:
            sizes[path] = path.stat().st_size
    rows = 0
    if sizes:
        largest = max(sizes, key=sizes.__getitem__)
        try:
            file = _opened(largest, folder)
            schema, rows = file.physical_schema, file.metadata.num_rows * sum(sizes.values()) // sizes[largest]
        except (pyarrow.ArrowException, OSError):
            return None
        if any(each.name in _TEXTS and each.type != ROWS.field(each.name).type for each in schema):
            return None
    most = min(32 * MIB, sum(sizes.values()) // 2 + 1)  # bytes of a task
    tasks: dict[int, list[tuple[str, int, int]]] = {}
    read = 0
    for path, size in sizes.items():
        parts = ceil(size / most)
        for part in range(parts):
            tasks.setdefault(read // most, []).append((str(path), part, parts))
            read += size // parts
    return PlainFiles(folder, [*tasks.values()], since, until, rows)


def usage_of(usage: DataFrame, names: Sequence[str], selected: Sequence[str]) -> tuple[DataFrame, Clusters]:
    """Return the rows that belong to clusters, and their names; files of other clusters need not be read.

    `selected`: the clusters that were selected, also those that could not be read.
    """
    is_theirs = f.col("cluster").isin(list(names))
    if len(selected) != 1:
        return usage.where(is_theirs), Clusters(frozenset(names))
    return usage.where(is_theirs | f.col("cluster").isNull()), Clusters(frozenset(names), {None: selected[0]})


def time_text(since: datetime | None, until: datetime | None) -> str:
    """Return the end of a sentence about rows that says of which time they are; empty for all times."""
    text = "" if since is None else f" from {spell_moment(since)} on"
    return text if until is None else f"{text} before {spell_moment(until)}"


def require_recorded(
    usage: DataFrame,
    name: str,
    names: Sequence[str],
    recorded: Collection[str | None],
    warn: Callable[[str], None],
    time: str = "",
    *,
    is_required: bool = True,
) -> None:
    """Make sure that something is recorded of one of the clusters, if that is required; warn of those without.

    `recorded`: the clusters of which something is recorded. `time`: what `time_text` returned, if the usage is of some
    time only.
    """
    missing = [each for each in names if each not in recorded]
    if not missing:
        return
    shown = listed([spell_name(each) for each in missing])
    if len(missing) < len(names) or not is_required:
        warn(f"no usage is recorded of {shown}{time}")
        return
    known = usage.select("cluster").distinct().limit(100).toArrow().column("cluster").to_pylist()
    others = listed(sorted("rows without a cluster" if each is None else spell_name(each) for each in known))
    nothing = "it has no row of that time" if time else "it is empty"
    raise bad_table(name, f"has no row of {shown}{time}; {f'it has {others}' if others else nothing}")


def as_quotas(name: str, table: DataFrame) -> DataFrame:
    """Return `QUOTAS` of rows that somebody else made, of which some columns may be missing.

    `name`: what messages call them. Raises `InvalidFilesError` if a column is missing that must not, or has another
    type.
    """
    required = ("cluster", "entity_key", "entity", "key", "value")
    require_columns(name, table, required)
    for column in required:
        kind, wanted = table.schema[column].dataType.simpleString(), QUOTAS[column].dataType.simpleString()
        if kind != wanted:
            raise bad_table(name, f"has the column {column} of type {kind}; it must be {wanted}")
    return completed(table, QUOTAS)


def known_quotas(quotas: DataFrame) -> tuple[HeldQuotas, tuple[ClusterOutcome[Any], ...]]:
    """Bring `QUOTAS` to the driver: of the clusters that could be read; those that could not, and why, sorted.

    Raises `QuotaformError` if none of the clusters could be read; the error of the first one.
    """
    rows = quotas.select(CLUSTER, "entity_key", "entity", "key", "value", "failure").toArrow()
    is_read = rows["failure"].is_null()
    unread = rows.filter(compute.invert(is_read)).select([CLUSTER, "failure"]).to_pylist()
    errors = {row["cluster"]: read_failure(row["failure"]) for row in sorted(unread, key=lambda row: row["cluster"])}
    failed: tuple[ClusterOutcome[Any], ...] = tuple(ClusterOutcome(name, error=error) for name, error in errors.items())
    held = held_in(rows.filter(is_read))
    if failed and not any(name is not None for name in held):
        failed[0].require()
    return held, failed
