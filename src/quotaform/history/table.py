"""Where a history is kept: Parquet in a folder, or Delta Lake."""

from __future__ import annotations

from contextlib import suppress
from errno import EEXIST, ENOTEMPTY
from pathlib import Path
from re import compile as regex
from secrets import token_hex
from shutil import rmtree
from time import time
from typing import TYPE_CHECKING, Final, TypeAlias

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import functions as f

from quotaform.fleet.table import located_exactly, staged_rows
from quotaform.history.spark import READINGS
from quotaform.model.errors import ArgumentError, HistoryError, QuotaformError
from quotaform.model.text import option_of, quote
from quotaform.system.files import reason_of, staged_folder, sync_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


DELTA: Final = "delta:"
TABLE: Final = "table:"


def require_history(location: str, *, is_read: bool) -> None:
    """Raise `HistoryError` or `UsageError` if a history in Parquet cannot be used; of others only Spark knows."""
    if not location.startswith((DELTA, TABLE)) and appends_of(location)[1] == 0 and is_read:
        remedy = f"make it with quotaform history append, or correct {option_of('history')}"
        raise HistoryError(location, "there is none", remedy)


def open_history(spark: SparkSession, location: str) -> HistoryTable:
    """Open a history, which need not exist. Raises `HistoryError` if it is none, and `UsageError` for another URL."""
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
    """Return the folders of a history in Parquet, and the number of the last append; 0 if there is none."""
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

    def require_writable(self) -> None:
        """Do nothing: where Spark writes, only Spark knows whether it can."""

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
