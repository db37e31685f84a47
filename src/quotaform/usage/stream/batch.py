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

from pyspark.sql import functions as f

from quotaform.fleet.job import repeatable_rows
from quotaform.fleet.table import located
from quotaform.system.files import sync_folder, sync_tree
from quotaform.system.staging import staged_folder
from quotaform.usage.ingest.rows import counts_of, merged, rejected_rows, usage_rows
from quotaform.usage.ingest.run import parsed
from quotaform.usage.ingest.source import RECORDINGS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from quotaform.usage.metric_name import Origin

_ROWS_IN_FILE: Final = 2_000_000


@dataclass(slots=True, kw_only=True)
class BatchWriter:
    """Writes batches, one at a time."""

    progress: Path  # The folder of Spark's checkpoint
    require_topic: Callable[[], None]  # Raises if the topic is not the one that was there
    input_format: str  # How the records of the topic are written
    origin: Origin
    usage: Path  # The folder of the table
    quarantine: Path  # The folder of what could not be read
    counts: Counter[str] = field(default_factory=Counter)
    """How many samples were written and records quarantined in all batches, and how many dropped, by `DropReason`."""
    problem: Exception | None = None  # What a batch raised; Spark ends the stream and gives a text of it only

    def __call__(self, records: DataFrame, batch: int) -> None:
        """Write records as the connector gives them, whether or not the batch was written before."""
        recordings = records.select(
            f.concat(f.lit("kafka:"), "topic", f.lit("/"), "partition").alias("file"),
            (f.unix_micros("timestamp") / 1e6).alias("at"),
            f.lit(None).cast("string").alias("path"),
            f.col("value").alias("content"),
            "offset",
        ).select(*RECORDINGS.names)
        try:
            with repeatable_rows(merged(parsed(recordings, self.input_format, self.origin))) as found:
                self._write(found, batch)
        except Exception as error:
            self.problem = error
            raise

    def _write(self, found: DataFrame, batch: int) -> None:
        counts = counts_of(found)
        # Not before: what was read by now is of the topic that is there now.
        self.require_topic()
        self._publish(usage_rows(found), self.usage, batch, ceil(counts.rows / _ROWS_IN_FILE))
        self._publish(rejected_rows(found), self.quarantine, batch, min(1, counts.rejected))
        self.counts.update({str(reason): count for reason, count in counts.dropped.items()})
        self.counts.update(written=counts.samples, quarantined=counts.rejected)

    def _publish(self, rows: DataFrame, folder: Path, batch: int, files: int) -> None:
        """Replace the files of a batch in a folder by so many files with its rows."""
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
