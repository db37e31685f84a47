"""A history in Parquet, on a file system that this process sees as well as Spark does."""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from quotaform.app.clock import SYSTEM_CLOCK, Clock
from quotaform.errors import HistoryError
from quotaform.spark.history.table import Merged, require_columns
from quotaform.spark.history.version import CLOSED, OPEN, PART, PARTS, SNAPSHOTS, VersionStore
from quotaform.spark.schemas import HISTORY
from quotaform.spark.table.path import located_exactly

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame, SparkSession

_MOST_FOLDERS: Final = 32
"""Of how many folders a part consists before an append makes one of them."""
_MOST_ENDED: Final = 0.25
"""How many bytes of ended rows there may be for each of open ones, before an append removes those which have ended."""
_ROW: Final = ["cluster", "entity_key", "key", "valid_from"]
"""What no two rows with an entity have in common, and what a row keeps when it ends."""


class ParquetHistory:
    """A history in a folder; see `quotaform.spark.history.version` for what is in it."""

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
        """Return `schemas.HISTORY`, whole."""
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
