"""Guards that follow from a plan and its limits alone, so that they are found again in a plan file.

| rule | blocks |
| --- | --- |
| `delete` | more deletions than the limit, or the deletion of all managed entities |
| `update` | more updates than the limit |
| `change-factor` | a value that changes by the factor or more, see `is_leap`; of a removed one the effective limit |
| `to-unlimited` | an effective limit that becomes unlimited |
| `default-entity` | any change of an entity of which every part is a default |
| `protect` | the deletion of a protected entity, and an effective limit of one that becomes half or less |

A new value that differs by the factor from the effective limit before it is a warning, `new-value-factor`: small and
large clients are declared against a default every day.

Effective is what `quotaform.core.effects` says of the clients that an entity is for. What changes of other entities do
to a protected one is found by `quotaform.core.check.plan`.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from itertools import islice
from math import inf, isfinite

from quotaform.core.change import Action, Change
from quotaform.core.check import rule
from quotaform.core.check.finding_list import MAX_PROBLEMS
from quotaform.core.effects import Direction, Effect
from quotaform.core.entity_change import EntityChange
from quotaform.core.guard_limits import GuardLimits
from quotaform.core.plan import Plan
from quotaform.core.resolve.entry import Effective
from quotaform.model.approval import APPROVALS_NAME, DELETE
from quotaform.model.entry import Cause
from quotaform.model.finding import Finding
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.rule import FindingRule
from quotaform.model.units import UNLIMITED, is_unlimited, plain_fraction, render_value

_TIGHTENING = 2
"""What is left of an effective limit of a protected entity must be more than one part in so many."""
_WHOLE_FACTOR = 100
"""From which factor on its decimals are left out."""
_ROUNDING = 1e-12
"""By how much the product of a value and a factor may be off."""


def check_changes(plan: Plan, limits: GuardLimits) -> Iterator[Finding]:
    """Block what a plan changes too much, as far as that follows from the plan itself.

    `limits` are the numbers and the protected entities.
    """
    yield from _check_counts(plan, limits)
    yield from _check_new_values(plan, limits)
    for change in plan.changes:
        if all(name is None for _, name in change.entity.parts):
            yield rule.DEFAULT_ENTITY.finding(
                f"this default applies to all that have no entry of their own, and would be {_DONE[change.action]}",
                address=change.entity.address,
            )
        is_protected = limits.protects(change.entity)
        if is_protected and change.action is Action.DELETE:
            yield rule.PROTECT.finding(
                "this entity is protected, and would be deleted",
                address=change.entity.address,
                override=f"an approval with action: {DELETE} in {APPROVALS_NAME}",
            )
        for row, effect in zip(change.changes, change.effects, strict=True):
            yield from _check_row(change, row, effect, limits, is_protected)


_DONE = {Action.CREATE: "created", Action.UPDATE: "changed", Action.DELETE: "deleted"}


def _check_counts(plan: Plan, limits: GuardLimits) -> Iterator[Finding]:
    deleted, updated, managed = plan.count(Action.DELETE), plan.count(Action.UPDATE), plan.managed
    if deleted and (limits.delete.is_over(deleted, managed) or deleted >= managed):
        yield _count_finding(rule.DELETE, deleted, managed, f"deleted (limit {limits.delete}, or all)")
    if updated and limits.update.is_over(updated, managed):
        yield _count_finding(rule.UPDATE, updated, managed, f"updated (limit {limits.update})")


def _count_finding(guard: FindingRule, number: int, managed: int, text: str) -> Finding:
    are = "managed entity" if managed == 1 else "managed entities"
    return guard.finding(f"{number:,} of {managed:,} {are} would be {text}", number=number)


def _check_new_values(plan: Plan, limits: GuardLimits) -> Iterator[Finding]:
    """Warn of each value that comes in where another entry applied, and is far from what that says."""
    found = (
        finding
        for change in plan.changes
        if change.cause is Cause.ENTRY
        for row, effect in zip(change.changes, change.effects, strict=True)
        if row.before is None and (finding := _new_value(change, row, effect, limits.change_factor)) is not None
    )
    yield from islice(found, MAX_PROBLEMS)
    if more := sum(1 for _ in found):
        yield rule.MORE_WARNINGS.finding(
            f"and {more:,} more {'value' if more == 1 else 'values'} of {rule.NEW_VALUE_FACTOR.id}"
        )


def _new_value(change: EntityChange, row: Change, effect: Effect, factor: int) -> Finding | None:
    now, then, known = effect.before.value, effect.after.value, QUOTA_KEYS.get(row.key)
    if now is None or then is None or is_unlimited(known, now) or effect.after.source != change.entity:
        return None
    if min(now, then) <= 0 or not is_leap(row.key, now, then, factor):
        return None
    times = _times(now, then)
    return rule.NEW_VALUE_FACTOR.finding(
        f"{row.key} would be {shown_limit(row.key, then)}, {f'{times} times' if then > now else f'1/{times} of'} the "
        f"{_from(change, row.key, effect.before)} that applies now; check the unit",
        address=change.entity.address,
        key=row.key,
        value=then,
    )


def _check_row(
    change: EntityChange, row: Change, effect: Effect, limits: GuardLimits, is_protected: bool
) -> Iterator[Finding]:
    key = row.key
    # What a removed value leaves to the clients is the next entry that they meet.
    is_removed = row.after is None
    before, after = (effect.before.value, effect.after.value) if is_removed else (row.before, row.after)
    if before is not None and after is not None and is_leap(key, before, after, limits.change_factor):
        what, fallback = (f"the effective {key}", _fallback(effect)) if is_removed else (key, "")
        yield rule.CHANGE_FACTOR.finding(
            f"{what} would change from {shown_limit(key, before)} to {shown_limit(key, after)}{fallback}"
            f"{_factor_text(key, before, after)} (limit: less than a factor of {limits.change_factor:,})",
            address=change.entity.address,
            key=key,
            value=after,
        )
    if effect.becomes_unlimited(key):
        yield rule.TO_UNLIMITED.finding(
            f"{key} would become {UNLIMITED}; the limit is {_from(change, key, effect.before)}",
            address=change.entity.address,
            key=key,
            value=QUOTA_KEYS[key].maximum if key in QUOTA_KEYS else None,
        )
    if is_protected and change.action is not Action.DELETE and is_halved(key, effect):
        was, will_be = shown_limit(key, effect.before.value), shown_limit(key, effect.after.value)
        yield rule.PROTECT.finding(
            f"this entity is protected, and the effective {key} would fall from {was} to {will_be} "
            "(limit: more than half)",
            address=change.entity.address,
            key=key,
            value=effect.after.value,
        )


@lru_cache(maxsize=4096)
def is_leap(key: str, before: float, after: float, factor: int) -> bool:
    """Whether a value changes by a factor or more, either way.

    | before | after | |
    | --- | --- | --- |
    | any | unlimited | no: when that is the effective limit, it is `to-unlimited` |
    | unlimited | a limit | yes |
    | 0 or less | a limit | yes |
    | NaN | a limit | no: it has no size |

    >>> is_leap("producer_byte_rate", 1e6, 1e7, 10), is_leap("producer_byte_rate", 1e7, 1000001.0, 10)
    (True, False)
    """
    known = QUOTA_KEYS.get(key)
    if is_unlimited(known, after) or before != before:
        return False
    if is_unlimited(known, before) or before <= 0:
        return True
    low, high = sorted((before, after))
    return high >= low * factor * (1 - _ROUNDING)


def is_halved(key: str, effect: Effect) -> bool:
    """Whether an effective limit becomes half or less."""
    before, after = effect.before.value, effect.after.value
    if effect.direction(key) is not Direction.TIGHTEN or after is None:
        return False
    return is_unlimited(QUOTA_KEYS.get(key), before) or after * _TIGHTENING <= (inf if before is None else before)


def shown_limit(key: str, value: float | None) -> str:
    """Return a limit as messages show it; `None` is unlimited."""
    return UNLIMITED if value is None else render_value(QUOTA_KEYS.get(key), value)


def _from(change: EntityChange, key: str, limit: Effective) -> str:
    source = "" if limit.source is None or limit.source == change.entity else f" from {limit.source.address}"
    return f"{shown_limit(key, limit.value)}{source}"


def _fallback(effect: Effect) -> str:
    source = effect.after.source
    return "" if source is None else f" by {source.address}"


def _factor_text(key: str, before: float, after: float) -> str:
    if not isfinite(before) or min(before, after) <= 0 or is_unlimited(QUOTA_KEYS.get(key), before):
        return ""
    low, high = sorted((before, after))
    factor = round(Fraction(high) / Fraction(low), 1)
    return f", by a factor of {plain_fraction(factor)}"


def _times(before: float, after: float) -> str:
    """Return how many times the smaller one of two values the larger one is.

    >>> _times(1024.0, 1048576.0), _times(25.0, 2.0)
    ('1,024', '12.5')
    """
    low, high = sorted((before, after))
    factor = Fraction(high) / Fraction(low)
    return f"{round(factor):,}" if factor >= _WHOLE_FACTOR else plain_fraction(round(factor, 1))
