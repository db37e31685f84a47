"""What differs by the release of brokers, and what is refused before it is sent."""

from __future__ import annotations

import pytest

from quotaform.cluster.broker import (
    BrokerRelease,
    grant_remedy,
    match_rows,
    require_success,
    service_hint,
    with_alter_remedy,
)
from quotaform.cluster.kafka import KafkaGateway
from quotaform.cluster.wire.message import Described
from quotaform.model.alteration import Alteration, Outcome
from quotaform.model.entity import Entity
from quotaform.model.errors import AuthorizationError, ClusterError, InvalidRequestError
from quotaform.sandbox.release import RELEASES
from tests.scripted_connection import ScriptedConnection
from tests.unit.test_alter_chunks import answer
from tools.broker_facts import FACTS

PRODUCE, REQUEST, CONNECT = "producer_byte_rate", "request_percentage", "connection_creation_rate"
USER, ADDRESS = Entity(user="u"), Entity(ip="10.0.0.1")
NEW, OLD = BrokerRelease((4, 3)), BrokerRelease((2, 8), has_zookeeper=True)


def test_the_newest_release_does_everything_in_the_table_and_the_oldest_hardly_anything() -> None:
    assert all(fact.holds(NEW) for fact in FACTS.values())
    assert {name for name, fact in FACTS.items() if fact.holds(OLD)} == {"client-quotas", "ip", "scram"}
    # What is measured is measured on a release of the sandbox.
    tried = {release.number[:2] for release in RELEASES}
    assert all({fact.since, fact.zookeeper or fact.since} <= tried for fact in FACTS.values() if fact.is_measured)


@pytest.mark.parametrize("validate_only", [False, True])
def test_a_refused_entity_is_not_sent_and_the_others_are(validate_only: bool) -> None:
    connection = ScriptedConnection([answer()])
    asked = [Alteration(Entity(user=name), {PRODUCE: value}) for name, value in (("a", 1.0), ("b", 0.0), ("c", 2.0))]
    result = KafkaGateway(connection, name="lab").alter(asked, validate_only=validate_only)
    assert [row.outcome for row in result] == [Outcome.OK, Outcome.REFUSED, Outcome.OK]
    assert len(connection.requests) == 1
    with pytest.raises(InvalidRequestError, match=r"^user=b: Quota producer_byte_rate must be greater than 0$"):
        result.raise_for_errors()
    assert KafkaGateway(connection, name="lab").alter(asked[1:2]).failed
    assert len(connection.requests) == 1


CLOUD = "Confluent Cloud manages client quotas itself: set them for service accounts and identity pools with its API "


def test_a_refusal_by_a_service_says_where_quotas_are_set() -> None:
    hint = service_hint(["pkc-1.confluent.cloud"])
    for code, kind in ((31, AuthorizationError), (35, ClusterError), (42, InvalidRequestError)):
        with pytest.raises(kind) as caught:
            require_success(
                Described(code, None, None), subject="it", right="X", problem="The broker responded with", hint=hint
            )
        assert CLOUD in str(caught.value)
        assert "grant it" not in str(caught.value)
    for code in (31, 35):
        [row] = match_rows([Alteration(USER, {PRODUCE: 1.0})], [([("user", "u")], code, None)], hint)
        assert row.message == hint
    # An apply asks for more rights, where there are any.
    refused = AuthorizationError("No rights", remedy=hint, code=31)
    assert with_alter_remedy(refused) is refused
    assert "ALTER_CONFIGS" in str(
        with_alter_remedy(AuthorizationError("No", remedy=grant_remedy("DESCRIBE_CONFIGS"), code=31))
    )
