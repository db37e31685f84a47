"""Examples of what is measured and what follows from it, with everything in them that views show.

Most are what the golden files with their JSON hold.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from quotaform.model.entity import Entity
from quotaform.model.quotas import Quotas
from quotaform.model.records.record import R, decode
from quotaform.plan.backtest import Backtest
from quotaform.usage.headroom.headroom import Headroom
from quotaform.usage.ingest.ingest import Streamed
from quotaform.usage.recommend.recommendation import Recommendations
from quotaform.usage.sample import UsageRow
from quotaform.usage.top import Top, Unread, make_top
from tests.builder import CONNECTION, PRODUCER
from tests.golden.conftest import FOLDER

FIRST, LAST = datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 11, 15, 9, 30, tzinfo=UTC)


def read(name: str, kind: type[R]) -> R:
    """What a golden file holds."""
    return decode((FOLDER / f"usage-view-{name}.json").read_bytes(), kind)


HEADROOM: Final = read("headroom", Headroom)
NO_HEADROOM: Final = read("headroom-nothing", Headroom)
FAR: Final = read("headroom-far", Headroom)
"""Where nobody is close."""
BACKTEST: Final = read("backtest", Backtest)
RECOMMENDED: Final = read("recommend", Recommendations)
SEVERAL: Final = read("recommend-several", Recommendations)
"""Of several clusters, with a proposal that the files cannot follow."""
UNTESTED: Final = read("recommend-untested", Recommendations)

STREAMED: Final = read("stream", Streamed)
NOT_STREAMED: Final = read("stream-nothing", Streamed)

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
