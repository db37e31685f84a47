"""Rows of plans as they are written to clusters: what they must be, and what a task leaves behind of what it did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from pyspark.sql.datasource import WriterCommitMessage

from quotaform.fleet.job import by_place
from quotaform.fleet.table import is_url
from quotaform.model.entity import Entity, spell_name
from quotaform.model.errors import PartialError, QuotaformError
from quotaform.model.quotas import Change, Quotas, Values, same_value
from quotaform.model.text import quote
from quotaform.plan.change import EntityChange
from quotaform.plan.check.saved import entity_problems, value_problem
from quotaform.plan.receipt import Receipt, Result
from quotaform.plan.receipt_file import receipt_name, start_receipt, write_receipt
from quotaform.resolve.effect import NO_EFFECT
from quotaform.resolve.spark_quotas import DOUBLE, LONG, NAMES, TEXT, arrow_schema, struct

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


# What a task of the sink leaves behind: a part of the table of results, receipts, and counts for the driver.
#
# Each task writes its part before it returns, so that the record of what was done does not depend on the tasks that are
# still running, nor on the driver. A part that is there already was written by an earlier attempt of the same task, and
# stays as it is.


PLAN_ROWS: Final = struct(
    cluster=TEXT, cluster_id=TEXT, entity_key=TEXT, entity=NAMES, key=TEXT, before=DOUBLE, after=DOUBLE, rows=LONG
)
"""The rows of plans as the data source `kafka_quotas` writes them: what each value is and will be; null is no value.

`rows` is how many rows the cluster has, by which a task knows that it has all of them, see
`quotaform.fleet.plan_rows.grouped`.
"""

RESULTS: Final = struct(
    cluster=TEXT, cluster_id=TEXT, entity_key=TEXT, entity=NAMES, result=TEXT, message=TEXT, finished_at=TEXT
)
"""What became of each entity that was written: `quotaform.plan.receipt.Result`, and why if it was not applied.

`finished_at` is null where nothing was written to the cluster.
"""


_MOST_REASONS: Final = 5

ResultRow = Mapping[str, Any]
"""A row of `RESULTS`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written(WriterCommitMessage):
    """What became of the entities of one task; its size does not grow with them."""

    counts: Mapping[str, int] = field(default_factory=dict)  # How many entities have a `Result`, by its value
    reasons: Mapping[tuple[str | None, str], int] = field(default_factory=dict)
    """Why entities do not hold what was written: the most frequent ones, by cluster and reason."""
    more: int = 0  # How many other reasons there are
    unsaved: tuple[str, ...] = ()  # Why receipts were not written, for each cluster


@dataclass(frozen=True, slots=True)
class Record:
    """Where the tasks of one write leave what they have done."""

    results: str | None  # A folder or a URI that pyarrow knows; `None` if results are not wanted
    receipts: str | None  # A folder; `None` if receipts are not wanted
    run: str = field(default_factory=lambda: uuid4().hex)  # What the names of parts have in common

    def make_folders(self) -> None:
        """Create the folders; tasks need them, and do not create them: see `require_folders`."""
        if self.results is not None:
            system, folder = _located(self.results)
            system.create_dir(folder, recursive=True)
        if self.receipts is not None:
            Path(self.receipts).mkdir(parents=True, exist_ok=True)

    def require_folders(self) -> None:
        """Make sure that an executor sees the folders of the driver, before anything is written to a cluster.

        Raises `QuotaformError` if it has files of its own, where nobody would look for results.
        """
        wanted = {
            "results": None if self.results is None or is_url(self.results) else self.results,
            "receipts": self.receipts,
        }
        for option, place in wanted.items():
            if place is not None and not Path(place).is_dir():
                text = f"the executor does not see the folder {place} of the option {option}; nothing was written to"
                raise QuotaformError(f"{text} the clusters of this task; give a folder that all executors see")

    def known(self, partition: int) -> Written | None:
        """Return what an earlier attempt has recorded of a task, if one has."""
        if self.results is None:
            return None
        from pyarrow import fs, parquet

        system, folder = _located(self.results)
        part = f"{folder}/{self._part(partition)}"
        if system.get_file_info(part).type != fs.FileType.File:
            return None
        columns = ["cluster", "result", "message"]
        return summary_of(parquet.read_table(part, filesystem=system, columns=columns).to_pylist())

    def add(self, partition: int, rows: Sequence[ResultRow]) -> None:
        """Add the part of a task to the results; a reader sees all of it or nothing."""
        if self.results is None:
            return
        import pyarrow
        from pyarrow import parquet

        table = pyarrow.Table.from_pylist(list(rows), arrow_schema(RESULTS))
        try:
            system, folder = _located(self.results)
            # What begins with a dot is no part of a table.
            hidden = f"{folder}/.{self._part(partition)}.{uuid4().hex}.tmp"
            try:
                parquet.write_table(table, hidden, filesystem=system)
                system.move(hidden, f"{folder}/{self._part(partition)}")
            except BaseException:
                with suppress(OSError):
                    system.delete_file(hidden)
                raise
        except (OSError, pyarrow.ArrowException) as error:
            counts = _counts(summary_of(rows).counts)
            raise PartialError(f"the results cannot be written to {self.results}: {error} ({counts})") from error

    def start_receipt(self, receipt: Receipt) -> Path | None:
        """Write the started receipt before the first change is sent; return where it is."""
        if self.receipts is None:
            return None
        return start_receipt(Path(self.receipts) / receipt_name(receipt.plan.digest), receipt)

    def add_receipt(self, receipt: Receipt, started: Path | None) -> str | None:
        """Write a receipt, if anything was sent; return why it cannot be written."""
        if self.receipts is None or not receipt.results:
            return None
        try:
            path = started or Path(self.receipts) / receipt_name(receipt.plan.digest)
            write_receipt(path, receipt, is_started=started is not None)
        except (OSError, QuotaformError) as error:
            return f"{spell_name(receipt.plan.header.cluster_name)}: {error}"
        return None

    def _part(self, partition: int) -> str:
        return f"part-{partition:05}-{self.run}.parquet"


def summary_of(rows: Iterable[ResultRow], unsaved: Sequence[str] = ()) -> Written:
    """Return what rows of results amount to."""
    counts: Counter[str] = Counter()
    reasons: Counter[tuple[str | None, str]] = Counter()
    for row in rows:
        counts[row["result"]] += 1
        if not Result(row["result"]).holds:
            reasons[row["cluster"], row["message"] or row["result"]] += 1
    most = reasons.most_common(_MOST_REASONS)
    return Written(counts=counts, reasons=dict(most), more=len(reasons) - len(most), unsaved=tuple(unsaved))


def require_written(tasks: Sequence[Written], results: str | None) -> None:
    """Make sure that all entities hold what was written.

    `tasks`: What each task has done; a cluster is in one of them.
    Raises `PartialError`: Some do not; or a receipt was not written.
    """
    counts: Counter[str] = Counter()
    reasons: Counter[tuple[str | None, str]] = Counter()
    for task in tasks:
        counts.update(task.counts)
        reasons.update(task.reasons)
    failed = {result: count for result, count in counts.items() if not Result(result).holds}
    words = [
        f"{'null' if name is None else spell_name(name)}: {count:,} {reason}"
        for (name, reason), count in reasons.most_common(_MOST_REASONS)
    ]
    more = len(reasons) - len(words) + sum(task.more for task in tasks)
    if more:
        words.append(f"and for {more:,} more reasons")
    where = "" if results is None else f"; the results are in {results}"
    unsaved = [text for task in tasks for text in task.unsaved]
    if failed:
        of_all = f"{sum(failed.values()):,} of {sum(counts.values()):,} entities do not hold what was written"
        raise PartialError(f"{of_all} ({_counts(failed)}): {'; '.join(words)}{where}")
    if unsaved:
        shown = "; ".join(unsaved[:_MOST_REASONS])
        raise PartialError(f"all is written, but {len(unsaved):,} receipts are not: {shown}{where}")


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {result}" for result, count in sorted(counts.items()))


def _located(place: str) -> tuple[Any, str]:
    """Return the file system of pyarrow that a folder is in, and its path there."""
    import pyarrow
    from pyarrow import fs

    try:
        system, folder = fs.FileSystem.from_uri(place if is_url(place) else str(Path(place).absolute()))
    except pyarrow.ArrowException as error:
        raise OSError(str(error)) from error
    return system, folder


PlanRow = Mapping[str, Any]

_NEVER_NULL: Final = ("cluster", "cluster_id", "entity_key", "entity", "key")


def grouped(rows: DataFrame, clusters: Sequence[str]) -> DataFrame:
    """Return `PLAN_ROWS`: the rows of a cluster are in one partition, and each has their number.

    `rows`: The other columns of `PLAN_ROWS`. `clusters`: The names of the clusters; there are as many
    partitions, or fewer of very many: see `quotaform.fleet.job.task_count`.
    """
    from pyspark.sql import Window
    from pyspark.sql.functions import broadcast, count, lit

    columns = [name for name in PLAN_ROWS.names if name != "rows"]
    in_cluster = count(lit(1)).over(Window.partitionBy("cluster"))
    places = rows.sparkSession.createDataFrame(list(enumerate(clusters)), "place int, cluster string")
    placed = rows.select(*columns, in_cluster.alias("rows")).join(broadcast(places), "cluster", "left")
    return by_place(placed, len(clusters)).select(*columns, "rows")


def require_writable_rows(rows: DataFrame, clusters: Sequence[str]) -> None:
    """Make sure of all that can be told of rows before a task has them: see `cluster_changes` for the rest.

    Raises `QuotaformError` if a row has a null or an unknown cluster, or two are about the same value.
    """
    from pyspark.sql.functions import col, concat_ws, count, lit, when

    nulls = [when(col(name).isNull(), lit(f"{name} is null")) for name in _NEVER_NULL]
    unknown = when(~col("cluster").isin(*clusters), lit("the option clusters does not have the cluster"))
    problem = concat_ws(", ", *nulls, unknown)
    bad = rows.select("cluster", "entity_key", "key", problem.alias("problem")).where("problem <> ''").head()
    if bad is None:
        same = rows.groupBy("cluster", "entity_key", "key").agg(count(lit(1)).alias("times")).where("times > 1")
        bad = same.select("cluster", "entity_key", "key", lit("is in more than one row").alias("problem")).head()
    if bad is not None:
        raise _invalid(bad.cluster, bad, bad.problem)


def cluster_changes(cluster: str, rows: Sequence[PlanRow]) -> tuple[str, dict[Entity, list[Change]]]:
    """Return the id of a cluster and its changes, after making sure that its rows are such as a plan has.

    Raises `QuotaformError` if something is null, contradicts something else, is there twice or is missing, or files
    could not declare it.
    """
    changes: dict[Entity, list[Change]] = {}
    ids = {row["cluster_id"] for row in rows}
    for row in rows:
        if row["rows"] != len(rows):
            raise QuotaformError(
                f"{_spelled(cluster)}: a task has {len(rows)} rows, but the cluster has {row['rows']}; group them with "
                "quotaform.fleet.plan_rows.grouped"
            )
        if missing := [name for name in _NEVER_NULL if row[name] is None]:
            raise _invalid(cluster, row, f"{missing[0]} is null")
        if len(ids) > 1:
            raise _invalid(cluster, row, f"the rows of the cluster have {len(ids)} ids")
        entity = Entity(dict(row["entity"]))
        own = changes.setdefault(entity, [])
        if any(change.key == row["key"] for change in own):
            raise _invalid(cluster, row, "is in more than one row")
        if problem := _problem(entity, row):
            raise _invalid(cluster, row, problem)
        own.append(Change(entity, row["key"], row["before"], row["after"]))
    return ids.pop(), changes


def entity_changes(changes: Mapping[Entity, Sequence[Change]], actual: Quotas) -> tuple[EntityChange, ...]:
    """Return changes as a plan has them: of the keys without a row an entity keeps what it holds."""
    return tuple(
        EntityChange(
            entity=entity,
            before=_values(actual.get(entity, {}), {row.key: row.before for row in rows}),
            after=_values(actual.get(entity, {}), {row.key: row.after for row in rows}),
            changes=tuple(sorted(rows, key=lambda row: row.key)),
            effects=(NO_EFFECT,) * len(rows),
        )
        for entity, rows in sorted(changes.items(), key=lambda item: item[0].address)
    )


def _values(held: Values, changed: Mapping[str, float | None]) -> Values:
    return {key: value for key, value in {**held, **changed}.items() if value is not None}


def _problem(entity: Entity, row: PlanRow) -> str | None:
    """Return what is wrong with a row of which nothing is null."""
    if entity.address != row["entity_key"]:
        return f"entity_key is not that of the entity, which is {entity.address}"
    problems: Iterable[tuple[str, str]] = entity_problems(entity)
    for _, problem in problems:
        return f"the entity {problem}"
    if found := value_problem(entity.types, row["key"], row["after"]):
        return f"{found[0]} {found[1]}"
    return "before and after are the same" if same_value(row["before"], row["after"]) else None


def _invalid(cluster: str | None, row: Any, problem: str) -> QuotaformError:
    where = [f"cluster {_spelled(cluster)}"]
    where += [f"{name} {quote(row[name])}" for name in ("entity_key", "key") if row[name] is not None]
    return QuotaformError(f"{', '.join(where)}: {problem}; nothing was written to the cluster")


def _spelled(cluster: str | None) -> str:
    return "null" if cluster is None else spell_name(cluster)
