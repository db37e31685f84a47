"""Sizes the quotas of one cluster by what was recorded.

docs/usage-recommend.md says in which case what is proposed, and why.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from math import ceil
from typing import Any, Final

from msgspec import structs

from quotaform.model import rule
from quotaform.model.entity import Entity, parse_address
from quotaform.model.moment import duration_text, spell_second
from quotaform.model.quota_key import QUOTA_KEYS, QuotaKey, key_order
from quotaform.model.quotas import Quotas
from quotaform.model.text import inert, listed, option_of
from quotaform.model.units import is_decimal, is_unlimited, render_measured, render_value
from quotaform.resolve.effect import make_effects
from quotaform.resolve.index import Effective
from quotaform.usage.recommend.demand import DAY_S, HOUR_S, STANDS_OUT, BucketDemand, BusiestDay, day_text, hour_of
from quotaform.usage.recommend.recommendation import Advice, Recommendation, RecommendSettings, round_up

MIN_CHANGE: Final = 0.1
"""A value that would change by less than this share of it is kept."""
_MOST_TIME_S: Final = 2 * DAY_S
"""From here on, times are given in days."""


def recommend(
    cluster: str,
    quotas: Quotas,
    demands: Sequence[BucketDemand],
    settings: RecommendSettings,
    now: datetime,
    broker_count: int | None = None,
) -> list[Recommendation]:
    """Return what is proposed for each value of a cluster, and for buckets without one, sorted by entity and key.

    `demands`: what was recorded of its buckets under these quotas. `broker_count`: how many brokers the cluster has;
    `None` if it is not known.
    """
    found: list[Recommendation] = []
    by_key: dict[str, list[BucketDemand]] = defaultdict(list)
    for demand in demands:
        by_key[demand.key].append(demand)
    own: dict[str, dict[Entity, float]] = defaultdict(dict)
    for entity, values in quotas.items():
        for name, value in values.items():
            own[name][entity] = value
    brokers = {each.broker for each in demands if each.broker is not None}
    for name in {*own, *by_key}:
        if (key := QUOTA_KEYS.get(name)) is not None:
            sizer = _KeySizer(cluster, key, settings, own[name], by_key[name], brokers, now, broker_count)
            found += sizer.size()
    return sorted(found, key=lambda each: (each.entity.address, key_order(each.key)))


class _Case:
    """A value to be sized, or one that may be created, and what the buckets used that it limits."""

    def __init__(
        self,
        key: QuotaKey,
        entity: Entity,
        before: float | None,
        rows: Iterable[BucketDemand],
        has_created: bool = False,
    ) -> None:
        self.entity = entity
        self.before = before  # Its value; `None` if it has none
        self.has_created = has_created  # Whether buckets of it get values of their own
        # A default has a bucket for each name, also of others than those that are known.
        self.is_default = None in entity.names.values()
        self.every = sorted(rows, key=lambda each: (each.bucket, each.broker or ""))
        # The value that limits its buckets now; `None` without one.
        self.limit = self.every[0].limit if before is None else before
        # Where both brokers and clients measured a bucket, what clients say of all brokers together does not count.
        measured = {each.bucket for each in self.every if key.per == "broker" and each.broker is not None}
        self.counted = [each for each in self.every if each.broker is not None or each.bucket not in measured]
        self.samples = sum(each.samples for each in self.counted)
        self.throttled = sum(each.throttled for each in self.counted)
        # The busiest day of the bucket with the highest basis; `None` without a rate. What a proposal says of it.
        self.busiest: BusiestDay | None = None
        self.found: dict[str, Any] = {"samples": self.samples}
        rated = [each for each in self.counted if each.busiest is not None]
        if (highest := max(rated, key=lambda each: each.basis, default=None)) and (busiest := highest.busiest):
            self.busiest = busiest
            self.found |= {"basis": busiest.basis, "day": busiest.day, "is_weekly": busiest.is_weekly}
            self.found |= {"bucket": highest.bucket, "broker": highest.broker}
        self.basis = 0.0 if self.busiest is None else self.busiest.basis


class _KeySizer:
    """Sizes the values of one quota key on one cluster."""

    def __init__(
        self,
        cluster: str,
        key: QuotaKey,
        settings: RecommendSettings,
        values: Mapping[Entity, float],
        demands: Sequence[BucketDemand],
        brokers: Collection[str],
        now: datetime,
        broker_count: int | None,
    ) -> None:
        """Take what was recorded of the key; `brokers`: those on which any key was recorded that is limited on each."""
        self.cluster, self.key, self.settings, self.values = cluster, key, settings, values
        self.demands, self.brokers, self.now, self.broker_count = demands, sorted(brokers), now, broker_count
        self.is_per_broker = key.per == "broker"
        self.cap = settings.caps.get(key.name, key.maximum)
        self.capacity = settings.capacities.get(cluster, {}).get(key.name)
        # The hours of all buckets from the earliest on, and those of each broker, with when its first window began.
        # `None` is the whole cluster if the limit is one of the cluster, and clients that measured otherwise.
        self.last = max((each.last for each in demands), default=now)
        self.earliest = min((hour_of(each.first) for each in demands), default=0)
        self.hours = 0
        self.recorded: dict[str | None, tuple[int, datetime]] = {}
        for each in demands:
            own = each.hours << hour_of(each.first) - self.earliest
            self.hours |= own
            known, begin = self.recorded.get(each.broker, (0, each.begin))
            self.recorded[each.broker] = known | own, min(begin, each.begin)
        self.kept: list[_Case] = []  # What keeps its limit
        self.sized: list[_Case] = []
        self.removed: list[tuple[_Case, Recommendation]] = []

    def size(self) -> list[Recommendation]:
        rows: list[Recommendation] = []
        for case in self.cases():
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
        rows += [row for case in self.sized if (row := self.propose(case, headroom)) is not None]
        for (_, row), effective in zip(self.removed, self.after_removal(rows), strict=True):
            note = f"then nothing limits it: plan requires {rule.TO_UNLIMITED.override}"
            if effective.value is not None and effective.source is not None:
                note = f"then {render_value(self.key, effective.value)} of {effective.source.address} applies"
            rows.append(structs.replace(row, note="; ".join(filter(None, (note, row.note)))))
        return rows

    def after_removal(self, others: Iterable[Recommendation] = ()) -> list[Effective]:
        """Return what limits the buckets of each value that is removed then, if other proposals are followed, too."""
        name = self.key.name
        quotas = {entity: {name: value} for entity, value in self.values.items()}
        planned: dict[Entity, Mapping[str, float]] = {case.entity: {} for case, _ in self.removed}
        planned |= {each.entity: {name: each.after} for each in others if each.after is not None}
        effects = make_effects(quotas, planned, [(case.entity, [name]) for case, _ in self.removed])
        return [effect.after for (effect,) in effects]

    def cases(self) -> Iterator[_Case]:
        """Yield the buckets that nothing limits, or that get values of their own, then every value."""
        by_address: dict[str, list[BucketDemand]] = defaultdict(list)
        for each in self.demands:
            by_address[each.bucket].append(each)
        limited: dict[str | None, list[BucketDemand]] = defaultdict(list)
        left: set[str | None] = set()
        known = {entity.address for entity in self.values}
        for address, rows in by_address.items():
            source = rows[0].entity_key
            case = _Case(self.key, parse_address(address), None, rows)
            if needs_own := self.needs_own(case, source):
                left.add(source)
            if needs_own or source not in known:
                yield case
            else:
                limited[source] += rows
        for entity, value in self.values.items():
            has_created, rows = entity.address in left, limited[entity.address]
            yield _Case(self.key, entity, value, rows, has_created=has_created)

    def needs_own(self, case: _Case, source: str | None) -> bool:
        """Whether a bucket gets a value for it alone: it needs more than its default, or a limit at all.

        `source`: the address of the entity whose value limits it.
        """
        is_own = source is not None and all(parse_address(source).names.values())
        if is_own or source == case.entity.address or not self.may_be_created(case):
            return False
        if case.limit is None or is_unlimited(self.key, case.limit):
            return True
        return self.value(case, self.settings.headroom) > case.limit * (1 + MIN_CHANGE)

    def may_be_created(self, case: _Case) -> bool:
        return (
            self.settings.has_creates
            and self.settings.scope.contains(case.entity)
            and self.settings.selection.contains(case.entity)
            and self.key.fits(case.entity)
            and all(case.entity.names.values())
            and self.missing(case) is None
            and bool(case.basis)
            and not self.is_idle(case)
        )

    def missing(self, case: _Case) -> str | None:
        """Return what is missing to size a value; `None` if it is enough."""
        if coarse := [each for each in case.every if each.is_coarse]:
            return f"the recording of {inert(coarse[0].bucket)} does not tell its buckets apart"
        if self.is_per_broker and all(each.broker is None for each in case.every):
            return f"only clients measured it, and {self.key.name} is limited per broker"
        begin = min(each.begin for each in case.every)
        if (share := self.missing_share(begin, self.seconds(case), self.settings.min_history_days)) is not None:
            return f"{share} recorded"
        if case.samples < self.settings.min_samples:
            return f"{case.samples:,} of {self.settings.min_samples:,} samples recorded"
        return None

    def is_idle(self, case: _Case) -> bool:
        """Whether no use of a value is recorded for as long as the settings require."""
        used = [each.last_used for each in case.every if each.last_used is not None]
        unused_after = timedelta(days=self.settings.unused_after_days)
        return all(self.last - last >= unused_after for last in used)

    def seconds(self, case: _Case) -> float:
        """Return how much is recorded of a value: its hours, or less if the window of its first sample began later."""
        if not case.every:
            return 0.0
        hours = self.hours >> min(hour_of(each.first) for each in case.every) - self.earliest
        return self.recorded_seconds(hours, min(each.begin for each in case.every))

    def recorded_seconds(self, hours: int, begin: datetime) -> float:
        return min(hours.bit_count() * HOUR_S, (self.last - begin).total_seconds())

    def missing_share(self, begin: datetime, found: float, days: float) -> str | None:
        """Return how much there is of the days that are needed, from a beginning on; `None` if it is enough."""
        hours = self.last.timestamp() // HOUR_S - begin.timestamp() // HOUR_S + 1
        needed = days * DAY_S
        # A time counts as recorded if four of five of its hours are.
        if hours * HOUR_S >= needed and found >= 0.8 * needed:
            return None
        return " of ".join(duration_text(timedelta(seconds=each)) for each in (min(found, needed), needed))

    def value(self, case: _Case, headroom: float) -> float:
        """Return the value of a case that has a basis, at some headroom; it never decreases with more headroom."""
        wanted = max(case.basis * headroom, self.settings.floors.get(self.key.name, 0.0))
        target = min(round_up(self.key, wanted, decimal=is_decimal(self.key, case.before)), self.cap)
        if case.before is None:
            return target
        if case.throttled:
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
        for (case, _), effective in zip(self.removed, self.after_removal(), strict=True):
            moved[effective.source] += case.counted

        def fits(headroom: float) -> bool:
            total: dict[str | None, float] = defaultdict(float)  # By broker; `None` is the whole cluster
            for each in moved[None]:
                total[each.broker] += each.basis
            for case, limit in self.limits(headroom):
                limited = set()
                # Who loses a value of his own joins the one bucket of a named entity, and has his own of a default.
                for each in (*case.counted, *moved[case.entity]):
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

    def loosening(self) -> list[_Case]:
        """Return the values after whose removal their buckets may use more of a broker than now."""
        limits = {case.entity: limit for case, limit in self.limits(1.0)}
        found = []
        for (case, _), effective in zip(self.removed, self.after_removal(), strict=True):
            limit = None if effective.source is None else limits[effective.source]
            rates = [each.basis if is_unlimited(self.key, limit) else limit for each in case.counted]
            if any((rate or 0.0) > (case.before or 0.0) for rate in rates):
                found.append(case)
        return found

    def shown_capacity(self, value: float | None) -> str:
        """Return the capacity in the units of a value."""
        return f"the capacity of {render_value(self.key, self.capacity or 0.0, decimal=is_decimal(self.key, value))}"

    def settle(self, case: _Case) -> Recommendation | None:
        """Return what is known of a value before its size; `None` if it is to be sized."""
        percentile = f"the p{self.settings.percentile:g}"
        if not self.settings.scope.contains(case.entity):
            return self.row(case, Advice.NONE, "out of scope")
        if case.before is not None and is_unlimited(self.key, case.before):
            return self.row(case, Advice.KEEP, "unlimited: the entity is exempt")
        if not self.recorded:
            return self.row(case, Advice.NONE, f"no usage of {self.key.name} is recorded")
        if self.is_idle(case):
            if case.has_created:
                return self.row(case, Advice.KEEP, "those that it limits get values of their own")
            return self.unused(case)
        if (reason := self.missing(case)) is not None:
            return self.row(case, Advice.NONE, reason)
        if not case.basis:
            return self.row(case, Advice.KEEP, f"{percentile} is 0")
        if self.cap < case.basis:
            basis = render_measured(self.key, case.basis, decimal=is_decimal(self.key, self.cap))
            cap = render_value(self.key, self.cap)
            return self.row(case, Advice.NONE, f"the cap of {cap} is below {percentile} of {basis}")
        return None

    def unused(self, case: _Case) -> Recommendation:
        """Return what is proposed for a value without recorded use.

        A client may use one broker and not the others, so the time must be recorded on each of them, and the broker
        with the least of it counts.
        """
        settings, last = self.settings, self.last
        brokers: list[str | None] = [*(self.brokers if self.is_per_broker else self.recorded)]
        names = listed(map(inert, self.brokers))
        forgotten = max(0, hour_of(last) - ceil(settings.unused_after_days * 24) + 1 - self.earliest)
        recent: dict[str | None, float] = {}
        for broker in brokers:
            hours, begin = self.recorded.get(broker, (0, last))
            recent[broker] = self.recorded_seconds(hours >> forgotten, begin)
        missing = []
        if self.now - last > timedelta(days=7):
            # What is unused may be used again since then.
            missing.append(f"the recording ends on {_day(last)}; record again")
        if not brokers:
            missing.append(f"only clients measured it, and {self.key.name} is limited per broker")
        if self.is_per_broker and len(brokers) < (self.broker_count or 0):
            # Recordings name brokers as their source does, so they are compared with those of the cluster by number.
            missing.append(f"only {len(brokers)} of {self.broker_count} brokers recorded ({names})")
        for broker in sorted(brokers, key=recent.__getitem__):
            _, begin = self.recorded.get(broker, (0, last))
            share = self.missing_share(begin, recent[broker], settings.unused_after_days)
            if share is not None:
                missing.append(f"only {share} recorded{'' if broker is None else f' on broker {inert(broker)}'}")
        days = min(recent.values(), default=0.0) / DAY_S
        if missing:
            return self.row(case, Advice.NONE, f"not used, but {missing[0]}", days=days)
        unused_after = timedelta(days=settings.unused_after_days)
        spell = _day if unused_after.total_seconds() >= _MOST_TIME_S else spell_second
        idle = f"not used from {spell(last - unused_after)} to {spell(last)}"
        if case.is_default:
            return self.row(case, Advice.KEEP, f"{idle}; a default also limits new clients")
        note = f"recorded on broker{'s' if len(brokers) > 1 else ''} {names}"
        return self.row(case, Advice.DELETE, idle, days=days, note=note if self.is_per_broker else None)

    def propose(self, case: _Case, headroom: float | None) -> Recommendation | None:
        """Return what is proposed for a value that was sized; `None` for none."""
        settings, busiest = self.settings, case.busiest
        if busiest is None:
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
        if case.throttled:
            samples = f"{case.throttled:,} of {case.samples:,} samples"
            notes.append(f"throttled in {samples}: demand was higher")
        if busiest.outlier is not None and busiest.outlier_day is not None:
            notes.append(f"left out: {measured(busiest.outlier)} on {day_text(busiest.outlier_day)}")
        if busiest.next_basis is not None and busiest.basis > STANDS_OUT * busiest.next_basis:
            # The last day of a weekday is never left out.
            can_be_left_out = busiest.weekday_days >= settings.outlier_days + 2
            option = f"{option_of('outlier_days')} {settings.outlier_days + 1}"
            option = f" ({option} leaves it out)" if can_be_left_out else ""
            notes.append(f"that day stands out: at most {measured(busiest.next_basis)} on all others{option}")
        seconds = self.seconds(case)
        days = f"{seconds / DAY_S:.0f} days" if seconds >= _MOST_TIME_S else duration_text(timedelta(seconds=seconds))
        days += "" if busiest.outlier is None else " without outliers"
        basis = " ".join(filter(None, (measured(case.basis), busiest.text)))
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
        return Recommendation(
            cluster=self.cluster,
            entity=case.entity,
            key=self.key.name,
            action=action,
            before=case.before,
            after=case.before if action in (Advice.KEEP, Advice.NONE) else after,
            reason=reason,
            note=note,
            days=round(self.seconds(case) / DAY_S if days is None else days, 3),
            **case.found,
        )


def _day(moment: datetime) -> str:
    return moment.astimezone(UTC).date().isoformat()
