"""The JSON of recommendations."""

from __future__ import annotations

from typing import Annotated, Self, TypeAlias

from quotaform.model.records.document import USAGE_RECOMMEND, indented
from quotaform.model.records.record import Count, Record, about, builtins
from quotaform.usage.recommend.recommendation import (
    ClusterRecording,
    ProposalBacktest,
    QuotaEdit,
    Recommendation,
    RecommendReport,
    RecommendSettings,
    UnwrittenProposal,
)

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


class SummaryRecord(Record):
    """Numbers of values by what is proposed."""

    create: Annotated[Count, about("Values that are proposed for entities that have none.")]
    update: Annotated[Count, about("Values that are to change.")]
    delete: Annotated[Count, about("Values that are to be removed, as nobody used them.")]
    keep: Annotated[Count, about("Values that fit.")]
    none: Annotated[Count, about("Values for which nothing is proposed.")]


class EditRecord(Record):
    """What becomes of the quota files."""

    written: Annotated[bool, about("Whether the files were written.")]
    files: Annotated[tuple[str, ...], about("The files that change.")]
    unwritten: Annotated[tuple[UnwrittenProposal, ...], about("Proposals that the files do not follow.")]

    @classmethod
    def of(cls, edit: QuotaEdit) -> Self:
        """Return the record."""
        return cls(written=edit.is_written, files=tuple(file.name for file in edit.files), unwritten=edit.unwritten)


class RecommendationsRecord(Record, document=USAGE_RECOMMEND):
    """The result of quotaform usage recommend."""

    usage: Annotated[str, about("The usage table, as given.")]
    settings: SizingRecord
    clusters: Annotated[tuple[ClusterRecording, ...], about("What was recorded of each cluster.")]
    summary: SummaryRecord
    proposals: Annotated[
        tuple[Recommendation, ...], about("What is proposed, by cluster, entity and key; at most 100000.")
    ]
    others: Annotated[tuple[Recommendation, ...], about("The first 1000 values that are kept or undecided.")]
    edit: Annotated[EditRecord | None, about("What becomes of the quota files; null if they were not asked for.")]
    backtest: Annotated[
        ProposalBacktest | None, about("What the proposals would have throttled; null if that was not tested.")
    ]


def dump_recommendations(report: RecommendReport) -> str:
    """Return what is proposed, what is not and why, as JSON."""
    made = RecommendationsRecord(
        usage=report.usage,
        settings=SizingRecord.of(report.settings),
        clusters=report.clusters,
        summary=SummaryRecord(**{action.value: number for action, number in report.counts.items()}),
        proposals=report.proposals,
        others=report.others,
        edit=None if report.edit is None else EditRecord.of(report.edit),
        backtest=report.backtest,
    )
    return indented(builtins(made))
