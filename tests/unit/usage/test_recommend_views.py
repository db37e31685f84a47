"""Right-sized quotas with their backtest, as text, Markdown and JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime

from quotaform.core.usage.backtest import BucketBacktest, BucketCounts, ClusterBacktest, Estimate
from quotaform.core.usage.sizing.recommendation import (
    Action,
    ClusterRecording,
    ProposalBacktest,
    QuotaEdit,
    Recommendation,
    RecommendReport,
    RecommendSettings,
    UnwrittenProposal,
)
from quotaform.document.usage_recommend import dump_recommendations
from quotaform.model.entity import Entity
from quotaform.schema.validator import explainer
from quotaform.views.usage.recommend_markdown import render_recommendations_markdown
from quotaform.views.usage.recommend_text import render_recommendations
from tests.builder import PRODUCER

MIB = 2.0**20
FIRST, LAST = datetime(2026, 10, 22, tzinfo=UTC), datetime(2026, 11, 21, 23, 55, tzinfo=UTC)
ALICE = Recommendation(
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
YOUNG = replace(ALICE, cluster="prod-us", action=Action.NONE, after=10 * MIB, reason="3.2 of 14 days recorded")
THROTTLED = BucketBacktest(
    cluster="prod-eu",
    broker="1",
    key=PRODUCER,
    bucket="user=alice",
    limit=3 * MIB,
    entity="user=alice",
    before=10 * MIB,
    is_changed=True,
    samples=8928,
    recorded_s=2_678_400.0,
    throttled_s=Estimate(value=600.0, low=10.0, high=900.0),
    first=FIRST,
    last=LAST,
    longest_s=300.0,
    delay_s=Estimate(value=4.0, low=1.0, high=5.0),
    worst_at=FIRST,
    backlog_s=None,
    over=1.2,
    refused=None,
    recorded_throttled_s=0.0,
    recorded_delay_ms=None,
    hidden_s=0.0,
    is_coarse=False,
)
TESTED = ClusterBacktest(
    usage="/srv/usage",
    cluster="prod-eu",
    plan_id="sha256:00",
    first=FIRST,
    last=LAST,
    series=9,
    unlimited=0,
    changed=BucketCounts(buckets=8, throttled=7, recorded=2, affected=7),
    unchanged=BucketCounts(buckets=3),
    rows=tuple(replace(THROTTLED, broker=str(number)) for number in range(1, 8)),
)
REPORT = RecommendReport(
    usage="/srv/usage",
    settings=RecommendSettings(),
    clusters=tuple(ClusterRecording(cluster=name, first=FIRST, last=LAST) for name in ("prod-eu", "prod-us")),
    counts={**dict.fromkeys(Action, 0), Action.UPDATE: 1, Action.NONE: 1},
    proposals=(ALICE,),
    others=(YOUNG,),
    backtest=ProposalBacktest(clusters=(TESTED,), unwritten=1, others=2),
)


def test_the_text_has_the_backtest_below_the_proposals() -> None:
    assert render_recommendations(REPORT) == (
        "Usage  /srv/usage\n"
        "  prod-eu  recorded from 2026-10-22T00:00:00Z to 2026-11-21T23:55:00Z\n"
        "  prod-us  recorded from 2026-10-22T00:00:00Z to 2026-11-21T23:55:00Z\n"
        "\n"
        "~ prod-eu  user=alice  producer_byte_rate : 10 MiB/s -> 3 MiB/s\n"
        "    # p99 of 31 days, 2 MiB/s on Mondays, x 1.5\n"
        "    # of user=alice on broker 1, 8,928 samples\n"
        "\n"
        "Nothing proposed:\n"
        "  3.2 of 14 days recorded: prod-us user=alice producer_byte_rate\n"
        "\n"
        "Backtest of the proposals:\n"
        "  8 buckets with changed limits: 7 would have been throttled, 2 were in the recording; "
        "3 other buckets: 0 would have been throttled, 0 were in the recording.\n"
        + "".join(
            f"    user=alice on broker {number}  producer_byte_rate 10 MiB/s -> 3 MiB/s: "
            "throttled for 10m (10s to 15m)\n"
            for number in range(1, 6)
        )
        + "    ... and 2 more (list: quotaform usage backtest, when the files are written)\n"
        "  Not in the backtest: 1 proposal not written into the files (list: --diff).\n"
        "  Not in the backtest: 2 other entities that the files change without a proposal (list: quotaform plan).\n"
        "\n"
        "Recommended: 0 to add, 1 to change, 0 to remove; 0 kept, 1 undecided.\n"
    )


def test_several_clusters_are_told_apart() -> None:
    other = replace(TESTED, cluster="prod-us", changed=BucketCounts(buckets=1), rows=())
    unwritten = UnwrittenProposal(proposal=ALICE, reason="apply them first")
    report = replace(
        REPORT,
        backtest=ProposalBacktest(clusters=(TESTED, other), unwritten=1),
        edit=QuotaEdit(unwritten=(unwritten,)),
    )
    text = render_recommendations(report)
    assert "  prod-eu: 8 buckets with changed limits: 7 would" in text
    assert "  prod-us: 1 bucket with changed limits: 0 would" in text
    assert "  Not in the backtest: 1 proposal not written into the files.\n" in text
    assert "  prod-eu user=alice producer_byte_rate: apply them first\n" in text
    left = render_recommendations(replace(REPORT, backtest=ProposalBacktest(unwritten=1)))
    assert "No backtest: no proposal is in the files.\n  Not in the backtest: 1 proposal not" in left
    nothing = render_recommendations(replace(REPORT, backtest=None))
    assert "acktest" not in nothing


def test_markdown_has_the_backtest() -> None:
    text = "".join(render_recommendations_markdown(REPORT))
    assert "**Backtest of `prod-eu`:** 8 buckets with changed limits: 7 would have been throttled, 2 were" in text
    assert text.count("| `user=alice on broker ") == 7
    assert "- Not in the backtest: 2 other entities" in text


def test_json_fits_its_schema() -> None:
    found = json.loads(dump_recommendations(REPORT))
    assert not list(explainer("usage-recommend").iter_errors(found))
    assert (found["proposals"][0]["day"], found["proposals"][0]["weekly"]) == ("2026-11-02", True)
    assert (found["backtest"]["unwritten"], found["backtest"]["other_changes"]) == (1, 2)
    (tested,) = found["backtest"]["clusters"]
    assert (tested["cluster"], tested["changed"]["throttled"], len(tested["changed"]["rows"])) == ("prod-eu", 7, 7)
