"""What a change is due to: the files moved away from a base, the cluster did, or both.

A base is what the files declared before: at another git revision, or when a receipt was written. Without one, no
origin is given. For a key, with what the base declares, what the files declare now, and the live value:

| | origin |
| --- | --- |
| the files declare the entity and the base does not | `config`: what was not managed cannot have drifted |
| neither declares the entity, and it is pruned as at the base | `drift`: it was made on the cluster |
| neither declares the entity, and at the base it would not be pruned | `config` |
| the files declare what the base declares | `drift` |
| the live value is that of the base | `config` |
| all three differ | `both` |
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from quotaform.core.change import Change
from quotaform.model.entry import Cause
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import Values, same_value, same_values


class Origin(StrEnum):
    """What a change is due to: the files moved away from the base, the cluster did, or both."""

    CONFIG = "config"
    DRIFT = "drift"
    BOTH = "both"


def entity_origin(
    base: Values | None, cause: Cause, before: Values, rows: Iterable[Change], *, prunes_more: bool = False
) -> Origin:
    """Return what the changes of one entity are due to, taken together: of different origins it is `both`.

    Args:
        base: What the base declares; `None` when it does not declare the entity.
        cause: What in the files the changes follow from.
        before: All values that the cluster holds.
        prunes_more: Whether the entity is undeclared, and would not be pruned with the settings of the base.
    """
    if base is None:
        # What neither declares and a file would have to declare to stay was made on the cluster.
        return Origin.DRIFT if cause is Cause.UNDECLARED and not prunes_more else Origin.CONFIG
    if base and cause is Cause.UNDECLARED:
        live = {key: value for key, value in before.items() if key in QUOTA_KEYS}
        return Origin.CONFIG if same_values(live, base) else Origin.BOTH
    origins = {key_origin(base.get(row.key), row) for row in rows}
    return origins.pop() if len(origins) == 1 else Origin.BOTH


def key_origin(declared: float | None, row: Change) -> Origin:
    """Return what the change of one key is due to.

    `declared` is what the base declares for the key; `None` is no value.
    """
    if same_value(declared, row.after):
        return Origin.DRIFT
    return Origin.CONFIG if same_value(declared, row.before) else Origin.BOTH
