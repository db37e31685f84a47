"""Where a table of resolved limits is written: a folder of Parquet or CSV files, or a table of the catalog."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from quotaform.errors import UsageError
from quotaform.model.text import inert
from quotaform.spark.table.path import located

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

PARQUET: Final = "parquet"
CSV: Final = "csv"
TABLE: Final = "table"
FORMATS: Final = (PARQUET, CSV, TABLE)

_CSV_OPTIONS: Final = {"header": "true", "quote": '"', "escape": '"', "nullValue": "", "emptyValue": '""'}


@dataclass(frozen=True, slots=True)
class Target:
    """Where a table is written.

    Nothing is ever overwritten, and what is there in part does not look whole: Spark writes files aside, moves them
    when all tasks are done, and adds the file _SUCCESS last.

    Attributes:
        kind: One of `FORMATS`.
        name: A folder, or the name of a table.
    """

    kind: str
    name: str

    def __str__(self) -> str:
        return self.name

    def require_free(self, spark: SparkSession) -> None:
        """Make sure that there is nothing yet, before any work is done."""
        if self.kind == TABLE:
            if spark.catalog.tableExists(self.name):
                raise UsageError(f"--out {self.kind}={inert(self.name)}: this table exists; drop it, or name another")
            return
        folder = Path(self.name)
        if folder.exists():
            is_cut = folder.is_dir() and not (folder / "_SUCCESS").exists()
            state = "exists, and is not a finished table (it has no _SUCCESS)" if is_cut else "exists"
            raise UsageError(f"--out {self.kind}={inert(self.name)}: this {state}; remove it, or name another folder")

    def write(self, rows: DataFrame) -> None:
        """Write rows."""
        writer = rows.write.mode("error")
        if self.kind == TABLE:
            writer.saveAsTable(self.name)
        elif self.kind == CSV:
            writer.options(**_CSV_OPTIONS).csv(located(self.name))
        else:
            writer.parquet(located(self.name))

    def read(self, spark: SparkSession, schema: StructType) -> DataFrame:
        """Return what was written."""
        if self.kind == TABLE:
            return spark.table(self.name)
        if self.kind == CSV:
            return spark.read.options(**_CSV_OPTIONS).schema(schema).csv(located(self.name))
        return spark.read.parquet(located(self.name))
