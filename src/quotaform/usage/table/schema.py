"""The schemas of the tables about usage. They only grow: a reader of today reads the tables of later versions.

Times are in UTC. A rate has the unit of its quota key: B/s, percent of one thread, partitions/s or connections/s.
"""

from __future__ import annotations

from typing import Final

from quotaform.resolve.spark import struct

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
