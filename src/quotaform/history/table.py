"""Where a history is kept: Parquet in a folder, or Delta Lake."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Final, Protocol

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import functions as f

from quotaform.fleet.table import located_exactly
from quotaform.history.spark import HISTORY
from quotaform.history.version import CLOSED, OPEN, PART, PARTS, SNAPSHOTS, VersionStore
from quotaform.model.errors import HistoryError, UsageError
from quotaform.model.text import quote
from quotaform.system.clock import SYSTEM_CLOCK, Clock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType


DELTA: Final = "delta:"
TABLE: Final = "table:"


def require_history(location: str, *, is_read: bool) -> None:
    """Make sure, without Spark, that a history in Parquet can be used; nothing is known of others before Spark starts.

    Raises `HistoryError` or `UsageError`.
    """
    if location.startswith((DELTA, TABLE)):
        return
    if "://" in location:
        raise UsageError(
            f"--history {quote(location)}: a history in Parquet is a directory on a file system; "
            f"write {DELTA}{location} for one in Delta Lake"
        )
    from quotaform.history.version import VersionStore

    if VersionStore(Path(location)).current().number == 0 and is_read:
        raise HistoryError(location, "there is none", "make it with quotaform history append, or correct --history")


def open_history(spark: SparkSession, location: str) -> HistoryTable:
    """Open a history; it need not exist.

    | location | kept in |
    | --- | --- |
    | PATH | Parquet, in a folder that this process sees as well as Spark does |
    | delta:PATH | Delta Lake, wherever Spark can write |
    | table:NAME | Delta Lake, in the catalog of the session |

    Raises `HistoryError` if it is no history, or one that this version of quotaform does not know, and `UsageError` if
    it is another kind of location.
    """
    if location.startswith((DELTA, TABLE)):
        return DeltaHistory(spark, location)
    require_history(location, is_read=False)

    return ParquetHistory(spark, location)


@dataclass(frozen=True, slots=True)
class Merged:
    """What becomes of rows by new snapshots: two tables of `HISTORY`, which take the place of the rows."""

    changed: DataFrame
    """Rows that are new, or have ended now: a row that ends has the key and `valid_from` that it had. Also rows that
    stay as they are, if there are no `kept` ones."""
    kept: DataFrame | None = None  # The rows that stay as they are; `None` if it is not known which

    def rows(self) -> DataFrame:
        """Return all rows."""
        return self.changed if self.kept is None else self.changed.unionByName(self.kept)


class HistoryTable(Protocol):
    """A history in storage. Everything that is read between two appends is one version of it."""

    name: str
    """What messages call it: as it was given."""

    def rows(self) -> DataFrame:
        """Return `HISTORY`, whole. Raises `HistoryError` if it is no history, or cannot be read."""

    def snapshots(self) -> DataFrame:
        """Return the rows without an entity: the snapshots that are known."""

    def require_writable(self) -> None:
        """Make sure that it can be written, before anything else is done."""

    def replace(self, merge: Callable[[DataFrame], Merged], snapshots: DataFrame, *, is_late: bool) -> bool:
        """Write the next version: whole, or not at all.

        `is_late`: Whether rows that have ended may change, too.
        Returns false if another append was faster, and nothing was written.
        """


def require_columns(found: StructType, name: str) -> None:
    """Make sure that a table has the columns of a history; it may have more."""
    types = {field.name: field.dataType.simpleString() for field in found}
    missing = [
        f"{field.name} {field.dataType.simpleString()}"
        for field in HISTORY
        if types.get(field.name) != field.dataType.simpleString()
    ]
    if missing:
        raise HistoryError(name, f"it has no column {missing[0]}, so it is not a history", "give another path")


_MOST_FOLDERS: Final = 32
"""Of how many folders a part consists before an append makes one of them."""
_MOST_ENDED: Final = 0.25
"""How many bytes of ended rows there may be for each of open ones, before an append removes those which have ended."""
_ROW: Final = ["cluster", "entity_key", "key", "valid_from"]
"""What no two rows with an entity have in common, and what a row keeps when it ends."""


class ParquetHistory:
    """A history in a folder; see `quotaform.history.version` for what is in it."""

    def __init__(self, spark: SparkSession, path: str, clock: Clock = SYSTEM_CLOCK) -> None:
        """Open a history; it need not exist.

        Raises `HistoryError` if the folder is no history, or one that this version of quotaform does not know.
        """
        self.name = path
        self._spark = spark
        self._clock = clock
        self._store = VersionStore(Path(path))
        self._version = self._store.current()
        self._is_checked = False

    def rows(self) -> DataFrame:
        """Return `HISTORY`, whole."""
        return self._read(*PARTS)

    def snapshots(self) -> DataFrame:
        """Return the rows without an entity: the snapshots that are known."""
        return self._read(SNAPSHOTS)

    def require_writable(self) -> None:
        """Make sure that it can be written, before anything else is done."""
        self._store.begin()

    def replace(self, merge: Callable[[DataFrame], Merged], snapshots: DataFrame, *, is_late: bool) -> bool:
        """Write the next version: whole, or not at all."""
        rewritten: tuple[str, ...]
        has_many = any(len(names) >= _MOST_FOLDERS for names in self._version.parts.values())
        merged = merge(self._read(OPEN, CLOSED) if is_late else self._read(OPEN))
        if has_many:
            rewritten = PARTS
            rows = merged.rows().unionByName(self._read(SNAPSHOTS) if is_late else self._read(CLOSED, SNAPSHOTS))
        elif is_late:
            rewritten, rows = (OPEN, CLOSED), merged.rows()
        elif merged.kept is None or self._has_many_ended():
            rewritten, rows = (OPEN,), merged.rows()
        else:
            rewritten, rows = (), merged.changed
        part = f.when(f.col("entity_key").isNull(), SNAPSHOTS).when(f.col("valid_to").isNull(), OPEN).otherwise(CLOSED)
        parted = rows.unionByName(snapshots).withColumn(PART, part)
        new = self._store.add(
            self._version,
            lambda folder: parted.write.partitionBy(PART).parquet(f"file://{folder}"),
            rewritten,
            self._clock.now(),
        )
        if new is None:
            return False
        self._version = new
        return True

    def _has_many_ended(self) -> bool:
        ended = self._store.size(CLOSED, self._version.ending())
        return ended > self._store.size(OPEN, self._version.parts[OPEN]) * _MOST_ENDED

    def _read(self, *parts: str) -> DataFrame:
        rows = [self._folders(part, self._version.parts[part]) for part in parts]
        if OPEN in parts and (ending := self._version.ending()):
            place = parts.index(OPEN)
            rows[place] = rows[place].join(self._folders(CLOSED, ending), _ROW, "left_anti")
        return reduce(lambda one, other: one.unionByName(other), rows)

    def _folders(self, part: str, names: Sequence[str]) -> DataFrame:
        folders = [self._store.folder(name, part) for name in names]
        if not folders:
            return self._spark.createDataFrame([], HISTORY)
        missing = next((folder for folder in folders if not folder.is_dir()), None)
        if missing is not None:
            raise HistoryError(self.name, f"{missing} is missing", "restore it, or give another path")
        paths = [located_exactly(str(folder)) for folder in folders]
        if not self._is_checked:
            require_columns(self._spark.read.parquet(paths[0]).schema, self.name)
            self._is_checked = True
        return self._spark.read.schema(HISTORY).parquet(*paths)


_FORMAT: Final = "delta"
_PART: Final = "part"
_OPEN: Final = "open"
_CLOSED: Final = "closed"
_SNAPSHOTS: Final = "snapshots"
_APPLICATION: Final = "quotaform.history"


class DeltaHistory:
    """A history in Delta Lake.

    Besides the columns of a history the table has `part`, by which it is partitioned: `open`, and for each append
    `closed-N` and `snapshots-N`. So one commit of Delta can replace the rows that are still valid and add the others.
    An append is the N-th transaction of quotaform on the table; Delta accepts only one of them.
    """

    def __init__(self, spark: SparkSession, location: str) -> None:
        """Open a history; it need not exist.

        Raises `HistoryError` if the session has no Delta Lake, or the table is no history.
        """
        self.name = location
        self._spark = spark
        kind, _, self._place = location.partition(":")
        self._identifier = ".".join(map(_quoted, [_FORMAT, self._place] if kind == _FORMAT else self._place.split(".")))
        self._is_path = kind == _FORMAT
        self._version = self._current()

    def rows(self) -> DataFrame:
        """Return `HISTORY`, whole."""
        return self._read().select(*HISTORY.names)

    def snapshots(self) -> DataFrame:
        """Return the rows without an entity: the snapshots that are known."""
        return self._part(f.col(_PART).startswith(_SNAPSHOTS))

    def require_writable(self) -> None:
        """Do nothing: where Spark writes, only Spark knows whether it can."""

    def replace(self, merge: Callable[[DataFrame], Merged], snapshots: DataFrame, *, is_late: bool) -> bool:
        """Write the next version: whole, or not at all."""
        number = self._version + 1
        new_parts = {_CLOSED: f"{_CLOSED}-{number}", _SNAPSHOTS: f"{_SNAPSHOTS}-{number}"}
        changed = f.col(_PART) == _OPEN
        replaced = f"{_PART} IN ('{_OPEN}', '{new_parts[_CLOSED]}', '{new_parts[_SNAPSHOTS]}')"
        if is_late:
            changed |= f.col(_PART).startswith(_CLOSED)
            replaced += f" OR {_PART} LIKE '{_CLOSED}-%'"
        part = (
            f.when(f.col("entity_key").isNull(), new_parts[_SNAPSHOTS])
            .when(f.col("valid_to").isNull(), _OPEN)
            .otherwise(new_parts[_CLOSED])
        )
        token = token_hex(16)
        writer = (
            merge(self._part(changed))
            .rows()
            .unionByName(snapshots)
            .withColumn(_PART, part)
            .write.format(_FORMAT)
            .partitionBy(_PART)
            .option("txnAppId", _APPLICATION)
            .option("txnVersion", number)
            .option("userMetadata", token)
        )
        writer = (
            writer.mode("error") if self._version < 0 else writer.mode("overwrite").option("replaceWhere", replaced)
        )
        try:
            if self._is_path:
                writer.save(self._place)
            else:
                writer.saveAsTable(self._place)
        except PySparkException:
            # That another append was faster is an error of many kinds.
            if self._current() != self._version:
                return False
            raise
        # A transaction whose number another one had is left out without an error.
        return not self._log().where(f.col("userMetadata") == token).isEmpty()

    def _part(self, condition: Column) -> DataFrame:
        return self._read().where(condition).select(*HISTORY.names)

    def _read(self) -> DataFrame:
        if self._version < 0:
            return self._spark.createDataFrame([], HISTORY).withColumn(_PART, f.lit(_OPEN))
        reader = self._spark.read.format(_FORMAT).option("versionAsOf", self._version)
        table = reader.load(self._place) if self._is_path else reader.table(self._place)
        require_columns(table.schema, self.name)
        if _PART not in table.columns:
            raise HistoryError(self.name, f"it has no column {_PART}, so it is not a history", "give another table")
        return table

    def _current(self) -> int:
        """Return the version of the table; -1 if there is none."""
        if not self._exists():
            return -1
        rows = self._log()
        return int(rows.select(f.max("version").alias("version")).toArrow().column("version")[0].as_py())

    def _exists(self) -> bool:
        if not self._is_path:
            return self._spark.catalog.tableExists(self._place)
        try:
            self._spark.read.format(_FORMAT).load(self._place).schema  # noqa: B018 (it is what asks)
        except AnalysisException as error:
            if "PATH_DOES_NOT_EXIST" in str(error) or "PATH_NOT_FOUND" in str(error):
                return False
            if "DATA_SOURCE_NOT_FOUND" in str(error):
                raise self._no_delta() from None
            raise HistoryError(self.name, "it is not a table of Delta Lake", "give another path") from None
        return True

    def _log(self) -> DataFrame:
        try:
            return self._spark.sql(f"DESCRIBE HISTORY {self._identifier}")
        except ParseException:
            raise self._no_delta() from None

    def _no_delta(self) -> HistoryError:
        return HistoryError(
            self.name,
            "the Spark session has no Delta Lake",
            "give its package and its two settings with --spark-conf, see docs/history.md",
        )


def _quoted(name: str) -> str:
    """Return a part of a name as SQL takes it, whatever is in it."""
    return f"`{name.strip('`').replace('`', '``')}`"
