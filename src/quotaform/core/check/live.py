"""Checks of the quotas that a cluster holds, whatever is planned for it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from quotaform.core.check import rule
from quotaform.core.check.writable import check_writable
from quotaform.model.entity import IP, Entity, spell_name
from quotaform.model.entry import Desired
from quotaform.model.finding import Finding, Severity
from quotaform.model.ip import address_of
from quotaform.model.quotas import Quotas


def check_live(
    actual: Quotas, desired: Desired | None = None, pruned: Collection[Entity] = frozenset()
) -> list[Finding]:
    """Return what files cannot write of a cluster's quotas, and addresses that have several entities.

    What files cannot write of a declared entity is replaced by what they say, so that only what is never
    touched is reported of it; likewise of an entity that is pruned.
    """
    declared = desired or {}
    findings: list[Finding] = []
    for entity, values in actual.items():
        entry = declared.get(entity)
        # What is as the files write it can be written: that is nearly all, and checking it takes longer than the rest.
        if entry is None or entry.values != values:
            found = check_writable(entity, values)
            is_left = entry is None and entity not in pruned
            findings += [finding for finding in found if is_left or finding.severity is Severity.NOTE]
    return findings + _check_ip_aliases(actual)


def _check_ip_aliases(actual: Quotas) -> list[Finding]:
    """Find ip entities that a broker enforces as one address, where the last one written wins (KIP-612)."""
    spellings: dict[str, list[str]] = defaultdict(list)
    for entity in actual:
        entity_type, name = entity.parts[0] if len(entity.parts) == 1 else (None, None)
        if entity_type == IP:
            address = address_of(name) if name else None
            if name and address:
                spellings[address].append(spell_name(name))
    return [
        rule.IP_ALIAS.finding(
            f"{', '.join(sorted(names))} are one address to a broker: the last one written applies, and "
            f"removing any of them lifts the limit; keep only {address}",
            address=Entity(ip=address).address,
        )
        for address, names in spellings.items()
        if len(names) > 1
    ]
