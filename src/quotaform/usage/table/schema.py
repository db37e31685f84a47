"""The schemas of the tables about usage. They only grow: a reader of today reads the tables of later versions.

Times are in UTC. A rate has the unit of its quota key: B/s, percent of one thread, partitions/s or connections/s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from quotaform.resolve.spark import ENTITY, struct

if TYPE_CHECKING:
    pass

SERIES: Final = ("cluster", "broker", "key", "user", "client_id", "ip", "instance")
"""The columns that name one recorded series."""

PARTITIONS: Final = ("date", "cluster")
"""The columns by which rows of usage are in folders, `date=2026-11-27/cluster=prod-eu`: the day (UTC) of `ts`, which is
no column of `USAGE`, and the cluster. Tables of other programs may have no folders."""

USAGE: Final = struct(
    "ts timestamp",
    "window_s double",
    "cluster broker key user client_id ip string",
    "rate throttle_ms double",
    "instance string",
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

QUARANTINE: Final = struct("file string", "position long", "reason record string", "ingested_at timestamp")
"""Records that could not be read.

| column | content |
| --- | --- |
| file | the file; `kafka:TOPIC/PARTITION` for a record of a topic |
| position | the byte, line or offset at which the record begins, as `reason` says |
| record | the beginning of the record |
"""

HEADROOM: Final = struct(
    "cluster broker key bucket entity_key source string",
    "limit double",
    "samples long",
    "first last timestamp",
    "p50 p95 p99 max used_ratio recorded_s throttled_s throttle_ms_max double",
    "members long",
    "top_member string",
    "top_member_share double",
    "is_coarse boolean",
)
"""How close each bucket is to its limit, per broker (per cluster for a key whose limit is one of the cluster).

| column | content |
| --- | --- |
| broker | null for a key whose limit holds for the whole cluster, and if the recording does not say |
| bucket, limit, source, entity_key | as in `SeriesBucket` in `quotaform.usage.bucket.bucket` |
| samples | times with a rate |
| first, last | the first and the last time |
| p50, p95, p99, max | of the rates: the smallest rate that at least that share of the samples does not exceed |
| used_ratio | p99 / limit; null without a limit |
| recorded_s | seconds that the samples stand for, without gaps |
| throttled_s | seconds of these in which requests were throttled |
| throttle_ms_max | the largest average delay, in ms |
| members | those who share the bucket on the broker, by their names; several clients of one name are one |
| top_member, top_member_share | the one with the most of the sum of rates, and its share of it |
| is_coarse | as there; and true of a limit per broker if the recording does not say which broker it is of |

A row without a bucket is about a value that limited nothing that was recorded: `limit` of the entity `entity_key`, with
no samples and no members; `first`, `last` and `recorded_s` are those of the key on that cluster. A key of which nothing
was recorded has no such rows. docs/usage-headroom.md says how each is computed.
"""

BACKTEST: Final = struct(
    "cluster broker key bucket string",
    "limit double",
    "entity_key source string",
    "before_limit double",
    "is_changed boolean",
    "samples long",
    "recorded_s throttled_s throttled_s_low throttled_s_high double",
    "first_throttled last_throttled timestamp",
    "longest_s delay_s_max delay_s_max_low delay_s_max_high backlog_s double",
    "worst_at timestamp",
    "over_max refused recorded_throttled_s recorded_throttle_ms_max hidden_s double",
    "is_coarse boolean",
)
"""What a plan would have throttled in a recording, a row per bucket and broker.

`is_changed` is whether the plan changes the limit, or who shares it, and `source` the name of the level that won. The
others are those of `quotaform.plan.backtest.BucketBacktest`; `_low` and `_high` bound what is estimated.
"""

RECOMMENDATIONS: Final = struct(
    "cluster entity_key string",
    ENTITY,
    "key action string",
    "before after double",
    "reason string",
    "samples long",
    "days basis double",
    "bucket broker note string",
    "day date",
    "is_weekly boolean",
)
"""Which quotas would fit; docs/usage-recommend.md says what each column is."""
