"""What a change of quotas does to effective limits: before and after, which way, by how much, and for how many names;
in words, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from math import inf, log
from typing import Final

import msgspec
from msgspec import Struct

from quotaform.model.entity import IP, Entity
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import Change, Quotas, same_value
from quotaform.model.units import UNLIMITED, is_unlimited, plain_fraction, render_value
from quotaform.report.text import counted
from quotaform.resolve.index import NO_LIMIT, NO_NAMES, Effective, QuotaIndex, effective, representative


class Direction(StrEnum):
    """Whether an effective limit rises or falls; unlimited is the largest."""

    LOOSEN = "loosen"
    TIGHTEN = "tighten"
    MIXED = "mixed"
    NONE = "none"


class Effect(Struct, frozen=True, gc=False):
    """The effective limit of one quota key before and after a plan."""

    before: Effective  # What limits the representative request now
    after: Effective  # What will
    differs: Mapping[str, int] = msgspec.field(default_factory=lambda: NO_NAMES)
    """Entity type to the number of names under the match that will resolve to another value."""

    def direction(self, key: str) -> Direction:
        """Whether the effective limit loosens or tightens; NONE when it stays, or cannot be compared (NaN)."""
        return _movement(key, self.before.value, self.after.value)[0]

    def becomes_unlimited(self, key: str) -> bool:
        """Whether something limited the request and nothing will."""
        return _movement(key, self.before.value, self.after.value)[1]

    def magnitude(self, key: str) -> float:
        """Return by how much the limit changes, up or down: the logarithm of the factor; 0 when it cannot be compared.

        That a limit goes is more than any factor; that the first one comes is less.

        >>> round(Effect(Effective(0.5), Effective(1.0)).magnitude("request_percentage"), 3)
        0.693
        """
        before, after = _size(key, self.before.value), _size(key, self.after.value)
        if before == inf:
            return 0.0 if after == inf else 1e-12
        if after == inf:
            return inf
        return abs(log(after) - log(before)) if before > 0 and after > 0 else 0.0

    def shadowed_by(self, entity: Entity, after: float | None) -> Entity | None:
        """The entity match that wins over `entity` on both sides, so that changing it has no effect here."""
        winner = self.before.source if after is None else self.after.source
        return None if winner is None or winner is entity or winner == entity else winner


NO_EFFECT: Final = Effect(NO_LIMIT, NO_LIMIT)


@lru_cache(maxsize=4096)
def _movement(key: str, before: float | None, after: float | None) -> tuple[Direction, bool]:
    """Return which way a limit moves, and whether it becomes unlimited: few of very many limits differ."""
    was, will_be = _size(key, before), _size(key, after)
    direction = Direction.LOOSEN if will_be > was else Direction.TIGHTEN if will_be < was else Direction.NONE
    return direction, was != inf and will_be == inf


def _size(key: str, value: float | None) -> float:
    """Return a value so that larger is looser; NaN stays NaN, which is neither."""
    return inf if value is None or is_unlimited(QUOTA_KEYS.get(key), value) else value


def make_effects(
    actual: Quotas, planned: Quotas, asked: Sequence[tuple[Entity, Sequence[str]]]
) -> Iterator[tuple[Effect, ...]]:
    """Yield what a plan does to those that entity matches are for: one effect per quota key.

    `planned`: the entities whose quotas change, with their new values; without values if all are removed. `asked`: the
    entity matches, each with quota keys.
    """
    if not asked:
        return  # An index of a large cluster takes its time.
    before = QuotaIndex(actual)
    after = before.altered(planned)
    for entity, keys in asked:
        request = representative(entity)
        if request is None:
            yield (NO_EFFECT,) * len(keys)
            continue
        now, then = before.entries(request) if actual else (), after.entries(request)
        effects = []
        for key in keys:
            limit = effective(then, key)
            effects.append(Effect(effective(now, key), limit, after.differing(request, key, limit)))
        yield tuple(effects)


DIRECTIONS: Final = {
    Direction.LOOSEN: "loosened",
    Direction.TIGHTEN: "tightened",
    Direction.MIXED: "mixed",
    Direction.NONE: "without effect",
}
"""What becomes of the limits of an entity, in words."""


def value_text(key: str, value: float | None) -> str:
    """Return a value of a key as plans print it."""
    return "not set" if value is None else render_value(QUOTA_KEYS.get(key), value)


def limit_text(key: str, limit: Effective, own: Entity | None = None) -> str:
    """Return what limits somebody, and from where unless that is `own`; a value that limits nothing is unlimited."""
    value = UNLIMITED if is_unlimited(QUOTA_KEYS.get(key), limit.value) else value_text(key, limit.value)
    return value if limit.source is None or limit.source == own else f"{value} from {limit.source.address}"


def fallback_text(key: str, effective: Effective) -> str:
    """Return what applies once a value is gone."""
    return "(no fallback: unlimited)" if effective.value is None else f"(falls back to {limit_text(key, effective)})"


def effect_text(change: Change, effect: Effect) -> str:
    """Return the note behind a line of a plan, in parentheses; empty when there is nothing to say.

    Says what the effective value was and becomes, unless the line itself already does, how much that is, and
    for how many named client-ids, users or addresses it is another.
    """
    notes = []
    shadow = effect.shadowed_by(change.entity, change.after)
    is_same = same_value(effect.before.value, effect.after.value)  # From wherever it comes
    if shadow is not None and is_same:
        notes.append(f"no effect: shadowed by {shadow.address}")
    elif shadow is not None or (change.before is not None and effect.before.source != change.entity):
        shadowed = "" if shadow is None else f"shadowed by {shadow.address}; "
        was, then = (limit_text(change.key, each) for each in (effect.before, effect.after))
        notes.append(f"{shadowed}effective {was} -> {then}")
    elif change.before is None:
        notes.append(f"was {limit_text(change.key, effect.before)}")
    if not is_same:
        notes.append(", ".join(size_and_direction(change.key, effect.before.value, effect.after.value)))
    if effect.differs:
        notes.append(differs_text(effect.differs))
    text = "; ".join(note for note in notes if note)
    return f"({text})" if text else ""


def differs_text(differs: Mapping[str, int]) -> str:
    """Return for how many named client-ids, users or addresses an effective value is another.

    >>> differs_text({"user": 1, "client-id": 12})
    'differs for 12 client-ids and 1 user'
    """
    names = [
        counted(count, "address", "addresses") if kind == IP else counted(count, kind)
        for kind, count in sorted(differs.items())
    ]
    return f"differs for {' and '.join(names)}"


@lru_cache(maxsize=4096)
def size_and_direction(key: str, before: float | None, after: float | None) -> tuple[str, ...]:
    """Return how much an effective value changes and which way, as notes; what cannot be said is left out."""
    notes = []
    known = QUOTA_KEYS.get(key)
    if before is not None and after is not None and not (is_unlimited(known, before) or is_unlimited(known, after)):
        notes.append(ratio_text(before, after))
    effect = Effect(Effective(before), Effective(after))
    direction = effect.direction(key)
    if direction is not Direction.NONE:
        notes.append(direction.value)
    if effect.becomes_unlimited(key):
        notes.append("UNLIMITED")
    return tuple(note for note in notes if note)


def ratio_text(before: float, after: float) -> str:
    """Return how much more or less a value is: percents up to doubling, else a factor.

    A fall to nearly nothing is never rounded to all of the value.

    >>> ratio_text(10, 20), ratio_text(5, 20), ratio_text(20, 10), ratio_text(3, 3.0001), ratio_text(1e9, 1)
    ('+100%', 'x4', '-50%', '+0.003%', '-99.9%')
    """
    if not (before > 0 and after > 0):
        return ""
    ratio = Fraction(after) / Fraction(before)
    if ratio > 2:
        return f"x{plain_fraction(round(ratio, 0 if ratio >= 10 else 1))}"
    percent = round((ratio - 1) * 100, 1 if abs(ratio - 1) >= Fraction(1, 100) else 3)
    if percent == 0:
        return "+<0.001%" if ratio > 1 else "-<0.001%"
    if percent == -100:
        return "-99.9%"
    return f"{'+' if percent > 0 else '-'}{plain_fraction(abs(Fraction(percent)))}%"
