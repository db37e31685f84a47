"""The quotas that usage is held against: of clusters that are read now, or of a table that somebody else wrote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as f

from quotaform.errors import QuotaformError
from quotaform.spark.failure import require_read
from quotaform.spark.schemas import QUOTAS
from quotaform.spark.session.options import SessionOptions
from quotaform.spark.source import read_clusters
from quotaform.spark.table.local_table import require_table
from quotaform.spark.table.named_table import bad_table, read_table, require_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from quotaform.desired.config import Cluster

_REQUIRED: Final = ("cluster", "entity_key", "entity", "key", "value")


@dataclass(frozen=True, slots=True)
class QuotaSource:
    """Where the quotas are.

    Attributes:
        clusters: The clusters to read; none if `table` is given.
        table: A path of files or a table of the catalog, with columns of `quotaform.spark.schemas.QUOTAS`.
    """

    clusters: tuple[Cluster, ...] = ()
    table: str | None = None

    def require_valid(self, session: SessionOptions) -> None:
        """Make sure that the table can be one of quotas, as far as is known before Spark is started.

        Raises `InvalidFilesError` if it cannot be read, or lacks a column.
        """
        if self.table is not None:
            require_table(self.table, _REQUIRED, session)

    def read(self, spark: SparkSession) -> DataFrame:
        """Return `quotaform.spark.schemas.QUOTAS`, not read yet; persist them, since they are read several times.

        Raises `InvalidFilesError` if the table cannot be read, lacks a column, or has one of another type.
        """
        if self.table is None:
            return read_clusters(spark, self.clusters, is_pinned=True)
        table = read_table(spark, self.table)
        require_columns(self.table, table, _REQUIRED)
        for name in _REQUIRED:
            kind, wanted = table.schema[name].dataType.simpleString(), QUOTAS[name].dataType.simpleString()
            if kind != wanted:
                raise bad_table(self.table, f"has the column {name} of type {kind}; it must be {wanted}")
        others = {field.name: f.lit(None).cast(field.dataType) for field in QUOTAS if field.name not in table.columns}
        return table.withColumns(others).select(*QUOTAS.names)


def failures_of(quotas: DataFrame) -> tuple[tuple[str, QuotaformError], ...]:
    """Return the clusters that could not be read, and why.

    Args:
        quotas: `quotaform.spark.schemas.QUOTAS`, persisted.

    Raises:
        QuotaformError: None of the clusters could be read; the error of the first one.
    """
    rows = quotas.where(f.col("failure").isNotNull()).select("cluster", "failure").orderBy("cluster")
    found = tuple((row["cluster"], _error(row["failure"])) for row in rows.toArrow().to_pylist())
    if found and not known_clusters(quotas):
        raise found[0][1]
    return found


def known_clusters(quotas: DataFrame) -> Sequence[str]:
    """Return the names of the clusters that could be read, sorted."""
    rows = quotas.where(f.col("failure").isNull()).select("cluster").distinct().toArrow()
    return sorted(name for name in rows.column("cluster").to_pylist() if name is not None)


def _error(failure: dict[str, Any]) -> QuotaformError:
    try:
        require_read(failure)
    except QuotaformError as error:
        return error
    raise ValueError("there is no failure")
