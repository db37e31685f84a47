"""A file of the driver on the executors."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from shutil import copyfile
from typing import TYPE_CHECKING

from quotaform.spark.session.connect import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class ShippedFile:
    """A file that executors can open.

    Attributes:
        path: Where it is on the driver.
        is_copied: Whether executors have a copy of it: those of a local session share the driver's files.
    """

    path: str
    is_copied: bool

    def here(self) -> Path:
        """Return where it is for this process, which is a worker of an executor."""
        if not self.is_copied:
            return Path(self.path)
        from pyspark import SparkFiles

        return Path(SparkFiles.get(Path(self.path).name))


def ship(spark: SparkSession, path: Path) -> ShippedFile:
    """Make a file available to the executors.

    Args:
        path: The file; no other file of its name may have been shipped in the session.
    """
    if is_connect(spark):
        spark.addArtifacts(str(path), file=True)
        return ShippedFile(str(path), is_copied=True)
    if str(spark.sparkContext.master).startswith("local"):
        return ShippedFile(str(path), is_copied=False)
    from pyspark import SparkFiles

    # An executor that starts later, in another command, fetches this file, too, and no task runs there if it is gone.
    kept = Path(SparkFiles.getRootDirectory()) / path.name
    copyfile(path, kept)
    spark.sparkContext.addFile(str(kept))
    return ShippedFile(str(path), is_copied=True)
