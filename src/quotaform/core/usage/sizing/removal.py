"""What the buckets of values that are removed count for the capacity of brokers: another value limits them then."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from quotaform.core.effects import make_effects
from quotaform.core.usage.sizing.recommendation import OwnValue, Recommendation
from quotaform.core.usage.sizing.sizing_case import SizingCase
from quotaform.model.entity import Entity
from quotaform.model.quota_key import QuotaKey
from quotaform.model.units import is_unlimited

BrokerRates = Mapping[str | None, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """A value that is to be removed.

    Attributes:
        row: The proposal.
        case: The value and what its buckets used.
        source: The entity whose value limits its buckets then; `None` if nothing does.
        value: The value of that entity now.
        joined: What that value limits anyway; `None` if nothing is known of it.
    """

    row: Recommendation
    case: SizingCase
    source: Entity | None
    value: float | None
    joined: SizingCase | None

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

    Args:
        values: All its values on the cluster.
        removed: Those that are to be removed.
        cases: What each value limits, by entity.
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


def fixed_limits(
    settled: Sequence[SizingCase], removals: Sequence[Removal], is_sized: Callable[[Entity | None], bool]
) -> BrokerRates:
    """Return what the limits sum up to that do not depend on the headroom, per broker.

    Args:
        settled: Values that stay, and buckets that keep their limit.
        removals: Values that are removed.
        is_sized: Whether the value of an entity depends on the headroom.
    """
    total: dict[str | None, float] = {}
    parts = [case.limits(case.limit) for case in settled]
    parts += [each.limits(each.value) for each in removals if not is_sized(each.source)]
    for part in parts:
        for broker, rate in part.items():
            total[broker] = total.get(broker, 0.0) + rate
    return total
