"""What limits concrete requests, key by key, on a cluster as it is and as a plan would make it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from quotaform.core.resolve.index import UNLIMITED, Effective, QuotaIndex, Resolved, request_of
from quotaform.model.entity import Entity
from quotaform.model.precedence import level_of
from quotaform.model.quota_key import KEY_ORDER, key_order
from quotaform.model.quotas import Quotas


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """How much of a resolution is wanted.

    Attributes:
        keys: The quota keys; empty for all.
        inherited: Whether keys whose value is not the entity's own are shown (KIP-546, draft: omitInheritedValues).
        overridden: Whether the entries that lost are shown (KIP-546, draft: omitOverriddenValues).
    """

    keys: tuple[str, ...] = ()
    inherited: bool = True
    overridden: bool = True


EVERYTHING: Final = Detail()


class KeyResolution(NamedTuple):
    """What limits a request for one quota key.

    Attributes:
        key: The quota key.
        resolved: What limits it, with the plan applied if there is one.
        before: What limits it as long as the plan is not applied; `None` without a plan.
    """

    key: str
    resolved: Resolved
    before: Resolved | None = None


class Resolution(NamedTuple):
    """What limits the requests of one concrete entity.

    Attributes:
        entity: Who makes the request: a user, a client-id or both, or an ip.
        keys: The quota keys in the order in which they print.
    """

    entity: Entity
    keys: tuple[KeyResolution, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolveHeader:
    """What was resolved against what.

    Attributes:
        cluster_name: What messages call the cluster.
        cluster_id: The id that the cluster gave itself.
        read_at: When it was read, as ISO 8601 in UTC.
        plan_id: The plan that is taken as applied, if there is one.
        detail: How much is shown.
    """

    cluster_name: str
    cluster_id: str
    read_at: str
    plan_id: str | None = None
    detail: Detail = EVERYTHING


class Resolver:
    """Resolves any number of concrete entities against one read of a cluster.

    Args:
        actual: All quotas as they are.
        planned: The entities that a plan changes, as they will be (no values: removed); `None` without a plan.
        detail: How much is wanted.
    """

    def __init__(self, actual: Quotas, planned: Quotas | None = None, detail: Detail = EVERYTHING) -> None:
        self._actual: Final = QuotaIndex(actual)
        self._planned: Final = None if planned is None else self._actual.altered(planned)
        self._detail: Final = detail

    @property
    def index(self) -> QuotaIndex:
        """The quotas that are resolved: with the plan applied, if there is one."""
        return self._planned or self._actual

    def resolve(self, entity: Entity) -> Resolution:
        """Resolve one concrete entity.

        >>> resolver = Resolver({Entity(user=None): {"request_percentage": 50.0}})
        >>> [row.resolved.source_name for row in resolver.resolve(Entity(user="a")).keys]
        [None, None, 'DefaultUser', None]

        Raises:
            ValueError: It is not concrete.
        """
        request = request_of(entity)
        before = self._actual.resolve(request)
        if self._planned is None:
            return Resolution(entity, tuple(self._rows(entity, before, {})))
        return Resolution(entity, tuple(self._rows(entity, self._planned.resolve(request), before)))

    def _rows(
        self, entity: Entity, found: Mapping[str, Resolved], before: Mapping[str, Resolved]
    ) -> Iterator[KeyResolution]:
        detail = self._detail
        own = None if detail.inherited else level_of(entity)
        for key in detail.keys or _ordered(found, before):
            if key not in found and key not in before:
                continue
            resolved, was = found.get(key, UNLIMITED), before.get(key, UNLIMITED) if before else None
            if own is not None and resolved.level != own and (was is None or was.level != own):
                continue
            if not detail.overridden and resolved.overridden:
                resolved = resolved._replace(overridden=())
            yield KeyResolution(key, resolved, was)


def _ordered(found: Mapping[str, Resolved], before: Mapping[str, Resolved]) -> Iterable[str]:
    if found.keys() <= KEY_ORDER.keys() and before.keys() <= KEY_ORDER.keys():
        return found
    return sorted({**found, **before}, key=key_order)


def entries(resolved: Resolved) -> tuple[Effective, ...]:
    """Return the winner and the entries that lost to it, in order of precedence."""
    if resolved.source is None:
        return ()
    return (Effective(resolved.value, resolved.source, resolved.level), *resolved.overridden)
