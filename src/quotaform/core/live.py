"""What is worth saying about the quotas that a cluster holds."""

from __future__ import annotations

from collections import defaultdict
from ipaddress import IPv4Address, IPv6Address, ip_address

from quotaform.core.express import inexpressible
from quotaform.model.entity import IP, Entity, spell_name
from quotaform.model.finding import Finding, Severity
from quotaform.model.quotas import Quotas


def live_findings(actual: Quotas) -> list[Finding]:
    """Return what files cannot express of a cluster, and addresses that fight over one limit."""
    findings = [finding for entity, values in actual.items() for finding in inexpressible(entity, values)]
    return findings + _alias_findings(actual)


def _alias_findings(actual: Quotas) -> list[Finding]:
    """Find ip entities that a broker enforces as one address, where the last one written wins (KIP-612)."""
    spellings: dict[IPv4Address | IPv6Address, list[Entity]] = defaultdict(list)
    for entity in actual:
        if len(entity.parts) == 1 and entity.parts[0][0] == IP and entity.parts[0][1] is not None:
            address = _address(entity.parts[0][1])
            if address is not None:
                spellings[address].append(entity)
    findings = []
    for address, entities in spellings.items():
        if len(entities) > 1:
            names = sorted(spell_name(entity.parts[0][1] or "") for entity in entities)
            findings.append(
                Finding(
                    rule="ip-alias",
                    severity=Severity.WARNING,
                    address=Entity(ip=str(address)).address,
                    message=f"{', '.join(names)} are one address to a broker: the last one written is in force, and removing "
                    f"any of them lifts the limit; keep only {address}",
                )
            )
    return findings


def _address(name: str) -> IPv4Address | IPv6Address | None:
    if name == "localhost":
        return IPv4Address("127.0.0.1")
    try:
        address = ip_address(name.strip("[]"))
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
