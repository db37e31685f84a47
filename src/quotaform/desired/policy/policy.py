"""Policies: what a repository asks of every entry beyond what Kafka does, checked on the resolved entry.

`quotaform schema entry` is the schema of the document of an entry.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from quotaform.model import rule
from quotaform.model.finding import Finding, Location
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import Cause, Desired, Entry
from quotaform.model.rule import MAX_PROBLEMS
from quotaform.model.scope import ALL, Selection
from quotaform.model.text import inert

if TYPE_CHECKING:
    from quotaform.desired.policy.reader import Policy

LONGEST_TEXT: Final = 1000
"""How many characters of an owner, a reason or a profile a policy sees: each takes time to match."""


class Violation(NamedTuple):
    """What a policy finds wrong with an entry."""

    text: str  # what is wrong, in words
    key: str | None = None  # the quota key it is about, if it is one


MOST_SECONDS: Final = 10.0
"""The time limit of a policy in seconds, plus a millisecond per entry; 10,000 entries take some 10 ms."""


TOO_SLOW: Final = Violation(f"the policy took more than {MOST_SECONDS:g} seconds, and was not finished; simplify it")
"""What is wrong with a policy that takes too long; it is asked about no more entries."""


def entry_document(entry: Entry, cluster: str | None) -> dict[str, Any]:
    """Return the document of an entry that declares values.

    >>> from quotaform.model.entity import Entity
    >>> entry_document(Entry(Entity(user=None), {"request_percentage": 50.0}, owner="team-a"), "lab")
    {'address': 'user=<default>', 'entity': {'user': None}, 'values': {'request_percentage': 50}, 'unlimited': [], \
'owner': 'team-a', 'cluster': 'lab'}
    """
    values = entry.values.items()
    document: dict[str, Any] = {
        "address": entry.entity.address,
        "entity": dict(entry.entity.parts),
        # A whole number is one for every reader of JSON: 5 and not 5.0.
        "values": {key: int(value) if value.is_integer() else value for key, value in values},
        "unlimited": [key for key, value in values if value >= QUOTA_KEYS[key].maximum],
    }
    optional = {
        "owner": entry.owner and entry.owner[:LONGEST_TEXT],
        "reason": entry.reason and entry.reason[:LONGEST_TEXT],
        "expires": entry.expires and entry.expires.isoformat(),
        "profile": entry.profile and entry.profile.name[:LONGEST_TEXT],
        "cluster": cluster,
    }
    return document | {name: value for name, value in optional.items() if value is not None}


def check_policies(
    desired: Desired, policies: Iterable[Policy], cluster: str | None, selection: Selection = ALL
) -> list[Finding]:
    """Return the first violations of policies, and a finding if there are more.

    All entries with values are checked, also those that change nothing: the files must be right. `cluster`: the one for
    which the files are read.
    """
    policies = list(policies)
    if not policies:
        return []
    findings = list(islice(map(_finding, find_violations(desired, policies, cluster, selection)), MAX_PROBLEMS + 1))
    if len(findings) > MAX_PROBLEMS:
        text = f"and more: only the first {MAX_PROBLEMS} violations of policies are shown; correct them and check again"
        findings[MAX_PROBLEMS:] = [rule.MORE_PROBLEMS.finding(text)]
    return findings


def find_violations(
    desired: Desired, policies: Iterable[Policy], cluster: str | None, selection: Selection = ALL
) -> Iterator[tuple[Entry, Policy, Violation]]:
    """Yield the violations of policies, and which policies are `TOO_SLOW`; see `check_policies`."""
    waiting = list(policies)
    for entity, entry in desired.items():
        if entry.cause is not Cause.ENTRY or not selection.contains(entity):
            continue
        document = entry_document(entry, cluster)
        for policy in list(waiting):
            for violation in policy.violations(entity, document):
                if violation is TOO_SLOW:
                    waiting.remove(policy)
                yield entry, policy, violation


def _finding(found: tuple[Entry, Policy, Violation]) -> Finding:
    entry, policy, violation = found
    if violation is TOO_SLOW:
        return rule.SLOW_POLICY.finding(violation.text, location=Location(policy.name))
    return rule.POLICY.finding(
        f"{violation.text} ({inert(policy.name)}); change the entry",
        address=entry.entity.address,
        key=violation.key,
        location=entry.provenances().get(violation.key or "", entry.location),
    )
