"""The field `reason` of an entry that was sized by usage."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from re import DOTALL
from re import compile as regex
from typing import Final

from quotaform.core.usage.sizing.recommendation import Recommendation
from quotaform.model.quota_key import key_order

_EARLIER: Final = regex(
    r"(?:^|; )(?:[a-z_]+: )?"
    r"(?:p[0-9.]+ of [0-9]+ (?:days|hours?) |p[0-9.]+ of [0-9dhms ]+(?:days)?(?: without outliers)?, |"
    r"not used for [0-9.]+ ?(?:days|[dhms])|not used from [0-9]{4}-[0-9]{2}-[0-9]{2}).*\([0-9]{4}-[0-9]{2}-[0-9]{2}\)$",
    DOTALL,
)


def entry_reason(before: str | None, proposals: Sequence[Recommendation], day: date) -> str:
    """Return the reason of an entry: what somebody wrote, then that of the proposals, in place of an earlier one.

    >>> from quotaform.core.usage.sizing.recommendation import Action
    >>> from quotaform.model.entity import Entity
    >>> sized = Recommendation(
    ...     cluster="prod", entity=Entity(user="a"), key="producer_byte_rate", action=Action.UPDATE,
    ...     before=1.0, after=2.0, reason="p99 of 14 days, 6.1 MiB/s on Mondays, x 1.5",
    ... )
    >>> entry_reason("checkout", [sized], date(2026, 11, 22))
    'checkout; p99 of 14 days, 6.1 MiB/s on Mondays, x 1.5 (2026-11-22)'

    Args:
        proposals: What is proposed for the entity, at least one.
        day: Today (UTC).
    """
    own = _EARLIER.sub("", before or "")
    if len({each.reason for each in proposals}) == 1:
        said = proposals[0].reason
    else:
        ordered = sorted(proposals, key=lambda each: key_order(each.key))
        said = "; ".join(f"{each.key}: {each.reason}" for each in ordered)
    return "; ".join(part for part in (own, f"{said} ({day.isoformat()})") if part)
