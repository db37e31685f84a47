"""Entries whose names have several spellings: a broker keeps the spelling and enforces what it stands for (KIP-612)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable


class Spellings:
    """How entries spell names.

    >>> from quotaform.model.ip import address_of
    >>> Spellings(["::ffff:10.0.0.1", "10.0.0.2"], address_of).of("10.0.0.1")
    ['::ffff:10.0.0.1']

    Args:
        names: The names of all entries but the default.
        canonical: Returns the canonical spelling of a name; see `quotaform.model.precedence.Precedence`.
    """

    def __init__(self, names: Iterable[str], canonical: Callable[[str], str | None]) -> None:
        self._canonical = canonical
        self._names: dict[str, list[str]] = defaultdict(list)
        for name in sorted(names):
            self._names[canonical(name) or name].append(name)

    def of(self, name: str) -> list[str]:
        """Return how entries spell a name: this spelling first if there is one, then the canonical one."""
        canonical = self._canonical(name) or name
        found = self._names.get(canonical, [])
        return sorted(found, key=lambda each: (each != name, each != canonical)) if len(found) > 1 else found
