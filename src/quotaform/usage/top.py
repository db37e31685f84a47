"""Who is throttled at this moment, by which entity's quota, and the report of that.

| state | a bucket |
| --- | --- |
| throttled | whose requests were delayed in the last 30 to 60 seconds, which a broker's throttle time covers |
| close | that uses 80 % of its limit or more |
| below | of any other |

Source: org.apache.kafka.server.quota.ClientQuotaManager (`throttle-time`, a Rate of two samples of 30 s).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import StrEnum
from math import inf
from typing import Annotated, Final

from msgspec import field
from msgspec.structs import replace

from quotaform.model.entity import CLIENT_ID, IP, USER, Entity
from quotaform.model.errors import ExitCode
from quotaform.model.moment import spell_moment
from quotaform.model.quota_key import QUOTA_KEYS, key_order
from quotaform.model.quotas import Quotas
from quotaform.model.records.document import indented
from quotaform.model.records.record import (
    Address,
    ClusterName,
    Count,
    Moment,
    QuotaKeyName,
    Record,
    SourceName,
    about,
    builtins,
    derived,
)
from quotaform.model.text import inert, option_of
from quotaform.model.units import is_unlimited
from quotaform.report.text import PLAIN, Style, aligned, counted, rate_text, short_limit_text
from quotaform.resolve.index import NOT_LIMITED, QuotaIndex, request_of, shared_by
from quotaform.usage.headroom.headroom import CLOSE_RATIO
from quotaform.usage.sample import UsageRow


class BucketState(StrEnum):
    """How close a bucket is to its limit."""

    THROTTLED = "throttled"
    CLOSE = "close"
    BELOW = "below"


class TopBucket(Record):
    """A bucket on a broker at this moment."""

    broker: Annotated[str | None, about("The broker, or null if the source does not say.")]
    address: Address = derived(lambda bucket: bucket.entity.address)
    entity: Entity
    key: QuotaKeyName
    state: Annotated[
        BucketState,
        about(
            "throttled: requests were delayed in the last 30 to 60 s. close: it uses "
            f"{CLOSE_RATIO:.0%} of its limit or more. below: any other."
        ),
    ]
    rate: Annotated[float | None, about("The rate in the unit of the key, or null if it is not measured.")]
    limit: Annotated[float | None, about("The limit, or null if nothing limits it.")]
    ratio: Annotated[float | None, about("The rate as a share of the limit, or null.")]
    throttle_ms: Annotated[
        float | None, about("The average delay of the throttled requests, or null if there are none.")
    ]
    source: Annotated[str | None, about("The address of the entity whose quota the limit is, or null.")]
    source_name: SourceName
    shared_by: Annotated[str | None, about("Which requests share the bucket, or null.")]


class TopSummary(Record):
    """Numbers of buckets."""

    throttled: Annotated[Count, about("Buckets that are throttled.")]
    close: Annotated[Count, about("Buckets that are close.")]
    below: Annotated[Count, about("Buckets that are below.")]
    measured: Annotated[Count, about("All that were measured.")]
    brokers: Annotated[Count, about("The brokers that measured them.")]


class Unread(Record):
    """What could not be read."""

    what: Annotated[str, about("What it is: a broker, Prometheus, the quotas.")]
    problem: Annotated[str, about("Why, as the rest of a sentence.")]


class Top(Record, document="top"):
    """The result of quotaform top --once."""

    cluster: ClusterName
    at: Annotated[Moment, about("When it was measured.")]
    has_limits: Annotated[bool, about("Whether the quotas of the cluster could be read.")] = field(name="limits_known")
    summary: TopSummary
    buckets: Annotated[
        tuple[TopBucket, ...],
        about(
            "Buckets that are throttled or close, or all if asked for, by how much they are throttled, then by ratio."
        ),
    ]
    unread: Annotated[tuple[Unread, ...], about("What could not be read.")] = ()

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of a run that read it once."""
        return ExitCode.ERROR if self.unread else ExitCode.DONE

    def shown(self, limit: int | None, *, shows_all: bool) -> Sequence[TopBucket]:
        """Return the first buckets that are throttled or close to their limit; of all with `shows_all`."""
        listed = [each for each in self.buckets if shows_all or each.state is not BucketState.BELOW]
        return listed[:limit]


def make_top(
    cluster: str, at: datetime, rows: Iterable[UsageRow], quotas: Quotas | None, unread: Iterable[Unread] = ()
) -> Top:
    """Return who is throttled.

    `rows` is what was measured; of several rows of a bucket, or of a client that measured itself, the last one counts.
    `quotas` are all quotas of the cluster; `None` if they are not known.
    """
    index = QuotaIndex(quotas or {})
    latest: dict[tuple[object, ...], dict[str | None, UsageRow]] = {}
    for row in sorted(rows, key=lambda row: row.ts):
        latest.setdefault((row.broker, row.key, row.user, row.client_id, row.ip), {})[row.instance] = row
    buckets = sorted(
        (_bucket([*each.values()], index) for each in latest.values()),
        key=lambda each: (
            list(BucketState).index(each.state),
            -(each.throttle_ms or 0.0),
            -(each.ratio or 0.0),
            each.address,
            key_order(each.key),
            each.broker or "",
        ),
    )
    states = Counter(each.state for each in buckets)
    return Top(
        cluster=cluster,
        at=at,
        summary=TopSummary(
            **{state.value: states[state] for state in BucketState},
            measured=len(buckets),
            brokers=len({each.broker for each in buckets}),
        ),
        buckets=tuple(buckets),
        unread=tuple(unread),
        has_limits=quotas is not None,
    )


def _bucket(rows: Sequence[UsageRow], index: QuotaIndex) -> TopBucket:
    """Return what clients of the same names measured: their limit is one of all of them."""
    row = rows[0]
    rates = [each.rate for each in rows if each.rate is not None]
    rate = sum(rates) if rates else None
    throttle_ms = max((each.throttle_ms for each in rows if each.throttle_ms is not None), default=None)
    names = {USER: row.user, CLIENT_ID: row.client_id, IP: row.ip}
    entity = Entity({kind: name for kind, name in names.items() if name is not None})
    resolved = index.resolve(request_of(entity)).get(row.key, NOT_LIMITED)
    limit = None if is_unlimited(QUOTA_KEYS.get(row.key), resolved.value) else resolved.value
    ratio = rate / limit if rate is not None and limit else None
    is_close = ratio is not None and ratio >= CLOSE_RATIO
    state = BucketState.THROTTLED if throttle_ms else BucketState.CLOSE if is_close else BucketState.BELOW
    return TopBucket(
        broker=row.broker,
        entity=entity,
        key=row.key,
        state=state,
        rate=rate,
        limit=limit,
        ratio=ratio,
        throttle_ms=throttle_ms,
        source=None if resolved.source is None else resolved.source.address,
        source_name=resolved.source_name,
        shared_by=None if resolved.level is None else shared_by(resolved.level, entity),
    )


def dump_top(top: Top, *, limit: int | None = None, shows_all: bool = False) -> str:
    """Return who is throttled as JSON; the options are those of `render_top`."""
    return indented(builtins(replace(top, buckets=tuple(top.shown(limit, shows_all=shows_all)))))


_TITLES: Final = ("BROKER", "BUCKET", "KEY", "RATE", "LIMIT", "%", "THROTTLE")
_RIGHT: Final = frozenset({3, 4, 5, 6})
_COLOURS: Final = {BucketState.THROTTLED: "red", BucketState.CLOSE: "yellow"}


def render_top(
    top: Top,
    style: Style = PLAIN,
    *,
    width: int = 1000,
    height: int | None = None,
    limit: int | None = None,
    shows_all: bool = False,
) -> str:
    """Return who is throttled as text.

    `width`: the columns of the terminal; longer lines are cut. `height`: its lines; what does not fit is left out, and
    counted. `limit`: the most buckets that are shown. `shows_all`: whether buckets are shown that are neither throttled
    nor close to their limit.
    """

    def line(text: str, colour: str | None = None) -> str:
        cut = _cut(text, width)
        return cut if colour is None else style.paint(cut, colour)

    head = [line(_headline(top, width), "bold")]
    head += [line(f"{inert(each.what)} {inert(each.problem)}", "yellow") for each in top.unread]
    shown = top.shown(None, shows_all=shows_all)
    if not shown:
        return "\n".join([*head, *_nothing(top, shows_all)]) + "\n"
    rows = [_TITLES, *map(_cells, shown[:limit])]
    over = max(0, max(map(len, aligned(rows, _RIGHT))) - width)
    widest = max(12, max(len(cells[1]) for cells in rows) - over)
    titles, *texts = aligned([(cells[0], _cut(cells[1], widest).ljust(widest), *cells[2:]) for cells in rows], _RIGHT)
    room = inf if height is None else max(1, height - len(head) - 3)
    lines: list[str] = []
    left = len(shown)
    for bucket, text in zip(shown, texts, strict=False):
        block = [line(text, _COLOURS.get(bucket.state))]
        if bucket.state is BucketState.THROTTLED:
            full = f"{bucket.address}: " if len(bucket.address) > widest else ""
            block.append(line(f"    {full}{_reason(bucket, has_limits=top.has_limits)}"))
        if len(lines) + len(block) > room:
            break
        lines += block
        left -= 1
    more = [line(f"... and {counted(left, 'more bucket')}", "dim")] if left else []
    return "\n".join([*head, "", line(titles, "dim"), *lines, *more]) + "\n"


def _headline(top: Top, width: int) -> str:
    summary = top.summary
    at = spell_moment(top.at.replace(microsecond=0))
    time = at if width >= 100 else at.partition("T")[2]
    if top.unread and not top.buckets:
        return f"{inert(top.cluster)} {time}: no measurements, so it is unknown who is throttled"
    on = f" on {counted(summary.brokers, 'broker')}" if top.buckets else ""
    near = f" {summary.close:,} close ({CLOSE_RATIO:.0%} or more)," if top.has_limits else ""
    return (
        f"{inert(top.cluster)} {time}: {counted(summary.throttled, 'bucket')} throttled,{near} "
        f"{len(top.buckets):,} measured{on}{' (incomplete)' if top.unread else ''}"
    )


def _nothing(top: Top, shows_all: bool) -> list[str]:
    if not top.buckets:
        return [] if top.unread else ["No bucket was measured."]
    shown = f"{option_of('all_buckets')} shows them"
    if not top.has_limits:
        return [f"No bucket is throttled; whether one is close to its limit is not known ({shown})."]
    return [] if shows_all else [f"All buckets are below their limits ({shown})."]


def _cells(bucket: TopBucket) -> tuple[str, ...]:
    ratio = bucket.ratio
    return (
        inert(bucket.broker or "-"),
        bucket.address,
        bucket.key,
        "-" if bucket.rate is None else rate_text(bucket.key, bucket.rate, bucket.limit),
        "-" if bucket.limit is None else short_limit_text(bucket.key, bucket.limit),
        "-" if ratio is None else f"{ratio:.0%}" if ratio < 100 else ">99x",
        "-" if not bucket.throttle_ms else f"{bucket.throttle_ms:,.0f} ms" if bucket.throttle_ms >= 1 else "<1 ms",
    )


def _reason(bucket: TopBucket, *, has_limits: bool) -> str:
    if not has_limits:
        return "by which quota is not known, as the cluster cannot be read"
    if bucket.source is None:
        return "no quota limits it any more: it was removed a moment ago"
    by = f"by the quota of {bucket.source} ({bucket.source_name})"
    return f"{by}, shared by {bucket.shared_by}"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: max(0, width - 1)]}…"
