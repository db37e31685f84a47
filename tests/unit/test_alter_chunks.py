"""Alterations: cut into requests, checked by the release of the broker, and what becomes of them when it misbehaves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from math import inf, nan
from typing import Any

import pytest

from quotaform.cluster.broker import (
    AlterClientQuotas,
    AlteredEntity,
    BrokerRelease,
    grant_remedy,
    match_rows,
    require_success,
    service_hint,
    split_alterations,
    with_alter_remedy,
)
from quotaform.cluster.client.config import ClientConfig
from quotaform.cluster.kafka import KafkaGateway
from quotaform.cluster.wire.message import DescribeResponse
from quotaform.model.alteration import Alteration, Outcome
from quotaform.model.entity import MAX_NAME_BYTES, Entity
from quotaform.model.errors import AuthorizationError, ClusterError, InvalidRequestError
from quotaform.sandbox.release import RELEASES
from tests.scripted_gateway import ScriptedConnection
from tools.broker_facts import FACTS

KEY = "producer_byte_rate"


def alteration(name: str | None, *values: float | None) -> Alteration:
    return Alteration(Entity(user=name), {f"k{number}": value for number, value in enumerate(values or (1.0,))})


@cache
def many(count: int, ops: int = 1) -> Sequence[Alteration]:
    return tuple(alteration(f"u{number}", *[1.0] * ops) for number in range(count))


EMPTY = [Alteration(Entity(user=f"u{number}"), {}) for number in range(7)]
LONG = [alteration(f"{number}" + "x" * 32_000) for number in range(100)]
WIDE = [alteration(f"{number:02}" + "é" * 16_000) for number in range(40)]


class TestSplitting:
    @pytest.mark.parametrize(
        ("alterations", "max_ops", "expected"),
        [
            ([], None, []),
            (many(7, ops=2), 5, [2, 2, 2, 1]),  # Entities stay whole.
            ([*many(1), alteration("big", *[1.0] * 9), *many(2)[1:]], 5, [1, 1, 1]),
            (EMPTY, 3, [3, 3, 1]),
            (LONG, None, [32, 32, 32, 4]),
            (WIDE, None, [32, 8]),  # Bytes are counted, and not characters.
            (many(10_001), None, [4_000, 4_000, 2_001]),
            ([alteration("x" * MAX_NAME_BYTES)], None, [1]),
        ],
    )
    def test_requests_are_cut_by_ops_and_bytes(
        self, alterations: Sequence[Alteration], max_ops: int | None, expected: list[int]
    ) -> None:
        chunks = split_alterations(alterations, **({"max_ops": max_ops} if max_ops else {}))
        assert [len(chunk) for chunk in chunks] == expected
        assert [each for chunk in chunks for each in chunk] == [*alterations]

    def test_each_request_takes_as_many_bytes_as_the_first_one(self) -> None:
        def cut(limit: int) -> list[int]:
            return [len(chunk) for chunk in split_alterations(many(6), max_bytes=limit)]

        assert next(found for limit in range(1, 1_000) if (found := cut(limit))[0] == 2) == [2, 2, 2]

    def test_the_estimate_is_not_below_what_is_sent(self) -> None:
        names = ["a", "é" * 100, "x" * 300, None, "", "\U0001f600" * 50]
        alterations = [
            Alteration(Entity(user=name, client_id=other), {KEY: 1.0, "": None}) for name in names for other in names
        ]
        for one in alterations:
            encoded = len(AlterClientQuotas([one]).encode(1)) - len(AlterClientQuotas([]).encode(1))
            assert split_alterations([one, one_more(one)], max_bytes=2 * encoded - 1) == [[one], [one_more(one)]]


def one_more(of: Alteration) -> Alteration:
    """The same again under a type that is as long."""
    return Alteration(Entity({"User": of.entity.names["user"], "client-id": of.entity.names["client-id"]}), of.ops)


class TestRefusing:
    @pytest.mark.parametrize(
        ("refused", "message"),
        [
            (alteration("a", nan), "user=a: k0 is not a finite number"),
            (alteration("a", inf), "user=a: k0 is not a finite number"),
            (alteration("a", 10**400), "user=a: k0 is not a finite number"),
            (alteration("a", 2**53 + 1), "k0 is 9007199254740993, which a double cannot represent exactly"),
            (Alteration(Entity.of([("user", "a"), ("user", "b")]), {}), "names an entity type twice"),
            (Alteration(Entity.of([("user", b"a")]), {}), "the name b'a' is not a string"),  # type: ignore[list-item]
            (alteration("x\ud800"), r'"x\ud800" contains a lone surrogate'),
            (
                alteration("x" * (MAX_NAME_BYTES + 1)),
                "a name has 32,768 bytes in UTF-8; a broker reads at most 32,767",
            ),
            (alteration("é" * 16_384), "a name has 32,768 bytes in UTF-8"),
            (Alteration(Entity({"t" * 40_000: "x"}), {}), "a name has 40,000 bytes in UTF-8"),
        ],
    )
    def test_what_no_broker_could_read_is_refused_before_anything_is_sent(
        self, refused: Alteration, message: str
    ) -> None:
        connection = ScriptedConnection([])
        with pytest.raises(ValueError) as caught:  # noqa: PT011 (the message is checked below)
            KafkaGateway(connection, name="lab").alter_chunks([*many(4_001), refused])
        assert message in str(caught.value)
        assert len(str(caught.value)) < 500
        assert connection.requests == []

    def test_an_entity_twice_in_a_call_is_refused(self) -> None:
        twice = [alteration("a"), alteration("b"), alteration("a", None)]
        with pytest.raises(ValueError, match="user=a is altered twice in one call; merge its ops into one alteration"):
            split_alterations(twice)


def answer() -> Callable[[Sequence[Any]], list[AlteredEntity]]:
    """Answer every entity well, in reverse order."""
    return lambda alterations: [(list(each.entity.parts), 0, None) for each in reversed(alterations)]


def test_all_chunks_are_sent_and_progress_is_told() -> None:
    told: list[tuple[str, int, int]] = []
    gateway = KafkaGateway(ScriptedConnection([answer()] * 3), name="lab")
    result = gateway.alter(many(9_000), progress=lambda *step: told.append(step))
    assert [row.outcome for row in result] == ["ok"] * 9_000
    assert told == [("Applying", 4_000, 9_000), ("Applying", 8_000, 9_000), ("Applying", 9_000, 9_000)]


def test_a_validation_says_so() -> None:
    told: list[str] = []
    gateway = KafkaGateway(ScriptedConnection([answer()]), name="lab")
    gateway.alter(many(1), validate_only=True, progress=lambda what, *_: told.append(what))
    assert told == ["Validating on the broker"]


@pytest.mark.parametrize(("seconds", "waited"), [(30.0, 65.0), (120.0, 120.0)])
def test_an_alter_is_waited_for_as_long_as_any_request_and_as_its_way_to_the_controller_may_take(
    seconds: float, waited: float
) -> None:
    connection = ScriptedConnection([answer()])
    KafkaGateway(connection, name="lab", config=ClientConfig(request_timeout=seconds)).alter(many(1))
    assert connection.timeouts == [waited]


def test_a_consumer_that_stops_early_sends_no_more() -> None:
    connection = ScriptedConnection([answer()] * 3)
    next(KafkaGateway(connection, name="lab").alter_chunks(many(9_000)))
    assert len(connection.requests) == 1


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
                DescribeResponse(code, None, None),
                subject="it",
                right="X",
                hint=hint,
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
