"""Where a history is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from quotaform.errors import HistoryError
from quotaform.spark.schemas import HISTORY

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True)
class Merged:
    """What becomes of rows by new snapshots: two tables of `schemas.HISTORY`, which take the place of the rows.

    Attributes:
        changed: Rows that are new, or have ended now: a row that ends has the key and `valid_from` that it had. Also
            rows that stay as they are, if there are no `kept` ones.
        kept: The rows that stay as they are; `None` if it is not known which.
    """

    changed: DataFrame
    kept: DataFrame | None = None

    def rows(self) -> DataFrame:
        """Return all rows."""
        return self.changed if self.kept is None else self.changed.unionByName(self.kept)


class HistoryTable(Protocol):
    """A history in storage. Everything that is read between two appends is one version of it."""

    name: str
    """What messages call it: as it was given."""

    def rows(self) -> DataFrame:
        """Return `schemas.HISTORY`, whole. Raises `HistoryError` if it is no history, or cannot be read."""

    def snapshots(self) -> DataFrame:
        """Return the rows without an entity: the snapshots that are known."""

    def require_writable(self) -> None:
        """Make sure that it can be written, before anything else is done."""

    def replace(self, merge: Callable[[DataFrame], Merged], snapshots: DataFrame, *, is_late: bool) -> bool:
        """Write the next version: whole, or not at all.

        Args:
            merge: Brings new snapshots into rows, given all that may change.
            is_late: Whether rows that have ended may change, too.

        Returns:
            False if another append was faster, and nothing was written.
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
