"""Filters: the client-side evaluator and a real broker agree, and what a broker refuses is told apart."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quotaform import ANY, Entity, EntityFilter, FilterComponent, QuotaAdmin, Rule
from quotaform.cluster.broker import DescribeClientQuotas, require_success
from quotaform.cluster.client.config import ClientConfig
from quotaform.cluster.wire.cluster_connection import ClusterConnection
from quotaform.model.errors import ClusterError, InvalidRequestError, UnsupportedError
from quotaform.model.filter import select
from quotaform.model.server import parse_servers
from quotaform.sandbox import Sandbox
from tests.broker import become, broker_release
from tests.builder import CONNECTION, REQUEST

pytestmark = pytest.mark.kafka


USERS, CLIENTS, IPS = ("a", "b", "<default>"), ("a", "x y"), ("10.0.0.1", "10.0.0.2")
SHAPES: Final[dict[Entity, dict[str, float]]] = {
    **{Entity(user=user): {REQUEST: 1.0} for user in (*USERS, None)},
    **{Entity(client_id=client): {REQUEST: 2.0} for client in (*CLIENTS, None)},
    **{
        Entity(user=user, client_id=client): {REQUEST: 3.0}
        for user in ("a", "<default>", None)
        for client in (*CLIENTS, None)
    },
    **{Entity(ip=ip): {CONNECTION: 4.0} for ip in (*IPS, None)},
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


@pytest.fixture(scope="module")
def admin(sandbox: Sandbox) -> Iterator[QuotaAdmin]:
    """A broker with all ten admin."""
    with QuotaAdmin.connect(sandbox.bootstrap_servers) as made:
        become(made, SHAPES)
        yield made


def components(kinds: tuple[str, ...]) -> st.SearchStrategy[FilterComponent]:
    names = st.sampled_from([*USERS, *CLIENTS, *IPS, "nobody", "", "x", "10."])
    rules = st.sampled_from([Rule.EXACT, Rule.EXACT, Rule.PREFIX, Rule.NOT])
    return st.one_of(
        st.builds(FilterComponent, st.sampled_from(kinds), rules, names),
        st.builds(FilterComponent, st.sampled_from(kinds), st.sampled_from([Rule.DEFAULT, Rule.ANY])),
    )


FILTERS = st.builds(
    EntityFilter,
    st.sampled_from([("user", "client-id"), ("ip",)])
    .flatmap(
        lambda kinds: st.one_of(
            st.lists(components(kinds), max_size=2, unique_by=lambda each: each.entity_type),
            st.lists(components(kinds), max_size=4),
        )
    )
    .map(tuple),
    st.booleans(),
)
"""What a broker can answer (each type once, no prefixes, no exceptions), and what it cannot."""


@given(asked=FILTERS)
@settings(max_examples=500, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_evaluator_and_a_broker_agree(admin: QuotaAdmin, asked: EntityFilter) -> None:
    """What a broker cannot evaluate is what it selects, and then the rest."""
    assert admin.describe(asked) == {entity: values for entity, values in SHAPES.items() if asked.matches(entity)}
    assert select(SHAPES, asked.for_brokers()).keys() >= select(SHAPES, asked).keys()


def test_a_broker_itself_refuses_a_type_twice_and_such_a_filter_never_reaches_it(
    admin: QuotaAdmin, sandbox: Sandbox
) -> None:
    asked = EntityFilter((FilterComponent("user", Rule.ANY), FilterComponent("user", Rule.EXACT, "a")))
    connection = ClusterConnection(parse_servers(sandbox.bootstrap_servers), ClientConfig(), name="lab", timeout=10)
    with closing(connection):
        answer = connection.send(DescribeClientQuotas(asked), timeout=30)
    words = words_of(sandbox, "Entity type user cannot appear more than once")
    with pytest.raises(InvalidRequestError, match=words):
        require_success(answer, subject="it", right="none")
    assert admin.describe(asked) == select(SHAPES, EntityFilter.contains(user="a"))


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
    admin: QuotaAdmin, sandbox: Sandbox, asked: EntityFilter, kind: type[ClusterError], words: str
) -> None:
    with pytest.raises(kind, match=words_of(sandbox, words)):
        admin.describe(asked)
