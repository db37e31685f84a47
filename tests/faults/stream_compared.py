"""What was sent to a topic that is streamed, and whether the table has it: row by row, beside a batch ingest of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from quotaform.usage.table.schema import USAGE
from tests.spark.usage_topic import BUCKETS, UsageTopic, text

LATE_MS: Final = 24 * 3600 * 1000
"""How far the time of a late page is behind: it is late unless it is in the first batch."""
SAMPLES: Final = 2 * BUCKETS
NANS: Final = BUCKETS - BUCKETS // 2
"""How many samples of a page have no value."""
HEAD: Final = 200


class Record(NamedTuple):
    """A record of the topic."""

    value: bytes
    ts_ms: int


class Sent:
    """The records that were sent."""

    def __init__(self, topic: UsageTopic) -> None:
        self.topic = topic
        self.records = 0
        self.pages: list[int] = []
        self.copies = 0
        self.late: dict[str, int] = {}
        """Pages whose time is long past, by their beginning."""
        self.garbage: list[str] = []

    def next(self, pages: int) -> Iterator[Record]:
        """Yield so many new pages, and what is between them."""
        for page in range(len(self.pages), len(self.pages) + pages):
            self.pages.append(page)
            yield self._counted(Record(text(page), self.topic.time_of(page)))
            if page % 7 == 0:
                self.copies += 1
                yield self._counted(Record(text(page), self.topic.time_of(page)))
            if page % 20 == 0:
                late = 10**6 + page
                self.late[text(late).decode()[:HEAD]] = page
                yield self._counted(Record(text(late), self.topic.time_of(page) - LATE_MS))
            if page % 25 == 0:
                self.garbage.append(f"no metric {page} {{")
                yield self._counted(Record(self.garbage[-1].encode(), self.topic.time_of(page)))

    def _counted(self, record: Record) -> Record:
        self.records += 1
        return record


def compare(sent: Sent, folder: Path) -> None:
    """Compare the table and the quarantine with those that a batch ingest makes of the same pages."""
    stream, bad = rows(folder / "usage"), rows(folder / "bad")
    late = [row["record"] for row in bad if ": late: " in row["reason"]]
    assert len(late) == len(set(late)), "a late record is in the quarantine twice"
    assert set(late) <= sent.late.keys(), set(late) - sent.late.keys()
    in_time = [page for head, page in sent.late.items() if head not in late]
    ingest(sent, in_time, folder)
    batch, batch_bad = rows(folder / "batch"), rows(folder / "batch-quarantine")
    found, expected = Counter(map(_key, stream)), Counter(map(_key, batch))
    missing, more = expected - found, found - expected
    print(
        f"{sent.records} records, {len(sent.pages)} pages, {sent.copies} of them twice, {len(sent.late)} late "
        f"({len(in_time)} in the first batch), {len(sent.garbage)} no pages\n"
        f"{len(stream)} rows, {len(batch)} of a batch ingest; {missing.total()} missing, {more.total()} too many",
        flush=True,
    )
    assert not missing, list(missing)[:5]
    assert not more, list(more)[:5]
    assert len(batch) == BUCKETS * (len(sent.pages) + len(in_time))
    unread = Counter(row["record"] for row in bad if ": late: " not in row["reason"])
    assert unread == Counter(row["record"] for row in batch_bad) == Counter(sent.garbage), unread


def require_sum(sent: Sent, folder: Path) -> None:
    """Make sure that samples in = samples out + dropped + quarantined, by what is in the tables."""
    table, bad = rows(folder / "usage"), rows(folder / "bad")
    late = sum(": late: " in row["reason"] for row in bad)
    read = SAMPLES * (sent.records - len(sent.garbage)) + len(sent.garbage)
    written = sum((row["rate"] is not None) + (row["throttle_ms"] is not None) for row in table)
    nan = len(table) // BUCKETS * NANS
    dropped = nan + SAMPLES * (sent.copies + late)
    quarantined = len(bad) - late
    print(f"{read} samples = {written} written + {dropped} dropped + {quarantined} quarantined")
    assert read == written + dropped + quarantined


def ingest(sent: Sent, in_time: list[int], folder: Path) -> None:
    """Ingest the pages as a file, whose lines have times."""
    topic = sent.topic
    recording = folder / "recording.txt"
    with recording.open("w", encoding="utf-8") as file:
        for page in sent.pages:
            _write(file, text(page), topic.time_of(page))
        for page in in_time:
            _write(file, text(10**6 + page), topic.time_of(page) - LATE_MS)
        for line in sent.garbage:
            print(line, file=file)
    options = ["--input-format", "exposition", "--cluster", "prod", "--broker", "b1", "--usage", str(folder / "batch")]
    done = subprocess.run(
        [sys.executable, "-m", "quotaform", "usage", "ingest", str(recording), *options],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "NO_COLOR": "1"},
    )
    assert done.returncode == 0, done.stderr


def _write(file: Any, page: bytes, ts_ms: int) -> None:
    for line in page.decode().splitlines():
        print(line, ts_ms, file=file)


def rows(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of a table, by another reader of Parquet than Spark."""
    from pyarrow import parquet

    return [row for file in sorted(folder.glob("*.parquet")) for row in parquet.read_table(file).to_pylist()]


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return (round(row["ts"].timestamp() * 1000), *(row[name] for name in USAGE.names if name != "ts"))
