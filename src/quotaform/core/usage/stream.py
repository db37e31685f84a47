"""What a stream of usage has read and written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from quotaform.core.usage.sample.sample import DropReason


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamCounts:
    """How many samples batches have read, and what became of them: samples = written + dropped + quarantined.

    Attributes:
        batches: How many batches there were.
        records: How many records of the topic they had.
        samples: How many samples were in those; what cannot be read counts as one.
        written: How many are in the table.
        dropped: How many are not, by reason.
        quarantined: How many could not be read.
        late_records: How many records were late; the quarantine has each of them.
        duplicate_records: How many records were there before.
    """

    batches: int = 0
    records: int = 0
    samples: int = 0
    written: int = 0
    dropped: Mapping[DropReason, int] = field(default_factory=dict)
    quarantined: int = 0
    late_records: int = 0
    duplicate_records: int = 0

    def __add__(self, other: StreamCounts) -> StreamCounts:
        """Return the sums."""
        return StreamCounts(
            batches=self.batches + other.batches,
            records=self.records + other.records,
            samples=self.samples + other.samples,
            written=self.written + other.written,
            dropped=dict(Counter(self.dropped) + Counter(other.dropped)),
            quarantined=self.quarantined + other.quarantined,
            late_records=self.late_records + other.late_records,
            duplicate_records=self.duplicate_records + other.duplicate_records,
        )

    def require_sum(self) -> None:
        """Raise `RuntimeError` if a sample is lost in silence: a mistake of quotaform."""
        dropped = sum(self.dropped.values())
        if self.samples != self.written + dropped + self.quarantined:
            raise RuntimeError(
                f"{self.samples} samples in, but {self.written} written, {dropped} dropped and {self.quarantined} "
                "quarantined"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Streamed:
    """What a run of a stream has done.

    Attributes:
        usage: The table, as it was given.
        quarantine: Where the records are that could not be read, or were late.
        counts: The sums of all batches.
        behind: How many records of the topic it had not read when its last batch ended; `None` if there was none.
    """

    topic: str
    usage: str
    quarantine: str
    counts: StreamCounts
    behind: int | None

    @property
    def has_quarantine(self) -> bool:
        """Whether this run has put records into the quarantine."""
        return bool(self.counts.quarantined or self.counts.late_records)
