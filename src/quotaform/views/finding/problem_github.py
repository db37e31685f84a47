"""Findings as commands of GitHub Actions, which shows them beside the lines of a pull request.

GitHub shows ten annotations of each type per step and drops all others without a word, so the tenth says how many more
there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from quotaform.core.drift.drift import Drift
from quotaform.core.plan import Plan
from quotaform.core.result import Validation
from quotaform.errors import QuotaformError
from quotaform.model.finding import Finding, Severity
from quotaform.printable import printable
from quotaform.views.finding.problem import (
    Place,
    about,
    drift_problems,
    plan_problems,
    unchanged_place,
    validation_problems,
)

MOST_OF_A_TYPE: Final = 10
_TYPES: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}
_PLURALS: Final = {"error": "errors", "warning": "warnings", "notice": "notes"}


def render_plan_github(plan: Plan, *, place: Place = unchanged_place) -> str:
    """Return the findings of a plan as annotations, one per line."""
    return "".join(_annotations(plan_problems(plan), place))


def render_drift_github(drift: Drift, *, place: Place = unchanged_place) -> str:
    """Return a warning for each entity that differs."""
    return "".join(_annotations(drift_problems(drift), place))


def render_validation_github(validation: Validation, *, place: Place = unchanged_place) -> str:
    """Return the problems of files as annotations, one per line."""
    return "".join(_annotations(validation_problems(validation), place))


def render_failure_github(cluster: str, error: QuotaformError) -> str:
    """Return the annotation of a cluster for which nothing could be made."""
    return _command("error", {"title": f"quotaform: {cluster}"}, error.text_of(cluster))


def _annotations(findings: Iterable[Finding], place: Place) -> Iterator[str]:
    by_type: dict[str, list[Finding]] = {name: [] for name in _TYPES.values()}
    for finding in findings:
        by_type["error" if finding.blocking else _TYPES[finding.severity]].append(finding)
    for name, some in by_type.items():
        shown = some if len(some) <= MOST_OF_A_TYPE else some[: MOST_OF_A_TYPE - 1]
        yield from (_command(name, _properties(finding, place), about(finding)) for finding in shown)
        if len(some) > len(shown):
            more = f"and {len(some) - len(shown):,} more {_PLURALS[name]}, see the output of this step"
            yield _command(name, {"title": "quotaform"}, more)


def _properties(finding: Finding, place: Place) -> dict[str, str]:
    title = {"title": f"quotaform: {finding.rule}"}
    location = finding.location
    file = None if location is None else place(location.file)
    if location is None or file is None:
        return title
    numbers = (("line", location.line), ("col", location.column))
    return {"file": file, **{name: str(number) for name, number in numbers if number}, **title}


def _command(name: str, properties: dict[str, str], message: str) -> str:
    r"""Return a command, in which no text can end a property, the line or the command.

    >>> _command("error", {"file": "a,b:c.yaml"}, "100 %\n::error::x")
    '::error file=a%2Cb%3Ac.yaml::100 %25%0A::error::x\n'
    """
    written = ",".join(f"{key}={_escape_property(value)}" for key, value in properties.items())
    return f"::{name} {written}::{_escape(message)}\n"


def _escape(text: str) -> str:
    escaped = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return printable(escaped)


def _escape_property(text: str) -> str:
    return _escape(text).replace(":", "%3A").replace(",", "%2C")
