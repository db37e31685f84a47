"""Lints: what is valid and probably not what was meant. They warn, block nothing, and can be ignored with a reason.

A lint is a rule and a function of `LintFacts` that yields what it finds; `LINTS` lists them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date
from typing import Final, TypeAlias

from quotaform.core.check import rule
from quotaform.core.check.finding_list import MAX_PROBLEMS
from quotaform.core.check.lint.fact import Found, LintFacts
from quotaform.core.check.lint.precedence import check_broker_principals, check_renamable, check_shadowed
from quotaform.core.check.lint.setting import LintIgnore
from quotaform.core.check.lint.value import check_capacity, check_expiry, check_sessions, check_units
from quotaform.model.entry import Desired
from quotaform.model.finding import Finding, Severity
from quotaform.model.quotas import Quotas
from quotaform.model.rule import FindingRule
from quotaform.model.text import quote

Lint: TypeAlias = Callable[[LintFacts], Iterable[Found]]

LINTS: Final[tuple[tuple[FindingRule, Lint], ...]] = (
    (rule.SUSPICIOUS_UNIT, check_units),
    (rule.SHADOWED_ENTRY, check_shadowed),
    (rule.RENAMABLE_CLIENT_ID, check_renamable),
    (rule.DEFAULT_USER_BROKERS, check_broker_principals),
    (rule.EXPIRES_SOON, check_expiry),
    (rule.IAM_SESSION, check_sessions),
    (rule.OVER_CAPACITY, check_capacity),
)
"""Every lint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Linted:
    """What lints found.

    Attributes:
        findings: The first findings of each lint that nothing ignores.
        used: The ignores that ignored something.
        others: How many findings of each severity are about entities that are of no concern.
    """

    findings: tuple[Finding, ...]
    used: frozenset[LintIgnore]
    others: Mapping[Severity, int]


def declared_quotas(desired: Desired) -> Quotas:
    """Return what a cluster holds that holds what the files declare and nothing else."""
    return {entity: entry.values for entity, entry in desired.items() if entry.values}


def check_lints(facts: LintFacts) -> Linted:
    """Return what all lints find: of each the first findings, and that there are more."""
    active = [each for each in facts.settings.ignores if each.expires is None or facts.today < each.expires]
    findings: list[Finding] = []
    used: set[LintIgnore] = set()
    others: Counter[Severity] = Counter()
    for row, lint in LINTS:
        ignores = [each for each in active if each.rule == row.id]
        shown = 0
        for found in lint(facts):
            entity = found.entity
            if entity is not None and not facts.selection.contains(entity):
                continue
            ignore = next((each for each in ignores if each.covers(entity)), None)
            if ignore is not None:
                used.add(ignore)
            elif not facts.concerns(found):
                others[found.severity] += 1
            elif shown < MAX_PROBLEMS:
                findings.append(found.make())
                shown += 1
            else:
                text = f"and more: only the first {MAX_PROBLEMS} findings of {row.id} are shown"
                findings.append(rule.MORE_WARNINGS.finding(text))
                break
    findings += _expired_ignores(facts.settings.ignores, facts.today)
    return Linted(findings=tuple(findings), used=frozenset(used), others=others)


def unused_ignores(ignores: Iterable[LintIgnore], used: Iterable[LintIgnore], today: date) -> Iterator[Finding]:
    """Yield a note on each ignore that ignored nothing, for any cluster, and has not expired."""
    known = set(used)
    for each in ignores:
        if each not in known and (each.expires is None or today < each.expires):
            text = f"this ignore of {each.rule} ({quote(each.reason)}) ignores nothing in the files; remove it"
            yield rule.LINT_IGNORE_UNUSED.finding(text, location=each.location)


def _expired_ignores(ignores: Iterable[LintIgnore], today: date) -> Iterator[Finding]:
    for each in ignores:
        if each.expires is not None and today >= each.expires:
            reason = quote(each.reason)
            text = f"this ignore of {each.rule} ({reason}) expired {each.expires}; remove it, or set a later date"
            yield rule.LINT_IGNORE_EXPIRED.finding(text, location=each.location)


def with_address(finding: Finding) -> Finding:
    """Return a finding whose message names the entity: a list in a match is one place and several entities."""
    return replace(finding, message=f"{finding.address}: {finding.message}") if finding.address else finding
