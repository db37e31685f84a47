"""What a table of resolved limits amounts to."""

from __future__ import annotations

from dataclasses import dataclass

from quotaform.core.resolve.resolution import ResolveHeader


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyCount:
    """How many rows of a table are about one quota key.

    Attributes:
        key: The quota key.
        limited: With a value that limits.
        unlimited: Without a value, or with one that an entry sets to no limit.
        changed: With another value than before the plan; `None` without a plan.
    """

    key: str
    limited: int
    unlimited: int
    changed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReport:
    """What was written.

    Attributes:
        header: What was resolved against what.
        target: Where the table is.
        clients: How many users, client-ids and pairs of them were resolved.
        ips: How many addresses.
        keys: Rows by quota key, in the order in which keys print.
    """

    header: ResolveHeader
    target: str
    clients: int
    ips: int
    keys: tuple[KeyCount, ...]

    @property
    def rows(self) -> int:
        """How many rows the table has."""
        return sum(each.limited + each.unlimited for each in self.keys)
