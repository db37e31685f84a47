"""What a use case over many clusters returns: one outcome per cluster, so that one failure never hides the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from quotaform.errors import QuotaformError

T = TypeVar("T")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class ClusterOutcome(Generic[T]):
    """What was made for one cluster, or why it could not be made.

    Attributes:
        value: What was made; `None` after a failure.
        error: Why there is no value.
    """

    cluster: str
    value: T | None = None
    error: QuotaformError | None = None

    def require(self) -> T:
        """Return the value; raises its `QuotaformError` if there is none."""
        if self.error is not None:
            raise self.error
        if self.value is None:
            raise ValueError(f"the outcome of {self.cluster} has neither a value nor an error")
        return self.value

    def map(self, function: Callable[[T], V]) -> ClusterOutcome[V]:
        """Return the outcome with what a function makes of the value; a failure stays as it is."""
        if self.error is not None:
            return ClusterOutcome(self.cluster, error=self.error)
        return ClusterOutcome(self.cluster, function(self.require()))
