"""Brings the files of each day of a usage table together in one, and removes what is older than it is kept.

Files of days that are over are read and written anew as `day-DATE-…`, sorted, each row once. The new file takes its
place before those that it replaces are removed: whoever is killed in between leaves rows twice, which readers count
once, and the next run removes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from re import compile as regex
from time import time
from typing import TYPE_CHECKING, Annotated, Final
from uuid import uuid4

from quotaform.model.errors import EngineError, FileReadError, UsageError
from quotaform.model.records.document import USAGE_COMPACT
from quotaform.model.records.record import Count, Record, about
from quotaform.model.text import inert
from quotaform.report.text import PLAIN, Style, counted
from quotaform.system.files import sync_folder, sync_tree

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DAY_FILE: Final = regex(r"day-([0-9]{4}-[0-9]{2}-[0-9]{2})-.*\.parquet").fullmatch
_DAY: Final = "day"
_MOST_ROWS: Final = 50_000_000
"""How many rows a file has at most."""


class Compacted(Record, document=USAGE_COMPACT):
    """The result of quotaform usage compact."""

    usage: Annotated[str, about("The usage table, as given.")]
    files: Annotated[Count, about("How many files it had.")]
    replaced: Annotated[Count, about("How many of them were brought together with others of their day.")]
    written: Annotated[Count, about("How many files were written in their place: one for each day.")]
    rows: Annotated[Count, about("How many rows those have; what was there twice is there once.")]
    expired: Annotated[Count, about("How many files were removed because all of their rows are too old.")]
    kept_from: Annotated[str | None, about("The first day that is kept (UTC), as YYYY-MM-DD; null if all are.")]


def render_compacted(result: Compacted, style: Style = PLAIN) -> str:
    """Return what became of the files of a table as text."""
    lines = [f"Usage  {style.paint(inert(result.usage), 'bold')}"]
    if result.kept_from is not None:
        lines.append(f"  Removed  {counted(result.expired, 'file')} from before {result.kept_from}")
    lines.append("")
    made = f"{counted(result.replaced, 'file')} became {result.written:,}, with {counted(result.rows, 'row')}"
    return "\n".join([*lines, style.paint(f"Files: {made}; {result.files:,} before.", "bold")]) + "\n"


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    first: date
    last: date

    @property
    def is_whole(self) -> bool:
        """Whether it is one that was brought together, of a day."""
        match = _DAY_FILE(self.path.name)
        return match is not None and self.first == self.last == date.fromisoformat(match[1])


def compact(spark: SparkSession, usage: str, now: datetime, keep: timedelta | None = None) -> Compacted:
    """Bring the files of days that are over together.

    `keep`: how long rows are kept; `None` for ever. Raises `FileReadError` if a file cannot be read. Raises
    `EngineError` if Spark has written to a file system that this process does not see; nothing was removed.
    """
    from quotaform.usage.table.append import complete

    folder = Path(usage)
    complete(folder)
    today, kept_from = now.astimezone(UTC).date(), None if keep is None else (now.astimezone(UTC) - keep).date()
    files = [found for path in sorted(folder.glob("*.parquet")) if (found := _dates(path)) is not None]
    expired = [each for each in files if kept_from is not None and each.last < kept_from]
    over = [each for each in files if each.last < today and each not in expired]
    by_day: dict[date, list[_File]] = {}
    for each in over:
        for number in range((each.last - each.first).days + 1):
            by_day.setdefault(each.first + timedelta(number), []).append(each)
    replaced = {each.path: None for own in by_day.values() if len(own) > 1 or not own[0].is_whole for each in own}
    made = _rewritten(spark, folder, list(replaced), kept_from) if replaced else {}
    for path in [*replaced, *(each.path for each in expired)]:
        path.unlink(missing_ok=True)
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    sync_folder(folder)
    return Compacted(
        usage=usage,
        files=len(files),
        replaced=len(replaced),
        written=len(made),
        rows=sum(made.values()),
        expired=len(expired),
        kept_from=None if kept_from is None else kept_from.isoformat(),
    )


def require_folder(usage: str) -> None:
    """Make sure that a table is a directory. Raises `UsageError`."""
    if not Path(usage).is_dir():
        raise UsageError(
            f"{inert(usage)} is not a directory; a table at a URL or of a catalog is compacted by what keeps it, for "
            "example by OPTIMIZE of Delta Lake"
        )


def _dates(path: Path) -> _File | None:
    """Return from when to when a file has rows; `None` if it has none with a time."""
    from pyarrow import ArrowException, compute, parquet

    from quotaform.usage.table.schema import USAGE

    try:
        if others := sorted({*parquet.read_schema(path).names} - {*USAGE.names}):
            # They would not be in the file that is written in its place.
            raise FileReadError(str(path), f"it has the column {inert(others[0])}, which no usage table has")
        times = compute.min_max(parquet.read_table(path, columns=["ts"]).column("ts")).as_py()
    except (ArrowException, OSError, KeyError) as error:
        raise FileReadError(str(path), f"it is no file of a usage table: {error}") from None
    if times["min"] is None:
        return None
    # A time without a zone is one of UTC.
    first, last = (each.astimezone(UTC) if each.tzinfo else each for each in (times["min"], times["max"]))
    return _File(path, first.date(), last.date())


def _rewritten(spark: SparkSession, folder: Path, paths: Sequence[Path], kept_from: date | None) -> Mapping[Path, int]:
    """Write the rows of files anew, and return the files that have them and how many they have."""
    from pyarrow import parquet
    from pyspark.sql import functions as f

    from quotaform.fleet.table import located, located_exactly
    from quotaform.system.staging import remove_dead, staged_folder
    from quotaform.usage.table.schema import SERIES, USAGE

    remove_dead(folder, time())
    rows = spark.read.schema(USAGE).parquet(*(located_exactly(str(path.absolute())) for path in paths))
    # Days since 1970: a date would be one of the time zone of the session.
    day = f.floor(f.unix_micros("ts") / 86_400_000_000).cast("int")
    rows = rows.where(f.col("ts").isNotNull()).dropDuplicates().withColumn(_DAY, day)
    if kept_from is not None:
        rows = rows.where(f.col(_DAY) >= (kept_from - date(1970, 1, 1)).days)
    made: dict[Path, int] = {}
    with staged_folder(folder.absolute()) as staged:
        in_order = rows.repartition(_DAY).sortWithinPartitions(_DAY, *SERIES, "ts")
        in_order.write.option("maxRecordsPerFile", _MOST_ROWS).partitionBy(_DAY).parquet(located(str(staged)))
        written = sorted(staged.glob(f"{_DAY}=*/*.parquet")) if staged.is_dir() else []
        counts = {path: parquet.read_metadata(path).num_rows for path in written}
        if sum(counts.values()) != rows.count():
            raise EngineError(
                f"Spark wrote to {inert(str(folder))}, and not all rows are there on this machine: it runs elsewhere. "
                "Nothing was removed; name a directory that all machines share."
            )
        sync_tree(staged)
        for path, count in counts.items():
            begin = date(1970, 1, 1) + timedelta(int(path.parent.name.partition("=")[2]))
            place = folder / f"day-{begin.isoformat()}-{uuid4().hex[:12]}.parquet"
            path.replace(place)
            made[place] = count
    sync_folder(folder)
    return made
