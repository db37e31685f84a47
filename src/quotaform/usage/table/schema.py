"""The schemas of the tables about usage. They only grow: a reader of today reads the tables of later versions.

Times are in UTC. A rate has the unit of its quota key: B/s, percent of one thread, partitions/s or connections/s.
docs/usage.md says what the columns of usage are, docs/usage-ingest.md those of the quarantine.
"""

from __future__ import annotations

from typing import Final

from quotaform.resolve.spark import struct

SERIES: Final = ("cluster", "broker", "key", "user", "client_id", "ip", "instance")
"""The columns that name one recorded series."""

PARTITIONS: Final = ("date", "cluster")
"""The columns by which rows of usage are in folders: the day (UTC) of `ts`, which is no column of `USAGE`, and the
cluster. Tables of other programs may have no folders."""

USAGE: Final = struct(
    "ts timestamp",
    "window_s double",
    "cluster broker key user client_id ip string",
    "rate throttle_ms double",
    "instance string",
)
"""What clients used, a row per series and time; `rate` is null where only the throttle time was recorded.

Clients with the same names share one limit, so what each of them measured has to be added up. A time may have two rows
of a series, one with a rate and one with a throttle time, and the same row twice: readers count a series once per time.
"""

QUARANTINE: Final = struct("file string", "position long", "reason record string", "ingested_at timestamp")
"""Records that could not be read; `file` is `kafka:TOPIC/PARTITION` for a record of a topic."""
