"""Filters: the client-side evaluator and a real broker agree, and what a broker refuses is told apart."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quotaform import ANY, Alteration, Entity, EntityFilter, FilterComponent, QuotaAdmin, Rule
from quotaform.cluster.broker import require_success
from quotaform.cluster.wire.client_quotas import DescribeClientQuotas
from quotaform.cluster.wire.cluster_connection import ClusterConnection
from quotaform.model.errors import ClusterError, InvalidRequestError, UnsupportedError
from quotaform.model.filter import select
from quotaform.model.quotas import Quotas
from quotaform.sandbox import Sandbox
from tests.broker import wait_for
from tests.broker_release import broker_release

pytestmark = pytest.mark.kafka

REQUEST, CONNECT = "request_percentage", "connection_creation_rate"

MATCHED: dict[Entity, dict[str, float]] = {
    Entity(user="user-1", client_id="client-id-1"): {REQUEST: 50.50},
    Entity(user="user-2", client_id="client-id-1"): {REQUEST: 51.51},
    Entity(user="user-3", client_id="client-id-2"): {REQUEST: 52.52},
    Entity(user=None, client_id="client-id-1"): {REQUEST: 53.53},
    Entity(user="user-1", client_id=None): {REQUEST: 54.54},
    Entity(user="user-3", client_id=None): {REQUEST: 55.55},
    Entity(user="user-1"): {REQUEST: 56.56},
    Entity(user="user-2"): {REQUEST: 57.57},
    Entity(user="user-3"): {REQUEST: 58.58},
    Entity(user=None): {REQUEST: 59.59},
    Entity(client_id="client-id-2"): {REQUEST: 60.60},
    Entity(ip="1.2.3.4"): {CONNECT: 99.0},
    Entity(ip="2.3.4.5"): {CONNECT: 101.0},
}

USERS, CLIENTS, IPS = ("a", "b", "<default>"), ("a", "x y"), ("10.0.0.1", "10.0.0.2")
SHAPES: dict[Entity, dict[str, float]] = {
    **{Entity(user=user): {REQUEST: 1.0} for user in (*USERS, None)},
    **{Entity(client_id=client): {REQUEST: 2.0} for client in (*CLIENTS, None)},
    **{
        Entity(user=user, client_id=client): {REQUEST: 3.0}
        for user in ("a", "<default>", None)
        for client in (*CLIENTS, None)
    },
    **{Entity(ip=ip): {CONNECT: 4.0} for ip in (*IPS, None)},
}
"""All ten shapes, of few names that meet."""


WITH_ZOOKEEPER: Final = {
    "Entity type user cannot appear more than once": "Duplicate user filter component entity type",
    "Invalid empty entity type": "Unexpected empty filter component entity type",
    "Unsupported entity type group": "Custom entity type 'group' not supported",
    "Unsupported entity type User": "Custom entity type 'User' not supported",
}
"""The same refusals in the words of brokers with ZooKeeper."""


def words_of(sandbox: Sandbox, words: str) -> str:
    return WITH_ZOOKEEPER.get(words, words) if broker_release(sandbox).has_zookeeper else words


def replace_all(admin: QuotaAdmin, quotas: Quotas) -> None:
    if admin.describe() == quotas:
        return
    stale = admin.describe().items()
    admin.alter([Alteration(entity, dict.fromkeys(values)) for entity, values in stale]).raise_for_errors()
    admin.alter([Alteration(entity, values) for entity, values in quotas.items()]).raise_for_errors()
    wait_for(admin, quotas)


@pytest.fixture
def shapes(admin: QuotaAdmin) -> QuotaAdmin:
    """A broker with all ten shapes."""
    replace_all(admin, SHAPES)
    return admin


@st.composite
def answered_filters(draw: st.DrawFn) -> EntityFilter:
    """Filters that a broker answers: each type once, an ip alone."""
    names = {"user": USERS, "client-id": CLIENTS, "ip": IPS}
    types = draw(
        st.sampled_from([("user",), ("client-id",), ("user", "client-id"), ("client-id", "user"), ("ip",), ()])
    )
    components = []
    for entity_type in types:
        rule = draw(st.sampled_from([Rule.EXACT, Rule.DEFAULT, Rule.ANY]))
        match = draw(st.sampled_from((*names[entity_type], "nobody", ""))) if rule is Rule.EXACT else None
        components.append(FilterComponent(entity_type, rule, match))
    return EntityFilter(tuple(components), draw(st.booleans()))


@st.composite
def all_filters(draw: st.DrawFn) -> EntityFilter:
    """Filters with every rule, types more than once, what a broker can answer and what it cannot."""
    names = st.sampled_from([*USERS, *CLIENTS, *IPS, "", "x", "10."])
    kinds = draw(st.sampled_from([["user", "client-id"], ["ip"]]))
    components = draw(
        st.lists(
            st.one_of(
                st.builds(
                    FilterComponent, st.sampled_from(kinds), st.sampled_from([Rule.EXACT, Rule.PREFIX, Rule.NOT]), names
                ),
                st.builds(FilterComponent, st.sampled_from(kinds), st.sampled_from([Rule.DEFAULT, Rule.ANY])),
            ),
            max_size=4,
        )
    )
    return EntityFilter(tuple(components), draw(st.booleans()))


RELAXED = settings(
    deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)


@given(asked=answered_filters())
@settings(RELAXED, max_examples=300)
def test_the_evaluator_and_a_broker_agree_on_all_that_a_broker_answers(shapes: QuotaAdmin, asked: EntityFilter) -> None:
    assert asked.is_answered_by_brokers
    assert shapes.describe(asked) == {entity: values for entity, values in SHAPES.items() if asked.matches(entity)}


@given(asked=all_filters())
@settings(RELAXED, max_examples=200)
def test_what_a_broker_cannot_evaluate_is_what_it_selects_and_then_the_rest(
    shapes: QuotaAdmin, asked: EntityFilter
) -> None:
    assert shapes.describe(asked) == select(SHAPES, asked)
    assert select(SHAPES, asked.for_brokers()).keys() >= select(SHAPES, asked).keys()


def test_a_broker_itself_refuses_a_type_twice_and_such_a_filter_never_reaches_it(
    shapes: QuotaAdmin, connection: ClusterConnection, sandbox: Sandbox
) -> None:
    asked = EntityFilter((FilterComponent("user", Rule.ANY), FilterComponent("user", Rule.EXACT, "a")))
    answer = connection.send(DescribeClientQuotas(asked), timeout=30)
    words = words_of(sandbox, "Entity type user cannot appear more than once")
    with pytest.raises(InvalidRequestError, match=words):
        require_success(answer.error_code, answer.error_message, subject="it", right="none", problem="It says")
    assert shapes.describe(asked) == select(SHAPES, EntityFilter.contains(user="a"))


@pytest.fixture
def seeded(admin: QuotaAdmin) -> QuotaAdmin:
    """A broker with the entities of Kafka's own tests of filters."""
    replace_all(admin, MATCHED)
    return admin


@pytest.mark.parametrize(
    ("asked", "kind", "words"),
    [
        (EntityFilter.contains(user="u", ip="1.2.3.4"), InvalidRequestError, "Invalid entity filter component"),
        (EntityFilter.contains(client_id=ANY, ip=None), InvalidRequestError, "Invalid entity filter component"),
        (EntityFilter.contains({"": "u"}), InvalidRequestError, "Invalid empty entity type"),
        (EntityFilter.contains({"group": "g"}), UnsupportedError, "Unsupported entity type group"),
        (EntityFilter.contains({"User": ANY}), UnsupportedError, "Unsupported entity type User"),
    ],
    ids=str,
)
def test_what_a_broker_refuses_is_an_error_of_its_class(
    seeded: QuotaAdmin, sandbox: Sandbox, asked: EntityFilter, kind: type[ClusterError], words: str
) -> None:
    with pytest.raises(kind, match=words_of(sandbox, words)):
        seeded.describe(asked)
