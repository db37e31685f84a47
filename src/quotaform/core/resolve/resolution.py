"""What limits concrete requests, key by key, on a cluster as it is and as a plan would make it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from quotaform.core.resolve.entry import NOT_LIMITED, Resolved
from quotaform.core.resolve.request import request_of, unmentioned_types
from quotaform.core.resolve.resolver import Resolver
from quotaform.model.entity import Entity
from quotaform.model.precedence import level_of
from quotaform.model.quota_key import KEY_ORDER, QUOTA_KEYS, key_order
from quotaform.model.quotas import same_value
from quotaform.model.snapshot import SnapshotFile


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


FULL_DETAIL: Final = Detail()


class KeyResolution(NamedTuple):
    """What limits a request for one quota key.

    Attributes:
        resolved: What limits it, with the plan applied if there is one.
        before: What limits it as long as the plan is not applied; `None` without a plan.
    """

    key: str
    resolved: Resolved
    before: Resolved | None = None

    @property
    def is_changed(self) -> bool:
        """Whether the plan changes the value, from wherever it comes."""
        return self.before is not None and not same_value(self.before.value, self.resolved.value)


class Resolution(NamedTuple):
    """What limits the requests of one concrete entity.

    Attributes:
        entity: Who makes the request: a user, a client-id or both, or an ip.
        keys: The quota keys in the order in which they print.
    """

    entity: Entity
    keys: tuple[KeyResolution, ...]

    @property
    def unmentioned(self) -> tuple[str, ...]:
        """The entity types that the entity leaves out, so that a name that no quota mentions was resolved."""
        return unmentioned_types(request_of(self.entity))


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolveHeader:
    """What was resolved against what.

    Attributes:
        cluster_name: What messages call the cluster.
        read_at: When it or its snapshot was read, as ISO 8601 in UTC.
        plan_id: The plan that is taken as applied, if there is one.
    """

    cluster_name: str
    cluster_id: str
    read_at: str
    plan_id: str | None = None
    detail: Detail = FULL_DETAIL
    snapshot: SnapshotFile | None = None


def make_resolution(
    entity: Entity, actual: Resolver, planned: Resolver | None = None, detail: Detail = FULL_DETAIL
) -> Resolution:
    """Resolve one concrete entity.

    >>> from quotaform.core.resolve.index import QuotaIndex
    >>> resolver = Resolver(QuotaIndex({Entity(user=None): {"request_percentage": 50.0}}))
    >>> resolution = make_resolution(Entity(user="a"), resolver)
    >>> {row.key: row.resolved.source_name for row in resolution.keys}["request_percentage"]
    'DefaultUser'

    Args:
        entity: Who makes the request.
        planned: The same with a plan applied; `None` without a plan.

    Raises:
        ValueError: It is not concrete.
    """
    request = request_of(entity)
    before = actual.resolve(request, detail.keys)
    if planned is None:
        return Resolution(entity, tuple(_rows(entity, before, {}, detail)))
    return Resolution(entity, tuple(_rows(entity, planned.resolve(request, detail.keys), before, detail)))


def _rows(
    entity: Entity, found: Mapping[str, Resolved], before: Mapping[str, Resolved], detail: Detail
) -> Iterator[KeyResolution]:
    own = None if detail.inherited else level_of(entity)
    for key in detail.keys or _ordered(found, before):
        if key in QUOTA_KEYS and key not in found:
            continue  # It cannot limit such a request.
        resolved, was = found.get(key, NOT_LIMITED), before.get(key, NOT_LIMITED) if before else None
        if own is not None and resolved.level != own and (was is None or was.level != own):
            continue
        if not detail.overridden and resolved.overridden:
            resolved = resolved._replace(overridden=())
        yield KeyResolution(key, resolved, was)


def _ordered(found: Mapping[str, Resolved], before: Mapping[str, Resolved]) -> Iterable[str]:
    if found.keys() <= KEY_ORDER.keys() and before.keys() <= KEY_ORDER.keys():
        return found
    return sorted({**found, **before}, key=key_order)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyCount:
    """How many rows of a table are about one quota key.

    Attributes:
        limited: With a value that limits.
        unlimited: Without a value, or with one that an entry sets to no limit.
        changed: With another value than before the plan; `None` without a plan.
    """

    key: str
    limited: int
    unlimited: int
    changed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReport:
    """What was written.

    Attributes:
        target: Where the table is.
        clients: How many users, client-ids and pairs of them were resolved.
        ips: How many addresses.
        keys: Rows by quota key, in the order in which keys print.
    """

    header: ResolveHeader
    target: str
    clients: int
    ips: int
    keys: tuple[KeyCount, ...]

    @property
    def rows(self) -> int:
        """How many rows the table has."""
        return sum(each.limited + each.unlimited for each in self.keys)
