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

from msgspec import structs

from quotaform.model.entity import Entity, parse_address
from quotaform.model.quota_key import QUOTA_KEYS, QuotaKey, key_order
from quotaform.model.quotas import Quotas
from quotaform.model.settings import SizingSettings
from quotaform.model.units import is_decimal, is_unlimited, render_measured, render_value
from quotaform.resolve.effect import Effect, make_effects
from quotaform.usage.recommend.demand import (
    DAY_S,
    BucketDemand,
    BusiestDay,
    Demand,
    History,
    Recorded,
    date_of,
    day_text,
    make_demand,
    time_text,
)
from quotaform.usage.recommend.recommendation import (
    MIN_CHANGE,
    Action,
    OwnValue,
    Recommendation,
    RecommendSettings,
    round_up,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SizingCase:
    """A value to be sized, or one that may be created."""

    entity: Entity
    key: QuotaKey
    before: float | None  # Its value; `None` if it has none
    limit: float | None  # The value that limits its buckets now; `None` without one
    demand: Demand | None  # What its buckets used; `None` if nothing was recorded of them
    has_created: bool = False  # Whether buckets of it get values of their own

    @property
    def is_default(self) -> bool:
        """Whether it is of others, too, than those that are known."""
        return any(name is None for _, name in self.entity.parts)

    @property
    def is_exempt(self) -> bool:
        """Whether somebody set it to unlimited."""
        return self.before is not None and is_unlimited(self.key, self.before)

    def limits(self, value: float | None) -> Mapping[str | None, float]:
        """Return what its buckets may use under a value, per broker; without a limit, what they used."""
        if self.demand is None:
            return {}
        if value is None or is_unlimited(self.key, value):
            return self.demand.bases
        return {broker: number * value for broker, number in self.demand.buckets.items()}


def sizing_cases(
    key: QuotaKey,
    values: Sequence[OwnValue],
    buckets: Sequence[BucketDemand],
    own_entity: Callable[[BucketDemand, Demand], Entity | None],
) -> Iterator[SizingCase]:
    """Yield every value, then the buckets that nothing limits, then those that get values of their own.

    `values`: its values on the cluster. `buckets`: its buckets under them. `own_entity`: returns the entity that gets a
    value for a bucket alone; `None` if its limit now is to be kept.
    """
    is_per_broker = key.per == "broker"
    by_entity: dict[str | None, list[BucketDemand]] = {}
    created: list[tuple[Entity, BucketDemand, Demand]] = []
    for bucket in buckets:
        demand = make_demand([bucket], is_per_broker=is_per_broker)
        entity = own_entity(bucket, demand)
        if entity is not None:
            created.append((entity, bucket, demand))
        else:
            by_entity.setdefault(bucket.entity_key, []).append(bucket)
    left = {bucket.entity_key for _, bucket, _ in created}
    for value in values:
        limited = by_entity.pop(value.entity.address, ())
        yield SizingCase(
            entity=value.entity,
            key=key,
            before=value.value,
            limit=value.value,
            demand=make_demand(limited, is_per_broker=is_per_broker) if limited else None,
            has_created=value.entity.address in left,
        )
    for rest in by_entity.values():
        for bucket in rest:
            demand = make_demand([bucket], is_per_broker=is_per_broker)
            entity = parse_address(bucket.bucket)
            yield SizingCase(entity=entity, key=key, before=None, limit=bucket.limit, demand=demand)
    for entity, bucket, demand in created:
        yield SizingCase(entity=entity, key=key, before=None, limit=bucket.limit, demand=demand)


BrokerRates = Mapping[str | None, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """A value that is to be removed."""

    row: Recommendation  # The proposal
    case: SizingCase  # The value and what its buckets used
    source: Entity | None  # The entity whose value limits its buckets then; `None` if nothing does
    value: float | None  # The value of that entity now
    joined: SizingCase | None  # What that value limits anyway; `None` if nothing is known of it

    @property
    def buckets(self) -> Mapping[str | None, int]:
        """How many buckets that value limits more than before, per broker.

        A named entity has one bucket, which the requests join; a default has one for each name.
        """
        demand = self.case.demand
        if demand is None:
            return {}
        known = self.joined.demand if self.joined is not None and not self.joined.is_default else None
        return {broker: count for broker, count in demand.buckets.items() if not known or broker not in known.buckets}

    def limits(self, value: float | None) -> BrokerRates:
        """Return what its buckets may use, per broker, if the value that limits them then is this one."""
        if value is None or is_unlimited(self.case.key, value):
            return self.case.limits(None)
        return {broker: count * value for broker, count in self.buckets.items()}

    def is_loosening(self, value: float | None) -> bool:
        """Whether its buckets may use more of a broker then than they may now."""
        now = self.case.limits(self.case.before)
        return any(rate > now.get(broker, 0.0) for broker, rate in self.limits(value).items())


def make_removals(
    key: QuotaKey,
    values: Sequence[OwnValue],
    removed: Sequence[tuple[Recommendation, SizingCase]],
    cases: Mapping[Entity, SizingCase],
) -> list[Removal]:
    """Return what becomes of the buckets of values that are to be removed.

    `values`: all its values on the cluster. `removed`: those that are to be removed. `cases`: what each value limits,
    by entity.
    """
    quotas = {value.entity: {key.name: value.value} for value in values}
    gone: dict[Entity, Mapping[str, float]] = {case.entity: {} for _, case in removed}
    effects = make_effects(quotas, gone, [(case.entity, [key.name]) for _, case in removed])
    found = []
    for (row, case), (effect,) in zip(removed, effects, strict=True):
        source = effect.after.source
        joined = None if source is None else cases.get(source)
        found.append(Removal(row=row, case=case, source=source, value=effect.after.value, joined=joined))
    return found


def with_moved(cases: Sequence[SizingCase], removals: Sequence[Removal]) -> list[SizingCase]:
    """Return cases with the buckets that they limit once values are removed."""
    found = []
    for case in cases:
        demand = case.demand
        moved = [each.buckets for each in removals if each.source == case.entity]
        if demand is not None and case.before is not None and moved:
            buckets = dict(demand.buckets)
            for counts in moved:
                for broker, count in counts.items():
                    buckets[broker] = buckets.get(broker, 0) + count
            case = replace(case, demand=replace(demand, buckets=buckets))
        found.append(case)
    return found


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

    `busiest`: the day on which it rests. `seconds`: how much is recorded. `factor`: the headroom that it was given.
    `decimal`: whether rates are given in powers of 1000, as the value is; see `quotaform.model.units.is_decimal`.
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
        yield structs.replace(each, note="; ".join(filter(None, (_fallback(each.key, effect), each.note))))


def _fallback(key: str, effect: Effect) -> str:
    value, source = effect.after.value, effect.after.source
    if value is None or source is None:
        return "then nothing limits it: plan requires --allow to-unlimited"
    return f"then {render_value(QUOTA_KEYS[key], value)} of {source.address} applies"


_FACTORS: Final = 100
"""A headroom is a number of hundredths."""


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

    `buckets`: what was recorded of its buckets under these values. `recorded`: when each quota key was recorded.
    `broker_count`: how many brokers the cluster has; `None` if it is not known.
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
        self.floor = settings.floors.get(key.name, 0.0)
        self.cap = settings.caps.get(key.name, key.maximum)
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

    def target(self, basis: float, before: float | None, headroom: float) -> float:
        """Return what fits a basis; `before` says in which units it is written."""
        rounded = round_up(self.key, max(basis * headroom, self.floor), decimal=is_decimal(self.key, before))
        return min(rounded, self.cap)

    def value(self, case: SizingCase, headroom: float) -> float:
        """Return the value of a case that has a basis, at some headroom; it never decreases with more headroom."""
        demand = case.demand
        if demand is None or not demand.basis:
            raise ValueError("a value without a basis is not sized")
        target = self.target(demand.basis, case.before, headroom)
        if case.before is None:
            return target
        if demand.throttled:
            target = max(target, case.before)
        return case.before if abs(target - case.before) < MIN_CHANGE * case.before else target

    def headroom(
        self, settled: Sequence[SizingCase], sized: Sequence[SizingCase], removals: Sequence[Removal]
    ) -> float | None:
        """Return the largest headroom at which the limits of all buckets fit the capacity of each broker.

        It is in hundredths, unless it is the wanted one; `None` if not even the rates themselves fit.
        """
        wanted, capacity = self.settings.headroom, self.capacity
        if capacity is None:
            return wanted
        entities = {case.entity for case in sized}
        fixed = [case.limits(case.limit) for case in settled]
        fixed += [each.limits(each.value) for each in removals if each.source not in entities]
        moved = with_moved(sized, removals)

        def fits(headroom: float) -> bool:
            total: dict[str | None, float] = {}
            for rates in (*fixed, *(case.limits(self.value(case, headroom)) for case in moved)):
                for broker, rate in rates.items():
                    total[broker] = total.get(broker, 0.0) + rate
            return all(rate <= capacity for rate in total.values())

        if fits(wanted):
            return wanted
        if not fits(1.0):
            return None
        low, high = _FACTORS, int(wanted * _FACTORS)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if fits(middle / _FACTORS) else (low, middle - 1)
        return low / _FACTORS

    def loosening(self, sized: Sequence[SizingCase], removals: Sequence[Removal]) -> list[Removal]:
        """Return the removals after which buckets may use more than now."""
        least = {case.entity: self.value(case, 1.0) for case in sized}
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
        target = self.target(demand.basis, None, self.settings.headroom)
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
        if demand.basis and (cap := self.cap) < demand.basis:
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
        after = self.value(case, factor)
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
            days=round(days, 3),
            basis=None if busiest is None else busiest.basis,
            day=None if busiest is None else date_of(busiest.day),
            is_weekly=busiest is not None and busiest.is_weekly,
            bucket=demand.bucket if demand else None,
            broker=demand.broker if demand else None,
        )
