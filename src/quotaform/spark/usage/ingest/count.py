"""How many samples there are, counted while they go through."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Observation
from pyspark.sql import functions as f

from quotaform.core.usage.sample.sample import DropReason

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SAMPLES: Final = "samples"
_REJECTED: Final = "rejected"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What went through.

    Attributes:
        samples: Samples that are for the table.
        dropped: Samples that are left out, by reason.
        rejected: Records that could not be read.
        rows: Rows of the table.
        clusters: The clusters of the samples.
        since: The earliest time of the rows.
        until: The latest one.
    """

    samples: int
    dropped: dict[DropReason, int]
    rejected: int = 0
    rows: int = 0
    clusters: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Counter:
    """Counts the rows of a DataFrame while something else uses them."""

    observation: Observation = field(default_factory=Observation)

    def parsed(self, rows: DataFrame) -> DataFrame:
        """Return `parsed_rows.PARSED`, whose samples will be counted."""
        is_rejected = f.col("reason").isNotNull()
        is_sample = f.col("ts").isNotNull()
        return rows.observe(self.observation, _sum(is_sample, _SAMPLES), _sum(is_rejected, _REJECTED), *_dropped())

    def merged(self, rows: DataFrame) -> DataFrame:
        """Return `merged.MERGED`, whose samples and rows will be counted."""
        points = f.col("points")
        return rows.observe(
            self.observation,
            _sum(points.isNotNull(), _SAMPLES),
            f.sum(f.size(points)).alias("rows"),
            f.collect_set("cluster").alias("clusters"),
            f.min(f.element_at(points, 1)["ts"]).alias("since"),
            f.max(f.element_at(points, -1)["ts"]).alias("until"),
            *_dropped(),
        )

    def counts(self) -> Counts:
        """Return what was counted, when the rows have been used."""
        found: dict[str, Any] = self.observation.get
        return Counts(
            samples=found.get(_SAMPLES) or 0,
            dropped={each: count for each in DropReason if (count := found.get(each.name) or 0)},
            rejected=found.get(_REJECTED) or 0,
            rows=found.get("rows") or 0,
            clusters=tuple(sorted(found.get("clusters") or ())),
            since=_moment(found.get("since")),
            until=_moment(found.get("until")),
        )


def _sum(is_counted: Column, name: str) -> Column:
    return f.sum(f.when(is_counted, f.col("samples"))).alias(name)


def _dropped() -> list[Column]:
    return [_sum(f.col("dropped") == reason.value, reason.name) for reason in DropReason]


def _moment(micros: int | None) -> datetime | None:
    return None if micros is None else _EPOCH + timedelta(microseconds=micros)
