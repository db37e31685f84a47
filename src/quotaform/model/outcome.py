"""What use cases return: one outcome per cluster, so that one failure never hides the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from json import dumps
from typing import Any, Generic, TypeAlias, TypeVar

from msgspec import Struct

from quotaform.model.errors import ExitCode, QuotaformError

Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with the current step, the number of items done and the total (0 if unknown)."""


def no_progress(what: str, done: int, total: int) -> None:
    """Report nothing."""


T = TypeVar("T")
V = TypeVar("V")


class ClusterOutcome(Struct, Generic[T], frozen=True):
    """What was made for one cluster, or why it could not be made."""

    cluster: str
    value: T | None = None  # what was made; `None` after a failure
    error: QuotaformError | None = None  # why there is no value

    @classmethod
    def of(cls, cluster: str, make: Callable[[], T]) -> ClusterOutcome[T]:
        """Return what a function makes for a cluster, or the `QuotaformError` that it raises."""
        try:
            return ClusterOutcome(cluster, make())
        except QuotaformError as error:
            return ClusterOutcome(cluster, error=error)

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


class Kept(Struct, Generic[T], frozen=True):
    """A result that is not in memory, as one of thousands."""

    digest: Any  # Its numbers, if it has any
    load: Callable[[], T]  # Reads it


def loaded(value: T | Kept[T]) -> T:
    """Return a result, wherever it is."""
    return value.load() if isinstance(value, Kept) else value


def values_of(outcomes: Iterable[ClusterOutcome[T]]) -> list[T]:
    """Return what was made, of those for which anything was."""
    return [outcome.require() for outcome in outcomes if outcome.error is None]


def digest_of(value: object) -> Any:
    """Return the digest of a result; one that has none stands for itself."""
    return getattr(value, "digest", value)


def exit_code(outcomes: Iterable[ClusterOutcome[Any]], *, counts_differences: bool = True) -> ExitCode:
    """Return the code of a run: the one that matters most among the attributes `exit_code` of results and errors.

    >>> from quotaform.model.errors import ClusterError
    >>> exit_code([ClusterOutcome("a", 1), ClusterOutcome("b", error=ClusterError("down"))])
    <ExitCode.ERROR: 1>

    With `counts_differences`, results that differ are no success. What holds for a cluster to which nothing was written
    does not hold for a run that wrote to another one.
    """
    results = [digest_of(outcome.value) if outcome.error is None else outcome.error for outcome in outcomes]
    codes = {getattr(result, "exit_code", ExitCode.DONE) for result in results} - {ExitCode.DONE}
    if not counts_differences:
        codes -= {ExitCode.DIFFERENCES}
    if codes and any(getattr(result, "wrote_anything", False) for result in results):
        codes.add(ExitCode.PARTIAL)
    return ExitCode.most_severe(codes)


def outcome_lines(outcomes: Iterable[ClusterOutcome[Iterator[str]]]) -> Iterator[str]:
    """Yield the document in pieces. `outcomes` is the document of each cluster, as text in pieces."""
    from quotaform.model.records.document import OUTCOMES

    yield f'{{\n  "format_version": {dumps(OUTCOMES.version)},\n  "kind": {dumps(OUTCOMES.kind)},\n  "outcomes": ['
    separator = "\n"
    for outcome in outcomes:
        failure = outcome.error and {"exit_code": outcome.error.exit_code, "message": str(outcome.error)}
        yield f'{separator}{{"cluster": {dumps(outcome.cluster)}, "error": {dumps(failure)}, "result": '
        if outcome.error is None:
            yield from outcome.require()
        else:
            yield "null\n"
        yield "}"
        separator = ",\n"
    yield "\n  ]\n}\n"
