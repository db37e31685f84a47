"""The schemas of the tables about usage. They only grow: a reader of today reads the tables of later versions.

Times are in UTC. A rate has the unit of its quota key: B/s, percent of one thread, partitions/s or connections/s.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import (
    BooleanType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

BUCKET_NAMES: Final = ("user", "client_id", "ip")
"""The columns that name who shares one limit; null where the bucket has no such name."""

SERIES: Final = ("cluster", "broker", "key", *BUCKET_NAMES, "instance")
"""The columns that name one recorded series."""

LATER_COLUMNS: Final = ("instance",)
"""The columns of `USAGE` that tables of earlier versions lack; there they are null."""

USAGE: Final = StructType(
    [
        StructField("ts", TimestampType()),
        StructField("window_s", DoubleType()),
        StructField("cluster", StringType()),
        StructField("broker", StringType()),
        StructField("key", StringType()),
        StructField("user", StringType()),
        StructField("client_id", StringType()),
        StructField("ip", StringType()),
        StructField("rate", DoubleType()),
        StructField("throttle_ms", DoubleType()),
        StructField("instance", StringType()),
    ]
)
"""What clients used, a row per series and time.

| column | content |
| --- | --- |
| ts | the end of the window that was measured |
| window_s | how many seconds up to `ts` the rate covers |
| cluster | the name of the cluster, as in quotaform.yaml |
| broker | the broker, as the source names it; null if a client measured |
| key | the quota key |
| user, client_id, ip | the bucket that the broker metered; null is a name that the bucket does not have |
| rate | in the unit of the key; null if only the throttle time was recorded |
| throttle_ms | the average delay of the throttled requests of the last 30 to 60 s; null if there were none |
| instance | which of several clients with these names measured itself; null if a broker measured |

Clients with the same names share one limit, so what each of them measured has to be added up. A time may have two rows
of a series, one with a rate and one with a throttle time, where a source gives them apart and they arrived apart; and
the same row twice, where a recording was ingested twice. Readers count a series once per time.
"""

QUARANTINE: Final = StructType(
    [
        StructField("file", StringType()),
        StructField("position", LongType()),
        StructField("reason", StringType()),
        StructField("record", StringType()),
        StructField("ingested_at", TimestampType()),
    ]
)
"""Records that could not be read.

| column | content |
| --- | --- |
| file | the file; `kafka:TOPIC/PARTITION` for a record of a topic |
| position | the byte, line or offset at which the record begins, as `reason` says |
| record | the beginning of the record |
"""

BUCKETS: Final = StructType(
    [
        StructField("cluster", StringType()),
        StructField("key", StringType()),
        StructField("user", StringType()),
        StructField("client_id", StringType()),
        StructField("ip", StringType()),
        StructField("bucket", StringType()),
        StructField("limit", DoubleType()),
        StructField("source", StringType()),
        StructField("entity_key", StringType()),
        StructField("is_coarse", BooleanType()),
        StructField("member", StringType()),
        StructField("least_limit", DoubleType()),
        StructField("before_limit", DoubleType()),
        StructField("before_bucket", StringType()),
    ]
)
"""Which bucket each recorded series belongs to under some quotas, and its limit.

| column | content |
| --- | --- |
| user, client_id, ip | as recorded, see `USAGE` |
| bucket | the address of the bucket, such as `user=alice,client-id=app`; nobody else shares its limit |
| limit | null if nothing limits it |
| source, entity_key | the name of the level that won, and the entity whose value the limit is |
| is_coarse | whether the recording cannot tell which part of it is of the bucket: the quotas have finer buckets |
| before_limit, before_bucket | those before, if other quotas held while the usage was recorded; the same otherwise |
| least_limit | the least limit of all parts that the recording cannot tell apart, where new entries make some |
| member | the address of the series as it was recorded: one of those that share the bucket |
"""

HEADROOM: Final = StructType(
    [
        StructField("cluster", StringType()),
        StructField("broker", StringType()),
        StructField("key", StringType()),
        StructField("bucket", StringType()),
        StructField("entity_key", StringType()),
        StructField("source", StringType()),
        StructField("limit", DoubleType()),
        StructField("samples", LongType()),
        StructField("first", TimestampType()),
        StructField("last", TimestampType()),
        StructField("p50", DoubleType()),
        StructField("p95", DoubleType()),
        StructField("p99", DoubleType()),
        StructField("max", DoubleType()),
        StructField("used_ratio", DoubleType()),
        StructField("recorded_s", DoubleType()),
        StructField("throttled_s", DoubleType()),
        StructField("throttle_ms_max", DoubleType()),
        StructField("members", LongType()),
        StructField("top_member", StringType()),
        StructField("top_member_share", DoubleType()),
        StructField("is_coarse", BooleanType()),
    ]
)
"""How close each bucket is to its limit, per broker (per cluster for a key whose limit is one of the cluster).

| column | content |
| --- | --- |
| broker | null for a key whose limit holds for the whole cluster, and if the recording does not say |
| bucket, limit, source, entity_key | as in `BUCKETS` |
| samples | times with a rate |
| first, last | the first and the last time |
| p50, p95, p99, max | of the rates: the smallest rate that at least that share of the samples does not exceed |
| used_ratio | p99 / limit; null without a limit |
| recorded_s | seconds that the samples stand for, without gaps |
| throttled_s | seconds of these in which requests were throttled |
| throttle_ms_max | the largest average delay, in ms |
| members | those who share the bucket on the broker, by their names; several clients of one name are one |
| top_member, top_member_share | the one with the most of the sum of rates, and its share of it |
| is_coarse | as in `BUCKETS`; and true of a limit per broker if the recording does not say which broker it is of |

A row without a bucket is about a value that limited nothing that was recorded: `limit` of the entity `entity_key`, with
no samples and no members; `first`, `last` and `recorded_s` are those of the key on that cluster. A key of which nothing
was recorded has no such rows. See `quotaform.spark.usage.headroom.headroom` for how each is computed.
"""

RECORDED: Final = StructType(
    [
        *(StructField(name, StringType()) for name in SERIES),
        StructField("first", TimestampType()),
        StructField("last", TimestampType()),
        StructField("samples", LongType()),
    ]
)
"""The recorded series, and how much there is of each, in rows; for computing alone."""

MEMBERS: Final = StructType(
    [
        *(StructField(name, StringType()) for name in SERIES),
        StructField("bucket_id", LongType()),
        StructField("series_id", LongType()),
        StructField("bucket_broker", StringType()),
        StructField("bucket", StringType()),
        StructField("limit", DoubleType()),
        StructField("least_limit", DoubleType()),
        StructField("source", StringType()),
        StructField("entity_key", StringType()),
        StructField("is_coarse", BooleanType()),
        StructField("before_limit", DoubleType()),
        StructField("before_bucket", StringType()),
        StructField("replayed_limit", DoubleType()),
        StructField("key_number", IntegerType()),
    ]
)
"""The recorded series that a limit holds for, before or after a plan, and their buckets; for the backtest alone.

| column | content |
| --- | --- |
| bucket_id, series_id, bucket_broker | see `quotaform.spark.usage.bucket.member` |
| limit, before_limit | null if nothing limits the series |
| replayed_limit | that of the bucket; the least of its parts where they cannot be told apart |
| key_number | stands for the quota key among numbers |
"""

TOTALS: Final = StructType(
    [
        StructField("bucket_id", LongType()),
        StructField("samples", LongType()),
        *(
            StructField(name, DoubleType())
            for name in (
                "recorded_s",
                *("throttled_s", "throttled_s_low", "throttled_s_high"),
                *("first_throttled", "last_throttled", "longest_s"),
                *("delay_s_max", "delay_s_max_low", "delay_s_max_high"),
                *("worst_at", "backlog_s", "over_max", "refused"),
                *("recorded_throttled_s", "recorded_throttle_ms_max", "hidden_s"),
            )
        ),
    ]
)
"""`BACKTEST` without the columns that name the bucket and its limits; times are in microseconds since 1970."""

WAITS: Final = StructType(
    [
        StructField("bucket_id", LongType()),
        StructField("at", LongType()),
        StructField("step_s", DoubleType()),
        StructField("wait_s", DoubleType()),
        StructField("wait_s_high", DoubleType()),
        StructField("ratio", DoubleType()),
        StructField("throttle_ms", DoubleType()),
    ]
)
"""What would have happened to a bucket on a broker, a row per time; for pictures alone.

| column | content |
| --- | --- |
| at | microseconds since 1970 |
| step_s | how many seconds up to `at` the row stands for |
| wait_s, wait_s_high | seconds of these in which requests would have waited |
| ratio | the rate / the limit |
| throttle_ms | the average delay of requests that were throttled really |
"""

BACKTEST: Final = StructType(
    [
        StructField("cluster", StringType()),
        StructField("broker", StringType()),
        StructField("key", StringType()),
        StructField("bucket", StringType()),
        StructField("limit", DoubleType()),
        StructField("entity_key", StringType()),
        StructField("source", StringType()),
        StructField("before_limit", DoubleType()),
        StructField("is_changed", BooleanType()),
        StructField("samples", LongType()),
        StructField("recorded_s", DoubleType()),
        StructField("throttled_s", DoubleType()),
        StructField("throttled_s_low", DoubleType()),
        StructField("throttled_s_high", DoubleType()),
        StructField("first_throttled", TimestampType()),
        StructField("last_throttled", TimestampType()),
        StructField("longest_s", DoubleType()),
        StructField("delay_s_max", DoubleType()),
        StructField("delay_s_max_low", DoubleType()),
        StructField("delay_s_max_high", DoubleType()),
        StructField("backlog_s", DoubleType()),
        StructField("worst_at", TimestampType()),
        StructField("over_max", DoubleType()),
        StructField("refused", DoubleType()),
        StructField("recorded_throttled_s", DoubleType()),
        StructField("recorded_throttle_ms_max", DoubleType()),
        StructField("hidden_s", DoubleType()),
        StructField("is_coarse", BooleanType()),
    ]
)
"""What a plan would have throttled in a recording, a row per bucket and broker.

See `quotaform.spark.usage.replay.backtest`.

| column | content |
| --- | --- |
| limit, entity_key, source | under the plan; `before_limit` is that without it |
| is_changed | whether the plan changes the limit, or who shares it |
| throttled_s | seconds in which requests would have waited; `_low` and `_high` bound it |
| first_throttled, last_throttled, longest_s | when, and the longest time without an end |
| delay_s_max, worst_at | the longest wait, in seconds, and when; `_low` and `_high` bound it |
| backlog_s | seconds after the recording until nothing waits any more, if nothing else comes |
| over_max | the highest rate / limit |
| refused | connections that would have been refused; null of other keys |
| recorded_throttled_s, recorded_throttle_ms_max | what was throttled really, as recorded |
| hidden_s | seconds in which throttling hid part of the demand from the recording |
"""

RECOMMENDATIONS: Final = StructType(
    [
        StructField("cluster", StringType()),
        StructField("entity_key", StringType()),
        StructField("entity", MapType(StringType(), StringType())),
        StructField("key", StringType()),
        StructField("action", StringType()),
        StructField("before", DoubleType()),
        StructField("after", DoubleType()),
        StructField("reason", StringType()),
        StructField("samples", LongType()),
        StructField("days", DoubleType()),
        StructField("basis", DoubleType()),
        StructField("bucket", StringType()),
        StructField("broker", StringType()),
        StructField("note", StringType()),
        StructField("day", DateType()),
        StructField("is_weekly", BooleanType()),
    ]
)
"""Which quotas would fit.

| column | content |
| --- | --- |
| entity_key, entity, key | the entity whose value it is, as in `quotaform.spark.schemas.QUOTAS` |
| action | `create`, `update`, `delete`, `keep`, or `none` if nothing is proposed, for the `reason` |
| before, after | the value now and the proposed one; null is no value |
| samples, days | how much was recorded |
| basis | the rate on which the proposal rests |
| bucket, broker | the bucket that had this rate, and the broker on which it had it; null for a limit of the cluster |
| note | what else there is to know |
| day, is_weekly | the day (UTC) of this rate, and whether its weekday is the busiest of each week |
"""


def first_columns(schema: StructType) -> list[str]:
    """Return the columns that a table of any version has."""
    return [name for name in schema.names if name not in LATER_COLUMNS]
