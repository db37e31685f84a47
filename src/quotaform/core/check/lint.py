"""Lints: what is valid and probably not what was meant. They warn, block nothing, and can be ignored with a reason.

A lint is one function of `LintFacts` that yields a finding with the entity that it is about; `LINTS` lists them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Final, TypeAlias

from quotaform.core.check import rule
from quotaform.core.check.finding_list import MAX_PROBLEMS
from quotaform.core.check.lint_setting import Capacity, LintIgnore, LintSettings
from quotaform.core.check.shadow import shadowing_entities
from quotaform.core.resolve.entry import Effective, QuotaEntry, effective
from quotaform.core.resolve.index import QuotaIndex
from quotaform.core.resolve.request import UNMENTIONED, representative
from quotaform.core.scope import ALL, Selection
from quotaform.model.entity import CLIENT_ID, Entity, spell_name
from quotaform.model.entry import Cause, Desired, Entry
from quotaform.model.finding import Finding, Severity
from quotaform.model.precedence import level_of
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import Quotas
from quotaform.model.text import listed, quote
from quotaform.model.units import UNLIMITED, is_unlimited, plain, render_value

Found: TypeAlias = tuple[Entity | None, Finding]
"""A finding, and the entity that it is about; `None` for the cluster as a whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LintFacts:
    """What lints look at.

    Attributes:
        desired: What the files declare.
        quotas: Everything that the cluster holds once that is applied; offline, what the files declare.
        settings: What quotaform.yaml says about lints.
        capacity: What a broker of the cluster can do, as far as that is declared.
        today: The day (UTC).
        selection: The part that was asked for.
        concerned: The entities about which findings are wanted; of the others only their number is. `None` is all.
        index: All of `quotas`, by precedence.
    """

    desired: Desired
    quotas: Quotas
    settings: LintSettings
    capacity: Capacity
    today: date
    selection: Selection = ALL
    concerned: Collection[Entity] | None = None
    _indexes: list[QuotaIndex] = field(default_factory=list, init=False, compare=False, repr=False)

    @property
    def index(self) -> QuotaIndex:
        """All of `quotas`, by precedence; made when it is first asked for, because it takes its time."""
        if not self._indexes:
            self._indexes.append(QuotaIndex(self.quotas))
        return self._indexes[0]

    def declared(self) -> Iterator[tuple[Entity, Entry]]:
        """Yield the entries that declare values."""
        for entity, entry in self.desired.items():
            if entry.cause is Cause.ENTRY:
                yield entity, entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Linted:
    """What lints found.

    Attributes:
        findings: The first findings of each lint that nothing ignores.
        used: The ignores that ignored something.
        others: How many findings are about entities that are of no concern.
    """

    findings: tuple[Finding, ...]
    used: frozenset[LintIgnore]
    others: int = 0


def declared_quotas(desired: Desired) -> Quotas:
    """Return what a cluster holds that holds what the files declare and nothing else."""
    return {entity: entry.values for entity, entry in desired.items() if entry.values}


def check_lints(facts: LintFacts) -> Linted:
    """Return what all lints find: of each the first findings, and that there are more."""
    active = [each for each in facts.settings.ignores if each.expires is None or facts.today < each.expires]
    findings: list[Finding] = []
    used: set[LintIgnore] = set()
    others = 0
    for lint in LINTS:
        shown = 0
        for entity, finding in lint(facts):
            if entity is not None and not facts.selection.contains(entity):
                continue
            ignore = next((each for each in active if each.rule == finding.rule and each.covers(entity)), None)
            if ignore is not None:
                used.add(ignore)
            elif entity is not None and facts.concerned is not None and entity not in facts.concerned:
                others += 1
            elif shown < MAX_PROBLEMS:
                findings.append(finding)
                shown += 1
            else:
                text = f"and more: only the first {MAX_PROBLEMS} findings of {finding.rule} are shown"
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


def suspicious_unit_text(key: str, value: float) -> str:
    """Say that a byte rate is a small number without a unit."""
    number = plain(value)
    return (
        f"{key}: {number} is {number} bytes per second; write {number}B/s if that is meant, else a unit as in 10MiB/s"
    )


def _check_units(facts: LintFacts) -> Iterator[Found]:
    for finding in facts.settings.profile_findings:
        yield None, finding
    for entity, entry in facts.declared():
        for key in entry.bare:
            place = entry.provenance(key)
            yield (
                entity,
                rule.SUSPICIOUS_UNIT.finding(
                    suspicious_unit_text(key, entry.values[key]),
                    address=entity.address,
                    key=key,
                    location=place.location if place else entry.location,
                ),
            )


def _check_shadowed(facts: LintFacts) -> Iterator[Found]:
    for entity, entry in facts.declared():
        stronger = shadowing_entities(entity)
        if not stronger:
            continue
        losing: dict[Entity, list[str]] = {}
        for key in entry.values:
            winner = next((each for each in stronger if key in facts.quotas.get(each, ())), None)
            if winner is not None:
                losing.setdefault(winner, []).append(key)
        for winner, keys in losing.items():
            yield (
                entity,
                rule.SHADOWED_ENTRY.finding(
                    f"{', '.join(keys)} never applies: every request that {entity.address} matches has "
                    f"{'its' if len(keys) == 1 else 'their'} value from {winner.address}; remove it here or there",
                    address=entity.address,
                    key=keys[0] if len(keys) == 1 else None,
                    location=entry.location,
                ),
            )


def _check_renamable(facts: LintFacts) -> Iterator[Found]:
    renamed: dict[object, tuple[QuotaEntry, ...]] = {}
    for entity, entry in facts.declared():
        entity_type, name = entity.parts[-1]
        request = representative(entity) if entity_type == CLIENT_ID and name is not None else None
        if request is None:
            continue
        user = request[0]
        others = renamed.get(user)
        if others is None:
            others = renamed[user] = facts.index.entries((user, UNMENTIONED))
        own = facts.index.entries(request)
        looser = [
            (key, value, other)
            for key, value in entry.values.items()
            if not is_unlimited(QUOTA_KEYS[key], value)
            and effective(own, key).source == entity
            and _is_looser(key, other := effective(others, key), value)
        ]
        if looser:
            yield entity, _renamable(entity, entry, looser)


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
        f"a client that changes its client-id has {', '.join(texts)}; limit the user, or declare {backstop}",
        address=entity.address,
        key=looser[0][0] if len(looser) == 1 else None,
        location=entry.location,
    )


def _check_broker_principals(facts: LintFacts) -> Iterator[Found]:
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
            yield entity, _about_brokers(entry, text, Severity.NOTE)
        for principal in principals or ():
            entries = facts.index.entries((principal, UNMENTIONED))
            if keys := [key for key in limits if effective(entries, key).source == entity]:
                own = Entity(user=principal).address
                text = (
                    f"it also limits the broker principal {spell_name(principal)} ({', '.join(keys)}); declare {own} "
                    f"with values of its own, such as {UNLIMITED}"
                )
                yield entity, _about_brokers(entry, text, Severity.WARNING)


def _about_brokers(entry: Entry, text: str, severity: Severity) -> Finding:
    return rule.DEFAULT_USER_BROKERS.finding(
        text, severity=severity, address=entry.entity.address, location=entry.location
    )


def _check_expiry(facts: LintFacts) -> Iterator[Found]:
    for entity, entry in facts.declared():
        if entry.expires is None:
            continue
        days = (entry.expires - facts.today).days
        if days <= facts.settings.expires_within_days:
            left = "1 day" if days == 1 else f"{days} days"
            text = (
                f"it expires {entry.expires}, in {left}, and is deleted from then on; set a later date if it is to stay"
            )
            yield entity, rule.EXPIRES_SOON.finding(text, address=entity.address, location=entry.location)


def _check_capacity(facts: LintFacts) -> Iterator[Found]:
    """Add up limits, each as often as there are certainly requests that it limits: once.

    An entry without a default is one bucket (`quotaform.core.resolve.bucket`). A default is one bucket for each name,
    and how many names there are nobody knows, so it counts once; what never applies does not count.
    """
    for key, most in facts.capacity.values.items():
        total, counted = 0.0, Counter[str]()
        for entity, entry in facts.declared():
            value = entry.values.get(key)
            level = level_of(entity) if value is not None else None
            if value is None or level is None:
                continue
            if any(key in facts.quotas.get(each, ()) for each in shadowing_entities(entity)):
                continue
            if is_unlimited(QUOTA_KEYS[key], value):
                counted["unlimited"] += 1
                continue
            total += value
            counted["default" if set(level.bucket) & set(level.defaults) else "named"] += 1
        if total > most:
            yield None, _over_capacity(facts, key, most, total, counted)


def _over_capacity(facts: LintFacts, key: str, most: float, total: float, counted: Counter[str]) -> Finding:
    row = QUOTA_KEYS[key]
    notes = []
    if counted["default"]:
        notes.append(
            f"{counted['default']:,} of them for each user, client-id or address without its own, counted once"
        )
    if counted["unlimited"]:
        notes.append(f"{counted['unlimited']:,} unlimited not counted")
    entries = counted["named"] + counted["default"]
    return rule.OVER_CAPACITY.finding(
        f"the {key} of {entries:,} {'entry' if entries == 1 else 'entries'} adds up to {render_value(row, total)} per "
        f"{row.per}, above the declared capacity of {render_value(row, most)}{f' ({listed(notes)})' if notes else ''}; "
        "lower some, or correct the capacity",
        key=key,
        location=facts.capacity.places.get(key),
    )


Lint: TypeAlias = Callable[[LintFacts], Iterable[Found]]

LINTS: Final[tuple[Lint, ...]] = (
    _check_units,
    _check_shadowed,
    _check_renamable,
    _check_broker_principals,
    _check_expiry,
    _check_capacity,
)
"""Every lint."""


def with_address(finding: Finding) -> Finding:
    """Return a finding whose message names the entity: a list in a match is one place and several entities."""
    return replace(finding, message=f"{finding.address}: {finding.message}") if finding.address else finding
