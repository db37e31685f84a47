"""The values of a quota key that are to be sized, each with what its buckets used."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from quotaform.core.usage.sizing.demand import BucketDemand, Demand, make_demand
from quotaform.core.usage.sizing.recommendation import OwnValue
from quotaform.model.address import parse_address
from quotaform.model.entity import Entity
from quotaform.model.quota_key import QuotaKey
from quotaform.model.units import is_unlimited


@dataclass(frozen=True, slots=True, kw_only=True)
class SizingCase:
    """A value to be sized, or one that may be created.

    Attributes:
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

    Args:
        values: Its values on the cluster.
        buckets: Its buckets under them.
        own_entity: Returns the entity that gets a value for a bucket alone; `None` if its limit now is to be kept.
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
