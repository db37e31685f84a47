"""Records of a topic, parsed: one row each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as f
from pyspark.sql.types import (
    ArrayType,
    LongType,
    StructField,
    StructType,
)

from quotaform.model.text import MIB
from quotaform.usage.format import FORMATS
from quotaform.usage.sample import (
    LONGEST_RECORD,
    Attribute,
    Dropped,
    DropReason,
    Item,
    MergedRow,
    Sample,
    Series,
    merge,
)
from quotaform.usage.table.schema import QUARANTINE, USAGE, struct_type

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame

    from quotaform.usage.metric_name import Origin

MESSAGES: Final = struct_type(
    "id binary",
    "partition int",
    "offset samples long",
    StructField("dropped", ArrayType(LongType())),
    StructField("rejected", ArrayType(StructType([QUARANTINE["reason"], QUARANTINE["record"]]))),
    StructField("rows", ArrayType(USAGE)),
)
"""A row per record of the topic.

| column | content |
| --- | --- |
| id | equal for records that say the same of the same time; one without a value is equal to no other |
| samples | how many samples are in `rows` |
| dropped | how many samples are left out, for each `DropReason` in their order |
| rejected | what could not be read, a row of the quarantine each |
| rows | `USAGE` |
"""

_REASONS: Final = {reason: number for number, reason in enumerate(DropReason)}
_MOST_ROWS: Final = 50_000
"""After how many rows of usage a batch of Arrow ends."""
_ATTRIBUTE: Final = Series._fields.index("attribute")
_ID_BYTES: Final = 16
_NO_CLUSTER: Final = "no label of the metrics names the cluster; give --cluster NAME, or the label with --cluster-label"
SETTINGS: Final = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(16 * MIB),
}
"""What a session needs to parse records in little memory."""


def messages(records: DataFrame, input_format: str, origin: Origin) -> DataFrame:
    """Return `MESSAGES`: the records of a topic, parsed.

    `records`: what the connector gives: `value`, `partition`, `offset`, `timestamp` and others. `input_format`: one of
    `quotaform.usage.format.FORMATS`.
    """

    def parsed(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        import pyarrow
        from pyspark.sql.pandas.types import to_arrow_schema

        schema = to_arrow_schema(MESSAGES, timezone="UTC")
        for batch in batches:
            columns = [batch.column(name) for name in ("value", "partition", "offset")]
            columns.append(batch.column("timestamp").cast(pyarrow.int64()))
            found: list[tuple[Any, ...]] = []
            for value, partition, offset, ts in zip(*(each.to_pylist() for each in columns), strict=True):
                message = parse_message(value, ts, input_format, origin)
                # A record without a value says nothing that another one could repeat.
                message_id = message.message_id or f"{partition}/{offset}".encode()
                counts = (message.samples, message.dropped, message.rejected)
                found.append((message_id, partition, offset, *counts, message.rows))
                if sum(len(rows) for *_, rows in found) >= _MOST_ROWS:
                    yield _batch(found, schema)
                    found = []
            if found:
                yield _batch(found, schema)

    return records.select("value", "partition", "offset", f.col("timestamp").cast("timestamp")).mapInArrow(
        parsed, MESSAGES
    )


def _batch(found: Sequence[tuple[Any, ...]], schema: pyarrow.Schema) -> pyarrow.RecordBatch:
    """Return messages as a batch of Arrow; `rows` by column, since structs of tuples would take most of the time."""
    import pyarrow

    *columns, rows = zip(*found, strict=True)
    kind = schema.field("rows").type
    ends = pyarrow.array([0, *accumulate(map(len, rows))], pyarrow.int32())
    fields = [kind.value_type.field(number) for number in range(kind.value_type.num_fields)]
    values = list(zip(*(row for each in rows for row in each), strict=True)) or [()] * len(fields)
    arrays = [pyarrow.array(column, field.type) for column, field in zip(values, fields, strict=True)]
    structs = pyarrow.StructArray.from_arrays(arrays, fields=fields)
    others = [pyarrow.array(column, field.type) for column, field in zip(columns, schema, strict=False)]
    return pyarrow.record_batch([*others, pyarrow.ListArray.from_arrays(ends, structs, type=kind)], schema=schema)


@dataclass(slots=True)
class Message:
    """One record, parsed."""

    message_id: bytes  # See `MESSAGES`; empty if the record has no value
    newest: int | None = None  # The time of its newest sample, in microseconds since the epoch
    samples: int = 0  # How many samples are in its rows
    dropped: list[int] = field(default_factory=lambda: [0] * len(_REASONS))
    """How many are left out, by the number of the reason."""
    rejected: list[tuple[str, str]] = field(default_factory=list)  # Reason and beginning of what could not be read
    rows: list[tuple[Any, ...]] = field(default_factory=list)  # The columns of `USAGE`, a tuple per row

    def drop(self, dropped: Dropped) -> None:
        """Count samples that are left out."""
        reason, count = dropped
        self.dropped[_REASONS[reason]] += count

    def add(self, names: Sequence[str | None], instance: str | None, samples: Sequence[Sample]) -> None:
        """Add the samples of one bucket.

        `names`: its cluster, broker, key, user, client-id and ip. `instance`: which client with these names measured
        itself; `None` if a broker measured.
        """
        if len(samples) == 1 and samples[0].series.attribute is Attribute.RATE:
            # Nearly all of them, and `merge` takes longer than parsing.
            rows = [MergedRow(samples[0].ts, samples[0].window_s, samples[0].value, None)]
        elif len(samples) == 2 and _is_row(*samples):
            rows = [MergedRow(samples[0].ts, samples[0].window_s, samples[0].value, samples[1].value)]
        else:
            rows, dropped = merge(samples)
            for each in dropped:
                self.drop(each)
        names = [name and _encodable(name) for name in names]
        for row in rows:
            ts = round(row.ts * 1_000_000)
            self.rows.append((ts, row.window_s, *names, row.rate, row.throttle_ms, instance and _encodable(instance)))
            self.samples += (row.rate is not None) + (row.throttle_ms is not None)
            self.newest = ts if self.newest is None else max(self.newest, ts)


def parse_message(value: bytes | None, recorded_at: int, input_format: str, origin: Origin) -> Message:
    """Return one record of a topic, parsed; it is a document of the format.

    `recorded_at`: the time that Kafka has of it, in microseconds since the epoch.
    """
    if value is None:
        return Message(b"", rejected=[("the record has no value", "")])
    message, head = Message(b""), value[: 4 * LONGEST_RECORD].decode("utf-8", "replace")[:LONGEST_RECORD]
    try:
        _add_items(message, head, FORMATS[input_format](value, origin, recorded_at / 1e6))
    except Exception as error:
        # An internal error; the stream goes on, since it would meet the same record each time that it begins again.
        reason = f"internal error: {type(error).__name__}; please report it with the record"
        message = Message(b"", rejected=[(reason, head)])
    digest = blake2b(value, digest_size=_ID_BYTES)
    # A page without times says another thing at another time.
    digest.update(str(message.newest).encode())
    message.message_id = digest.digest()
    return message


def _add_items(message: Message, head: str, items: Iterable[Item]) -> None:
    buckets: dict[tuple[Any, ...], list[Sample]] = {}
    without_cluster = 0
    for item in items:
        if isinstance(item, Sample):
            series = item.series
            if series.cluster is None:
                without_cluster += 1
            else:
                buckets.setdefault((*series[:_ATTRIBUTE], series.instance), []).append(item)
        elif isinstance(item, Dropped):
            message.drop(item)
        else:
            message.rejected.append((_encodable(item.reason), _encodable(item.record)))
    for (*names, instance), samples in buckets.items():
        message.add(names, instance, samples)
    if without_cluster:
        message.rejected.append((f"{without_cluster:,} samples: {_NO_CLUSTER}", head))


def _is_row(rate: Sample, throttle: Sample) -> bool:
    """Whether two samples of a bucket are a rate and a throttle time of one time."""
    is_rate, is_throttle = rate.series.attribute is Attribute.RATE, throttle.series.attribute is Attribute.THROTTLE_TIME
    return is_rate and is_throttle and rate.ts == throttle.ts


def _encodable(text: str) -> str:
    """Return a text as UTF-8 can hold it: JSON may have halves of surrogate pairs."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()
