"""What a change does to the effective limit, in a few words."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Final

from quotaform.core.change import Change
from quotaform.core.effects import Direction, Effect
from quotaform.core.resolve.entry import Effective
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.units import is_unlimited, plain_fraction, render_value
from quotaform.views.style import counted

DIRECTIONS: Final = {
    Direction.LOOSEN: "loosened",
    Direction.TIGHTEN: "tightened",
    Direction.MIXED: "mixed",
    Direction.NONE: "without effect",
}
"""What becomes of the limits of an entity, in words."""
_PLURALS = {"user": "user", "client-id": "client-id", "ip": "address"}


def value_text(key: str, value: float) -> str:
    """Return a value of a key as plans print it."""
    return render_value(QUOTA_KEYS.get(key), value)


def fallback_text(key: str, effective: Effective) -> str:
    """Return what applies once a value is gone."""
    if effective.value is None:
        return "(no fallback: unlimited)"
    return f"(falls back to {_from(key, effective)})"


def _from(key: str, effective: Effective) -> str:
    if effective.value is None or effective.source is None:
        return "unlimited"
    return f"{value_text(key, effective.value)} from {effective.source.address}"


def effect_text(change: Change, effect: Effect) -> str:
    """Return the note behind a line of a plan, in parentheses; empty when there is nothing to say.

    Says what the effective value was and becomes, unless the line itself already does, how much that is, and
    for how many named client-ids, users or addresses it is another.
    """
    notes = []
    shadow = effect.shadowed_by(change.entity, change.after)
    is_same = effect.is_same
    if shadow is not None and is_same:
        notes.append(f"no effect: shadowed by {shadow.address}")
    elif shadow is not None:
        notes.append(f"shadowed by {shadow.address}; effective {_move(change.key, effect)}")
    elif change.before is None:
        notes.append(f"was {_from(change.key, effect.before)}")
    elif effect.before.source != change.entity:
        notes.append(f"effective {_move(change.key, effect)}")
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
        counted(count, _PLURALS[kind], "addresses" if kind == "ip" else None) for kind, count in sorted(differs.items())
    ]
    return f"differs for {' and '.join(names)}"


def _move(key: str, effect: Effect) -> str:
    return f"{_from(key, effect.before)} -> {_from(key, effect.after)}"


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
