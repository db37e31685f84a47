"""Examples of what is measured and what follows from it, with everything in them that views show."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime
from typing import Final

from msgspec.structs import replace as changed

from quotaform.model.entity import Entity
from quotaform.model.quotas import Quotas
from quotaform.plan.backtest import Backtest, BucketBacktest, Buckets, ClusterBacktest, Estimate
from quotaform.usage.headroom.headroom import (
    BucketUse,
    Headroom,
    HeadroomStatus,
    HeadroomSummary,
    UnknownCluster,
    UnrecordedKey,
    UnusedQuota,
)
from quotaform.usage.ingest.ingest import Streamed
from quotaform.usage.recommend.recommendation import (
    Action,
    ClusterRecording,
    EditRecord,
    ProposalBacktest,
    Recommendation,
    Recommendations,
    RecommendSettings,
    Sizing,
    SummaryRecord,
    UnwrittenProposal,
)
from quotaform.usage.record.recording import UsageRow
from quotaform.usage.sample import DropReason
from quotaform.usage.top.top import Top, Unread, make_top
from tests.builder import CONNECTION, CONSUMER, PRODUCER

MIB: Final = 2.0**20
FIRST, LAST = datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 11, 15, 9, 30, tzinfo=UTC)
HOSTILE: Final = "a\x1b[31m|`<b>"

USE: Final = BucketUse(
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
BELOW: Final = changed(
    USE,
    bucket='user="<default>"',
    key=CONSUMER,
    status=HeadroomStatus.BELOW,
    used_ratio=0.41,
    throttled_s=0.0,
    throttle_ms_max=None,
    members=1,
)
NO_HEADROOM: Final = Headroom(
    usage="/srv/usage",
    first=FIRST,
    last=LAST,
    samples=40_000,
    summary=HeadroomSummary(throttled=0, close=0, below=0, unlimited=4, noisy=0, unused=0, coarse=0),
    buckets=(),
    noisy=(),
    unused=(),
    unrecorded=(),
    unknown=(),
)
HEADROOM: Final = changed(
    NO_HEADROOM,
    summary=HeadroomSummary(throttled=2, close=0, below=1, unlimited=4, noisy=1, unused=7, coarse=2),
    buckets=(USE, changed(USE, bucket="user=@team|x`"), BELOW),
    noisy=(USE,),
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
    unrecorded=(
        UnrecordedKey(cluster="prod-eu", key=CONSUMER, values=3),
        UnrecordedKey(cluster="a\nb", key=CONSUMER, values=1),
    ),
    unknown=(UnknownCluster(cluster=None, buckets=2), UnknownCluster(cluster="lab", buckets=1)),
)
FAR: Final = changed(NO_HEADROOM, summary=changed(NO_HEADROOM.summary, below=1), buckets=(BELOW,))
"""Where nobody is close."""

BUCKET: Final = BucketBacktest(
    broker="1",
    key=PRODUCER,
    bucket="user=alice",
    limit=4 * MIB,
    entity="user=<default>",
    before=10 * MIB,
    samples=60,
    recorded_s=3600.0,
    throttled_s=Estimate(value=90.0, low=30.0, high=100.5),
    first=FIRST,
    last=LAST,
    longest_s=90.0,
    delay_s=Estimate(value=12.0, low=12.0, high=12.0),
    worst_at=FIRST,
    backlog_s=2.5,
    over=1.25,
    refused=None,
    recorded_throttled_s=0.0,
    recorded_delay_ms=None,
    hidden_s=0.0,
    is_coarse=False,
)
COARSE: Final = changed(
    BUCKET, bucket="user=coarse", is_coarse=True, throttled_s=Estimate(value=None, low=0.0, high=60.0)
)
CONNECTIONS: Final = changed(BUCKET, key=CONNECTION, bucket="ip=10.0.0.7", refused=1234.0, limit=10.0, before=20.0)
RECORDED: Final = changed(
    BUCKET,
    bucket="user=recorded",
    throttled_s=Estimate(value=0.0, low=0.0, high=0.0),
    first=None,
    last=None,
    longest_s=None,
    recorded_throttled_s=30.0,
)
"""Throttled in the recording alone."""
CLUSTER: Final = ClusterBacktest(
    usage="/srv/usage",
    cluster="prod-eu",
    plan_id="sha256:0",
    first=FIRST,
    last=LAST,
    series=7,
    unlimited=1,
    changed=Buckets(
        buckets=300,
        throttled=120,
        possible=30,
        recorded=2,
        coarse=1,
        affected=200,
        rows=(BUCKET, COARSE, CONNECTIONS, RECORDED, changed(BUCKET, bucket=f"user={HOSTILE}", broker=HOSTILE)),
    ),
    unchanged=Buckets(
        buckets=5,
        throttled=1,
        possible=1,
        recorded=1,
        affected=2,
        rows=(changed(BUCKET, before=BUCKET.limit, recorded_throttled_s=30.0, hidden_s=60.0),),
    ),
)
UNRECORDED: Final = changed(
    CLUSTER,
    cluster="prod-us",
    first=None,
    last=None,
    series=0,
    changed=Buckets(),
    unchanged=Buckets(),
)
BACKTEST: Final = Backtest(usage="/srv/usage", clusters=(CLUSTER, UNRECORDED), unknown=(HOSTILE, ""))

ALICE: Final = Recommendation(
    cluster="prod-eu",
    entity=Entity(user="alice"),
    key=PRODUCER,
    action=Action.UPDATE,
    before=10 * MIB,
    after=3 * MIB,
    reason="p99 of 31 days, 2 MiB/s on Mondays, x 1.5",
    samples=8928,
    days=31.0,
    basis=2 * MIB,
    day=date(2026, 11, 2),
    is_weekly=True,
    bucket="user=alice",
    broker="1",
)
YOUNG: Final = changed(ALICE, cluster="prod-us", action=Action.NONE, after=10 * MIB, reason="3.2 of 14 days recorded")
TESTED: Final = changed(
    CLUSTER,
    changed=Buckets(
        buckets=8,
        throttled=7,
        recorded=2,
        affected=7,
        rows=tuple(changed(BUCKET, broker=str(number)) for number in range(1, 8)),
    ),
    unchanged=Buckets(buckets=3),
)
RECOMMENDED: Final = Recommendations(
    usage="/srv/usage",
    settings=Sizing.of(RecommendSettings()),
    clusters=tuple(ClusterRecording(cluster=name, first=FIRST, last=LAST) for name in ("prod-eu", "prod-us")),
    summary=SummaryRecord(create=0, update=1, delete=0, keep=0, none=1),
    proposals=(ALICE,),
    others=(YOUNG,),
    edit=None,
    backtest=ProposalBacktest(clusters=(TESTED,), unwritten=1, others=2),
)
SEVERAL: Final = changed(
    RECOMMENDED,
    backtest=ProposalBacktest(
        clusters=(TESTED, changed(TESTED, cluster="prod-us", changed=Buckets(buckets=1))), unwritten=1
    ),
    edit=EditRecord(is_written=False, files=(), unwritten=(UnwrittenProposal.of(ALICE, "apply them first"),)),
)
"""Of several clusters, with a proposal that the files cannot follow."""
UNTESTED: Final = changed(RECOMMENDED, backtest=ProposalBacktest(unwritten=1))

STREAMED: Final = Streamed.of(
    "usage \x1b[2J",
    "/srv/usage",
    "/srv/bad",
    Counter(
        {
            "batches": 3,
            "records": 1204,
            "written": 1_304_000,
            DropReason.NAN: 1_103_998,
            "quarantined": 2,
            "late_records": 2,
            "duplicate_records": 1,
        }
    ),
    behind=17,
)
NOT_STREAMED: Final = Streamed.of("usage", "/srv/usage", "/srv/bad", Counter(), None)

QUOTAS: Final[Quotas] = {
    Entity(user="alice"): {PRODUCER: 1000.0},
    Entity(user=None): {PRODUCER: 5000.0, "request_percentage": 2147483647.0},
    Entity(client_id="etl"): {"request_percentage": 50.0},
    Entity(ip=None): {CONNECTION: 10.0},
}


def row(rate: float | None = None, throttle: float | None = None, **names: str) -> UsageRow:
    """What was measured of a bucket at a moment."""
    place = ("lab", names.get("broker", "1"), names.get("key", PRODUCER))
    return UsageRow(1.0, 11.5, *place, names.get("user"), names.get("client_id"), names.get("ip"), rate, throttle)


ROWS: Final = (
    row(100.0, user="quiet"),
    row(1100.0, 20.0, user="alice"),
    row(1200.0, 900.0, user="alice", broker="2"),
    row(4600.0, user="bob"),
    row(60.0, 5.0, client_id="etl", key="request_percentage", user="eve"),
    row(11.0, ip="10.0.0.1", key=CONNECTION),
)


def top(*rows: UsageRow, quotas: Quotas | None = QUOTAS, unread: bool = False) -> Top:
    """Who is throttled on a cluster, one broker of which does not answer."""
    silent = (Unread(what="broker 3 \x1b[2J", problem="did not answer\n::error:: within 5 s"),) if unread else ()
    return make_top("lab", LAST, rows, quotas, silent)
