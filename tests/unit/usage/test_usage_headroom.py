"""Headroom as people and programs read it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from json import loads
from typing import Any, Final

from jsonschema import Draft202012Validator

from quotaform.app.rendering import render
from quotaform.core.usage.headroom import (
    BucketUse,
    Headroom,
    HeadroomStatus,
    UnknownCluster,
    UnrecordedKey,
    UnusedQuota,
)
from quotaform.schema.catalog import load_schema
from tests.builder import CONSUMER, PRODUCER

FIRST, LAST = datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 11, 15, 9, 30, tzinfo=UTC)
MIB: Final = 2.0**20
THROTTLED: Final = BucketUse(
    cluster="prod-eu",
    broker="2",
    key=PRODUCER,
    bucket="client-id=etl",
    entity="client-id=<default>",
    limit=20 * MIB,
    status=HeadroomStatus.THROTTLED,
    samples=20_000,
    first=FIRST,
    last=LAST,
    p50=3 * MIB,
    p95=19 * MIB,
    p99=20.5 * MIB,
    maximum=21 * MIB,
    used_ratio=1.025,
    recorded_s=1_200_000.0,
    throttled_s=5_460.0,
    throttle_ms_max=812.5,
    members=3,
    top_member="user=alice,client-id=etl",
    top_member_share=0.7,
    is_coarse=False,
)
BELOW: Final = replace(
    THROTTLED,
    bucket='user="<default>"',
    key=CONSUMER,
    status=HeadroomStatus.BELOW,
    used_ratio=0.41,
    throttled_s=0.0,
    throttle_ms_max=None,
    members=1,
)
FOUND: Final = Headroom(
    usage="/srv/usage",
    first=FIRST,
    last=LAST,
    samples=40_000,
    counts={
        HeadroomStatus.THROTTLED: 1,
        HeadroomStatus.CLOSE: 0,
        HeadroomStatus.BELOW: 1,
        HeadroomStatus.UNLIMITED: 4,
    },
    buckets=(THROTTLED, BELOW),
    noisy=(THROTTLED,),
    noisy_total=1,
    unused=(
        UnusedQuota(
            cluster="prod-eu",
            entity="user=legacy",
            key=PRODUCER,
            value=5e6,
            recorded_s=1_209_600.0,
            first=FIRST,
            last=LAST,
        ),
    ),
    unused_total=7,
    coarse=2,
    unrecorded=(
        UnrecordedKey(cluster="prod-eu", key=CONSUMER, values=3),
        UnrecordedKey(cluster="a\nb", key=CONSUMER, values=1),
    ),
    unknown=(UnknownCluster(cluster=None, buckets=2), UnknownCluster(cluster="lab", buckets=1)),
)
NOTHING_CLOSE: Final = replace(
    FOUND,
    counts={**FOUND.counts, HeadroomStatus.THROTTLED: 0},
    buckets=(BELOW,),
    noisy=(),
    noisy_total=0,
    unused=(),
    unused_total=0,
    coarse=0,
    unrecorded=(),
    unknown=(),
)


def shown(found: Headroom, format_name: str = "text") -> str:
    return "".join(render("usage-headroom", format_name, found))


def test_the_text_names_the_gravest_first_and_ends_with_the_numbers() -> None:
    assert shown(FOUND).splitlines() == [
        "Usage  /srv/usage   2026-11-01 00:00 to 2026-11-15 09:30 UTC, 40,000 samples",
        "",
        "  STATUS     USED  P50      P95       P99         MAX       LIMIT     THROTTLED  KEY                 BUCKET",
        "  throttled  102%  3 MiB/s  19 MiB/s  20.5 MiB/s  21 MiB/s  20 MiB/s  1h 31m     producer_byte_rate  "
        "client-id=etl (prod-eu, broker 2)",
        "  below      41%   3 MiB/s  19 MiB/s  20.5 MiB/s  21 MiB/s  20 MiB/s  -          consumer_byte_rate  "
        'user="<default>" (prod-eu, broker 2)',
        "",
        "Noisy neighbours (more than half of the usage of a shared bucket):",
        "  user=alice,client-id=etl uses 70% of producer_byte_rate of client-id=etl (prod-eu, broker 2), shared with 2 "
        "others",
        "",
        "Unused (they limited no recorded client):",
        "  prod-eu  producer_byte_rate  (unused in 14d of recording)",
        "    user=legacy = 5 MB/s",
        "  ... and 6 more (all: --out parquet=DIR)",
        "",
        "Not assessed:",
        "  3 buckets of rows without a cluster, cluster lab: recorded, but the quotas of the cluster are not known.",
        "  2 buckets of which the recording is too coarse: what they used is at most what is shown.",
        '  4 values of consumer_byte_rate on prod-eu, "a\\nb": nothing was recorded of this quota key.',
        "",
        "Headroom: 1 throttled, 0 close, 1 below, 4 unlimited, of 6 buckets; 7 unused values.",
    ]


def test_where_nobody_is_close_the_closest_is_named() -> None:
    assert shown(NOTHING_CLOSE).splitlines()[2:] == [
        "  No bucket is close to its limit; the closest uses 41%: consumer_byte_rate of "
        'user="<default>" (prod-eu, broker 2).',
        "  STATUS  USED  P50      P95       P99         MAX       LIMIT     THROTTLED  KEY                 BUCKET",
        "  below   41%   3 MiB/s  19 MiB/s  20.5 MiB/s  21 MiB/s  20 MiB/s  -          consumer_byte_rate  "
        'user="<default>" (prod-eu, broker 2)',
        "",
        "Headroom: 0 throttled, 0 close, 1 below, 4 unlimited, of 5 buckets; 0 unused values.",
    ]
    assert "No bucket that was recorded has a limit." in shown(replace(NOTHING_CLOSE, buckets=()))


def test_the_json_is_what_its_schema_says() -> None:
    document = loads(shown(FOUND, "json"))
    Draft202012Validator(load_schema("usage-headroom")).validate(document)
    assert document["summary"] == {
        "throttled": 1,
        "close": 0,
        "below": 1,
        "unlimited": 4,
        "noisy": 1,
        "unused": 7,
        "coarse": 2,
    }
    first: dict[str, Any] = document["buckets"][0]
    assert (first["bucket"], first["source"], first["p99"], first["throttled_s"]) == (
        *("client-id=etl", "client-id=<default>"),
        *(20.5 * MIB, 5460),
    )


def test_a_comment_has_the_table_and_foreign_names_in_code_spans() -> None:
    text = shown(FOUND, "markdown")
    assert text.startswith("**Headroom: 1 throttled, 0 close, 1 below, 4 unlimited, of 6 buckets; 7 unused values.**")
    assert (
        "| throttled | 102% | 3 MiB/s | 19 MiB/s | 20.5 MiB/s | 21 MiB/s | 20 MiB/s | 1h 31m | `producer_byte_rate` "
        "| `client-id=etl (prod-eu, broker 2)` |"
    ) in text
    odd = replace(FOUND, buckets=(replace(THROTTLED, bucket="user=@team|x`"),))
    assert "``user=@team\\|x` (prod-eu, broker 2)``" in shown(odd, "markdown")
