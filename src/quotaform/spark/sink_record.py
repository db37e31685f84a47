"""What a task of the sink leaves behind: a part of the table of results, receipts, and counts for the driver.

Each task writes its part before it returns, so that the record of what was done does not depend on the tasks that are
still running, nor on the driver. A part that is there already was written by an earlier attempt of the same task, and
stays as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from pyspark.sql.datasource import WriterCommitMessage

from quotaform.app.apply.receipt_file import start_receipt, write_receipt
from quotaform.app.apply.receipt_name import receipt_name
from quotaform.core.digest import digest_plan
from quotaform.core.receipt import Receipt, Result
from quotaform.errors import PartialError, QuotaformError
from quotaform.model.entity import spell_name
from quotaform.spark.schemas import RESULTS, arrow_schema
from quotaform.spark.table.path import is_url

if TYPE_CHECKING:
    pass

_MOST_REASONS: Final = 5

ResultRow = Mapping[str, Any]
"""A row of `schemas.RESULTS`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written(WriterCommitMessage):
    """What became of the entities of one task; its size does not grow with them.

    Attributes:
        counts: How many entities have a `Result`, by its value.
        reasons: Why entities do not hold what was written: the most frequent ones, by cluster and reason.
        more: How many other reasons there are.
        unsaved: Why receipts were not written, for each cluster.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    reasons: Mapping[tuple[str | None, str], int] = field(default_factory=dict)
    more: int = 0
    unsaved: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Record:
    """Where the tasks of one write leave what they have done.

    Attributes:
        results: A folder or a URI that pyarrow knows; `None` if results are not wanted.
        receipts: A folder; `None` if receipts are not wanted.
        run: What the names of parts have in common.
    """

    results: str | None
    receipts: str | None
    run: str = field(default_factory=lambda: uuid4().hex)

    def make_folders(self) -> None:
        """Create the folders; tasks need them, and do not create them: see `require_folders`."""
        if self.results is not None:
            system, folder = _located(self.results)
            system.create_dir(folder, recursive=True)
        if self.receipts is not None:
            Path(self.receipts).mkdir(parents=True, exist_ok=True)

    def require_folders(self) -> None:
        """Make sure that an executor sees the folders of the driver, before anything is written to a cluster.

        Raises `QuotaformError` if it has files of its own, where nobody would look for results.
        """
        wanted = {
            "results": None if self.results is None or is_url(self.results) else self.results,
            "receipts": self.receipts,
        }
        for option, place in wanted.items():
            if place is not None and not Path(place).is_dir():
                text = f"the executor does not see the folder {place} of the option {option}; nothing was written to"
                raise QuotaformError(f"{text} the clusters of this task; give a folder that all executors see")

    def known(self, partition: int) -> Written | None:
        """Return what an earlier attempt has recorded of a task, if one has."""
        if self.results is None:
            return None
        from pyarrow import fs, parquet

        system, folder = _located(self.results)
        part = f"{folder}/{self._part(partition)}"
        if system.get_file_info(part).type != fs.FileType.File:
            return None
        columns = ["cluster", "result", "message"]
        return summary_of(parquet.read_table(part, filesystem=system, columns=columns).to_pylist())

    def add(self, partition: int, rows: Sequence[ResultRow]) -> None:
        """Add the part of a task to the results; a reader sees all of it or nothing."""
        if self.results is None:
            return
        import pyarrow
        from pyarrow import parquet

        table = pyarrow.Table.from_pylist(list(rows), arrow_schema(RESULTS))
        try:
            system, folder = _located(self.results)
            # What begins with a dot is no part of a table.
            hidden = f"{folder}/.{self._part(partition)}.{uuid4().hex}.tmp"
            try:
                parquet.write_table(table, hidden, filesystem=system)
                system.move(hidden, f"{folder}/{self._part(partition)}")
            except BaseException:
                with suppress(OSError):
                    system.delete_file(hidden)
                raise
        except (OSError, pyarrow.ArrowException) as error:
            counts = _counts(summary_of(rows).counts)
            raise PartialError(f"the results cannot be written to {self.results}: {error} ({counts})") from error

    def start_receipt(self, receipt: Receipt) -> Path | None:
        """Write the started receipt before the first change is sent; return where it is."""
        if self.receipts is None:
            return None
        return start_receipt(Path(self.receipts) / receipt_name(digest_plan(receipt.plan)), receipt)

    def add_receipt(self, receipt: Receipt, started: Path | None) -> str | None:
        """Write a receipt, if anything was sent; return why it cannot be written.

        Args:
            started: Where `start_receipt` has written the started receipt.
        """
        if self.receipts is None or not receipt.results:
            return None
        try:
            path = started or Path(self.receipts) / receipt_name(digest_plan(receipt.plan))
            write_receipt(path, receipt, is_started=started is not None)
        except (OSError, QuotaformError) as error:
            return f"{spell_name(receipt.plan.header.cluster_name)}: {error}"
        return None

    def _part(self, partition: int) -> str:
        return f"part-{partition:05}-{self.run}.parquet"


def summary_of(rows: Iterable[ResultRow], unsaved: Sequence[str] = ()) -> Written:
    """Return what rows of results amount to."""
    counts: Counter[str] = Counter()
    reasons: Counter[tuple[str | None, str]] = Counter()
    for row in rows:
        counts[row["result"]] += 1
        if not Result(row["result"]).holds:
            reasons[row["cluster"], row["message"] or row["result"]] += 1
    most = reasons.most_common(_MOST_REASONS)
    return Written(counts=counts, reasons=dict(most), more=len(reasons) - len(most), unsaved=tuple(unsaved))


def require_written(tasks: Sequence[Written], results: str | None) -> None:
    """Make sure that all entities hold what was written.

    Args:
        tasks: What each task has done; a cluster is in one of them.

    Raises:
        PartialError: Some do not; or a receipt was not written.
    """
    counts: Counter[str] = Counter()
    reasons: Counter[tuple[str | None, str]] = Counter()
    for task in tasks:
        counts.update(task.counts)
        reasons.update(task.reasons)
    failed = {result: count for result, count in counts.items() if not Result(result).holds}
    words = [
        f"{'null' if name is None else spell_name(name)}: {count:,} {reason}"
        for (name, reason), count in reasons.most_common(_MOST_REASONS)
    ]
    more = len(reasons) - len(words) + sum(task.more for task in tasks)
    if more:
        words.append(f"and for {more:,} more reasons")
    where = "" if results is None else f"; the results are in {results}"
    unsaved = [text for task in tasks for text in task.unsaved]
    if failed:
        of_all = f"{sum(failed.values()):,} of {sum(counts.values()):,} entities do not hold what was written"
        raise PartialError(f"{of_all} ({_counts(failed)}): {'; '.join(words)}{where}")
    if unsaved:
        shown = "; ".join(unsaved[:_MOST_REASONS])
        raise PartialError(f"all is written, but {len(unsaved):,} receipts are not: {shown}{where}")


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {result}" for result, count in sorted(counts.items()))


def _located(place: str) -> tuple[Any, str]:
    """Return the file system of pyarrow that a folder is in, and its path there."""
    import pyarrow
    from pyarrow import fs

    try:
        system, folder = fs.FileSystem.from_uri(place if is_url(place) else str(Path(place).absolute()))
    except pyarrow.ArrowException as error:
        raise OSError(str(error)) from error
    return system, folder
