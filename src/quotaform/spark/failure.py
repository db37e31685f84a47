"""Failures to read a cluster as columns that convert back to the original error."""

from __future__ import annotations

from collections.abc import Mapping
from json import dumps, loads
from typing import Any, Final

from quotaform import errors
from quotaform.document.field import dump_finding, load_finding
from quotaform.errors import ClusterError, InvalidFilesError, QuotaformError
from quotaform.model.finding import Finding

_PLAIN: Final = (QuotaformError.__init__, ClusterError.__init__)
"""Constructors that take a message and need nothing else."""


_ATTRIBUTES: Final = {"remedy": str, "cluster": str, "server": str, "code": int}
"""The attributes of a `ClusterError` that have a column, and their type. Its entities have none: reads name none."""

FailureRow = tuple[str, str, str | None, str | None, str | None, int | None, str | None]
"""A row of `schemas.FAILURE`."""


def failure_row(error: QuotaformError) -> FailureRow:
    """Return an error as `schemas.FAILURE`.

    | error | kind | remedy, cluster, server, code | problems |
    | --- | --- | --- | --- |
    | InvalidFilesError | its name | none | its findings as JSON |
    | another one that can be made of a message alone | its name | those of a ClusterError | none |
    | any other | the name of the closest such base | those of a ClusterError | none |
    """
    if isinstance(error, InvalidFilesError):
        problems = dumps([dump_finding(problem) for problem in error.problems], ensure_ascii=False)
        return type(error).__name__, str(error), None, None, None, None, problems
    kind = next(kind.__name__ for kind in type(error).__mro__ if _plain(kind.__name__) is kind)
    if isinstance(error, ClusterError):
        return kind, str(error), error.remedy, error.cluster, error.server, error.code, None
    return kind, str(error), None, None, None, None, None


def require_read(failure: Mapping[str, Any] | None) -> None:
    """Raise the error of a cluster that could not be read, with its original message, attributes and exit code.

    The columns may come from a table that somebody else wrote: a kind that is not understood is a `ClusterError` with
    the message, and an attribute that is not understood is left out.
    """
    if failure is None:
        return
    message = failure["message"] or "The cluster could not be read."
    if failure["kind"] == InvalidFilesError.__name__ and (problems := _problems(failure["problems"])):
        raise InvalidFilesError(problems)
    kind = _plain(failure["kind"]) or ClusterError
    # Made of its lines, as it was: what a line quotes has no line breaks.
    error = kind(message) if issubclass(kind, ClusterError) else kind(*message.split("\n"))
    if isinstance(error, ClusterError):
        _restore(error, failure)
    raise error


def _restore(error: ClusterError, failure: Mapping[str, Any]) -> None:
    """Give an error that was made of its whole message the attributes that it had."""
    for name, kind in _ATTRIBUTES.items():
        value = failure.get(name)
        if isinstance(value, kind):
            setattr(error, name, value)
    if error.remedy is not None:
        error.problem = error.problem.partition(f"{error.joint}{error.remedy}")[0]


def _plain(name: object) -> type[QuotaformError] | None:
    """Return the class of `quotaform.errors` of a name, if it can be made of a message alone."""
    kind = getattr(errors, name, None) if isinstance(name, str) else None
    is_plain = isinstance(kind, type) and issubclass(kind, QuotaformError) and kind.__init__ in _PLAIN
    return kind if is_plain else None


def _problems(text: object) -> list[Finding]:
    """Return findings that were written as JSON; none if they were not."""
    try:
        items = loads(text) if isinstance(text, str) else []
        return [load_finding(item) for item in items]
    except (ValueError, TypeError, KeyError, RecursionError):
        return []
