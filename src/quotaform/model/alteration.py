"""The wire unit of a change: what is set and removed on one entity, and what the broker said to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from quotaform.errors import (
    AuthorizationError,
    ClusterError,
    InvalidRequestError,
    PolicyError,
    UnknownOutcomeError,
    UnsupportedError,
)
from quotaform.model.entity import Entity
from quotaform.model.text import inert


@dataclass(frozen=True, slots=True)
class Alteration:
    """The ops on one entity, applied by the broker all or not at all.

    Attributes:
        entity: Whose quotas change.
        ops: Quota key to the value to set, or `None` to remove the key.
    """

    entity: Entity
    ops: Mapping[str, float | None]


class Outcome(StrEnum):
    """What became of one alteration."""

    OK = "ok"
    """The broker accepted it (or would: `validate_only`)."""
    REFUSED = "refused"
    """The broker refused it and changed nothing on this entity."""
    UNKNOWN = "unknown"
    """It may or may not have been made, now or later: read before any retry."""
    NOT_SENT = "not-sent"
    """It was never sent."""


ERRORS_BY_CODE: Mapping[int, type[ClusterError]] = {
    -1: UnknownOutcomeError,
    7: UnknownOutcomeError,
    31: AuthorizationError,
    35: UnsupportedError,
    42: InvalidRequestError,
    44: PolicyError,
}
"""The error class for each broker error code that users meet (KIP-546, org.apache.kafka.common.protocol.Errors)."""


@dataclass(frozen=True, slots=True)
class AlterRow:
    """The result of one alteration.

    Attributes:
        entity: Whose quotas it is about.
        outcome: What became of it.
        code: The broker's error code, 0 for none; `None` when no answer came.
        message: The broker's words or the reason why there are none; empty when all went well.
    """

    entity: Entity
    outcome: Outcome
    code: int | None = 0
    message: str = ""

    @property
    def reason(self) -> str:
        """Why it did not go well, on one line: the broker's words, or its code when it has none."""
        return inert(self.message) or f"broker error code {self.code}"


@dataclass(frozen=True, slots=True)
class AlterResult:
    """One row per alteration, in the order in which they were given."""

    rows: tuple[AlterRow, ...]

    def __iter__(self) -> Iterator[AlterRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def failed(self) -> tuple[AlterRow, ...]:
        """The rows that did not go well, whatever the reason."""
        return tuple(row for row in self.rows if row.outcome is not Outcome.OK)

    def raise_for_errors(self) -> None:
        """Raise the error of the first failed row, naming its entity and the number of others.

        Raises:
            ClusterError: The class for the broker's code; `UnknownOutcomeError` when it cannot be known.
        """
        failed = self.failed
        if not failed:
            return
        row = failed[0]
        if row.outcome is Outcome.UNKNOWN:
            kind: type[ClusterError] = UnknownOutcomeError
        else:
            kind = ERRORS_BY_CODE.get(row.code or 0, ClusterError)
        more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        raise kind(
            f"{row.entity.address}: {row.reason}{more}", code=row.code, entities=[each.entity for each in failed]
        )
