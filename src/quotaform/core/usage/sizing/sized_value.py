"""The value that fits a demand: rounded, between floor and cap, and close to the value now where that fits."""

from __future__ import annotations

from dataclasses import dataclass

from quotaform.core.usage.sizing.recommendation import MIN_CHANGE, SizingSettings
from quotaform.core.usage.sizing.rounding import round_up
from quotaform.core.usage.sizing.sizing_case import SizingCase
from quotaform.model.quota_key import QuotaKey
from quotaform.model.units import is_decimal


@dataclass(frozen=True, slots=True)
class ValueSizer:
    """Sizes values of one quota key.

    Attributes:
        key: The quota key.
        floor: No value is below it.
        cap: No value is above it.
    """

    key: QuotaKey
    floor: float
    cap: float

    @classmethod
    def of(cls, key: QuotaKey, settings: SizingSettings) -> ValueSizer:
        """Return the sizer of a quota key."""
        return cls(key, settings.floors.get(key.name, 0.0), settings.caps.get(key.name, key.maximum))

    def target(self, basis: float, before: float | None, headroom: float) -> float:
        """Return what fits a basis; `before` says in which units it is written."""
        rounded = round_up(self.key, max(basis * headroom, self.floor), decimal=is_decimal(self.key, before))
        return min(rounded, self.cap)

    def value(self, case: SizingCase, headroom: float) -> float:
        """Return the value of a case at some headroom; it never decreases with more headroom.

        Raises:
            ValueError: The case has no basis.
        """
        demand = case.demand
        if demand is None or not demand.basis:
            raise ValueError("a value without a basis is not sized")
        target = self.target(demand.basis, case.before, headroom)
        if case.before is None:
            return target
        if demand.throttled:
            target = max(target, case.before)
        return case.before if abs(target - case.before) < MIN_CHANGE * case.before else target
