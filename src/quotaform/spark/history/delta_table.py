"""A history in Delta Lake: one table, of which each append replaces what changes in one commit."""

from __future__ import annotations

from secrets import token_hex
from typing import TYPE_CHECKING, Final

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import functions as f

from quotaform.errors import HistoryError
from quotaform.spark.history.table import Merged, require_columns
from quotaform.spark.schemas import HISTORY

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame, SparkSession

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
        """Return `schemas.HISTORY`, whole."""
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
