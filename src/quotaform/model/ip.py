"""The canonical spelling of an IP address.

A broker stores the string but enforces the address that it resolves to, so two spellings of one address are two
entities that set the same limit; host names are resolved on the controller (KIP-612,
org.apache.kafka.controller.ClientQuotaControlManager). quotaform therefore writes only canonical addresses.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address
from re import compile as regex
from typing import Final

from quotaform.model.text import quote

LOOPBACK: Final = "127.0.0.1"

_SHORT = regex(r"(?:0|[1-9][0-9]{0,9})(?:\.(?:0|[1-9][0-9]{0,9})){0,2}").fullmatch

_ZEROS = regex(r"[0-9.]*(?<![0-9])0[0-9][0-9.]*").fullmatch


def canonical_ip(name: str) -> str | None:
    """Return the canonical spelling of an address; `None` if it is not a single address.

    >>> canonical_ip("0:0::1"), canonical_ip("::ffff:10.0.0.1"), canonical_ip("10.1"), canonical_ip("localhost")
    ('::1', '10.0.0.1', '10.0.0.1', None)
    """
    host, slash, bits = name.partition("/")
    if slash and bits not in {"32", "128"}:
        return None
    try:
        address = ip_address(host.partition("%")[0].strip().removeprefix("[").removesuffix("]"))
    except ValueError:
        return _expand(host)
    if slash and int(bits) != address.max_prefixlen:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        return str(address.ipv4_mapped)
    return str(address)


def _expand(name: str) -> str | None:
    """Return the IPv4 address that Java reads from a short form such as 10.1."""
    if not _SHORT(name) or "." not in name:
        return None
    *first, last = map(int, name.split("."))
    if any(part > 255 for part in first) or last >= 256 ** (4 - len(first)):
        return None
    return str(IPv4Address(sum(part << (8 * (3 - place)) for place, part in enumerate(first)) + last))


def address_of(name: str) -> str | None:
    """Return the address that a broker reads from an ip name; `None` if it depends on the broker's resolver.

    A broker resolves the name and stores the limit by the resulting address
    (org.apache.kafka.server.metadata.ClientQuotaMetadataManager).

    >>> address_of("localhost"), address_of("::ffff:10.0.0.1"), address_of("example.org")
    ('127.0.0.1', '10.0.0.1', None)
    """
    return LOOPBACK if name == "localhost" else canonical_ip(name)


def ip_problem(name: str) -> str | None:
    """Return why a name is not a canonical address and what to write; `None` when it is one.

    >>> ip_problem("10.0.0.1") is None
    True
    >>> print(ip_problem("10.0.0.0/8"))
    10.0.0.0/8 is a network; Kafka limits single addresses or all of them (<default>)
    """
    canonical = canonical_ip(name)
    if canonical == name:
        return None
    shown = name if name.isascii() and name.isprintable() and " " not in name and len(name) <= 80 else quote(name)
    remedy = f"; write {canonical}" if canonical else ""
    if "/" in name:
        if canonical:
            return f"{shown} is written as a network{remedy}"
        return f"{shown} is a network; Kafka limits single addresses or all of them (<default>)"
    if not canonical and _ZEROS(name):
        return f"{shown} is not an IP address: some programs read leading zeros as octal; write it without them"
    if not canonical:
        return f"{shown} is not an IP address; host names are not used because a broker would have to look them up"
    if "%" in name:
        return f"{shown} has a scope id, which brokers do not keep{remedy}"
    return f"{shown} is not the canonical spelling of this address{remedy}"
