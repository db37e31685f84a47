"""What became of a recording: rows, gaps, and what reading cost the brokers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from quotaform.core.usage.sample.merge import merge
from quotaform.core.usage.sample.sample import Dropped, DropReason, Item, Rejected, Sample
from quotaform.core.usage.sample.series import Attribute, Series


class UsageRow(NamedTuple):
    """A row of the table of usage, in the order of its columns; `ts` is in seconds since the epoch."""

    ts: float
    window_s: float
    cluster: str | None
    broker: str | None
    key: str
    user: str | None
    client_id: str | None
    ip: str | None
    rate: float | None
    throttle_ms: float | None
    instance: str | None = None


@dataclass(frozen=True, slots=True)
class Gap:
    """A time without measurements of a broker.

    Attributes:
        first: The first time at which there should be one.
        last: The last such time.
        reason: Why, as the rest of a sentence about the source.
    """

    first: datetime
    last: datetime
    missed: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSource:
    """What was recorded of one broker.

    Attributes:
        source: Where it was read, as messages show it.
        asked: How often it was asked.
        read: How often it answered.
        rows: The rows that were written.
        dropped: What is not in the table, by reason.
        rejected: Records that could not be read.
        problems: The first few reasons of these.
        size: The bytes of all answers.
        seconds: The time until all answers were there.
        longest: The longest of these times, in seconds.
        gaps: The times without measurements.
        remark: Why no row could be recorded though it answered; `None` otherwise.
    """

    broker: str
    source: str
    asked: int
    read: int
    rows: int
    dropped: tuple[Dropped, ...] = ()
    rejected: int = 0
    problems: tuple[str, ...] = ()
    size: int = 0
    seconds: float = 0.0
    longest: float = 0.0
    gaps: tuple[Gap, ...] = ()
    remark: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """What became of a recording.

    Attributes:
        usage: The directory of the table, as it was given.
        interval: Seconds between two measurements of a broker.
        files: How many files were written.
        unwritten: How many rows were measured and could not be written.
        failure: Why; `None` if all are in the table.
    """

    cluster: str
    usage: str
    started: datetime
    ended: datetime
    interval: float
    sources: tuple[RecordedSource, ...]
    files: int
    unwritten: int = 0
    failure: str | None = None

    @property
    def rows(self) -> int:
        """The rows that were written."""
        return sum(each.rows for each in self.sources)


class ReadRows(NamedTuple):
    """What one answer of a source holds."""

    rows: list[UsageRow]
    dropped: list[Dropped]
    rejected: list[Rejected]


def read_rows(items: Iterable[Item]) -> ReadRows:
    """Return the rows of the table of usage in an answer, a rate and a throttle time of one time in one row."""
    series: defaultdict[Series, list[Sample]] = defaultdict(list)
    dropped: Counter[DropReason] = Counter()
    rejected: list[Rejected] = []
    for item in items:
        if isinstance(item, Sample):
            series[item.series._replace(attribute=Attribute.RATE)].append(item)
        elif isinstance(item, Dropped):
            reason, count = item
            dropped[reason] += count
        else:
            rejected.append(item)
    rows: list[UsageRow] = []
    for of, samples in series.items():
        merged, left_out = merge(samples)
        rows += [UsageRow(row.ts, row.window_s, *of[:6], row.rate, row.throttle_ms, of.instance) for row in merged]
        for reason, count in left_out:
            dropped[reason] += count
    return ReadRows(rows, [Dropped(reason, count) for reason, count in dropped.items()], rejected)


NO_BUCKET = (
    "there are no metrics of client quotas yet: a broker measures clients only after a quota with the same key was set "
    "since it started; to measure all clients and limit none, set a very large default: quotaform alter "
    "'user=<default>' --add producer_byte_rate=1TiB/s (or 'client-id=<default>' if clients do not authenticate)"
)
"""Source: org.apache.kafka.server.quota.ClientQuotaManager, quotasEnabled."""

_NO_QUOTA_METRIC = (
    "there is no metric of client quotas among its metrics: either the rules of its exporter leave them out, or "
    + NO_BUCKET.replace("there are no metrics of client quotas yet: ", "")
)

_ONLY_TOTALS: Final = (
    "its metrics of client quotas are counters, of which one answer gives no rate; have the exporter serve the rates "
    "that brokers measure, by the rules in docs/usage-record.md, or store the counters in Prometheus, and ingest them "
    "with quotaform usage ingest"
)


def explain_no_rows(read: ReadRows) -> str | None:
    """Return why an answer holds no row, as the rest of a sentence about the source; `None` if it holds some.

    | the answer holds | what is wrong |
    | --- | --- |
    | what cannot be read, too | it is no page of metrics, or the rules of the exporter lose the labels |
    | counters | the exporter does not serve the rates |
    | metrics of whole quota managers, and NaN | no quota was set |
    | only other metrics | either of them |
    | nothing | no quota was set |
    """
    if read.rows:
        return None
    reasons: Counter[DropReason] = Counter(dict(read.dropped))
    of_quotas = sum(reasons.values()) - reasons[DropReason.OTHER_METRIC]
    if read.rejected:
        return first_problem(read.rejected)
    if reasons[DropReason.FIRST_TOTAL]:
        return _ONLY_TOTALS
    if of_quotas or not read.dropped:
        return NO_BUCKET
    return _NO_QUOTA_METRIC


def first_problem(rejected: Sequence[Rejected]) -> str:
    """Return why records could not be read: the first reason and how many there are."""
    more = f" (and {len(rejected) - 1:,} more)" if len(rejected) > 1 else ""
    return f"its answer cannot be read: {rejected[0].reason}{more}"
