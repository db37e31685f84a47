"""Sizes the quotas of one cluster by what was recorded.

A value becomes the basis times the headroom, not below its floor, rounded up and not above its cap, where the basis is
the highest of the percentiles of each day, of each bucket that the value limits, on each broker. Besides:

| case | proposed |
| --- | --- |
| not used for as long as the settings say, which is recorded | it is removed; that of a default is kept |
| requests were throttled | not less than the value now: throttling hid demand |
| the change is less than a tenth | nothing: it is kept |
| `unlimited` | nothing: it is kept, as somebody exempted the entity |
| the cap is below the basis | nothing |
| too little is recorded, or it cannot be told apart | nothing |
| the limits of all buckets on a broker would exceed its capacity | less headroom, down to the basis |
| they would do so without headroom, too | no value is increased or created |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from quotaform.core.effects import Effect, make_effects
from quotaform.core.usage.demand import HOURS_OF_DAY, BucketDemand, Demand, Recorded, make_demand
from quotaform.core.usage.recommendation import (
    MIN_CHANGE,
    MIN_SHARE,
    Action,
    OwnValue,
    Recommendation,
    RecommendSettings,
)
from quotaform.core.usage.rounding import is_decimal, round_up
from quotaform.model.address import parse_address
from quotaform.model.entity import Entity
from quotaform.model.quota_key import QUOTA_KEYS, QuotaKey, key_order
from quotaform.model.quotas import Quotas
from quotaform.model.text import inert
from quotaform.model.units import is_unlimited, render_measured, render_value

_FACTORS: Final = 100
"""The headroom that capacity leaves is a number of hundredths."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """A value to be sized, or one that may be created.

    Attributes:
        entity: The entity.
        key: The quota key.
        before: Its value; `None` if it has none.
        limit: The value that limits its buckets now; `None` without one.
        demand: What its buckets used; `None` if nothing was recorded of them.
        has_created: Whether buckets of it get values of their own.
    """

    entity: Entity
    key: QuotaKey
    before: float | None
    limit: float | None
    demand: Demand | None
    has_created: bool = False

    @property
    def is_default(self) -> bool:
        """Whether it is of others, too, than those that are known."""
        return any(name is None for _, name in self.entity.parts)


def recommend(
    cluster: str,
    values: Iterable[OwnValue],
    buckets: Iterable[BucketDemand],
    recorded: Mapping[str, Recorded],
    settings: RecommendSettings,
) -> list[Recommendation]:
    """Return what is proposed for each value of a cluster, and for buckets without one, sorted by entity and key.

    Args:
        cluster: The name of the cluster.
        values: What it holds.
        buckets: What was recorded of its buckets under these values.
        recorded: When each quota key was recorded.
        settings: How quotas are sized.
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
    for name in sorted(own.keys() | by_key.keys(), key=key_order):
        if (key := QUOTA_KEYS.get(name)) is not None:
            sizer = _KeySizer(cluster, key, recorded.get(name), settings)
            found += sizer.size(own.get(name, []), by_key.get(name, []))
    return sorted(_with_fallbacks(found, quotas), key=lambda each: (each.entity.address, key_order(each.key)))


def _with_fallbacks(found: Sequence[Recommendation], quotas: Quotas) -> Iterator[Recommendation]:
    """Yield what is proposed, where a removal says what applies instead."""
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
        yield replace(each, note=_fallback(each.key, effect))


def _fallback(key: str, effect: Effect) -> str:
    value, source = effect.after.value, effect.after.source
    if value is None or source is None:
        return "then nothing limits it: plan asks for --allow to-unlimited"
    return f"then {render_value(QUOTA_KEYS[key], value)} of {source.address} applies"


class _KeySizer:
    """Sizes the values of one quota key on one cluster."""

    def __init__(self, cluster: str, key: QuotaKey, recorded: Recorded | None, settings: RecommendSettings) -> None:
        self.cluster = cluster
        self.key = key
        self.recorded = recorded
        self.settings = settings
        self.floor = settings.floors.get(key.name, 0.0)
        self.cap = settings.caps.get(key.name, key.maximum)
        self.capacity = settings.capacities.get(cluster, {}).get(key.name)

    def size(self, values: Sequence[OwnValue], buckets: Sequence[BucketDemand]) -> list[Recommendation]:
        settled: list[Recommendation] = []
        sized: list[_Case] = []
        fixed: dict[str | None, float] = {}
        for case in self.cases(values, buckets):
            decided = self.settle(case)
            if decided is None:
                sized.append(case)
                continue
            if self.is_asked(case.entity) and not (case.before is None and decided.action is Action.NONE):
                settled.append(decided)
            if decided.action is not Action.DELETE:
                for broker, rate in _limits(case, case.limit).items():
                    fixed[broker] = fixed.get(broker, 0.0) + rate
        headroom = self.fitting_headroom(sized, fixed)
        return settled + [row for case in sized if (row := self.sized(case, headroom)) is not None]

    def is_asked(self, entity: Entity) -> bool:
        return self.settings.selection.contains(entity)

    def cases(self, values: Sequence[OwnValue], buckets: Sequence[BucketDemand]) -> Iterator[_Case]:
        """Yield every value, every bucket that gets a value of its own, and the buckets that nothing limits."""
        is_per_broker = self.key.per == "broker"
        by_entity: dict[str | None, list[BucketDemand]] = {}
        created: list[tuple[Entity, BucketDemand, Demand]] = []
        for bucket in buckets:
            entity = self.own_entity(bucket)
            demand = make_demand([bucket], is_per_broker=is_per_broker)
            if entity is not None and self.needs_own(bucket, demand, entity):
                created.append((entity, bucket, demand))
            else:
                by_entity.setdefault(bucket.entity_key, []).append(bucket)
        left = {bucket.entity_key for _, bucket, _ in created}
        for value in values:
            limited = by_entity.pop(value.entity.address, ())
            yield _Case(
                entity=value.entity,
                key=self.key,
                before=value.value,
                limit=value.value,
                demand=make_demand(limited, is_per_broker=is_per_broker) if limited else None,
                has_created=value.entity.address in left,
            )
        for rest in by_entity.values():
            for bucket in rest:
                demand = make_demand([bucket], is_per_broker=is_per_broker)
                entity = parse_address(bucket.bucket)
                yield _Case(entity=entity, key=self.key, before=None, limit=bucket.limit, demand=demand)
        for entity, bucket, demand in created:
            yield _Case(entity=entity, key=self.key, before=None, limit=bucket.limit, demand=demand)

    def own_entity(self, bucket: BucketDemand) -> Entity | None:
        """Return the entity whose value would limit this bucket alone; `None` if there is one already."""
        if not self.settings.has_creates or bucket.is_coarse:
            return None
        entity = parse_address(bucket.bucket)
        if bucket.entity_key == entity.address or not all(name for _, name in entity.parts):
            return None
        if bucket.entity_key is not None and all(name for _, name in parse_address(bucket.entity_key).parts):
            return None
        return entity if self.key.fits(entity) and self.settings.scope.contains(entity) else None

    def needs_own(self, bucket: BucketDemand, demand: Demand, entity: Entity) -> bool:
        """Whether a bucket needs another limit than that of the default: more, or one at all."""
        if not self.is_asked(entity) or self.missing(demand) is not None or not demand.basis:
            return False
        if is_unlimited(self.key, bucket.limit) or bucket.limit is None:
            return True
        return self.target(demand.basis, None, self.settings.headroom) > bucket.limit * (1 + MIN_CHANGE)

    def settle(self, case: _Case) -> Recommendation | None:
        """Return what is known of a value before its size; `None` if it is to be sized."""
        demand = case.demand
        if not self.settings.scope.contains(case.entity):
            return self.row(case, Action.NONE, "out of scope")
        if case.before is None and not (self.settings.has_creates and self.may_be_created(case)):
            return self.row(case, Action.NONE, "limited by no value of its own")
        if case.before is not None and is_unlimited(self.key, case.before):
            return self.row(case, Action.KEEP, "unlimited: the entity is exempt")
        if self.recorded is None:
            return self.row(case, Action.NONE, f"no usage of {self.key.name} is recorded")
        if demand is None and case.has_created:
            return self.row(case, Action.KEEP, "those that it limits get values of their own")
        if demand is None or self.is_idle(demand):
            return self.unused(case)
        if (reason := self.missing(demand)) is not None:
            return self.row(case, Action.NONE, reason)
        if demand.basis and self.cap < demand.basis:
            text = f"the cap of {self.shown(self.cap)} is below the {self.percentile()} of {self.rate(demand.basis)}"
            return self.row(case, Action.NONE, text)
        return None if demand.basis else self.row(case, Action.KEEP, f"the {self.percentile()} is 0")

    def may_be_created(self, case: _Case) -> bool:
        demand = case.demand
        return (
            demand is not None
            and self.own_entity_is(case)
            and self.is_asked(case.entity)
            and self.missing(demand) is None
            and bool(demand.basis)
        )

    def own_entity_is(self, case: _Case) -> bool:
        """Whether a value of this entity would limit its buckets alone."""
        return self.key.fits(case.entity) and all(name for _, name in case.entity.parts)

    def is_idle(self, demand: Demand) -> bool:
        if demand.last_used is None:
            return True
        if self.recorded is None:
            return False
        idle = self.recorded.last - demand.last_used
        return idle.total_seconds() >= self.settings.unused_after_days * HOURS_OF_DAY * 3600

    def unused(self, case: _Case) -> Recommendation:
        """Return what is proposed for a value that nobody used, as far as is recorded."""
        days, recorded = self.settings.unused_after_days, self.recorded
        if recorded is None:
            raise ValueError("nothing is recorded")
        needed = days * HOURS_OF_DAY
        covered = recorded.recent_hours / HOURS_OF_DAY
        if recorded.span_hours(recorded.first) < needed or recorded.recent_hours < MIN_SHARE * needed:
            text = f"not used, but only {covered:.1f} of {days:g} days are recorded"
            return self.row(case, Action.NONE, text, days=covered)
        if case.is_default:
            return self.row(case, Action.KEEP, f"not used for {days:g} days; a default also limits new clients")
        return self.row(case, Action.DELETE, f"not used for {days:g} days", days=covered)

    def missing(self, demand: Demand) -> str | None:
        """Return what is missing to size a value; `None` if it is enough."""
        settings = self.settings
        if demand.coarse is not None:
            return f"the recording of {inert(demand.coarse)} does not tell its buckets apart"
        if not demand.has_brokers:
            return f"only clients measured it, and {self.key.name} is limited per broker"
        needed = settings.min_history_days * HOURS_OF_DAY
        span = 0.0 if self.recorded is None else self.recorded.span_hours(demand.first)
        if span < needed or demand.hours < MIN_SHARE * needed:
            return f"{demand.hours / HOURS_OF_DAY:.1f} of {settings.min_history_days:g} days recorded"
        if demand.samples < settings.min_samples:
            return f"{demand.samples:,} of {settings.min_samples:,} samples recorded"
        return None

    def target(self, basis: float, before: float | None, headroom: float) -> float:
        """Return the size of a value; `before` says in which units it is written."""
        rounded = round_up(self.key, max(basis * headroom, self.floor), decimal=is_decimal(self.key, before))
        return min(rounded, self.cap)

    def value(self, case: _Case, headroom: float) -> float:
        """Return the value of a case that is sized, at some headroom; it never decreases with more headroom."""
        demand = case.demand
        if demand is None or not demand.basis:
            raise ValueError("a value without a basis is not sized")
        target = self.target(demand.basis, case.before, headroom)
        if case.before is None:
            return target
        if demand.throttled:
            target = max(target, case.before)
        return case.before if abs(target - case.before) < MIN_CHANGE * case.before else target

    def fitting_headroom(self, cases: Sequence[_Case], fixed: Mapping[str | None, float]) -> float | None:
        """Return the headroom at which the limits of all buckets fit the capacity; `None` if there is none."""
        wanted = self.settings.headroom
        if self.capacity is None or self.fits(cases, fixed, wanted):
            return wanted
        low, high = _FACTORS, int(wanted * _FACTORS)
        if not self.fits(cases, fixed, 1.0):
            return None
        while low < high:
            middle = (low + high + 1) // 2
            if self.fits(cases, fixed, middle / _FACTORS):
                low = middle
            else:
                high = middle - 1
        return low / _FACTORS

    def fits(self, cases: Sequence[_Case], fixed: Mapping[str | None, float], headroom: float) -> bool:
        total = dict(fixed)
        for case in cases:
            for broker, rate in _limits(case, self.value(case, headroom)).items():
                total[broker] = total.get(broker, 0.0) + rate
        return all(rate <= (self.capacity or 0.0) for rate in total.values())

    def sized(self, case: _Case, headroom: float | None) -> Recommendation | None:
        """Return what is proposed for a value of some size; `None` of one that was not asked for."""
        demand = case.demand
        if demand is None or not demand.basis or not self.is_asked(case.entity):
            return None
        after = self.value(case, self.settings.headroom if headroom is None else headroom)
        if headroom is None and (case.before is None or after > case.before):
            return self.row(case, Action.NONE, f"the capacity of {self.shown(self.capacity or 0.0)} is used up")
        if case.before == after:
            return self.row(case, Action.KEEP, f"within {MIN_CHANGE:.0%} of what fits")
        factor = self.settings.headroom if headroom is None else headroom
        reason = f"{self.percentile()} of {_recorded_time(demand.hours)} {self.rate(demand.basis)} x {factor:g}"
        notes = []
        if factor < self.settings.headroom:
            notes.append(f"x {self.settings.headroom:g} exceeds the capacity of {self.shown(self.capacity or 0.0)}")
        if demand.throttled:
            notes.append(f"throttled in {demand.throttled:,} of {demand.samples:,} samples: demand was higher")
        action = Action.CREATE if case.before is None else Action.UPDATE
        return self.row(case, action, reason, after=after, note="; ".join(notes) or None)

    def row(
        self,
        case: _Case,
        action: Action,
        reason: str,
        *,
        after: float | None = None,
        note: str | None = None,
        days: float | None = None,
    ) -> Recommendation:
        demand = case.demand
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
            days=days if days is not None else demand.hours / HOURS_OF_DAY if demand else 0.0,
            basis=demand.basis if demand else None,
            bucket=demand.bucket if demand else None,
            broker=demand.broker if demand else None,
        )

    def percentile(self) -> str:
        return f"p{self.settings.percentile:g}"

    def shown(self, value: float) -> str:
        return render_value(self.key, value)

    def rate(self, value: float) -> str:
        return render_measured(self.key, value)


def _limits(case: _Case, value: float | None) -> Mapping[str | None, float]:
    """Return what the limits of the buckets of a case sum up to, per broker; without a limit, what they used."""
    if case.demand is None:
        return {}
    if value is None or is_unlimited(case.key, value):
        return case.demand.bases
    return {broker: number * value for broker, number in case.demand.buckets.items()}


def _recorded_time(hours: float) -> str:
    """Return for how long something is recorded, as a reason says it.

    >>> _recorded_time(744), _recorded_time(5), _recorded_time(1)
    ('31 days', '5 hours', '1 hour')
    """
    if hours >= 2 * HOURS_OF_DAY:
        return f"{hours / HOURS_OF_DAY:.0f} days"
    return f"{hours:.0f} hour{'s' if round(hours) != 1 else ''}"
