"""Checks of what was resolved: where the answer needs a second look.

| rule | when |
| --- | --- |
| `empty-client-id` | a request has an empty client-id, so that no entry with a client-id matches it |
| `default-word` | a name is literally `<default>`, which is how people write a default |
| `nan-value`, `odd-value` | a value that applies is not enforced as it reads |
| `ip-alias` | entries, or an entry and the request, spell one address in different ways |
| `ip-name` | the ip of a request is not an IP address |
| `unknown-shape` | there are entries of a shape that this version cannot resolve |
| `quota-callback` | a broker uses a custom quota callback (KIP-257) |
| `quota-callback-unchecked` | whether one does could not be checked |
| `plan-blocked`, `plan-stale` | the plan that is assumed to be applied cannot be applied as it is |
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from quotaform.core.check import rule
from quotaform.core.freshness import check_fresh
from quotaform.core.plan import Plan
from quotaform.core.resolve.index import QuotaIndex
from quotaform.core.resolve.request import request_of
from quotaform.core.resolve.resolution import Resolution
from quotaform.model.entity import CLIENT_ID, DEFAULT_WORD, IP, Entity, spell_name
from quotaform.model.finding import Finding, Severity
from quotaform.model.ip import address_of
from quotaform.model.precedence import level_of
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import Quotas
from quotaform.model.rule import FindingRule
from quotaform.model.text import inert
from quotaform.model.units import is_unlimited, is_writable, readable

CALLBACK: Final = "client.quota.callback.class"
"""The broker configuration that replaces the choice of quotas (KIP-257)."""

_SHOWN: Final = 5


class ResolutionChecks:
    """Checks requests as they are resolved: one finding per rule and subject, however many the requests are.

    `index` holds the quotas that are resolved.
    """

    def __init__(self, index: QuotaIndex) -> None:
        self._index = index
        self._counts: dict[str, int] = defaultdict(int)
        self._firsts: dict[str, Entity] = {}
        self._found: dict[tuple[str, str], Finding] = {}
        self._seen_values: set[tuple[str, Entity]] = set()
        self._loses_client_entries = False

    def add(self, resolution: Resolution) -> None:
        """Check what one request resolved to."""
        entity = resolution.entity
        names = entity.names
        if IP in names:
            self._check_ip(entity, names[IP] or "")
        elif names.get(CLIENT_ID) == "":
            self._count(rule.EMPTY_CLIENT_ID, entity)
            self._loses_client_entries = self._loses_client_entries or self._index.meets_more_with_names(
                request_of(entity)
            )
        if DEFAULT_WORD in names.values():
            self._count(rule.DEFAULT_WORD, entity)
        for row in resolution.keys:
            value, source = row.resolved.value, row.resolved.source
            if value is not None and source is not None and (row.key, source) not in self._seen_values:
                self._seen_values.add((row.key, source))
                self._check_value(row.key, value, source)

    def findings(self) -> list[Finding]:
        """Return what was found so far."""
        counted = [self._counted_finding(rule.RULES[name], count) for name, count in self._counts.items()]
        return [*counted, *self._found.values()]

    def _count(self, counted: FindingRule, entity: Entity) -> None:
        self._counts[counted.id] += 1
        self._firsts.setdefault(counted.id, entity)

    def _counted_finding(self, counted: FindingRule, count: int) -> Finding:
        first = self._firsts[counted.id]
        more = f" (and {count - 1:,} more)" if count > 1 else ""
        severity = counted.severity
        if counted is rule.EMPTY_CLIENT_ID:
            severity = Severity.WARNING if self._loses_client_entries else Severity.NOTE
            text = (
                f"resolved for an empty client-id{more}, which no entry with a client-id matches, not even a default "
                "(KAFKA-13341); leave the client-id out for one that no quota mentions"
            )
        else:
            text = (
                f"{DEFAULT_WORD} is used literally as a name{more}, because requests never carry a default; defaults "
                "apply to any name without an entry of its own"
            )
        return counted.finding(text, severity=severity, address=first.address)

    def _check_ip(self, entity: Entity, ip: str) -> None:
        address, spellings = address_of(ip), self._index.spellings(IP, ip)
        if address is None:
            text = f"{spell_name(ip)} is not an IP address; connections come from addresses, so give the address itself"
            self._add_ip(rule.IP_NAME, text, entity.address)
        elif len(spellings) > 1:
            names = ", ".join(map(spell_name, sorted(spellings)))
            text = (
                f"{names} are the same address to a broker: the entry written last applies, and brokers do not say "
                f"which that is; keep only {address}"
            )
            self._add_ip(rule.IP_ALIAS, text, Entity(ip=address).address)
        elif spellings and spellings[0] != ip:
            text = f"the entry ip={spell_name(spellings[0])} is for the same address"
            self._add_ip(rule.IP_ALIAS, text, entity.address, Severity.NOTE)

    def _check_value(self, key: str, value: float, source: Entity) -> None:
        if text := _value_problem(key, value):
            broken, address = rule.ODD_VALUE if value == value else rule.NAN_VALUE, source.address
            self._found[broken.id + key, address] = broken.finding(text, address=address, key=key)

    def _add_ip(self, found: FindingRule, text: str, address: str, severity: Severity | None = None) -> None:
        self._found[found.id, address] = found.finding(text, severity=severity, address=address)


def _value_problem(key: str, value: float) -> str:
    """Return why a value that applies is not enforced as it reads; empty if it is."""
    known = QUOTA_KEYS.get(key)
    if value != value:
        effect = known.nan_effect if known else "it is not known how brokers enforce it"
        return f"{spell_name(key)} is NaN (not a number): {effect}"
    if known is None or is_writable(known, value) or is_unlimited(known, value):
        return ""
    if value <= 0:
        effect = "which older brokers accept and newer ones refuse; it blocks everything"
    elif value < 1:
        effect = "which is less than 1 and effectively blocks everything"
    else:
        effect = "which is not a whole number; brokers enforce it nevertheless"
    return f"{key} is {readable(value)}, {effect}"


def check_shapes(quotas: Quotas) -> list[Finding]:
    """Report that entries are left out because no level of precedence is known for their shape."""
    unknown = sorted(entity.address for entity in quotas if level_of(entity) is None)
    if not unknown:
        return []
    text = f"this version cannot resolve entries such as {_some(unknown)}; brokers may still apply them"
    return [rule.UNKNOWN_SHAPE.finding(text)]


def check_callbacks(values: Mapping[int, str | None], errors: Mapping[int, Exception]) -> list[Finding]:
    """Report which brokers use a custom quota callback, and for which that is not known.

    `values` map node id to the value of `client.quota.callback.class`. `errors` map node id to the reason why that
    could not be read.
    """
    findings = []
    brokers: dict[str, list[str]] = defaultdict(list)
    for node_id, value in sorted(values.items()):
        if value:
            brokers[value].append(str(node_id))
    for name, nodes in sorted(brokers.items()):
        text = (
            f"{CALLBACK} is {inert(name)} on {_brokers(nodes)}: this callback determines the limits of users and "
            "client-ids, and may ignore what is shown here (KIP-257)"
        )
        findings.append(rule.QUOTA_CALLBACK.finding(text))
    if errors:
        reasons = "; ".join(dict.fromkeys(str(error) for _, error in sorted(errors.items())[:_SHOWN]))
        text = (
            f"could not check whether {_brokers([str(node_id) for node_id in sorted(errors)])} "
            f"{'uses' if len(errors) == 1 else 'use'} a custom quota callback ({CALLBACK}): {reasons}"
        )
        findings.append(rule.QUOTA_CALLBACK_UNCHECKED.finding(text))
    return findings


def check_assumed_plan(plan: Plan, actual: Quotas) -> list[Finding]:
    """Report why a plan that is assumed to be applied cannot be applied as it is."""
    findings = []
    if not plan.is_applyable:
        rules = ", ".join(sorted({finding.rule for finding in plan.findings if finding.blocking}))
        text = f"the plan is blocked ({rules}): it is resolved as if applied, but apply would refuse it"
        findings.append(rule.PLAN_BLOCKED.finding(text))
    stale = [change.entity.address for change in check_fresh(plan.changes, actual).stale]
    if stale:
        text = (
            f"the cluster has changed since the plan was made, in {_some(stale)}: apply would refuse it; make a new "
            "plan"
        )
        findings.append(rule.PLAN_STALE.finding(text))
    return findings


def _brokers(nodes: list[str]) -> str:
    return f"broker{'' if len(nodes) == 1 else 's'} {_some(nodes)}"


def _some(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
