"""One batch of a stream: what it adds to the table.

| moment of a kill | what the next run does |
| --- | --- |
| before the offsets of the batch are written | nothing was done; a batch begins at the same offset |
| while its rows are made | makes them again, from the same offsets; nobody reads the folder `_staged-…` |
| while files take their places | makes them again; each takes the place of the one that is there |
| before Spark notes the end of the batch | the same |
| after that | begins with the next batch |
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark import StorageLevel
from pyspark.sql import functions as f

from quotaform.fleet.table import located
from quotaform.system.files import sync_folder, sync_tree
from quotaform.system.staging import staged_folder
from quotaform.usage.sample import DropReason
from quotaform.usage.table.schema import QUARANTINE, USAGE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ROWS_IN_FILE: Final = 2_000_000


@dataclass(slots=True)
class BatchWriter:
    """Writes batches, one at a time."""

    progress: Path  # The folder of Spark's checkpoint
    topic: str
    require_topic: Callable[[], None]  # Raises if the topic is not the one that was there
    usage: Path  # The folder of the table
    quarantine: Path  # The folder of what could not be read
    counts: Counter[str] = field(default_factory=Counter)
    """How many samples were written and records quarantined in all batches, and how many dropped, by `DropReason`."""
    problem: Exception | None = None  # What a batch raised; Spark ends the stream and gives a text of it only

    def __call__(self, messages: DataFrame, batch: int) -> None:
        """Write `MESSAGES`, whether or not the batch was written before."""
        try:
            self._write(messages.persist(StorageLevel.MEMORY_AND_DISK), batch)
        except Exception as error:
            self.problem = error
            raise
        finally:
            messages.unpersist()

    def _write(self, messages: DataFrame, batch: int) -> None:
        counts = _counts(messages)
        # Not before: what was read by now is of the topic that is there now.
        self.require_topic()
        rows = messages.select(f.explode("rows").alias("row")).select(*(f"row.{name}" for name in USAGE.names))
        self._publish(rows, self.usage, batch, ceil(counts["written"] / _ROWS_IN_FILE))
        bad = messages.select("partition", "offset", f.explode("rejected").alias("bad")).select(
            f.concat(f.lit(f"kafka:{self.topic}/"), f.col("partition")).alias("file"),
            f.col("offset").alias("position"),
            f.concat(f.lit("offset "), f.col("offset"), f.lit(": "), f.col("bad.reason")).alias("reason"),
            f.col("bad.record").alias("record"),
            f.current_timestamp().alias("ingested_at"),
        )
        self._publish(bad.select(*QUARANTINE.names), self.quarantine, batch, min(1, counts["quarantined"]))
        self.counts = self.counts + counts

    def _publish(self, rows: DataFrame, folder: Path, batch: int, files: int) -> None:
        """Let a folder have the rows of a batch, in so many files, in place of those that it has of the batch."""
        # The id of the query: made once for a checkpoint, and before its first batch.
        name = f"stream-{json.loads((self.progress / 'metadata').read_text())['id']}-{batch:09d}"
        before = set(folder.glob(f"{name}-*.parquet"))
        if files:
            with staged_folder(folder) as staged:
                (rows.coalesce(1) if files == 1 else rows.repartition(files)).write.parquet(located(str(staged)))
                sync_tree(staged)
                for number, file in enumerate(sorted(staged.glob("*.parquet"))):
                    place = folder / f"{name}-{number:03d}.parquet"
                    file.replace(place)
                    before.discard(place)
        # A batch that was made in part, by another version of quotaform.
        for place in before:
            place.unlink()
        sync_folder(folder)


def _counts(messages: DataFrame) -> Counter[str]:
    sums = {str(reason): f.sum(f.col("dropped")[number]) for number, reason in enumerate(DropReason)}
    sums |= {"written": f.sum("samples"), "quarantined": f.sum(f.size("rejected"))}
    [row] = messages.agg(*(total.alias(name) for name, total in sums.items())).collect()
    return Counter({name: row[name] or 0 for name in sums})
