"""Addresses by what they begin with, for lists that are too long to be shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from re import compile as regex
from typing import Final

from quotaform.views.markdown import code_cell

MOST_PREFIXES: Final = 40
"""How many beginnings of addresses are listed."""
_LONGEST_PATTERN: Final = 80
_FEW_GROUPS: Final = 3
"""With fewer groups than this, more of them than are listed say more."""
_MOST_WORDS: Final = 4
_WORD_ENDS: Final = regex(r"""(?<=[\w"])[-._:/@,](?=\w)""").finditer


def pattern_of(addresses: Sequence[str]) -> str:
    """Return what all addresses begin with, as a cell.

    >>> pattern_of(["user=svc-1", "user=svc-20"])
    '`user=svc-*`'
    """
    first, last = min(addresses), max(addresses)
    same = next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    return code_cell(f"{first[:same]}*", _LONGEST_PATTERN)


def by_prefix(addresses: Sequence[str], most: int = MOST_PREFIXES) -> list[tuple[str, list[str]]]:
    """Group addresses by as many of their first words as gives few groups, the largest first.

    >>> by_prefix(["user=svc-1", "user=svc-2", "user=etl"], 2)
    [('`user=svc-*`', ['user=svc-1', 'user=svc-2']), ('`user=etl`', ['user=etl'])]

    Args:
        most: How many groups there may be; all others are one more, at the end.
    """
    groups = _grouped(addresses, 1)
    for number in range(2, _MOST_WORDS):
        finer = _grouped(addresses, number)
        if len(finer) > most and len(groups) >= min(_FEW_GROUPS, most):
            break
        groups = finer
        if len(finer) > most:
            break
    return largest(
        groups,
        lambda _, some: code_cell(some[0], _LONGEST_PATTERN) if len(some) == 1 else pattern_of(some),
        "beginnings",
        most,
    )


def _grouped(addresses: Sequence[str], number: int) -> dict[str, list[str]]:
    """Group addresses by their first words."""
    groups: dict[str, list[str]] = {}
    for address in addresses:
        ends = [found.end() for found in islice(_WORD_ENDS(address), number)]
        groups.setdefault(address[: ends[-1]] if len(ends) == number else address, []).append(address)
    return groups


def largest(
    groups: Mapping[str, list[str]], spell: Callable[[str, list[str]], str], noun: str, most: int = MOST_PREFIXES
) -> list[tuple[str, list[str]]]:
    """Return the largest groups, and all others as one more."""
    ordered = sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))
    shown = [(spell(name, some), some) for name, some in ordered[:most]]
    rest = [address for _, some in ordered[most:] for address in some]
    return [*shown, (f"others ({len(ordered) - most:,} {noun})", rest)] if rest else shown
