"""The numbers and patterns that guards go by: `guards` and `protect` of quotaform.yaml."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from quotaform.core.scope import Pattern, Scope, not_covered
from quotaform.model.entity import Entity
from quotaform.model.text import inert

LEAST_MANAGED: Final = 10
"""From how many managed entities on a share of them counts: 2 of 9 are not a mass change."""


@dataclass(frozen=True, slots=True)
class CountLimit:
    """How many entities one plan may change in one way.

    Attributes:
        count: At most this many.
        percent: At most this share of the managed entities, when there are at least `LEAST_MANAGED`.
    """

    count: int
    percent: int

    def is_over(self, number: int, managed: int) -> bool:
        """Whether a number of entities is over the limit.

        >>> limit = CountLimit(5, 20)
        >>> limit.is_over(5, 25), limit.is_over(6, 60), limit.is_over(3, 10), limit.is_over(3, 9)
        (False, True, True, False)
        """
        return number > self.count or (managed >= LEAST_MANAGED and number * 100 > self.percent * managed)

    def __str__(self) -> str:
        return f"{self.count:,}, or {self.percent} %"


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardLimits:
    """What guards go by.

    Attributes:
        delete: How many entities a plan may delete.
        update: How many it may update.
        change_factor: By what factor a value may not change.
    """

    delete: CountLimit = CountLimit(5, 20)
    update: CountLimit = CountLimit(50, 50)
    change_factor: int = 10
    protect: tuple[Pattern, ...] = ()
    _protected: Scope = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_protected", Scope(include=self.protect))

    def protects(self, entity: Entity) -> bool:
        """Whether an entity is protected."""
        return bool(self.protect) and self._protected.contains(entity)

    def looser_than(self, base: GuardLimits) -> Iterator[str]:
        """Yield in what way these limits are looser than others; a wider pattern of `protect` is not.

        >>> list(GuardLimits(delete=CountLimit(9, 20)).looser_than(GuardLimits()))
        ['guards.delete.count is 9 instead of 5']
        """
        for name in ("delete", "update"):
            for side in ("count", "percent"):
                here, there = (getattr(getattr(limits, name), side) for limits in (self, base))
                if here > there:
                    yield f"guards.{name}.{side} is {here} instead of {there}"
        if self.change_factor > base.change_factor:
            yield f"guards.change_factor is {self.change_factor} instead of {base.change_factor}"
        for pattern in not_covered(base.protect, self.protect):
            yield f"protect has no {inert(str(pattern))}"

    def dump(self) -> dict[str, Any]:
        """Return the options of a plan that hold the limits: what is not the default."""
        guards: dict[str, Any] = {
            name: {"count": limit.count, "percent": limit.percent}
            for name, limit in (("delete", self.delete), ("update", self.update))
            if limit != getattr(DEFAULT_GUARD_LIMITS, name)
        }
        if self.change_factor != DEFAULT_GUARD_LIMITS.change_factor:
            guards["change_factor"] = self.change_factor
        protect = [dict(pattern.parts) for pattern in self.protect]
        return {**({"guards": guards} if guards else {}), **({"protect": protect} if protect else {})}

    @classmethod
    def load(cls, options: Mapping[str, Any]) -> Self:
        """Return the limits that the options of a plan hold, as `dump` had them."""
        guards = options.get("guards", {})

        def count_limit(name: str, default: CountLimit) -> CountLimit:
            item = guards.get(name)
            return default if item is None else CountLimit(item["count"], item["percent"])

        return cls(
            delete=count_limit("delete", DEFAULT_GUARD_LIMITS.delete),
            update=count_limit("update", DEFAULT_GUARD_LIMITS.update),
            change_factor=guards.get("change_factor", DEFAULT_GUARD_LIMITS.change_factor),
            protect=tuple(Pattern(tuple(item.items())) for item in options.get("protect", ())),
        )


DEFAULT_GUARD_LIMITS: Final = GuardLimits()
