"""An alteration, the ops on one entity, and its result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import NoneType
from typing import Any, Final, Generic, TypeAlias, TypeVar

from msgspec import Struct

from quotaform.model.entity import Entity, spell_name
from quotaform.model.errors import (
    AuthorizationError,
    ClusterError,
    InvalidRequestError,
    PolicyError,
    UnknownOutcomeError,
    UnsupportedError,
)
from quotaform.model.quotas import Values, same_value
from quotaform.model.text import inert, require_type

Ops: TypeAlias = Mapping[str, float | None]
"""Quota key to the value to set, `None` to remove the key."""


@dataclass(frozen=True, slots=True)
class Alteration:
    """The ops on one entity, which the broker applies atomically.

    Raises `TypeError`: the entity is not an `Entity`, or an op is not a number or `None` by quota key.
    """

    entity: Entity  # whose quotas change
    # Quota key to the value to set, in the unit of the key (bytes per second, percent of a thread), or `None` to remove
    # the key. What a broker cannot hold (NaN, infinity) is refused by `alter`.
    ops: Ops

    def __post_init__(self) -> None:
        require_type(self.entity, Entity, "entity", "an Entity")
        require_type(self.ops, Mapping, "ops", "a mapping of quota key to value")
        for key, value in self.ops.items():
            if type(key) is not str or type(value) is not float:
                require_type(key, str, "a quota key in ops", "a string")
                require_type(value, (int, float, NoneType), spell_name(key), "a number, or None to remove the key")


def apply_ops(values: Values, ops: Ops) -> Values:
    """Return the values after the ops are applied; removing a missing key changes nothing.

    >>> apply_ops({"x": 1.0, "y": 2.0}, {"x": None, "z": 3.0})
    {'y': 2.0, 'z': 3.0}
    """
    return {key: value for key, value in {**values, **ops}.items() if value is not None}


class Outcome(StrEnum):
    """The outcome of one alteration."""

    OK = "ok"  # the broker accepted it (or would: `validate_only`)
    REFUSED = "refused"  # the broker refused it and changed nothing on this entity
    UNKNOWN = "unknown"  # it may or may not have been applied, now or later: read the cluster before a retry
    NOT_SENT = "not-sent"  # it was never sent


CLUSTER_AUTHORIZATION_FAILED: Final = 31

ERRORS_BY_CODE: Mapping[int, type[ClusterError]] = {
    -1: UnknownOutcomeError,
    7: UnknownOutcomeError,
    CLUSTER_AUTHORIZATION_FAILED: AuthorizationError,
    35: UnsupportedError,
    42: InvalidRequestError,
    44: PolicyError,
}
"""The error class for each broker error code that users meet (KIP-546, org.apache.kafka.common.protocol.Errors)."""

UNKNOWN_CODES: Final = frozenset(code for code, kind in ERRORS_BY_CODE.items() if kind is UnknownOutcomeError)
"""UNKNOWN_SERVER_ERROR and REQUEST_TIMED_OUT: the controller may have applied it, or may still apply it."""


RowT = TypeVar("RowT", bound=Any)
"""The result of one alteration of anything: it has the `outcome`, `code`, `subject` and `reason` of an `AlterRow`."""


class AlterationResults(Struct, Generic[RowT], frozen=True):
    """One row per alteration, in the order in which they were given."""

    rows: tuple[RowT, ...]

    def __iter__(self) -> Iterator[RowT]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def failed(self) -> tuple[RowT, ...]:
        """The rows that failed for any reason."""
        return tuple(row for row in self.rows if row.outcome is not Outcome.OK)

    def raise_for_errors(self) -> None:
        """Raise the error of the first failed row, naming its subject and the number of others.

        Raises `ClusterError`: the class for the broker's code; `UnknownOutcomeError` if the outcome is unknown.
        """
        failed = self.failed
        if not failed:
            return
        row = failed[0]
        kind = ERRORS_BY_CODE.get(row.code or 0, ClusterError)
        if row.outcome is Outcome.UNKNOWN:
            kind = UnknownOutcomeError
        more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        entities = [each.entity for each in failed if isinstance(each, AlterRow)]
        raise kind(f"{row.subject}: {row.reason}{more}", code=row.code, entities=entities)


def reason_of(code: int | None, message: str) -> str:
    """Return why an alteration failed, on one line: the broker's message, or its code if it has none."""
    return inert(message) or f"broker error code {code}"


class AlterRow(Struct, frozen=True):
    """The result of one alteration."""

    entity: Entity  # whose quotas it is about
    outcome: Outcome
    code: int | None = 0  # the broker's error code, 0 for none; `None` without a response
    message: str = ""  # the broker's message, or the reason why there is none; empty on success

    @property
    def subject(self) -> str:
        """The entity's address."""
        return self.entity.address

    @property
    def reason(self) -> str:
        """Why it failed, on one line: the broker's message, or its code if it has none."""
        return reason_of(self.code, self.message)


class AlterResult(AlterationResults[AlterRow], frozen=True):
    """The results of altering quotas."""


class Altered(Struct, frozen=True, kw_only=True):
    """What an alteration did, or would do."""

    entity: Entity  # whose quotas it is about
    ops: Ops  # what was asked for: quota key to the value to set, `None` to remove it
    before: Values  # what the entity held
    after: Values  # what it holds, freshly read; with `is_validation` what it would hold
    is_validation: bool = False  # whether nothing was changed
    is_late: bool = False  # whether the broker's answer was lost, and the change shows all the same

    def has_changed(self, key: str) -> bool:
        """Whether a key has, or would have, another value than before."""
        return not same_value(self.before.get(key), self.after.get(key))
