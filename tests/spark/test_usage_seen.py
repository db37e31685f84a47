"""Which records are duplicates and which are late, against a slow oracle, over some batches."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from random import Random
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from quotaform.usage.sample import DropReason
from quotaform.usage.stream.batch import DUPLICATE, LATE, SEEN, judged, still_seen
from quotaform.usage.stream.message import MESSAGES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

START: Final = datetime(2026, 11, 20, tzinfo=UTC)
WAIT_S: Final = 60
NO_BACKLOG: Final[Mapping[int, int]] = MappingProxyType({})


class Record(NamedTuple):
    """A record; its times are seconds after `START`."""

    offset: int
    message: int
    newest: int | None
    recorded_at: int

    @property
    def sent_at(self) -> int:
        """The time by a right clock."""
        return self.offset * 3

    @property
    def ts(self) -> int:
        """The time that counts."""
        return self.recorded_at if self.newest is None else self.newest


class Oracle:
    """Remembers every record for ever."""

    def __init__(self) -> None:
        self.known: set[int] = set()
        self.newest: int | None = None

    def status(self, batch: list[Record], read_at: int) -> dict[int, str | None]:
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
                self.newest = max(self.newest or 0, min(record.ts, record.recorded_at, read_at))
        return found


def batches(random: Random) -> list[list[Record]]:
    """Return batches of records of which some come again, some late, and some have a clock that is ahead."""
    made: list[Record] = []
    for offset in range(96):
        if made and random.random() < 0.3:
            # What a message says does not change; that Kafka has another time of it matters only if it has none.
            again = random.choice(made[-40:])
            recorded_at = again.recorded_at if again.newest is None else offset * 3 + random.choice((0, 0, 500))
            made.append(again._replace(offset=offset, recorded_at=recorded_at))
            continue
        # A clock of samples that is ahead or behind, and one of a producer: alone, or of both.
        ahead, producer = random.choice((*[(0, 0)] * 6, (500, 0), (-80, 0), (0, 500), (500, 500), (0, -80)))
        newest = None if random.random() < 0.1 else max(1, offset * 3 + ahead)
        made.append(Record(offset, offset, newest, max(1, offset * 3 + producer)))
    return [made[begin : begin + 32] for begin in range(0, len(made), 32)]


def messages(spark: SparkSession, batch: list[Record], read_at: int) -> DataFrame:
    """Return `MESSAGES` of a batch that is read at a time."""
    rows: list[tuple[Any, ...]] = [
        (
            record.message.to_bytes(16, "big"),
            record.offset % 2,
            record.offset,
            START + timedelta(seconds=record.recorded_at),
            START + timedelta(seconds=read_at),
            None if record.newest is None else START + timedelta(seconds=record.newest),
            10,
            [0] * len(DropReason),
            [],
            "",
            [],
        )
        for record in batch
    ]
    return spark.createDataFrame(rows, MESSAGES)


class Stream:
    """What `judged` and `still_seen` make of one batch after the other."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.seen = spark.createDataFrame([], SEEN)

    def read(
        self, batch: list[Record], read_at: int, ends: Mapping[int, int] | None = NO_BACKLOG
    ) -> dict[int, str | None]:
        """Return what becomes of each record of a batch, by offset; `ends` is as `still_seen` has it."""
        found = judged(messages(self.spark, batch, read_at), self.seen, WAIT_S).persist()
        status = {row.offset: row.status for row in found.collect()}
        self.seen = self.spark.createDataFrame(still_seen(found, self.seen, WAIT_S, ends).collect(), SEEN)
        found.unpersist()
        return status

    def kept(self) -> dict[int, float]:
        """Return the messages that are known, and the time until which they are."""
        return {int.from_bytes(row.id, "big"): row.ts.timestamp() - START.timestamp() for row in self.seen.collect()}


@pytest.mark.parametrize("read_after_s", [0, 24 * 3600])
def test_each_record_of_each_batch_is_judged_as_by_the_oracle(spark: SparkSession, read_after_s: int) -> None:
    """At once, and a backlog of the day before."""
    oracle, stream = Oracle(), Stream(spark)
    statuses: set[str | None] = set()
    for batch in batches(Random(7)):
        read_at = batch[-1].sent_at + read_after_s
        status = stream.read(batch, read_at)
        # Of two copies in a batch, that of the lower partition counts.
        in_order = sorted(batch, key=lambda record: (record.offset % 2, record.offset))
        assert status == oracle.status(in_order, read_at)
        statuses |= set(status.values())
        assert oracle.newest is not None
        assert all(ts >= oracle.newest - WAIT_S for ts in stream.kept().values())
    assert statuses == {None, LATE, DUPLICATE}


def test_a_producer_whose_clock_is_ahead_makes_no_other_record_late(spark: SparkSession) -> None:
    """The watermark followed the time of the record, which is by the same clock as that of its samples."""
    stream = Stream(spark)
    for begin in (0, 20):
        batch = []
        for offset in range(begin, begin + 20):
            # One in ten is an hour ahead; the others are late by as much as is waited for.
            ahead = 3600 if offset % 10 == 3 else -WAIT_S
            time = offset * 3 + ahead
            batch.append(Record(offset, offset, time if offset % 4 else None, time))
        assert set(stream.read(batch, batch[-1].sent_at).values()) == {None}


def test_a_record_a_year_ahead_is_known_for_a_time_and_not_for_a_year(spark: SparkSession) -> None:
    """Its id was kept until the year was over, and all that is kept is written with each batch."""
    stream = Stream(spark)
    year = 365 * 24 * 3600
    for offset in (0, 60):
        batch = [Record(offset, offset, offset * 3, offset * 3), Record(offset + 1, offset + 1, year, offset * 3 + 3)]
        stream.read(batch, batch[-1].sent_at)
        again = batch[-1]._replace(offset=offset + 2)
        assert stream.read([again], again.sent_at) == {offset + 2: DUPLICATE}
    # 1 was read more than twice as long before the newest time as is waited for.
    assert stream.kept().keys() == {60, 61}


def test_a_machine_whose_clock_is_set_back_still_knows_what_it_reads(spark: SparkSession) -> None:
    stream = Stream(spark)
    for offset, read_at in ((1000, 3000), (1001, 0)):
        record = Record(offset, offset, 3000, 3000)
        assert stream.read([record], read_at) == {offset: None}
        assert stream.read([record], read_at) == {offset: DUPLICATE}


DAY: Final = 24 * 3600


def record(offset: int, ts: int) -> Record:
    """Return a record by right clocks; an odd offset is in partition 1, an even one in partition 0."""
    return Record(offset, offset, ts, ts)


def test_partitions_of_a_backlog_may_cover_different_times(spark: SparkSession) -> None:
    """Records of partition 0 were late, as those of partition 1 are of a later day."""
    stream, now, ends = Stream(spark), 7 * DAY, {0: 7, 1: 8}
    assert set(stream.read([record(0, DAY), record(1, 6 * DAY)], now, None).values()) == {None}
    assert set(stream.read([record(2, 2 * DAY), record(3, 6 * DAY + 3600)], now, ends).values()) == {None}
    # What was read a day before the one that is furthest behind is late.
    assert stream.read([record(4, DAY), record(5, 6 * DAY + 7200)], now, ends) == {4: LATE, 5: None}
    # A copy of what was read is known for as long as it is not late.
    again = record(3, 6 * DAY + 3600)._replace(offset=7)
    assert stream.read([record(6, 3 * DAY), again], now, ends) == {6: None, 7: DUPLICATE}
    # Both have ended; partition 1 has new records, and what partition 0 has may be a day old no longer.
    assert stream.read([record(9, 7 * DAY)], now, {0: 7, 1: 10}) == {9: None}
    assert stream.read([record(8, 6 * DAY)], now, {0: 9, 1: 10}) == {8: LATE}


def test_without_a_backlog_a_partition_that_is_silent_or_slow_holds_nothing_back(spark: SparkSession) -> None:
    stream = Stream(spark)
    assert set(stream.read([record(0, 0), record(1, DAY)], DAY, {0: 1, 1: 2}).values()) == {None}
    assert stream.read([record(2, DAY - WAIT_S - 1), record(4, DAY)], DAY, {0: 5, 1: 2}) == {2: LATE, 4: None}


def test_the_watermark_does_not_go_back_when_a_partition_falls_behind(spark: SparkSession) -> None:
    """An id that was forgotten could come again."""
    stream = Stream(spark)
    stream.read([record(1, 3 * DAY)], 3 * DAY)
    stream.read([record(0, 3 * DAY)], 3 * DAY, {0: 100, 1: 2})
    assert stream.read([record(2, DAY), record(3, 3 * DAY)], 3 * DAY, {0: 100, 1: 4}) == {2: LATE, 3: None}
    assert stream.read([record(4, DAY)], 3 * DAY, {0: 100, 1: 4}) == {4: LATE}
