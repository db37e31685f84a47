"""Entries for addresses: a broker keeps the spelling of an ip and enforces the address (KIP-612).

Source: org.apache.kafka.server.metadata.ClientQuotaMetadataManager, which looks the name up and keys by the result.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from quotaform.model.ip import canonical_ip

LOOPBACK: Final = "127.0.0.1"


def address_of(name: str) -> str | None:
    """Return the address that a broker takes an ip name for; `None` when only its resolver could tell.

    >>> address_of("localhost"), address_of("::ffff:10.0.0.1"), address_of("example.org")
    ('127.0.0.1', '10.0.0.1', None)
    """
    return LOOPBACK if name == "localhost" else canonical_ip(name)


class Spellings:
    """How ip entries spell addresses.

    >>> Spellings(["::ffff:10.0.0.1", "10.0.0.2"]).of("10.0.0.1")
    ['::ffff:10.0.0.1']

    Args:
        names: The names of all ip entries but the default.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names: dict[str, list[str]] = defaultdict(list)
        for name in sorted(names):
            self._names[address_of(name) or name].append(name)

    def of(self, ip: str) -> list[str]:
        """Return how entries spell this address: this spelling first if there is one, then the canonical one."""
        address = address_of(ip) or ip
        found = self._names.get(address, [])
        return sorted(found, key=lambda name: (name != ip, name != address)) if len(found) > 1 else found
