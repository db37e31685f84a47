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

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from msgspec import Struct, structs

from quotaform.model import rule
from quotaform.model.entity import Entity, parse_address
from quotaform.model.quota_key import QUOTA_KEYS, QuotaKey, key_order
from quotaform.model.quotas import Quotas
from quotaform.model.text import option_of
from quotaform.model.units import is_decimal, is_unlimited, render_measured, render_value
from quotaform.resolve.effect import make_effects
from quotaform.usage.recommend.demand import DAY_S, BucketDemand, Demand, History, Recorded, day_text, time_text
from quotaform.usage.recommend.recommendation import MIN_CHANGE, Advice, Recommendation, RecommendSettings, round_up


def recommend(
    cluster: str,
    quotas: Quotas,
    buckets: Iterable[BucketDemand],
    recorded: Mapping[str, Recorded],
    settings: RecommendSettings,
    now: datetime,
    broker_count: int | None = None,
) -> list[Recommendation]:
    """Return what is proposed for each value of a cluster, and for buckets without one, sorted by entity and key.

    `buckets`: what was recorded of its buckets under these quotas. `recorded`: when each quota key was recorded.
    `broker_count`: how many brokers the cluster has; `None` if it is not known.
    """
    found: list[Recommendation] = []
    by_key: dict[str, list[BucketDemand]] = defaultdict(list)
    for bucket in buckets:
        by_key[bucket.key].append(bucket)
    own: dict[str, dict[Entity, float]] = defaultdict(dict)
    for entity, values in quotas.items():
        for name, value in values.items():
            own[name][entity] = value
    brokers = {name for each in recorded.values() for name in each.brokers if name is not None}
    for name in {*own, *by_key}:
        if (key := QUOTA_KEYS.get(name)) is not None:
            known = recorded.get(name)
            history = None if known is None else History(key, known, settings, brokers, now, broker_count)
            found += _KeySizer(cluster, key, history, settings, own[name]).size(by_key[name])
    return sorted(_with_fallbacks(found, quotas), key=lambda each: (each.entity.address, key_order(each.key)))


def _with_fallbacks(found: Sequence[Recommendation], quotas: Quotas) -> Iterator[Recommendation]:
    """Yield what is proposed for a cluster, where a removal says what applies instead."""
    planned: dict[Entity, dict[str, float]] = {}
    for each in found:
        values = planned.setdefault(each.entity, dict(quotas.get(each.entity, {})))
        values.pop(each.key, None)
        if each.after is not None:
            values[each.key] = each.after
    removed = [each for each in found if each.action is Advice.DELETE]
    effects = make_effects(quotas, planned, [(each.entity, [each.key]) for each in removed])
    yield from (each for each in found if each.action is not Advice.DELETE)
    for each, (effect,) in zip(removed, effects, strict=True):
        note = f"then nothing limits it: plan requires {rule.TO_UNLIMITED.override}"
        value, source = effect.after[:2]
        if value is not None and source is not None:
            note = f"then {render_value(QUOTA_KEYS[each.key], value)} of {source.address} applies"
        yield structs.replace(each, note="; ".join(filter(None, (note, each.note))))


class _Case(Struct, frozen=True, kw_only=True):
    """A value to be sized, or one that may be created."""

    entity: Entity
    before: float | None  # Its value; `None` if it has none
    limit: float | None  # The value that limits its buckets now; `None` without one
    demand: Demand  # What its buckets used; empty if nothing was recorded of them
    has_created: bool = False  # Whether buckets of it get values of their own

    @property
    def is_default(self) -> bool:
        """Whether it is of others, too, than those that are known: it has a bucket for each name, others have one."""
        return any(name is None for _, name in self.entity.parts)


class _KeySizer:
    """Sizes the values of one quota key on one cluster."""

    def __init__(
        self,
        cluster: str,
        key: QuotaKey,
        history: History | None,
        settings: RecommendSettings,
        values: Mapping[Entity, float],
    ) -> None:
        self.cluster = cluster
        self.key = key
        self.history = history
        self.settings = settings
        self.values = values
        self.cap = settings.caps.get(key.name, key.maximum)
        self.capacity = settings.capacities.get(cluster, {}).get(key.name)
        self.kept: list[_Case] = []  # What keeps its limit
        self.sized: list[_Case] = []
        self.removed: list[tuple[_Case, Recommendation]] = []

    def size(self, buckets: Sequence[BucketDemand]) -> list[Recommendation]:
        rows: list[Recommendation] = []
        for case in self.cases(buckets):
            # What is not asked for keeps its limit, whatever was used.
            is_new = case.before is None
            is_asked = self.may_be_created(case) if is_new else self.settings.selection.contains(case.entity)
            decided = self.settle(case) if is_asked else None
            if is_asked and decided is None:
                self.sized.append(case)
            elif decided is not None and decided.action is Advice.DELETE:
                self.removed.append((case, decided))
            else:
                self.kept.append(case)
                rows += [] if decided is None or is_new else [decided]
        headroom = self.headroom()
        if headroom is None and (loosening := self.loosening()):
            rows += [
                self.row(case, Advice.NONE, f"{self.shown_capacity(case.before)} is used up") for case in loosening
            ]
            self.kept += loosening
            self.removed = [each for each in self.removed if each[0] not in loosening]
            headroom = self.headroom()
        rows += [row for _, row in self.removed]
        return rows + [row for case in self.sized if (row := self.propose(case, headroom)) is not None]

    def cases(self, buckets: Sequence[BucketDemand]) -> Iterator[_Case]:
        """Yield every value, then the buckets that nothing limits, or that get values of their own."""
        is_per_broker = self.key.per == "broker"
        by_address: dict[str, list[BucketDemand]] = defaultdict(list)
        for each in buckets:
            by_address[each.bucket].append(each)
        limited: dict[str | None, list[BucketDemand]] = defaultdict(list)
        left: set[str | None] = set()
        known = {entity.address for entity in self.values}
        for address, rows in by_address.items():
            demand, source = Demand.of(rows, is_per_broker=is_per_broker), rows[0].entity_key
            case = _Case(entity=parse_address(address), before=None, limit=rows[0].limit, demand=demand)
            if needs_own := self.needs_own(case, source):
                left.add(source)
            if needs_own or source not in known:
                yield case
            else:
                limited[source] += rows
        for entity, value in self.values.items():
            demand = Demand.of(limited[entity.address], is_per_broker=is_per_broker)
            has_created = entity.address in left
            yield _Case(entity=entity, before=value, limit=value, demand=demand, has_created=has_created)

    def needs_own(self, case: _Case, source: str | None) -> bool:
        """Whether a bucket gets a value for it alone: it needs more than its default, or a limit at all.

        `source`: the address of the entity whose value limits it.
        """
        is_own = source is not None and all(name for _, name in parse_address(source).parts)
        if is_own or source == case.entity.address or not self.may_be_created(case):
            return False
        if case.limit is None or is_unlimited(self.key, case.limit):
            return True
        return self.value(case, self.settings.headroom) > case.limit * (1 + MIN_CHANGE)

    def may_be_created(self, case: _Case) -> bool:
        return (
            self.settings.has_creates
            and self.history is not None
            and self.settings.scope.contains(case.entity)
            and self.settings.selection.contains(case.entity)
            and self.key.fits(case.entity)
            and all(name for _, name in case.entity.parts)
            and self.history.missing(case.demand) is None
            and bool(case.demand.basis)
            and not self.history.is_idle(case.demand)
        )

    def value(self, case: _Case, headroom: float) -> float:
        """Return the value of a case that has a basis, at some headroom; it never decreases with more headroom."""
        wanted = max(case.demand.basis * headroom, self.settings.floors.get(self.key.name, 0.0))
        target = min(round_up(self.key, wanted, decimal=is_decimal(self.key, case.before)), self.cap)
        if case.before is None:
            return target
        if case.demand.throttled:
            target = max(target, case.before)
        return case.before if abs(target - case.before) < MIN_CHANGE * case.before else target

    def headroom(self) -> float | None:
        """Return the largest headroom at which the limits of all buckets fit the capacity of each broker.

        It is in hundredths, unless it is the wanted one; `None` if not even the rates themselves fit.
        """
        wanted, capacity = self.settings.headroom, self.capacity
        if capacity is None:
            return wanted
        moved: dict[Entity | None, list[BucketDemand]] = defaultdict(list)
        for case, source in self.sources():
            moved[source] += case.demand.counted

        def fits(headroom: float) -> bool:
            total: dict[str | None, float] = defaultdict(float)  # By broker; `None` is the whole cluster
            for each in moved[None]:
                total[each.broker] += each.basis
            for case, limit in self.limits(headroom):
                limited = set()
                # Who loses a value of his own joins the one bucket of a named entity, and has his own of a default.
                for each in (*case.demand.counted, *moved[case.entity]):
                    if limit is None or is_unlimited(self.key, limit):
                        total[each.broker] += each.basis
                    elif case.is_default or each.broker not in limited:
                        total[each.broker] += limit
                        limited.add(each.broker)
            return all(rate <= capacity for rate in total.values())

        if fits(wanted):
            return wanted
        hundredths = range(100, int(wanted * 100) + 1)
        place = bisect_left(hundredths, True, key=lambda each: not fits(each / 100))
        return hundredths[place - 1] / 100 if place else None

    def limits(self, headroom: float) -> Iterator[tuple[_Case, float | None]]:
        """Yield what is not removed, each with the value that limits it at some headroom."""
        yield from ((case, case.limit) for case in self.kept)
        yield from ((case, self.value(case, headroom)) for case in self.sized)

    def sources(self) -> Iterator[tuple[_Case, Entity | None]]:
        """Yield the values that are removed, each with the entity that limits its buckets then, if one does."""
        quotas = {entity: {self.key.name: value} for entity, value in self.values.items()}
        removed = [case for case, _ in self.removed]
        gone: dict[Entity, Mapping[str, float]] = {case.entity: {} for case in removed}
        effects = make_effects(quotas, gone, [(case.entity, [self.key.name]) for case in removed])
        yield from ((case, effect.after.source) for case, (effect,) in zip(removed, effects, strict=True))

    def loosening(self) -> list[_Case]:
        """Return the values after whose removal their buckets may use more of a broker than now."""
        limits = {case.entity: limit for case, limit in self.limits(1.0)}
        found = []
        for case, source in self.sources():
            limit = None if source is None else limits[source]
            rates = [each.basis if is_unlimited(self.key, limit) else limit for each in case.demand.counted]
            if any((rate or 0.0) > (case.before or 0.0) for rate in rates):
                found.append(case)
        return found

    def shown_capacity(self, value: float | None) -> str:
        """Return the capacity in the units of a value."""
        return f"the capacity of {render_value(self.key, self.capacity or 0.0, decimal=is_decimal(self.key, value))}"

    def settle(self, case: _Case) -> Recommendation | None:
        """Return what is known of a value before its size; `None` if it is to be sized."""
        demand, history, percentile = case.demand, self.history, f"the p{self.settings.percentile:g}"
        if not self.settings.scope.contains(case.entity):
            return self.row(case, Advice.NONE, "out of scope")
        if case.before is not None and is_unlimited(self.key, case.before):
            return self.row(case, Advice.KEEP, "unlimited: the entity is exempt")
        if history is None:
            return self.row(case, Advice.NONE, f"no usage of {self.key.name} is recorded")
        if history.is_idle(demand):
            if case.has_created:
                return self.row(case, Advice.KEEP, "those that it limits get values of their own")
            return self.unused(case, history)
        if (reason := history.missing(demand)) is not None:
            return self.row(case, Advice.NONE, reason)
        if not demand.basis:
            return self.row(case, Advice.KEEP, f"{percentile} is 0")
        if self.cap < demand.basis:
            basis = render_measured(self.key, demand.basis, decimal=is_decimal(self.key, self.cap))
            cap = render_value(self.key, self.cap)
            return self.row(case, Advice.NONE, f"the cap of {cap} is below {percentile} of {basis}")
        return None

    def unused(self, case: _Case, history: History) -> Recommendation:
        """Return what is proposed for a value without recorded use."""
        missing, days = history.missing_to_remove()
        if missing is not None:
            return self.row(case, Advice.NONE, f"not used, but {missing}", days=days)
        idle = history.unused_text()
        if case.is_default:
            return self.row(case, Advice.KEEP, f"{idle}; a default also limits new clients")
        return self.row(case, Advice.DELETE, idle, days=days, note=history.brokers_text())

    def propose(self, case: _Case, headroom: float | None) -> Recommendation | None:
        """Return what is proposed for a value that was sized; `None` for none."""
        demand, settings, busiest = case.demand, self.settings, case.demand.busiest
        if busiest is None or self.history is None:
            return None
        factor = settings.headroom if headroom is None else headroom
        after = self.value(case, factor)
        shown = after if case.before is None else case.before
        if headroom is None and (case.before is None or after > case.before):
            return self.row(case, Advice.NONE, f"{self.shown_capacity(shown)} is used up")
        if case.before == after:
            return self.row(case, Advice.KEEP, f"within {MIN_CHANGE:.0%} of what fits")

        def measured(rate: float) -> str:
            return render_measured(self.key, rate, decimal=is_decimal(self.key, shown))

        notes = []
        if factor < settings.headroom:
            notes.append(f"x {settings.headroom:g} exceeds {self.shown_capacity(shown)}")
        if demand.throttled:
            samples = f"{demand.throttled:,} of {demand.samples:,} samples"
            notes.append(f"throttled in {samples}: demand was higher")
        if busiest.outlier is not None and busiest.outlier_day is not None:
            notes.append(f"left out: {measured(busiest.outlier)} on {day_text(busiest.outlier_day)}")
        if busiest.stands_out and busiest.next_basis is not None:
            # The last day of a weekday is never left out.
            can_be_left_out = busiest.weekday_days >= settings.outlier_days + 2
            days = f"{option_of('outlier_days')} {settings.outlier_days + 1}"
            option = f" ({days} leaves it out)" if can_be_left_out else ""
            notes.append(f"that day stands out: at most {measured(busiest.next_basis)} on all others{option}")
        days = f"{time_text(self.history.seconds(demand))}{'' if busiest.outlier is None else ' without outliers'}"
        basis = " ".join(filter(None, (measured(demand.basis), busiest.text)))
        action = Advice.CREATE if case.before is None else Advice.UPDATE
        reason = f"p{settings.percentile:g} of {days}, {basis}, x {factor:g}"
        return self.row(case, action, reason, after=after, note="; ".join(notes) or None)

    def row(
        self,
        case: _Case,
        action: Advice,
        reason: str,
        *,
        after: float | None = None,
        note: str | None = None,
        days: float | None = None,
    ) -> Recommendation:
        demand, history = case.demand, self.history
        if days is None:
            days = 0.0 if not demand.every or history is None else history.seconds(demand) / DAY_S
        busiest = demand.busiest
        return Recommendation(
            cluster=self.cluster,
            entity=case.entity,
            key=self.key.name,
            action=action,
            before=case.before,
            after=case.before if action in (Advice.KEEP, Advice.NONE) else after,
            reason=reason,
            note=note,
            samples=demand.samples,
            days=round(days, 3),
            basis=None if busiest is None else busiest.basis,
            day=None if busiest is None else busiest.day,
            is_weekly=busiest is not None and busiest.is_weekly,
            bucket=None if demand.highest is None else demand.highest.bucket,
            broker=None if demand.highest is None else demand.highest.broker,
        )
