"""Lints: what is valid and probably not what was meant. They warn, block nothing, and can be ignored with a reason.

A lint is a rule and a function of `LintFacts` that yields what it finds; `LINTS` lists them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from typing import Final, TypeAlias

from quotaform.core.check import rule
from quotaform.core.check.finding_list import MAX_PROBLEMS
from quotaform.core.check.lint.fact import Found, LintFacts
from quotaform.core.check.lint.setting import LintIgnore
from quotaform.core.check.lint.shadow import shadowed_keys
from quotaform.core.check.lint.value import check_capacity, check_expiry, check_sessions, check_units
from quotaform.core.resolve.entry import Effective, QuotaEntry, effective
from quotaform.core.resolve.request import UNMENTIONED, representative
from quotaform.model.entity import CLIENT_ID, Entity, spell_name
from quotaform.model.entry import Desired, Entry
from quotaform.model.finding import Finding, Severity
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import Quotas
from quotaform.model.rule import FindingRule
from quotaform.model.text import quote
from quotaform.model.units import UNLIMITED, is_unlimited, render_value


def check_shadowed(facts: LintFacts) -> Iterator[Found]:
    """Find entries, or keys of them, that no request has."""
    for entity, entry in facts.entries:
        losing: dict[Entity, list[str]] = {}
        for key, winner in shadowed_keys(facts, entity, entry.values).items():
            losing.setdefault(winner, []).append(key)
        for winner, keys in losing.items():
            yield Found(entity, partial(_shadowed, entry, keys, winner), (winner,))


def _shadowed(entry: Entry, keys: list[str], winner: Entity) -> Finding:
    address = entry.entity.address
    return rule.SHADOWED_ENTRY.finding(
        f"{', '.join(keys)} never applies: every request that {address} matches has "
        f"{'its' if len(keys) == 1 else 'their'} value from {winner.address}; remove it here or there",
        address=address,
        key=keys[0] if len(keys) == 1 else None,
        location=entry.location,
    )


def check_renamable(facts: LintFacts) -> Iterator[Found]:
    """Find limits of a client-id that a client escapes by another one, with the same user or one without quotas."""
    renamed: dict[object, tuple[QuotaEntry, ...]] = {}
    for entity, entry in facts.entries:
        entity_type, name = entity.parts[-1]
        request = representative(entity) if entity_type == CLIENT_ID and name is not None else None
        if request is None:
            continue
        user = request[0]
        others = renamed.get(user)
        if others is None:
            others = renamed[user] = facts.index.entries((user, UNMENTIONED))
        looser = [
            (key, value, other)
            for key, value in entry.values.items()
            if not is_unlimited(QUOTA_KEYS[key], value) and _is_looser(key, other := effective(others, key), value)
        ]
        if looser:
            own = facts.index.entries(request)
            looser = [each for each in looser if effective(own, each[0]).source == entity]
        if looser:
            causes = tuple(other.source for _, _, other in looser if other.source is not None)
            yield Found(entity, partial(_renamable, entity, entry, looser), causes)


def _is_looser(key: str, other: Effective, value: float) -> bool:
    return is_unlimited(QUOTA_KEYS[key], other.value) or (other.value is not None and other.value > value)


def _renamable(entity: Entity, entry: Entry, looser: list[tuple[str, float, Effective]]) -> Finding:
    texts = []
    for key, value, other in looser:
        now = render_value(QUOTA_KEYS[key], value)
        source = f" from {other.source.address}" if other.source is not None else ""
        then = UNLIMITED if other.value is None else render_value(QUOTA_KEYS[key], other.value)
        texts.append(f"{key} {then}{source} instead of {now}")
    backstop = Entity({**entity.names, CLIENT_ID: None}).address
    return rule.RENAMABLE_CLIENT_ID.finding(
        f"a client that changes its client-id has {', '.join(texts)}; limit the user, "
        f"or set {', '.join(key for key, _, _ in looser)} of {backstop}",
        address=entity.address,
        key=looser[0][0] if len(looser) == 1 else None,
        location=entry.location,
    )


def check_broker_principals(facts: LintFacts) -> Iterator[Found]:
    """Find default user entries that also limit the brokers, or may do so."""
    principals = facts.settings.broker_principals
    for entity in (Entity(user=None), Entity(user=None, client_id=None)):
        entry = facts.desired.get(entity)
        limits = [] if entry is None else [k for k, v in entry.values.items() if not is_unlimited(QUOTA_KEYS[k], v)]
        if entry is None or not limits:
            continue
        if principals is None:
            text = (
                "it also limits the brokers' own principals, unless they have entries of their own; list them in "
                "principals.brokers of quotaform.yaml, so that this can be checked"
            )
            yield _found_about_brokers(entry, text, Severity.NOTE)
        for principal in principals or ():
            entries = facts.index.entries((principal, UNMENTIONED))
            if keys := [key for key in limits if effective(entries, key).source == entity]:
                own = Entity(user=principal).address
                text = (
                    f"it also limits the broker principal {spell_name(principal)} ({', '.join(keys)}); declare {own} "
                    f"with values of its own, such as {UNLIMITED}"
                )
                yield _found_about_brokers(entry, text, Severity.WARNING)


def _found_about_brokers(entry: Entry, text: str, severity: Severity) -> Found:
    return Found(entry.entity, partial(_about_brokers, entry, text, severity), severity=severity)


def _about_brokers(entry: Entry, text: str, severity: Severity) -> Finding:
    return rule.DEFAULT_USER_BROKERS.finding(
        text, severity=severity, address=entry.entity.address, location=entry.location
    )


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
