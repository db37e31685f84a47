"""The findings of a result, each with a place in the files if there is one, for what shows them beside the files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final, TypeAlias

from quotaform.core.check import rule
from quotaform.core.drift.drift import Drift
from quotaform.core.drift.drifted import DriftClass, DriftedEntity
from quotaform.core.plan import Plan
from quotaform.core.result import Validation
from quotaform.model.entity import spell_name
from quotaform.model.finding import Finding
from quotaform.model.text import inert, listed
from quotaform.views.plan.effect_text import value_text

Place: TypeAlias = Callable[[str], str | None]
"""Returns the path of a file from the top of its repository; `None` for one that is outside."""

_DRIFT_RULES: Final = {
    DriftClass.MODIFIED: rule.DRIFT_MODIFIED,
    DriftClass.MISSING: rule.DRIFT_MISSING,
    DriftClass.UNEXPECTED: rule.DRIFT_UNEXPECTED,
}


def unchanged_place(file: str) -> str | None:
    """Return the path of a file as it is, where nothing is known of a repository."""
    return None if file.startswith("/") else file


def plan_problems(plan: Plan) -> list[Finding]:
    """Return the findings of a plan; one about an entity that changes is where that is declared."""
    places = {change.entity.address: change.location for change in plan.changes if change.location is not None}
    return [
        finding
        if finding.location is not None or finding.address not in places
        else replace(finding, location=places[finding.address])
        for finding in plan.findings
    ]


def validation_problems(validation: Validation) -> list[Finding]:
    """Return the problems and warnings of files."""
    return list(validation.problems)


def drift_problems(drift: Drift) -> list[Finding]:
    """Return one warning for each entity that differs, and what else was found."""
    return [*drift.findings, *(_drifted(each) for each in drift.entities)]


def _drifted(drifted: DriftedEntity) -> Finding:
    row = _DRIFT_RULES[drifted.drift_class]
    message = f"{drifted.entity.address} is {drifted.drift_class.value}: {listed(_differences(drifted))}"
    return row.finding(message, address=drifted.entity.address, location=drifted.location)


def _differences(drifted: DriftedEntity) -> Iterator[str]:
    for change in drifted.changes:
        live = "not set" if change.before is None else value_text(change.key, change.before)
        if change.after is not None:
            declared = f"{value_text(change.key, change.after)} in the files"
        else:
            declared = f"{'not' if drifted.absent is None else inert(drifted.absent)} in the files"
        yield f"{spell_name(change.key)} is {live} on the cluster, {declared}"


def about(finding: Finding) -> str:
    """Return the message of a finding with what it is about in front, unless the message begins with that."""
    if finding.address is None or finding.message.startswith(finding.address):
        return finding.message
    return f"{finding.address}: {finding.message}"
