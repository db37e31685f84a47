"""Lints: what is valid and probably not what was meant. They warn, block nothing, and can be ignored with a reason.

A lint is a rule and a function of `LintFacts` that yields what it finds; `LINTS` lists them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property, partial
from re import compile as regex
from typing import Final, NamedTuple

from msgspec import Struct

from quotaform.model import rule
from quotaform.model.entity import CLIENT_ID, USER, Entity, spell_name
from quotaform.model.finding import Finding, Location, Severity
from quotaform.model.precedence import level_of
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import Cause, Desired, Entry, Quotas
from quotaform.model.rule import MAX_PROBLEMS, FindingRule
from quotaform.model.scope import ALL, Selection
from quotaform.model.settings import Capacity, Ignore, LintSettings
from quotaform.model.text import listed, quote
from quotaform.model.units import UNLIMITED, is_unlimited, render_value, suspicious_unit_text
from quotaform.report.text import counted
from quotaform.resolve.effect import limit_text
from quotaform.resolve.index import UNMENTIONED, Effective, QuotaEntry, QuotaIndex, barest, effective, representative


@dataclass(frozen=True, kw_only=True)
class LintFacts:
    """The input of lints."""

    desired: Desired
    settings: LintSettings
    capacity: Capacity  # What a broker of the cluster can do, as far as that is declared
    today: date
    # Everything that the cluster holds once that is applied; `None` is what the files declare and nothing else.
    quotas: Quotas | None = None
    selection: Selection = ALL
    # The entities about which findings are wanted, and those that they come from; of other findings only the number is.
    # `None` is all.
    concerned: frozenset[Entity] | None = None

    @cached_property
    def entries(self) -> tuple[tuple[Entity, Entry], ...]:
        """The entries that declare values."""
        return tuple(pair for pair in self.desired.items() if pair[1].cause is Cause.ENTRY)

    @cached_property
    def index(self) -> QuotaIndex:
        """The quotas that requests meet of users with a quota for a client-id, of brokers, or of any other user.

        Most quotas are of one user that no lint asks about.
        """
        with_client = {entity.parts[0][1] for entity, _ in self.entries if len(entity.parts) > 1}
        users = {None, *with_client, *(self.settings.broker_principals or ())}
        quotas = self.quotas
        if quotas is None:
            quotas = {entity: entry.values for entity, entry in self.desired.items() if entry.values}
        return QuotaIndex(
            {
                entity: values
                for entity, values in quotas.items()
                if not (parts := entity.parts) or parts[0][0] != USER or parts[0][1] in users
            }
        )


class Found(NamedTuple):
    """Something that a lint finds."""

    entity: Entity | None  # What it is about; `None` for the cluster as a whole
    text: str | Callable[[], str]  # Made late where it takes long: of most findings only their number is shown
    location: Location | None = None
    key: str | None = None
    causes: tuple[Entity, ...] = ()  # The other entities that it comes from
    severity: Severity = Severity.WARNING


# Which entries leave another one no request at all.
#
# Of the requests that an entry matches, one meets the fewest others: it has names that no other quota mentions, and an
# empty client-id if the entry asks for none. What wins for that request wins for all of them: the others meet the same
# entries, and more.


def shadowed_keys(facts: LintFacts, entity: Entity, keys: Iterable[str]) -> Mapping[str, Entity]:
    """Return the keys that no request has from an entity, each with the entity that every request has it from.

    `facts` is what the cluster holds. `keys` are quota keys of it.
    """
    # Every other entry wins for the barest request that it matches.
    level = level_of(entity) if entity.parts[0][0] == CLIENT_ID else None
    if level is None:
        return {}
    entries = facts.index.entries(barest(entity))
    found = ((key, effective(entries, key)) for key in keys)
    return {
        key: winner.source
        for key, winner in found
        if winner.source is not None and winner.level is not None and winner.level.is_stronger(level)
    }


_ROLE: Final = regex(r"arn:aws[a-z-]*:(?:iam::[0-9]+:role/[^*]+|sts::[0-9]+:assumed-role/[^/*]+)").fullmatch
_SESSION: Final = regex(r"arn:aws[a-z-]*:sts::[0-9]+:assumed-role/[^/*]+/([^/*]+)").fullmatch
"""The user that Amazon MSK makes of a role assumed through AWS STS."""


def check_units(facts: LintFacts) -> Iterator[Found]:
    """Find byte rates that are small numbers without a unit."""
    for finding in facts.settings.profile_findings:
        yield Found(None, finding.message, finding.location, finding.key)
    for entity, entry in facts.entries:
        for key in entry.bare:
            location = entry.provenances().get(key, entry.location)
            yield Found(entity, suspicious_unit_text(key, entry.values[key]), location, key)


def check_expiry(facts: LintFacts) -> Iterator[Found]:
    """Find entries that are about to expire."""
    last = facts.today + timedelta(days=facts.settings.expires_within_days)
    for entity, entry in facts.entries:
        if entry.expires is not None and entry.expires <= last:
            days = (entry.expires - facts.today).days
            text = (
                f"it expires {entry.expires}, in {'1 day' if days == 1 else f'{days} days'}, and is deleted from then "
                "on; set a later date if it is to stay"
            )
            yield Found(entity, text, entry.location)


def check_sessions(facts: LintFacts) -> Iterator[Found]:
    """Find users that are sessions of AWS roles."""
    for entity, entry in facts.entries:
        entity_type, name = entity.parts[0]
        if entity_type != USER or name is None:
            continue
        if session := _SESSION(name):
            client_id = entity.names.get(CLIENT_ID)
            instead = Entity(user=None, client_id="NAME" if client_id is None else client_id)
            text = (
                f"it stops applying when the session {quote(session[1])} of the AWS role ends, for example at the next "
                f"deployment; declare {instead}, or set awsRoleSessionName in the client and ignore this finding"
            )
            yield Found(entity, text, entry.location)
        elif _ROLE(name):
            text = (
                "it applies to nobody: a client with this role is the user arn:aws:sts::ACCOUNT:assumed-role/ROLE/"
                "SESSION; declare user=<default>,client-id=NAME"
            )
            yield Found(entity, text, entry.location)


def check_capacity(facts: LintFacts) -> Iterator[Found]:
    """Add up limits, each as often as there are certainly requests that it limits: once.

    An entry without a default is one bucket (`quotaform.resolve.index`). A default is one bucket for each name,
    and how many names there are is not known, so it counts once; what never applies does not count.
    """
    if not facts.capacity.values:
        return
    totals = dict.fromkeys(facts.capacity.values, 0.0)
    counts = {key: Counter[str]() for key in totals}
    for entity, entry in facts.entries:
        kind = "default" if entity.parts[0][1] is None or entity.parts[-1][1] is None else "named"
        lost = shadowed_keys(facts, entity, entry.values)
        for key, value in entry.values.items():
            if key not in totals or key in lost:
                continue
            if value >= QUOTA_KEYS[key].maximum:
                counts[key]["unlimited"] += 1
            else:
                totals[key] += value
                counts[key][kind] += 1
    for key, most in facts.capacity.values.items():
        if totals[key] > most:
            row, kinds, notes = QUOTA_KEYS[key], counts[key], []
            if kinds["default"]:
                notes.append(
                    f"{kinds['default']:,} of them for each user, client-id or address without its own, counted once"
                )
            if kinds["unlimited"]:
                notes.append(f"{kinds['unlimited']:,} unlimited not counted")
            entries = counted(kinds["named"] + kinds["default"], "entry")
            text = (
                f"the {key} of {entries} adds up to "
                f"{render_value(row, totals[key])} per {row.per}, above the declared capacity of "
                f"{render_value(row, most)}{f' ({listed(notes)})' if notes else ''}; "
                "lower some, or correct the capacity"
            )
            yield Found(None, text, facts.capacity.places.get(key), key)


def check_shadowed(facts: LintFacts) -> Iterator[Found]:
    """Find entries, or keys of them, that no request has."""
    for entity, entry in facts.entries:
        losing: dict[Entity, list[str]] = {}
        for key, winner in shadowed_keys(facts, entity, entry.values).items():
            losing.setdefault(winner, []).append(key)
        for winner, keys in losing.items():
            text = (
                f"{', '.join(keys)} never applies: every request that {entity.address} matches has "
                f"{'its' if len(keys) == 1 else 'their'} value from {winner.address}; remove it here or there"
            )
            yield Found(entity, text, entry.location, keys[0] if len(keys) == 1 else None, (winner,))


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
        looser = []
        for key, value in entry.values.items():
            row, other = QUOTA_KEYS[key], effective(others, key)
            is_looser = is_unlimited(row, other.value) or (other.value is not None and other.value > value)
            if is_looser and not is_unlimited(row, value):
                looser.append((key, value, other))
        if looser:
            own = facts.index.entries(request)
            looser = [each for each in looser if effective(own, each[0]).source == entity]
        if looser:
            causes = tuple(other.source for _, _, other in looser if other.source is not None)
            only = looser[0][0] if len(looser) == 1 else None
            yield Found(entity, partial(_renamable, entity, looser), entry.location, only, causes)


def _renamable(entity: Entity, looser: list[tuple[str, float, Effective]]) -> str:
    texts = []
    for key, value, other in looser:
        texts.append(f"{key} {limit_text(key, other)} instead of {render_value(QUOTA_KEYS[key], value)}")
    backstop = Entity({**entity.names, CLIENT_ID: None}).address
    return (
        f"a client that changes its client-id has {', '.join(texts)}; limit the user, "
        f"or give {backstop} a lower {', '.join(key for key, _, _ in looser)}"
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
            yield Found(entity, text, entry.location, severity=Severity.NOTE)
        for principal in principals or ():
            entries = facts.index.entries((principal, UNMENTIONED))
            if keys := [key for key in limits if effective(entries, key).source == entity]:
                own = Entity(user=principal).address
                text = (
                    f"it also limits the broker principal {spell_name(principal)} ({', '.join(keys)}); declare {own} "
                    f"with values of its own, such as {UNLIMITED}"
                )
                yield Found(entity, text, entry.location)


LINTS: Final[tuple[tuple[FindingRule, Callable[[LintFacts], Iterable[Found]]], ...]] = (
    (rule.SUSPICIOUS_UNIT, check_units),
    (rule.SHADOWED_ENTRY, check_shadowed),
    (rule.RENAMABLE_CLIENT_ID, check_renamable),
    (rule.DEFAULT_USER_BROKERS, check_broker_principals),
    (rule.EXPIRES_SOON, check_expiry),
    (rule.IAM_SESSION, check_sessions),
    (rule.OVER_CAPACITY, check_capacity),
)
"""Every lint."""


class Linted(Struct, frozen=True, kw_only=True):
    """What lints found."""

    findings: tuple[Finding, ...]  # The first findings of each lint that nothing ignores
    used: frozenset[Ignore]  # The ignores that ignored something
    others: Mapping[Severity, int]  # How many findings of each severity are about entities that are of no concern


def check_lints(facts: LintFacts) -> Linted:
    """Return what all lints find: of each the first findings, and that there are more."""
    active = [each for each in facts.settings.ignores if each.is_active(facts.today)]
    findings: list[Finding] = []
    used: set[Ignore] = set()
    others: Counter[Severity] = Counter()
    wanted = facts.concerned
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
            elif not (wanted is None or entity is None or entity in wanted or not wanted.isdisjoint(found.causes)):
                others[found.severity] += 1
            elif shown < MAX_PROBLEMS:
                text = found.text if isinstance(found.text, str) else found.text()
                address = entity.address if entity else None
                findings.append(
                    row.finding(text, severity=found.severity, address=address, key=found.key, location=found.location)
                )
                shown += 1
            else:
                text = f"and more: only the first {MAX_PROBLEMS} findings of {row.id} are shown"
                findings.append(rule.MORE_WARNINGS.finding(text))
                break
    for each in facts.settings.ignores:
        if not each.is_active(facts.today):
            reason = quote(each.reason)
            text = f"this ignore of {each.rule} ({reason}) expired {each.expires}; remove it, or set a later date"
            findings.append(rule.LINT_IGNORE_EXPIRED.finding(text, location=each.location))
    return Linted(findings=tuple(findings), used=frozenset(used), others=others)


def unused_ignores(ignores: Iterable[Ignore], used: Iterable[Ignore], today: date) -> Iterator[Finding]:
    """Yield a note on each ignore that ignored nothing, for any cluster, and has not expired."""
    known = set(used)
    for each in ignores:
        if each not in known and each.is_active(today):
            text = f"this ignore of {each.rule} ({quote(each.reason)}) ignores nothing in the files; remove it"
            yield rule.LINT_IGNORE_UNUSED.finding(text, location=each.location)
