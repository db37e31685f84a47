"""Checks of the quotas that a cluster holds, whatever is planned for it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container

from quotaform.core.check import rule
from quotaform.core.check.writable import check_writable
from quotaform.model.entity import IP, Entity, spell_name
from quotaform.model.finding import Finding, Severity
from quotaform.model.ip import address_of
from quotaform.model.quotas import Quotas


def check_live(actual: Quotas, declared: Container[Entity] = ()) -> list[Finding]:
    """Return what files cannot write of a cluster's quotas, and addresses that have several entities.

    What files cannot write of a declared entity is replaced by what they say, so that only what is never
    touched is reported of it.
    """
    findings = [
        finding
        for entity, values in actual.items()
        for finding in check_writable(entity, values)
        if finding.severity is Severity.NOTE or entity not in declared
    ]
    return findings + _check_ip_aliases(actual)


def _check_ip_aliases(actual: Quotas) -> list[Finding]:
    """Find ip entities that a broker enforces as one address, where the last one written wins (KIP-612)."""
    spellings: dict[str, list[str]] = defaultdict(list)
    for entity in actual:
        if entity.types == (IP,):
            name = entity.parts[0][1]
            address = address_of(name) if name else None
            if name and address:
                spellings[address].append(spell_name(name))
    return [
        rule.IP_ALIAS.finding(
            f"{', '.join(sorted(names))} are one address to a broker: the last one written is in force, and "
            f"removing any of them lifts the limit; keep only {address}",
            address=Entity(ip=address).address,
        )
        for address, names in spellings.items()
        if len(names) > 1
    ]
