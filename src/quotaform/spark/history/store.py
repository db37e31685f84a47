"""Opens the history that an option names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from quotaform.errors import HistoryError, UsageError
from quotaform.model.text import quote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from quotaform.spark.history.table import HistoryTable

DELTA: Final = "delta:"
TABLE: Final = "table:"


def require_history(location: str, *, is_read: bool) -> None:
    """Make sure, without Spark, that a history in Parquet can be used; nothing is known of others before Spark starts.

    Args:
        location: See `open_history`.

    Raises:
        HistoryError: It is no history, or does not exist and is to be read.
        UsageError: It is another kind of location.
    """
    if location.startswith((DELTA, TABLE)):
        return
    if "://" in location:
        raise UsageError(
            f"--history {quote(location)}: a history in Parquet is a directory on a file system; "
            f"write {DELTA}{location} for one in Delta Lake"
        )
    from quotaform.spark.history.version import VersionStore

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
        from quotaform.spark.history.delta_table import DeltaHistory

        return DeltaHistory(spark, location)
    require_history(location, is_read=False)
    from quotaform.spark.history.parquet_table import ParquetHistory

    return ParquetHistory(spark, location)
