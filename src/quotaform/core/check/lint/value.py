"""Lints about single entries and about their sum: units, expiry, sessions of AWS, capacity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from re import compile as regex
from typing import Final

from quotaform.core.check import rule
from quotaform.core.check.lint.fact import Found, LintFacts
from quotaform.core.check.lint.shadow import shadowed_keys
from quotaform.model.entity import CLIENT_ID, USER, Entity
from quotaform.model.entry import Entry
from quotaform.model.finding import Finding
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import Values
from quotaform.model.text import listed, quote
from quotaform.model.units import plain, render_value

_ROLE: Final = regex(r"arn:aws[a-z-]*:(?:iam::[0-9]+:role/[^*]+|sts::[0-9]+:assumed-role/[^/*]+)").fullmatch
_SESSION: Final = regex(r"arn:aws[a-z-]*:sts::[0-9]+:assumed-role/[^/*]+/([^/*]+)").fullmatch
"""The user that Amazon MSK makes of a role assumed through AWS STS."""


def suspicious_unit_text(key: str, value: float) -> str:
    """Say that a byte rate is a small number without a unit."""
    number = plain(value)
    return (
        f"{key}: {number} is {number} bytes per second; write {number}B/s if that is meant, else a unit as in 10MiB/s"
    )


def check_units(facts: LintFacts) -> Iterator[Found]:
    """Find byte rates that are small numbers without a unit."""
    for finding in facts.settings.profile_findings:
        yield Found(None, partial(_known, finding))
    for entity, entry in facts.entries:
        for key in entry.bare:
            yield Found(entity, partial(_suspicious_unit, entry, key))


def _known(finding: Finding) -> Finding:
    return finding


def _suspicious_unit(entry: Entry, key: str) -> Finding:
    place = entry.provenance(key)
    return rule.SUSPICIOUS_UNIT.finding(
        suspicious_unit_text(key, entry.values[key]),
        address=entry.entity.address,
        key=key,
        location=place.location if place else entry.location,
    )


def check_expiry(facts: LintFacts) -> Iterator[Found]:
    """Find entries that are about to expire."""
    last = facts.today + timedelta(days=facts.settings.expires_within_days)
    for entity, entry in facts.entries:
        if entry.expires is not None and entry.expires <= last:
            yield Found(entity, partial(_expires_soon, entry, (entry.expires - facts.today).days))


def _expires_soon(entry: Entry, days: int) -> Finding:
    left = "1 day" if days == 1 else f"{days} days"
    text = f"it expires {entry.expires}, in {left}, and is deleted from then on; set a later date if it is to stay"
    return rule.EXPIRES_SOON.finding(text, address=entry.entity.address, location=entry.location)


def check_sessions(facts: LintFacts) -> Iterator[Found]:
    """Find users that are sessions of AWS roles."""
    for entity, entry in facts.entries:
        entity_type, name = entity.parts[0]
        if entity_type == USER and name is not None and (session := _SESSION(name)):
            yield Found(entity, partial(_iam_session, entry, session[1]))
        elif entity_type == USER and name is not None and _ROLE(name):
            yield Found(entity, partial(_iam_role, entry))


def _iam_session(entry: Entry, session: str) -> Finding:
    client_id = entry.entity.names.get(CLIENT_ID)
    instead = Entity(user=None, client_id="NAME" if client_id is None else client_id)
    return rule.IAM_SESSION.finding(
        f"it stops applying when the session {quote(session)} of the AWS role ends, for example at the next "
        f"deployment; declare {instead}, or set awsRoleSessionName in the client and ignore this finding",
        address=entry.entity.address,
        location=entry.location,
    )


def _iam_role(entry: Entry) -> Finding:
    return rule.IAM_SESSION.finding(
        "it applies to nobody: a client with this role is the user arn:aws:sts::ACCOUNT:assumed-role/ROLE/SESSION; "
        "declare user=<default>,client-id=NAME",
        address=entry.entity.address,
        location=entry.location,
    )


def check_capacity(facts: LintFacts) -> Iterator[Found]:
    """Add up limits, each as often as there are certainly requests that it limits: once.

    An entry without a default is one bucket (`quotaform.core.resolve.bucket`). A default is one bucket for each name,
    and how many names there are nobody knows, so it counts once; what never applies does not count.
    """
    if not facts.capacity.values:
        return
    totals = dict.fromkeys(facts.capacity.values, 0.0)
    # Entries share their values, which are few.
    groups = Counter[tuple[int, str, tuple[str, ...]]]()
    values_of: dict[int, Values] = {}
    maxima = {key: QUOTA_KEYS[key].maximum for key in totals}
    counts = {key: Counter[str]() for key in totals}
    for entity, entry in facts.entries:
        parts, values = entity.parts, entry.values
        kind = "default" if parts[0][1] is None or parts[-1][1] is None else "named"
        groups[id(values), kind, tuple(shadowed_keys(facts, entity, values))] += 1
        values_of[id(values)] = values
    for (known, kind, lost), number in groups.items():
        for key, value in values_of[known].items():
            if key not in totals or key in lost:
                continue
            if value >= maxima[key]:
                counts[key]["unlimited"] += number
            else:
                totals[key] += value * number
                counts[key][kind] += number
    for key, most in facts.capacity.values.items():
        if totals[key] > most:
            yield Found(None, partial(_over_capacity, facts, key, most, totals[key], counts[key]))


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
