"""The JSON of recommendations."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Self, TypeAlias

from msgspec import field

from quotaform.model.records.document import USAGE_RECOMMEND, indented
from quotaform.model.records.field import Address, Names, QuotaKeyName
from quotaform.model.records.record import Count, Moment, Record, about, builtins
from quotaform.plan.backtest import ClusterBacktest
from quotaform.usage.recommend.recommendation import (
    Action,
    ProposalBacktest,
    QuotaEdit,
    Recommendation,
    RecommendReport,
    RecommendSettings,
    UnwrittenProposal,
)

ClusterName: TypeAlias = Annotated[str, about("The name of the cluster.")]
Numbers: TypeAlias = Annotated[dict[str, float], about("Values by quota key.")]


class SizingRecord(Record):
    """How quotas were sized."""

    percentile: Annotated[float, about("The percentile of each day.")]
    outlier_days: Annotated[Count, about("How many of the highest days of each weekday were left out.")]
    headroom: Annotated[float, about("By how much it was multiplied.")]
    floors: Numbers
    caps: Numbers
    min_history_days: Annotated[float, about("How many days must be recorded.")]
    min_samples: Annotated[Count, about("How many times with a rate must be recorded.")]
    unused_after_days: Annotated[float, about("After how many days without use a value is proposed for removal.")]
    creates: Annotated[bool, about("Whether values were proposed for entities that have none.")]
    capacities: Annotated[dict[str, Numbers], about("By cluster, the capacity of a broker.")]

    @classmethod
    def of(cls, settings: RecommendSettings) -> Self:
        """Return the record."""
        same = {name: getattr(settings, name) for name in cls.__struct_fields__ if hasattr(settings, name)}
        return cls(creates=settings.has_creates, **same)


class RecordingRecord(Record):
    """The first and the last sample of a cluster."""

    cluster: ClusterName
    first: Annotated[Moment | None, about("When it was; null if nothing is recorded.")]
    last: Annotated[Moment | None, about("When it was; null if nothing is recorded.")]


class SummaryRecord(Record):
    """Numbers of values by what is proposed."""

    create: Annotated[Count, about("Values that are proposed for entities that have none.")]
    update: Annotated[Count, about("Values that are to change.")]
    delete: Annotated[Count, about("Values that are to be removed, as nobody used them.")]
    keep: Annotated[Count, about("Values that fit.")]
    none: Annotated[Count, about("Values for which nothing is proposed.")]


class RecommendationRecord(Record):
    """What is proposed for a quota key of an entity."""

    cluster: ClusterName
    address: Address
    entity: Names
    key: QuotaKeyName
    action: Annotated[
        Action, about("create, update, delete; keep: the value fits; none: the reason says what is missing.")
    ]
    before: Annotated[float | None, about("The value now, or null.")]
    after: Annotated[float | None, about("The proposed value, or null; for keep and none the value now.")]
    reason: Annotated[str, about("Why.")]
    note: Annotated[str | None, about("What else there is to know, or null.")]
    samples: Annotated[Count, about("How many times with a rate were recorded.")]
    days: Annotated[float, about("How many days are recorded.")]
    basis: Annotated[float | None, about("The rate on which the proposal rests, or null.")]
    day: Annotated[date | None, about("The day (UTC) of this rate, or null.")]
    is_weekly: Annotated[bool, about("Whether the weekday of this day is the busiest of each week.")] = field(
        name="weekly"
    )
    bucket: Annotated[str | None, about("The bucket with this rate, or null.")]
    broker: Annotated[
        str | None, about("The broker on which it had this rate; null if the limit is one of the cluster.")
    ]

    @classmethod
    def of(cls, each: Recommendation) -> Self:
        """Return the record."""
        own: dict[str, Any] = {"address": each.entity.address, "entity": each.entity.names, "days": round(each.days, 3)}
        same = {name: getattr(each, name) for name in cls.__struct_fields__ if name not in own}
        return cls(**own, **same)


class UnwrittenRecord(Record):
    """A proposal that the files do not follow, and why."""

    cluster: ClusterName
    address: Address
    entity: Names
    key: QuotaKeyName
    reason: Annotated[str, about("Why.")]

    @classmethod
    def of(cls, each: UnwrittenProposal) -> Self:
        """Return the record."""
        proposal = each.proposal
        return cls(
            cluster=proposal.cluster,
            address=proposal.entity.address,
            entity=proposal.entity.names,
            key=proposal.key,
            reason=each.reason,
        )


class EditRecord(Record):
    """What becomes of the quota files."""

    written: Annotated[bool, about("Whether the files were written.")]
    files: Annotated[tuple[str, ...], about("The files that change.")]
    unwritten: Annotated[tuple[UnwrittenRecord, ...], about("Proposals that the files do not follow.")]

    @classmethod
    def of(cls, edit: QuotaEdit) -> Self:
        """Return the record."""
        unwritten = tuple(map(UnwrittenRecord.of, edit.unwritten))
        return cls(written=edit.is_written, files=tuple(file.name for file in edit.files), unwritten=unwritten)


class ProposalBacktestRecord(Record):
    """What a plan of the changed quota files would have throttled of the same usage."""

    clusters: Annotated[tuple[ClusterBacktest, ...], about("The clusters that the files change.")]
    unwritten: Annotated[Count, about("Proposals that are not in it, as the files do not follow them.")]
    other_changes: Annotated[Count, about("Other entities that the files change; they are not in it.")]

    @classmethod
    def of(cls, found: ProposalBacktest) -> Self:
        """Return the record."""
        return cls(clusters=found.clusters, unwritten=found.unwritten, other_changes=found.others)


class RecommendationsRecord(Record, document=USAGE_RECOMMEND):
    """The result of quotaform usage recommend."""

    usage: Annotated[str, about("The usage table, as given.")]
    settings: SizingRecord
    clusters: Annotated[tuple[RecordingRecord, ...], about("What was recorded of each cluster.")]
    summary: SummaryRecord
    proposals: Annotated[
        tuple[RecommendationRecord, ...], about("What is proposed, by cluster, entity and key; at most 100000.")
    ]
    others: Annotated[tuple[RecommendationRecord, ...], about("The first 1000 values that are kept or undecided.")]
    edit: Annotated[EditRecord | None, about("What becomes of the quota files; null if they were not asked for.")]
    backtest: Annotated[
        ProposalBacktestRecord | None, about("What the proposals would have throttled; null if that was not tested.")
    ]


def dump_recommendations(report: RecommendReport) -> str:
    """Return what is proposed, what is not and why, as JSON."""
    made = RecommendationsRecord(
        usage=report.usage,
        settings=SizingRecord.of(report.settings),
        clusters=tuple(
            RecordingRecord(cluster=each.cluster, first=each.first, last=each.last) for each in report.clusters
        ),
        summary=SummaryRecord(**{action.value: number for action, number in report.counts.items()}),
        proposals=tuple(map(RecommendationRecord.of, report.proposals)),
        others=tuple(map(RecommendationRecord.of, report.others)),
        edit=None if report.edit is None else EditRecord.of(report.edit),
        backtest=None if report.backtest is None else ProposalBacktestRecord.of(report.backtest),
    )
    return indented(builtins(made))
