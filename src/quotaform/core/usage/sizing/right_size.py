"""Sizes the quotas of one cluster by what was recorded.

A value becomes the basis times the headroom, not below its floor, rounded up and not above its cap, where the basis is
that of the busiest weekday (see `busiest_day`) of each bucket that the value limits, on each broker. Besides:

| case | proposed |
| --- | --- |
| not used for as long as the settings say | it is removed; that of a default is kept |
| the same, but that time is not recorded on each broker, or ended long ago | nothing |
| requests were throttled | not less than the value now: throttling hid demand |
| the change is less than a tenth | nothing: it is kept |
| `unlimited` | nothing: it is kept, as somebody exempted the entity |
| the cap is below the basis | nothing |
| too little is recorded, or it cannot be told apart | nothing |
| the limits of all buckets on a broker would exceed its capacity | less headroom, down to the basis |
| they would without headroom, too | no value is increased or created, nor removed if a larger one applies then |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from quotaform.core.effects import Effect, make_effects
from quotaform.core.usage.sizing.busiest_day import BusiestDay, date_of, day_text
from quotaform.core.usage.sizing.demand import BucketDemand, Demand, Recorded
from quotaform.core.usage.sizing.history import DAY_S, History, time_text
from quotaform.core.usage.sizing.recommendation import (
    MIN_CHANGE,
    Action,
    OwnValue,
    Recommendation,
    RecommendSettings,
    SizingSettings,
)
from quotaform.core.usage.sizing.removal import Removal, fixed_limits, make_removals, with_moved
from quotaform.core.usage.sizing.rounding import round_up
from quotaform.core.usage.sizing.sizing_case import SizingCase, sizing_cases
from quotaform.model.address import parse_address
from quotaform.model.entity import Entity
from quotaform.model.quota_key import QUOTA_KEYS, QuotaKey, key_order
from quotaform.model.quotas import Quotas
from quotaform.model.units import is_decimal, is_unlimited, render_measured, render_value


def size_reason(
    key: QuotaKey,
    busiest: BusiestDay,
    seconds: float,
    settings: SizingSettings,
    factor: float,
    *,
    decimal: bool = False,
) -> str:
    """Return the reason of a value.

    Args:
        busiest: The day on which it rests.
        seconds: How much is recorded.
        factor: The headroom that it was given.
        decimal: Whether rates are given in powers of 1000, as the value is; see `quotaform.model.units.is_decimal`.
    """
    days = f"{time_text(seconds)}{'' if busiest.outlier is None else ' without outliers'}"
    basis = " ".join(filter(None, (render_measured(key, busiest.basis, decimal=decimal), busiest.text)))
    return f"p{settings.percentile:g} of {days}, {basis}, x {factor:g}"


def size_notes(key: QuotaKey, demand: Demand, settings: SizingSettings, *, decimal: bool = False) -> Iterator[str]:
    """Yield what else there is to know of a proposed value; arguments are those of `size_reason`."""
    if demand.throttled:
        yield f"throttled in {demand.throttled:,} of {demand.samples:,} samples: demand was higher"
    busiest = demand.busiest
    if busiest is None:
        return
    if busiest.outlier is not None and busiest.outlier_day is not None:
        yield f"left out: {render_measured(key, busiest.outlier, decimal=decimal)} on {day_text(busiest.outlier_day)}"
    if busiest.stands_out and busiest.next_basis is not None:
        rate = render_measured(key, busiest.next_basis, decimal=decimal)
        others = f"that day stands out: at most {rate} on all others"
        # The last day of a weekday is never left out.
        can_be_left_out = busiest.weekday_days >= settings.outlier_days + 2
        yield f"{others} (--outlier-days {settings.outlier_days + 1} leaves it out)" if can_be_left_out else others


def with_fallbacks(found: Sequence[Recommendation], quotas: Quotas) -> Iterator[Recommendation]:
    """Yield what is proposed for a cluster, where a removal says what applies instead."""
    planned = {each.entity: dict(quotas.get(each.entity, {})) for each in found if each.before != each.after}
    for each in found:
        if each.before == each.after:
            continue
        if each.after is None:
            del planned[each.entity][each.key]
        else:
            planned[each.entity][each.key] = each.after
    removed = [each for each in found if each.action is Action.DELETE]
    effects = make_effects(quotas, planned, [(each.entity, [each.key]) for each in removed])
    yield from (each for each in found if each.action is not Action.DELETE)
    for each, (effect,) in zip(removed, effects, strict=True):
        yield replace(each, note="; ".join(filter(None, (_fallback(each.key, effect), each.note))))


def _fallback(key: str, effect: Effect) -> str:
    value, source = effect.after.value, effect.after.source
    if value is None or source is None:
        return "then nothing limits it: plan requires --allow to-unlimited"
    return f"then {render_value(QUOTA_KEYS[key], value)} of {source.address} applies"


@dataclass(frozen=True, slots=True)
class ValueSizer:
    """Sizes values of one quota key.

    Attributes:
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

        Raises `ValueError` if the case has no basis.
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


_FACTORS: Final = 100
"""A headroom is a number of hundredths."""

SizeOf = Callable[[SizingCase, float], float]
"""Returns the value of a case at some headroom."""


def fitting_headroom(
    cases: Sequence[SizingCase],
    size_of: SizeOf,
    *,
    wanted: float,
    capacity: float | None,
    fixed: Mapping[str | None, float],
) -> float | None:
    """Return the largest headroom at which the limits of all buckets fit the capacity of each broker.

    Args:
        size_of: Returns their values; they never decrease with more headroom.
        wanted: The headroom that is not exceeded.
        capacity: What the limits may sum up to, per broker; `None` for anything.
        fixed: What the limits of the other buckets sum up to, per broker.

    Returns:
        The headroom, in hundredths unless it is the wanted one; `None` if they do not even fit without any.
    """

    def fits(headroom: float) -> bool:
        total = dict(fixed)
        for case in cases:
            for broker, rate in case.limits(size_of(case, headroom)).items():
                total[broker] = total.get(broker, 0.0) + rate
        return all(rate <= (capacity or 0.0) for rate in total.values())

    if capacity is None or fits(wanted):
        return wanted
    if not fits(1.0):
        return None
    low, high = _FACTORS, int(wanted * _FACTORS)
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle / _FACTORS):
            low = middle
        else:
            high = middle - 1
    return low / _FACTORS


def recommend(
    cluster: str,
    values: Iterable[OwnValue],
    buckets: Iterable[BucketDemand],
    recorded: Mapping[str, Recorded],
    settings: RecommendSettings,
    now: datetime,
    broker_count: int | None = None,
) -> list[Recommendation]:
    """Return what is proposed for each value of a cluster, and for buckets without one, sorted by entity and key.

    Args:
        buckets: What was recorded of its buckets under these values.
        recorded: When each quota key was recorded.
        broker_count: How many brokers the cluster has; `None` if it is not known.
    """
    found: list[Recommendation] = []
    by_key: dict[str, list[BucketDemand]] = {}
    for bucket in buckets:
        by_key.setdefault(bucket.key, []).append(bucket)
    own: dict[str, list[OwnValue]] = {}
    quotas: dict[Entity, dict[str, float]] = {}
    for value in values:
        own.setdefault(value.key, []).append(value)
        quotas.setdefault(value.entity, {})[value.key] = value.value
    brokers = {name for each in recorded.values() for name in each.brokers if name is not None}
    for name in sorted(own.keys() | by_key.keys(), key=key_order):
        if (key := QUOTA_KEYS.get(name)) is not None:
            known = recorded.get(name)
            history = None if known is None else History(key, known, settings, brokers, now, broker_count)
            sizer = _KeySizer(cluster, key, history, settings)
            found += sizer.size(own.get(name, []), by_key.get(name, []))
    return sorted(with_fallbacks(found, quotas), key=lambda each: (each.entity.address, key_order(each.key)))


class _KeySizer:
    """Sizes the values of one quota key on one cluster."""

    def __init__(self, cluster: str, key: QuotaKey, history: History | None, settings: RecommendSettings) -> None:
        self.cluster = cluster
        self.key = key
        self.history = history
        self.settings = settings
        self.sizer = ValueSizer.of(key, settings)
        self.capacity = settings.capacities.get(cluster, {}).get(key.name)

    def size(self, values: Sequence[OwnValue], buckets: Sequence[BucketDemand]) -> list[Recommendation]:
        rows: list[Recommendation] = []
        settled: list[SizingCase] = []
        sized: list[SizingCase] = []
        removed: list[tuple[Recommendation, SizingCase]] = []
        cases = list(sizing_cases(self.key, values, buckets, self.own_entity))
        for case in cases:
            if not self.is_asked(case.entity):
                # It keeps its limit, whatever was used.
                settled.append(case)
                continue
            decided = self.settle(case)
            if decided is None:
                sized.append(case)
            elif decided.action is Action.DELETE:
                removed.append((decided, case))
            else:
                settled.append(case)
                if not (case.before is None and decided.action is Action.NONE):
                    rows.append(decided)
        own = {case.entity: case for case in cases if case.before is not None}
        removals = make_removals(self.key, values, removed, own)
        headroom = self.headroom(settled, sized, removals)
        if headroom is None and (loosening := self.loosening(sized, removals)):
            rows += [self.row(each.case, Action.NONE, self.used_up(each.case.before)) for each in loosening]
            settled += [each.case for each in loosening]
            removals = [each for each in removals if each not in loosening]
            headroom = self.headroom(settled, sized, removals)
        rows += [each.row for each in removals]
        return rows + [row for case in sized if (row := self.sized(case, headroom)) is not None]

    def headroom(
        self, settled: Sequence[SizingCase], sized: Sequence[SizingCase], removals: Sequence[Removal]
    ) -> float | None:
        """Return the headroom that the capacity leaves; `None` if not even the rates themselves fit."""
        entities = {case.entity for case in sized}
        return fitting_headroom(
            with_moved(sized, removals),
            self.sizer.value,
            wanted=self.settings.headroom,
            capacity=self.capacity,
            fixed=fixed_limits(settled, removals, entities.__contains__),
        )

    def loosening(self, sized: Sequence[SizingCase], removals: Sequence[Removal]) -> list[Removal]:
        """Return the removals after which buckets may use more than now."""
        least = {case.entity: self.sizer.value(case, 1.0) for case in sized}
        return [
            each
            for each in removals
            if each.is_loosening(each.value if each.source is None else least.get(each.source, each.value))
        ]

    def used_up(self, value: float | None) -> str:
        capacity = render_value(self.key, self.capacity or 0.0, decimal=is_decimal(self.key, value))
        return f"the capacity of {capacity} is used up"

    def is_asked(self, entity: Entity) -> bool:
        return self.settings.selection.contains(entity)

    def missing(self, demand: Demand) -> str | None:
        return f"no usage of {self.key.name} is recorded" if self.history is None else self.history.missing(demand)

    def is_idle(self, demand: Demand) -> bool:
        return self.history is not None and self.history.is_idle(demand)

    def own_entity(self, bucket: BucketDemand, demand: Demand) -> Entity | None:
        """Return the entity that gets a value for a bucket alone: it needs more than its default, or a limit at all."""
        if not self.settings.has_creates or bucket.is_coarse:
            return None
        entity = parse_address(bucket.bucket)
        if bucket.entity_key == entity.address or not all(name for _, name in entity.parts):
            return None
        if bucket.entity_key is not None and all(name for _, name in parse_address(bucket.entity_key).parts):
            return None
        if not (self.key.fits(entity) and self.settings.scope.contains(entity) and self.is_asked(entity)):
            return None
        if self.missing(demand) is not None or not demand.basis or self.is_idle(demand):
            return None
        if is_unlimited(self.key, bucket.limit) or bucket.limit is None:
            return entity
        target = self.sizer.target(demand.basis, None, self.settings.headroom)
        return entity if target > bucket.limit * (1 + MIN_CHANGE) else None

    def settle(self, case: SizingCase) -> Recommendation | None:
        """Return what is known of a value before its size; `None` if it is to be sized."""
        demand = case.demand
        if not self.settings.scope.contains(case.entity):
            return self.row(case, Action.NONE, "out of scope")
        if case.before is None and not self.may_be_created(case):
            return self.row(case, Action.NONE, "limited by no value of its own")
        if case.is_exempt:
            return self.row(case, Action.KEEP, "unlimited: the entity is exempt")
        if self.history is None:
            return self.row(case, Action.NONE, f"no usage of {self.key.name} is recorded")
        if case.has_created and (demand is None or self.is_idle(demand)):
            return self.row(case, Action.KEEP, "those that it limits get values of their own")
        if demand is None or self.history.is_idle(demand):
            return self.unused(case, self.history)
        if (reason := self.history.missing(demand)) is not None:
            return self.row(case, Action.NONE, reason)
        if demand.basis and self.sizer.cap < demand.basis:
            cap = self.sizer.cap
            basis = render_measured(self.key, demand.basis, decimal=is_decimal(self.key, cap))
            below = f"is below the p{self.settings.percentile:g} of {basis}"
            return self.row(case, Action.NONE, f"the cap of {render_value(self.key, cap)} {below}")
        return None if demand.basis else self.row(case, Action.KEEP, f"the p{self.settings.percentile:g} is 0")

    def may_be_created(self, case: SizingCase) -> bool:
        demand = case.demand
        return (
            self.settings.has_creates
            and demand is not None
            and self.key.fits(case.entity)
            and all(name for _, name in case.entity.parts)
            and self.missing(demand) is None
            and bool(demand.basis)
            and not self.is_idle(demand)
        )

    def unused(self, case: SizingCase, history: History) -> Recommendation:
        """Return what is proposed for a value that nobody used, as far as is recorded."""
        covered = history.recent_seconds() / DAY_S
        if (missing := history.missing_to_remove()) is not None:
            return self.row(case, Action.NONE, f"not used, but {missing}", days=covered)
        idle = history.unused_text()
        if case.is_default:
            return self.row(case, Action.KEEP, f"{idle}; a default also limits new clients")
        return self.row(case, Action.DELETE, idle, days=covered, note=history.brokers_text())

    def sized(self, case: SizingCase, headroom: float | None) -> Recommendation | None:
        """Return what is proposed for a value of some size; `None` if there is nothing on which it could rest."""
        demand, settings = case.demand, self.settings
        if demand is None or demand.busiest is None or self.history is None:
            return None
        factor = settings.headroom if headroom is None else headroom
        after = self.sizer.value(case, factor)
        decimal = is_decimal(self.key, after if case.before is None else case.before)
        capacity = render_value(self.key, self.capacity or 0.0, decimal=decimal)
        if headroom is None and (case.before is None or after > case.before):
            return self.row(case, Action.NONE, self.used_up(after if case.before is None else case.before))
        if case.before == after:
            return self.row(case, Action.KEEP, f"within {MIN_CHANGE:.0%} of what fits")
        reason = size_reason(self.key, demand.busiest, self.history.seconds(demand), settings, factor, decimal=decimal)
        notes = list(size_notes(self.key, demand, settings, decimal=decimal))
        if factor < settings.headroom:
            notes.insert(0, f"x {settings.headroom:g} exceeds the capacity of {capacity}")
        action = Action.CREATE if case.before is None else Action.UPDATE
        return self.row(case, action, reason, after=after, note="; ".join(notes) or None)

    def row(
        self,
        case: SizingCase,
        action: Action,
        reason: str,
        *,
        after: float | None = None,
        note: str | None = None,
        days: float | None = None,
    ) -> Recommendation:
        demand = case.demand
        if days is None:
            days = 0.0 if demand is None or self.history is None else self.history.seconds(demand) / DAY_S
        busiest = None if demand is None else demand.busiest
        return Recommendation(
            cluster=self.cluster,
            entity=case.entity,
            key=self.key.name,
            action=action,
            before=case.before,
            after=case.before if action in (Action.KEEP, Action.NONE) else after,
            reason=reason,
            note=note,
            samples=demand.samples if demand else 0,
            days=days,
            basis=None if busiest is None else busiest.basis,
            day=None if busiest is None else date_of(busiest.day),
            is_weekly=busiest is not None and busiest.is_weekly,
            bucket=demand.bucket if demand else None,
            broker=demand.broker if demand else None,
        )
