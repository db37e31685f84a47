"""Which quotas would fit: the settings, what is proposed for each value, and all of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum
from re import DOTALL
from re import compile as regex
from typing import Final

from quotaform.core.scope import FULL_SCOPE, Scope, Selection
from quotaform.core.usage.backtest import ClusterBacktest
from quotaform.model.entity import Entity
from quotaform.model.quota_key import key_order
from quotaform.model.quotas import Values
from quotaform.model.text import quote

MIN_SHARE: Final = 0.8
"""The least share of the hours of a time that must be recorded, so that the time counts as recorded."""

MIN_CHANGE: Final = 0.1
"""A value that would change by less than this share of it is kept."""

MOST_AGE_DAYS: Final = 7
"""No removal is proposed from a recording that ended longer ago: what is unused may be used again since then."""

MOST_HEADROOM: Final = 100.0
"""The largest headroom."""

MOST_OUTLIER_DAYS: Final = 100
"""The largest number of days of each weekday that are left out."""

_PERCENTILE: Final = regex(r"p(100|[0-9]{1,2}(?:\.[0-9]{1,3})?)").fullmatch


def parse_percentile(text: str) -> float:
    """Read a percentile, in percent. Raises `ValueError` if it is none; the message says what to write.

    >>> parse_percentile("p99.9")
    99.9
    """
    found = _PERCENTILE(text)
    if found is None or not float(found[1]):
        raise ValueError(f"{quote(text)} is not a percentile; write for example p95, p99 or p99.9")
    return float(found[1])


class Action(StrEnum):
    """What is proposed for a value.

    | action | the value |
    | --- | --- |
    | create | is to be set for an entity that has none |
    | update | is to become another one |
    | delete | is to be removed, as nobody used it |
    | keep | fits |
    | none | may fit or not: the reason says what is missing |
    """

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    KEEP = "keep"
    NONE = "none"


PROPOSED: Final = (Action.CREATE, Action.UPDATE, Action.DELETE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SizingSettings:
    """How values are sized: `recommend` of quotaform.yaml, and options.

    Attributes:
        percentile: The percentile of each day on which a value rests, in percent.
        outlier_days: How many of the highest days of each weekday are left out; the last one of a weekday never is.
        headroom: By how much it is multiplied; 1 or more.
        floors: No value is proposed below these, by quota key.
        caps: No value is proposed above these.
        min_history_days: How many days must be recorded of an entity.
        min_samples: How many times with a rate must be recorded of an entity.
        unused_after_days: After how many days without use the removal of a value is proposed.
    """

    percentile: float = 99.0
    outlier_days: int = 0
    headroom: float = 1.5
    floors: Values = field(default_factory=dict)
    caps: Values = field(default_factory=dict)
    min_history_days: float = 14.0
    min_samples: int = 100
    unused_after_days: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RecommendSettings(SizingSettings):
    """How the values of clusters are sized, and of which entities.

    Attributes:
        has_creates: Whether values are proposed for those that a default limits, or nothing.
        capacities: By cluster, what the limits of all buckets on a broker may sum up to, by quota key; of the whole
            cluster for keys whose limit is one of the cluster.
        scope: Entities that are managed.
        selection: Entities that were asked for.
    """

    has_creates: bool = False
    capacities: Mapping[str, Values] = field(default_factory=dict)
    scope: Scope = FULL_SCOPE
    selection: Selection = Selection()  # noqa: RUF009


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnValue:
    """A value that an entity has on a cluster."""

    entity: Entity
    key: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """What is proposed for a quota key of an entity.

    Attributes:
        before: The value now; `None` if there is none.
        after: The proposed value; `None` if there is to be none. For `keep` and `none` it is the value now.
        reason: Why, in a few words; that of a proposal goes into the file.
        note: What else there is to know.
        samples: Times with a rate that were recorded.
        days: How many days are recorded.
        basis: The rate on which the proposal rests.
        day: The day (UTC) of this rate.
        is_weekly: Whether the weekday of this day is the busiest of each week.
        bucket: The bucket with this rate.
        broker: The broker on which it had this rate; `None` if the limit is one of the whole cluster.
    """

    cluster: str
    entity: Entity
    key: str
    action: Action
    before: float | None
    after: float | None
    reason: str
    note: str | None = None
    samples: int = 0
    days: float = 0.0
    basis: float | None = None
    day: date | None = None
    is_weekly: bool = False
    bucket: str | None = None
    broker: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRecording:
    """What a usage table has of a cluster.

    Attributes:
        first: The first sample; `None` if there is none.
        last: The last sample.
    """

    cluster: str
    first: datetime | None
    last: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnwrittenProposal:
    """A proposal that the files do not follow, and why."""

    proposal: Recommendation
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """A file that follows the proposals.

    Attributes:
        name: The file in messages.
        before: Its content; empty if it is new.
        after: What it is to contain.
    """

    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaEdit:
    """What becomes of quota files that follow proposals.

    Attributes:
        files: The files that change.
        unwritten: The proposals that they do not follow.
        is_written: Whether the files were written.
    """

    files: tuple[WrittenFile, ...] = ()
    unwritten: tuple[UnwrittenProposal, ...] = ()
    is_written: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposalBacktest:
    """What proposals would have throttled of the usage that they rest on.

    Attributes:
        clusters: By cluster, what a plan of the changed files would have throttled.
        unwritten: How many proposals are not in it, as the files do not follow them.
        others: How many other entities the files change; they are not in it.
    """

    clusters: tuple[ClusterBacktest, ...] = ()
    unwritten: int = 0
    others: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RecommendReport:
    """What is proposed for clusters.

    Attributes:
        usage: The usage table, as it was given.
        settings: How quotas were sized.
        clusters: What was recorded of each cluster.
        counts: How many values there are by what is proposed.
        proposals: What is proposed: create, update and delete; the first of them, by cluster, entity and key.
        others: The values that are kept, or for which nothing is proposed; the first of them.
        edit: What becomes of the files; `None` if nobody asked for it.
        backtest: What the proposals would have throttled; `None` if that was not tested.
    """

    usage: str
    settings: RecommendSettings
    clusters: tuple[ClusterRecording, ...]
    counts: Mapping[Action, int]
    proposals: tuple[Recommendation, ...]
    others: tuple[Recommendation, ...]
    edit: QuotaEdit | None = None
    backtest: ProposalBacktest | None = None


_EARLIER: Final = regex(
    r"(?:^|; )(?:[a-z_]+: )?"
    r"(?:p[0-9.]+ of [0-9]+ (?:days|hours?) |p[0-9.]+ of [0-9dhms ]+(?:days)?(?: without outliers)?, |"
    r"not used for [0-9.]+ ?(?:days|[dhms])|not used from [0-9]{4}-[0-9]{2}-[0-9]{2}).*\([0-9]{4}-[0-9]{2}-[0-9]{2}\)$",
    DOTALL,
)


def entry_reason(before: str | None, proposals: Sequence[Recommendation], day: date) -> str:
    """Return the reason of an entry: what somebody wrote, then that of the proposals, in place of an earlier one.

    >>> from quotaform.core.usage.sizing.recommendation import Action
    >>> from quotaform.model.entity import Entity
    >>> sized = Recommendation(
    ...     cluster="prod", entity=Entity(user="a"), key="producer_byte_rate", action=Action.UPDATE,
    ...     before=1.0, after=2.0, reason="p99 of 14 days, 6.1 MiB/s on Mondays, x 1.5",
    ... )
    >>> entry_reason("checkout", [sized], date(2026, 11, 22))
    'checkout; p99 of 14 days, 6.1 MiB/s on Mondays, x 1.5 (2026-11-22)'

    Args:
        proposals: What is proposed for the entity, at least one.
        day: Today (UTC).
    """
    own = _EARLIER.sub("", before or "")
    if len({each.reason for each in proposals}) == 1:
        said = proposals[0].reason
    else:
        ordered = sorted(proposals, key=lambda each: key_order(each.key))
        said = "; ".join(f"{each.key}: {each.reason}" for each in ordered)
    return "; ".join(part for part in (own, f"{said} ({day.isoformat()})") if part)
