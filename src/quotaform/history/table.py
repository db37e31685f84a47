"""A history as a table that grows, Parquet in a folder or Delta Lake, and how snapshots are appended to it."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta
from errno import EEXIST, ENOTEMPTY
from pathlib import Path
from re import compile as regex
from secrets import token_hex
from shutil import rmtree
from time import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from msgspec import Struct
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import Window
from pyspark.sql import functions as f

from quotaform.fleet.data_source import SNAPSHOTS, UnreadError, read_failure
from quotaform.fleet.table import located_exactly, make_table, staged_rows
from quotaform.history.history import AppendDocument, AppendedRecord, AppendStatus
from quotaform.history.spark import CHANGED_BY, READINGS, TAKEN, differs, snapshots_of
from quotaform.model.errors import ArgumentError, HistoryError, QuotaformError
from quotaform.model.moment import read_moment
from quotaform.model.text import option_of, quote
from quotaform.plan.receipt_file import load_receipt_file, receipts_by_name, time_in_name
from quotaform.resolve.spark import columns_of, completed, struct
from quotaform.system.files import reason_of, staged_folder, sync_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType


DELTA: Final = "delta:"
TABLE: Final = "table:"


def require_history(location: str, *, is_read: bool) -> None:
    """Make sure, without Spark, that a history in Parquet can be used; one in Delta Lake only Spark can check.

    Raises `HistoryError` or `UsageError`.
    """
    if not location.startswith((DELTA, TABLE)) and appends_of(location)[1] == 0 and is_read:
        remedy = f"make it with quotaform history append, or correct {option_of('history')}"
        raise HistoryError(location, "there is none", remedy)


def open_history(spark: SparkSession, location: str) -> HistoryTable:
    """Open a history in Parquet, in a folder that this process and Spark see, or in Delta Lake; it need not exist.

    Raises `HistoryError` if it is no history, and `UsageError` for a URL of another kind.
    """
    if location.startswith((DELTA, TABLE)):
        return DeltaHistory(spark, location)
    return ParquetHistory(spark, location)


def require_columns(found: StructType, name: str) -> None:
    """Make sure that a table has the columns of a history; it may have more."""
    types = {(field.name, field.dataType.simpleString()) for field in found}
    for field in READINGS:
        if (field.name, kind := field.dataType.simpleString()) not in types:
            problem = f"it has no column {field.name} {kind}, so it is not a history"
            raise HistoryError(name, problem, "give another path")


_FOLDER: Final = regex(r"append=([0-9]{8})(?:-([0-9]{8}))?").fullmatch
_MOST_FOLDERS: Final = 64
"""Of how many folders a history consists before an append brings their rows together in one."""
_KEPT_S: Final = 24 * 3600
"""How old folders are, at least, that are removed because their rows are in another one: somebody may read them."""


class ParquetHistory:
    """A history in a folder that has a folder for each append, such as `append=00000007`, or for all of the first ones.

    An append makes its folder elsewhere, makes it last through a power cut, and renames it to the next number, which
    only one of two appends at once can do.
    """

    def __init__(self, spark: SparkSession, path: str) -> None:
        """Open a history; it need not exist. Raises `HistoryError` if the folder is no history."""
        self.name = path
        self._spark = spark
        self._path = Path(path).absolute()
        self._folders, self._last = appends_of(path)
        if self._folders:
            found = spark.read.parquet(located_exactly(str(self._folders[0])))
            require_columns(found.schema, path)

    def readings(self) -> DataFrame:
        """Return `READINGS`."""
        if not self._folders:
            return self._spark.createDataFrame([], READINGS)
        return self._spark.read.schema(READINGS).parquet(*(located_exactly(str(folder)) for folder in self._folders))

    def require_writable(self) -> None:
        """Make sure that it can be written, before anything else is done."""
        try:
            with staged_folder(self._path):
                pass
        except OSError as error:
            problem = f"it cannot be written: {reason_of(error)}"
            raise HistoryError(self.name, problem, "make it writable, or give another path") from None

    def add(self, rows: DataFrame) -> bool:
        """Add `READINGS`: all, or none. Returns false if another append was faster, and nothing was added."""
        if not self._add(rows, f"append={self._last + 1:08}"):
            return False
        if len(self._folders) + 1 >= _MOST_FOLDERS:
            # What this append did is done, and the next one can do this as well.
            with suppress(OSError, QuotaformError):
                self._merge()
        return True

    def _add(self, rows: DataFrame, name: str) -> bool:
        """Add a folder; return false if there is one of its name."""
        place = self._path / name
        with staged_rows(rows.hint("rebalance"), self._path, None) as staged:
            try:
                staged.rename(place)
            except OSError as error:
                if error.errno in (EEXIST, ENOTEMPTY):
                    return False
                raise HistoryError(self.name, f"it cannot be written: {reason_of(error)}", "it is as it was") from None
        sync_folder(self._path)
        return True

    def _merge(self) -> None:
        """Bring the rows of all folders together, and remove those of which that was done before."""
        self._folders, self._last = appends_of(self.name)
        kept = {folder.name for folder in self._folders}
        for folder in self._path.glob("append=*"):
            if folder.name not in kept and folder.stat().st_mtime < time() - _KEPT_S:
                rmtree(folder, ignore_errors=True)
        self._add(self.readings(), f"append={1:08}-{self._last:08}")


def appends_of(path: str) -> tuple[list[Path], int]:
    """Return the folders of a history in Parquet, and the number of the last append; 0 if there is none.

    Raises `HistoryError` if it is no history or a part of it is missing, and `UsageError` if it is a URL.
    """
    if "://" in path:
        raise ArgumentError(
            "{history} {}: a history in Parquet is a directory on a file system; write {} for one in Delta Lake",
            quote(path),
            f"{DELTA}{path}",
        )
    try:
        paths = [each for each in Path(path).absolute().iterdir() if not each.name.startswith(("_", "."))]
    except FileNotFoundError:
        return [], 0
    except OSError as error:
        raise HistoryError(path, f"it cannot be read: {reason_of(error)}", "give the path of a directory") from None
    found: list[tuple[int, int, Path]] = []
    for each in paths:
        match = _FOLDER(each.name)
        if match is None:
            raise HistoryError(path, "it is not a history of quotaform", "give another path")
        found.append((int(match[1]), int(match[2] or match[1]), each))
    folders, last = [], 0
    for first, end, folder in sorted(found, key=lambda each: (each[0], -each[1])):
        if end > last:
            if first > last + 1:
                raise HistoryError(path, f"append={last + 1:08} is missing", "restore it, or give another path")
            folders.append(folder)
            last = end
    return folders, last


_FORMAT: Final = "delta"


class DeltaHistory:
    """A history in Delta Lake.

    An append is one commit, and the N-th transaction of quotaform on the table; Delta accepts only one of them.
    """

    def __init__(self, spark: SparkSession, location: str) -> None:
        """Open a history; it need not exist.

        Raises `HistoryError` if the session has no Delta Lake, or the table is no history.
        """
        self.name = location
        self._spark = spark
        kind, _, self._place = location.partition(":")
        self._is_path = kind == _FORMAT
        names = [_FORMAT, self._place] if self._is_path else self._place.split(".")
        # As SQL takes them, whatever is in them.
        self._identifier = ".".join("`" + name.strip("`").replace("`", "``") + "`" for name in names)
        self._version = self._current()

    def readings(self) -> DataFrame:
        """Return `READINGS`."""
        if self._version < 0:
            return self._spark.createDataFrame([], READINGS)
        reader = self._spark.read.format(_FORMAT).option("versionAsOf", self._version)
        table = reader.load(self._place) if self._is_path else reader.table(self._place)
        require_columns(table.schema, self.name)
        return table.select(*READINGS.names)

    def add(self, rows: DataFrame) -> bool:
        """Add `READINGS`: all, or none. Returns false if another append was faster, and nothing was added."""
        token = token_hex(16)
        options = {"txnAppId": "quotaform.history", "txnVersion": str(self._version + 1), "userMetadata": token}
        writer = rows.write.format(_FORMAT).options(**options).mode("error" if self._version < 0 else "append")
        try:
            if self._is_path:
                writer.save(self._place)
            else:
                writer.saveAsTable(self._place)
        except (PySparkException, Py4JError) as error:
            self._require_delta(error)
            # That another append was faster is an error of many kinds.
            if self._current() != self._version:
                return False
            raise
        # A transaction whose number another one had is left out without an error.
        return not self._log().where(f.col("userMetadata") == token).isEmpty()

    def _current(self) -> int:
        """Return the version of the table; -1 if there is none."""
        if not self._is_path and not self._spark.catalog.tableExists(self._place):
            return -1
        try:
            if self._is_path:
                self._spark.read.format(_FORMAT).load(self._place).schema  # noqa: B018 (it is what asks)
        except (PySparkException, Py4JError) as error:
            if "PATH_DOES_NOT_EXIST" in str(error) or "PATH_NOT_FOUND" in str(error):
                return -1
            self._require_delta(error)
            if not isinstance(error, AnalysisException):
                raise
            raise HistoryError(self.name, "it is not a table of Delta Lake", "give another path") from None
        [version] = self._log().agg(f.max("version").alias("version")).toArrow().column("version").to_pylist()
        return int(version)

    def _log(self) -> DataFrame:
        try:
            return self._spark.sql(f"DESCRIBE HISTORY {self._identifier}")
        except ParseException:
            raise self._no_delta() from None

    def _require_delta(self, error: Exception) -> None:
        """Raise `HistoryError` if an error of Spark says that it has no Delta Lake, as it is or as an error of Java."""
        if "DATA_SOURCE_NOT_FOUND" in str(error):
            raise self._no_delta() from None

    def _no_delta(self) -> HistoryError:
        remedy = f"give its package and its two settings with {option_of('spark_conf')}, see docs/history.md"
        return HistoryError(self.name, "the Spark session has no Delta Lake", remedy)


HistoryTable: TypeAlias = ParquetHistory | DeltaHistory
"""A history in storage: rows are added, and none is changed. It shows those of when it was opened."""


CLAIMS: Final = struct(
    "cluster_id entity_key key string", "before after double", "started_at timestamp", READINGS["changed_by"]
)
"""What receipts say was changed, and when; null is no value."""


class Step(NamedTuple):
    """Two snapshots of a cluster that follow each other, of which a history does not know one."""

    cluster: str
    cluster_id: str  # That of the second one
    old_at: datetime | None  # `None` before the first one
    now_at: datetime
    old_is_new: bool
    now_is_new: bool
    is_late: bool  # Whether the history knows a snapshot after the second one


STEPS: Final = columns_of(Step)


def new_steps(known: DataFrame, given: Iterable[tuple[str, str, datetime]]) -> list[Step]:
    """Return what snapshots (cluster, id and time, each once) add to those that a history knows, in order."""
    taken = make_table(known.sparkSession, TAKEN, given)
    old = known.join(f.broadcast(taken.select("cluster").distinct()), "cluster", "left_semi")
    moments = (
        old.withColumn("now_is_new", f.lit(False))
        .unionByName(taken.withColumn("now_is_new", f.lit(True)))
        .groupBy("cluster", f.col("read_at").alias("now_at"))
        .agg(f.min("cluster_id").alias("cluster_id"), f.bool_and("now_is_new").alias("now_is_new"))
    )
    in_order = Window.partitionBy("cluster").orderBy("now_at")
    later = in_order.rowsBetween(1, Window.unboundedFollowing)
    rows = moments.select(
        *("cluster", "cluster_id", "now_at", "now_is_new"),
        f.lag("now_at").over(in_order).alias("old_at"),
        f.lag("now_is_new", 1, False).over(in_order).alias("old_is_new"),
        f.coalesce(f.bool_or(~f.col("now_is_new")).over(later), f.lit(False)).alias("is_late"),
    )
    found = (Step(**row) for row in rows.where("old_is_new OR now_is_new").toArrow().to_pylist())
    return sorted(found, key=lambda step: (step.cluster, step.now_at))


_MOST_PROBLEMS: Final = 100
_LONGEST_APPLY: Final = timedelta(days=1)
"""How much sooner than an apply ends its receipt may have got its name."""


class Receipts(Struct, frozen=True):
    """A folder of receipts."""

    folder: Path  # The folder; one that does not exist has none
    within: Path | None = None  # The folder that no receipt must lead out of

    def claims(self, steps: Iterable[Step]) -> tuple[list[tuple[Any, ...]], list[str]]:
        """Return `CLAIMS` about steps, and why receipts cannot be read.

        Only receipts of applies that may have ended since the first of these snapshots are read.
        """
        starts = [each.old_at for each in steps if each.old_at is not None]
        rows: list[tuple[Any, ...]] = []
        problems: list[str] = []
        for path in receipts_by_name(self.folder) if starts else ():
            if read_moment(time_in_name(path)) < min(starts) - _LONGEST_APPLY:
                continue
            try:
                receipt = load_receipt_file(path, within=self.within)
                started_at, finished_at = read_moment(receipt.started_at), read_moment(receipt.finished_at)
            except (QuotaformError, ValueError) as error:
                problems.append(str(error))
                continue
            actor = receipt.run.actor if receipt.run and receipt.run.actor else receipt.applied_by
            made_by = actor, receipt.plan_id, receipt.source.commit, finished_at
            changed_by = dict(zip(CHANGED_BY.names, made_by, strict=True))
            rows += [
                (receipt.cluster.id, item.entity.address, row.key, row.before, row.after, started_at, changed_by)
                for item in receipt.results
                if item.result.may_have_written
                for row in item.rows
            ]
        return rows, sorted(set(problems))[:_MOST_PROBLEMS]


def attributed(rows: DataFrame, claims: Sequence[tuple[Any, ...]], steps: DataFrame) -> DataFrame:
    """Return rows of `changes_of` with who set the value and who removed the one before it.

    A receipt says it of a value if its apply ran between the two snapshots and set that value of that key of the
    entity; of the one before if it says that it was there before. Of several the last one counts.
    """
    if not claims:
        return rows
    receipts = make_table(rows.sparkSession, CLAIMS, claims)
    is_between = (receipts["started_at"] <= steps["now_at"]) & (
        receipts["changed_by.at"] + f.expr("INTERVAL 1 SECOND") > steps["old_at"]
    )
    is_same_cluster = receipts["cluster_id"] == steps["cluster_id"]
    told = receipts.join(f.broadcast(steps), is_same_cluster & is_between).withColumnRenamed("now_at", "read_at")
    of_row = ["cluster", "read_at", "entity_key", "key"]
    for claimed, value, name in (("after", "value", "changed_by"), ("before", "before", "ended_by")):
        made = told.where(f.col(claimed).isNotNull()).groupBy(*of_row, f.col(claimed).alias(value))
        last = made.agg(f.max_by("changed_by", "changed_by.at").alias(name))
        rows = rows.join(last, [*of_row, value], "left")
    return rows


def append(
    open_table: Callable[[], HistoryTable], quotas: DataFrame, receipts: Receipts | None = None
) -> tuple[AppendDocument, list[tuple[str | None, UnreadError]]]:
    """Append snapshots to a history, all or none; return what became of them, and the errors of those that failed.

    `open_table`: opens the history; called again when another append was faster. `quotas`: `QUOTAS` or `SNAPSHOTS`; of
    several files with a snapshot of one cluster and time, the first by path counts. `receipts`: those that may say who
    changed what. Raises `HistoryError` if it cannot be written, or other appends were faster each time.
    """
    table = open_table()
    if isinstance(table, ParquetHistory):  # Where Spark writes, only Spark knows whether it can.
        table.require_writable()
    if "file" not in quotas.columns:
        quotas = quotas.withColumn("file", f.lit(None).cast("string"))
    given = quotas.select(*SNAPSHOTS.names).localCheckpoint()
    # The snapshots that were read or failed, without what they hold.
    counted = given.groupBy("cluster", "cluster_id", "read_at", "file", "failure").agg(f.count("key").alias("values"))
    snapshots = sorted(
        counted.toArrow().to_pylist(),
        key=lambda row: (row["failure"] is not None, row["cluster"] or "", str(row["read_at"]), row["file"] or ""),
    )
    chosen: dict[tuple[str, datetime], tuple[str, str, datetime, str | None]] = {}
    for row in snapshots:
        if row["failure"] is None:
            place = row["cluster"], row["read_at"]
            chosen.setdefault(place, (row["cluster"], row["cluster_id"], row["read_at"], row["file"]))
    for _ in range(3):
        readings = table.readings()
        found = new_steps(snapshots_of(readings), (row[:3] for row in chosen.values()))
        new = [each for each in found if each.now_is_new]
        steps = make_table(given.sparkSession, STEPS, found)
        own = (chosen[each.cluster, each.now_at] for each in new)
        taken = make_table(given.sparkSession, struct(TAKEN, "file string"), own)
        is_taken = [given[name].eqNullSafe(taken[name]) for name in taken.columns]
        claims, problems = ([], []) if receipts is None else receipts.claims(found)
        changes = changes_of(readings, given.join(f.broadcast(taken), is_taken, "left_semi"), steps)
        rows = completed(attributed(changes, claims, steps), READINGS).unionByName(completed(taken, READINGS))
        if not new or table.add(rows):
            break
        table = open_table()
    else:
        raise HistoryError(table.name, "other appends were faster each time", "run this again")
    status: dict[tuple[str, datetime], AppendStatus] = {
        (each.cluster, each.now_at): "late" if each.is_late else "appended" for each in new
    }
    failed = [(row["cluster"], read_failure(row["failure"])) for row in snapshots if row["failure"]]
    records = []
    for row in snapshots:
        failure = row.pop("failure")
        # Only one of each cluster and time has a status.
        became = "failed" if failure else status.pop((row["cluster"], row["read_at"]), "known")
        records.append(AppendedRecord(**row, status=became, error=failure and failure["message"]))
    return AppendDocument(table=table.name, snapshots=tuple(records), receipt_problems=tuple(problems)), failed


def changes_of(readings: DataFrame, quotas: DataFrame, steps: DataFrame) -> DataFrame:
    """Return what new snapshots add to a history: rows of `READINGS` that have an entity, and the value `before`.

    `readings`: `READINGS` that are known. `quotas`: `QUOTAS` of the new snapshots. `steps`: `STEPS`, in each of which
    the second snapshot is compared with the first.
    """
    columns: list[Column | str]
    columns = ["cluster", f.col("read_at").alias("at"), "entity_key", "key"]
    columns.append(f.struct("cluster_id", "entity", "value").alias("held"))
    compared = steps.select("cluster", "old_at", "now_at", "old_is_new", "now_is_new")
    parts = [
        rows.where(f.col("entity_key").isNotNull()).select(*columns, f.lit(is_new).alias("is_new"))
        for rows, is_new in ((readings, False), (quotas, True))
    ]
    at, is_new = f.col("at"), f.col("is_new")
    # A new snapshot has all that was there then; of what is known the last row of a key says what it was.
    sides = {
        side: (is_new == f.col(f"{side}_is_new"))
        & f.when(is_new, at == f.col(f"{side}_at")).otherwise(at <= f.col(f"{side}_at"))
        for side in ("old", "now")
    }
    last = [f.max_by(f.when(is_in, f.col("held")), f.when(is_in, at)).alias(side) for side, is_in in sides.items()]
    # Brought together before they are sorted, else Spark sorts them before and after.
    rows = parts[0].unionByName(parts[1]).repartition("cluster", "entity_key", "key")
    found = rows.join(f.broadcast(compared), "cluster").where(sides["old"] | sides["now"])
    found = found.groupBy("cluster", "entity_key", "key", f.col("now_at").alias("read_at")).agg(*last)
    now, old = f.col("now"), f.col("old")
    return found.where(differs(old, now)).select(
        *("cluster", "read_at", "entity_key", "key"),
        *(f.coalesce(now[name], old[name]).alias(name) for name in ("cluster_id", "entity")),
        now["value"].alias("value"),
        old["value"].alias("before"),
    )
