"""What a change does to those an entity match is for: effective limits before and after, and their direction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from math import inf, log
from typing import Final

from quotaform.core.resolve.differing import DifferingNames
from quotaform.core.resolve.entry import NO_LIMIT, NO_NAMES, Effective, effective
from quotaform.core.resolve.index import QuotaIndex
from quotaform.core.resolve.request import representative
from quotaform.model.entity import Entity
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import Quotas, same_value
from quotaform.model.units import is_unlimited

_FIRST_LIMIT: Final = 1e-12


class Direction(StrEnum):
    """Whether an effective limit rises or falls; unlimited is the largest."""

    LOOSEN = "loosen"
    TIGHTEN = "tighten"
    MIXED = "mixed"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Effect:
    """The effective limit of one quota key before and after a plan.

    Attributes:
        before: What limits the representative request now.
        after: What will.
        differs: Entity type to the number of names under the match that will resolve to another value.
    """

    before: Effective
    after: Effective
    differs: Mapping[str, int] = field(default_factory=lambda: NO_NAMES)

    @property
    def is_same(self) -> bool:
        """Whether the same value limits the request, from wherever it comes."""
        return same_value(self.before.value, self.after.value)

    def direction(self, key: str) -> Direction:
        """Whether the effective limit loosens or tightens; NONE when it stays, or cannot be compared (NaN)."""
        return _direction(key, self.before.value, self.after.value)

    def becomes_unlimited(self, key: str) -> bool:
        """Whether something limited the request and nothing will."""
        if self.before.value is None:
            return False
        known = QUOTA_KEYS.get(key)
        return not is_unlimited(known, self.before.value) and is_unlimited(known, self.after.value)

    def magnitude(self, key: str) -> float:
        """Return by how much the limit changes, up or down: the logarithm of the factor; 0 when it cannot be compared.

        That a limit goes is more than any factor; that the first one comes is less.
        """
        before, after = _size(key, self.before.value), _size(key, self.after.value)
        if before == inf:
            return 0.0 if after == inf else _FIRST_LIMIT
        if after == inf:
            return inf
        return abs(log(after) - log(before)) if before > 0 and after > 0 else 0.0

    def shadowed_by(self, entity: Entity, after: float | None) -> Entity | None:
        """The entity match that wins over `entity` on both sides, so that changing it has no effect here."""
        winner = self.before.source if after is None else self.after.source
        return None if winner is None or winner is entity or winner == entity else winner


NO_EFFECT: Final = Effect(NO_LIMIT, NO_LIMIT)


@lru_cache(maxsize=4096)
def _direction(key: str, before: float | None, after: float | None) -> Direction:
    before, after = _size(key, before), _size(key, after)
    if after > before:
        return Direction.LOOSEN
    return Direction.TIGHTEN if after < before else Direction.NONE


def _size(key: str, value: float | None) -> float:
    """Return a value so that larger is looser; NaN stays NaN, which is neither."""
    if value is None:
        return inf
    known = QUOTA_KEYS.get(key)
    return inf if known is not None and value >= known.maximum else value


def make_effects(
    actual: Quotas, planned: Quotas, asked: Sequence[tuple[Entity, Sequence[str]]]
) -> Iterator[tuple[Effect, ...]]:
    """Yield what a plan does to those that entity matches are for: one effect per quota key.

    `planned` holds the quotas that will be other ones, as they will be; empty for an entity that will be gone. `asked`
    holds the entity matches, each with quota keys.
    """
    if not asked:
        return  # An index of a large cluster takes its time.
    before = QuotaIndex(actual)
    after = before.altered(planned)
    differing = DifferingNames(after)
    for entity, keys in asked:
        request = representative(entity)
        if request is None:
            yield (NO_EFFECT,) * len(keys)
            continue
        now, then = before.entries(request) if actual else (), after.entries(request)
        effects = []
        for key in keys:
            limit = effective(then, key)
            effects.append(Effect(effective(now, key), limit, differing.count(request, key, limit)))
        yield tuple(effects)


def changed_limits(actual: Quotas, planned: Quotas, entities: Iterable[Entity]) -> Iterator[tuple[Entity, str, Effect]]:
    """Yield each effective limit that a plan changes for those that entity matches are for, whichever entry does it.

    `planned` holds the quotas that will be other ones, as they will be; empty for an entity that will be gone.
    """
    before = QuotaIndex(actual)
    after = before.altered(planned)
    for entity in entities:
        request = representative(entity)
        if request is None:
            continue
        now, then = before.entries(request), after.entries(request)
        if now == then:
            continue
        for key in QUOTA_KEYS:
            effect = Effect(effective(now, key), effective(then, key))
            if effect.before.value != effect.after.value:
                yield entity, key, effect
