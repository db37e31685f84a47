"""Quotas: the values of each entity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from quotaform.model.entity import Entity

Values: TypeAlias = Mapping[str, float]
"""Quota key to value; the value is the IEEE-754 double that goes over the wire (KIP-546)."""

Quotas: TypeAlias = Mapping[Entity, Values]
"""The quotas of a cluster: an entity exists only while it has at least one value."""


def same_value(one: float | None, other: float | None) -> bool:
    """Whether two values are the same to a broker, where NaN equals NaN and `None` is no value.

    >>> same_value(float("nan"), float("nan")), same_value(1.0, None), same_value(1024.0, 1024)
    (True, False, True)
    """
    return one == other or (one != one and other != other)


def same_values(one: Values, other: Values) -> bool:
    """Whether two sets of values are the same to a broker."""
    return one == other or (one.keys() == other.keys() and all(same_value(one[key], other[key]) for key in one))
