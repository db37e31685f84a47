"""The blast radius of a plan is what comes out when every principal is resolved before and after it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from quotaform.model.entity import Entity
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import Desired, Quotas, Values
from quotaform.plan.blast_radius import (
    MOST_LARGEST,
    LimitChange,
    LimitCount,
    LimitDirection,
    Principals,
    make_blast_radius,
    principal_order,
    size_order,
)
from quotaform.plan.plan import Plan
from quotaform.resolve.index import QuotaIndex
from quotaform.resolve.request import NOT_LIMITED, UNMENTIONED, Resolved, request_of
from quotaform.resolve.resolve import Resolver
from tests.builder import altered, plan_of
from tests.property.test_resolve_agreement import REQUESTS, all_quotas
from tests.strategies import desired

NAMES = ("user", "client-id")


def _principal(request: tuple[object, ...]) -> Entity:
    if len(request) == 1:
        return Entity(ip=str(request[0]))
    return Entity({kind: str(name) for kind, name in zip(NAMES, request, strict=True) if name is not UNMENTIONED})


PRINCIPALS = st.lists(
    REQUESTS.filter(lambda request: request[0] != "" and set(request) != {UNMENTIONED}).map(_principal), max_size=12
)


def known_part(quotas: Quotas) -> dict[Entity, Values]:
    return {entity: {key: values[key] for key in values if key in QUOTA_KEYS} for entity, values in quotas.items()}


NO_SHRINKING = [Phase.explicit, Phase.reuse, Phase.generate]
FILES = st.one_of(desired(max_size=12), all_quotas().map(known_part))
"""Also what no file can say: addresses in several spellings."""


def brute_force(principals: list[Entity], actual: Quotas, plan: Plan) -> list[LimitChange]:
    """Resolve everything twice, and compare."""
    planned = altered(actual, [change.alteration() for change in plan.changes])
    before, after = Resolver(QuotaIndex(actual)), Resolver(QuotaIndex(planned))

    def limits(principal: Entity) -> list[tuple[str, Resolved, Resolved]]:
        now, then = before.resolve(request_of(principal)), after.resolve(request_of(principal))
        return [(key, now.get(key, NOT_LIMITED), then.get(key, NOT_LIMITED)) for key in {*now, *then}]

    rows = [
        LimitChange(principal, key, now.effective, then.effective)
        for principal in set(principals)
        for key, now, then in limits(principal)
    ]
    return [row for row in rows if row.direction is not None]


def spelled(row: LimitChange) -> tuple[object, ...]:
    limits = [(repr(each.value), each.source, each.level) for each in (row.before, row.after)]
    return row.principal, row.key, limits, row.direction, row.factor


@settings(phases=NO_SHRINKING)
@given(all_quotas(), FILES, PRINCIPALS)
def test_the_rows_are_those_of_resolving_everything_twice(
    actual: Quotas, files: Desired | Mapping[Entity, Values], principals: list[Entity]
) -> None:
    plan = plan_of(files, actual)
    radius, changes = make_blast_radius(Principals.of("list", principals), actual, plan.changes, file="all.csv")
    expected = brute_force(principals, actual, plan)
    assert sorted(map(spelled, changes), key=repr) == sorted(map(spelled, expected), key=repr)
    assert radius.principals == len(set(principals))
    assert radius.affected == len({row.principal for row in expected})
    assert [spelled(each.limits) for each in radius.largest] == [
        spelled(row)
        for row in sorted(expected, key=lambda row: (size_order(row), principal_order(row.principal), row.key))[
            :MOST_LARGEST
        ]
    ]
    limits = Counter(row.direction for row in expected)
    affected = Counter(direction for _, direction in {(row.principal, row.direction) for row in expected})
    assert radius.counts == {
        each: LimitCount(principals=affected[each], limits=limits[each]) for each in LimitDirection
    }
