"""Which records are duplicates and which are late, against a slow oracle, over some batches."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from quotaform.core.usage.sample import DropReason
from quotaform.spark.usage.stream.message import MESSAGES
from quotaform.spark.usage.stream.seen import DUPLICATE, LATE, SEEN, judged, still_seen

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START: Final = datetime(2026, 11, 20, tzinfo=UTC)
WAIT_S: Final = 60


class Record(NamedTuple):
    """A record; its times are seconds after `START`."""

    offset: int
    message: int
    newest: int | None
    recorded_at: int

    @property
    def ts(self) -> int:
        """The time that counts."""
        return self.recorded_at if self.newest is None else self.newest


class Oracle:
    """Remembers every record for ever."""

    def __init__(self) -> None:
        self.known: set[int] = set()
        self.newest: int | None = None

    def status(self, batch: list[Record]) -> dict[int, str | None]:
        """Return what becomes of each record of a batch, by offset."""
        watermark = None if self.newest is None else self.newest - WAIT_S
        found: dict[int, str | None] = {}
        for record in batch:
            if watermark is not None and record.ts < watermark:
                found[record.offset] = LATE
            elif record.message in self.known:
                found[record.offset] = DUPLICATE
            else:
                found[record.offset] = None
                self.known.add(record.message)
                self.newest = max(self.newest or 0, min(record.ts, record.recorded_at))
        return found


def batches(random: Random) -> list[list[Record]]:
    """Return batches of records of which some come again, some late, and some have a clock that is ahead."""
    made: list[Record] = []
    for offset in range(96):
        if made and random.random() < 0.3:
            # What a message says does not change; that Kafka has another time of it matters only if it has none.
            again = random.choice(made[-40:])
            recorded_at = again.recorded_at if again.newest is None else offset * 3
            made.append(again._replace(offset=offset, recorded_at=recorded_at))
            continue
        ahead = random.choice((0, 0, 0, 0, 500, -80))
        newest = None if random.random() < 0.1 else max(1, offset * 3 + ahead)
        made.append(Record(offset, offset, newest, offset * 3))
    return [made[begin : begin + 32] for begin in range(0, len(made), 32)]


def test_each_record_of_each_batch_is_judged_as_by_the_oracle(spark: SparkSession) -> None:
    oracle, seen = Oracle(), spark.createDataFrame([], SEEN)
    statuses: set[str | None] = set()
    for batch in batches(Random(7)):
        rows: list[tuple[Any, ...]] = [
            (
                record.message.to_bytes(16, "big"),
                record.offset % 2,
                record.offset,
                START + timedelta(seconds=record.recorded_at),
                None if record.newest is None else START + timedelta(seconds=record.newest),
                10,
                [0] * len(DropReason),
                [],
                "",
                [],
            )
            for record in batch
        ]
        found = judged(spark.createDataFrame(rows, MESSAGES), seen, WAIT_S)
        status = {row.offset: row.status for row in found.collect()}
        # Of two copies in a batch, that of the lower partition counts.
        in_order = sorted(batch, key=lambda record: (record.offset % 2, record.offset))
        assert status == oracle.status(in_order)
        statuses |= set(status.values())
        kept = still_seen(found, seen, WAIT_S).collect()
        assert oracle.newest is not None
        assert all(row.ts.timestamp() >= START.timestamp() + oracle.newest - WAIT_S for row in kept)
        seen = spark.createDataFrame(kept, SEEN)
    assert statuses == {None, LATE, DUPLICATE}
