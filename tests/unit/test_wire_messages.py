"""Our codec, held against kafka-python's, and against bytes that are no answers; `decided-answered.txt` has more."""

from __future__ import annotations

import struct
from collections.abc import Callable
from contextlib import suppress
from math import inf
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quotaform.cluster.broker import AlterClientQuotas, DescribeBrokerConfig, DescribeClientQuotas
from quotaform.cluster.records import ScramCredential, ScramError, ScramMechanism, ScramUser
from quotaform.cluster.scram import (
    AlterUserScramCredentials,
    DescribeUserScramCredentials,
    ScramAlteration,
)
from quotaform.cluster.wire.message import (
    ApiVersions,
    BrokerRequest,
    MalformedError,
    Metadata,
    SaslAuthenticate,
    SaslHandshake,
    Writer,
)
from quotaform.model.alteration import Alteration
from quotaform.model.entity import Entity, EntityPart
from quotaform.model.filter import ANY, EntityFilter
from quotaform.model.server import Server
from tests.fake_broker import frame, messages

QUOTAS: list[tuple[list[EntityPart], list[tuple[str, float]]]] = [
    ([("user", "alice"), ("client-id", None)], [("producer_byte_rate", 1.5), ("consumer_byte_rate", 2.0**63)]),
    ([("ip", "::1")], [("connection_creation_rate", 5e-324)]),
    ([("user", "Å" * 100)], [("producer_byte_rate", -0.0)]),
    ([("user", ""), ("new-type", "x" * 300)], [("", inf)]),
]
UPSERTION = ScramAlteration(
    user="é", mechanism=ScramMechanism.SHA_512, iterations=4096, salt=b"s" * 32, salted_password=b"p" * 64
)
TOPIC_ID = UUID(bytes=b"\x01" * 16)
Case = tuple[BrokerRequest[Any], dict[str, Any], Callable[[Any], Any], Any]


def oracle(api_key: int, which: int) -> Any:
    from kafka.protocol import admin

    more = {
        32: (admin.DescribeConfigsRequest, admin.DescribeConfigsResponse),
        50: (admin.DescribeUserScramCredentialsRequest, admin.DescribeUserScramCredentialsResponse),
        51: (admin.AlterUserScramCredentialsRequest, admin.AlterUserScramCredentialsResponse),
    }
    return {**messages(), **more}[api_key][which]


def answer(request: BrokerRequest[Any], version: int, fields: dict[str, Any]) -> bytes:
    """Return the bytes of an answer as a broker sends them, without their length."""
    return frame(oracle(request.API_KEY, 1), version, 0, **fields)[4:]


CASES: list[Case] = [
    (
        ApiVersions("1.0"),
        {"error_code": 0, "api_keys": [(3, 0, 13), (48, 0, 1)]},
        lambda got: got,
        (0, {3: (0, 13), 48: (0, 1)}),
    ),
    (
        Metadata(),
        {"brokers": [(7, "b7", 9092, "rack")], "cluster_id": "id", "controller_id": 7, "topics": []},
        lambda got: (got.cluster_id, got.brokers),
        ("id", {7: Server("b7", 9092)}),
    ),
    (SaslHandshake("PLAIN"), {"error_code": 33, "mechanisms": ["A", "B"]}, lambda got: got, 33),
    (
        SaslAuthenticate(b"token"),
        {"error_code": 0, "error_message": "no", "auth_bytes": b"back", "session_lifetime_ms": 60_000},
        lambda got: got[:2],
        (0, b"back"),
    ),
    (
        DescribeClientQuotas(EntityFilter.contains_only(user="a", client_id=ANY, ip=None)),
        {"throttle_time_ms": 9, "error_code": 0, "error_message": "", "entries": QUOTAS},
        lambda got: got.found,
        {Entity.of(parts): dict(values) for parts, values in QUOTAS},
    ),
    (
        DescribeClientQuotas(EntityFilter()),
        {"throttle_time_ms": 0, "error_code": 31, "error_message": None, "entries": None},
        lambda got: tuple(got),
        (31, None, {}),
    ),
    (
        AlterClientQuotas([Alteration(Entity.of(parts), dict(values)) for parts, values in QUOTAS], True),
        {"throttle_time_ms": 3, "entries": [(42, "words", QUOTAS[0][0]), (0, None, QUOTAS[1][0])]},
        lambda got: got,
        [(QUOTAS[0][0], 42, "words"), (QUOTAS[1][0], 0, None)],
    ),
    (
        DescribeUserScramCredentials(("é", "b")),
        {
            "error_code": 0,
            "error_message": None,
            "results": [("é", 91, "none", []), ("b", 0, None, [(9, 5000), (1, 4096)])],
        },
        lambda got: got.found,
        [
            ScramUser("é", (), ScramError(91, "none")),
            ScramUser("b", (ScramCredential("SCRAM-SHA-256", 4096), ScramCredential("mechanism 9", 5000))),
        ],
    ),
    (
        AlterUserScramCredentials([UPSERTION, ScramAlteration("b", ScramMechanism.SHA_256)]),
        {"throttle_time_ms": 0, "results": [("é", 0, None), ("b", 91, "none")]},
        lambda got: got,
        {"é": (0, None), "b": (91, "none")},
    ),
    (
        DescribeBrokerConfig(7, "node.id"),
        {"results": [(0, None, 4, "7", [("node.id", "7", True, 4, False, [("node.id", "7", 4)], 3, "words")])]},
        lambda got: (got.error_code, got.found),
        (0, "7"),
    ),
    (
        Metadata(["usage"]),
        {"brokers": [(7, "b7", 9092, "rack")], "cluster_id": "id", "controller_id": 7, "topics": 2},
        lambda got: got.topics,
        [(0, TOPIC_ID.bytes)],
    ),
]
EVERY_VERSION = [
    pytest.param(case, version, id=f"{type(case[0]).__name__}-{number}-v{version}")
    for number, case in enumerate(CASES)
    for version in case[0].VERSIONS
]


def fitting(request: BrokerRequest[Any], version: int, fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that a version has."""
    if isinstance(request, SaslAuthenticate) and version == 0:
        return {name: value for name, value in fields.items() if name != "session_lifetime_ms"}
    if fields.get("topics") == 2:
        return fields | {"topics": [described_topic(version, fields["topics"])]}
    return fields


def described_topic(version: int, partitions: int) -> Any:
    """Return a topic as an answer of a version has it."""
    kind = oracle(Metadata.API_KEY, 1).MetadataResponseTopic
    part = kind.MetadataResponsePartition
    parts = [
        part(version=version, partition_index=number, leader_id=7, replica_nodes=[7, 8], isr_nodes=[7])
        for number in range(partitions)
    ]
    named = {"topic_id": TOPIC_ID} if version >= 10 else {}
    return kind(version=version, error_code=0, name="usage", partitions=parts, **named)


@pytest.mark.parametrize(("case", "version"), EVERY_VERSION)
def test_another_codec_reads_the_request_and_its_answer_is_read(case: Case, version: int) -> None:
    request, fields, look, expected = case
    encoded = request.encode(version, correlation_id=5, client_id="who")
    assert struct.unpack(">i", encoded[:4]) == (len(encoded) - 4,)
    read = oracle(request.API_KEY, 0).decode(encoded[4:], version=version, header=True)
    assert (read.header.request_api_key, read.header.request_api_version) == (request.API_KEY, version)
    assert (read.header.correlation_id, read.header.client_id) == (5, "who")
    # What it read is all that was written.
    read.with_header(5, "who")
    assert bytes(read.encode(version=version, header=True)) == encoded[4:]
    if fields.get("topics") == 2 and version < 10:
        expected = [(0, bytes(16))]
    found, throttle = request.decode(answer(request, version, fitting(request, version, fields)), version)
    assert (look(found), throttle) == (expected, fields.get("throttle_time_ms", 0))


def test_the_fields_of_requests_are_where_they_belong() -> None:
    def read(request: BrokerRequest[Any]) -> Any:
        version = request.VERSIONS[-1]
        return oracle(request.API_KEY, 0).decode(request.encode(version)[4:], version=version, header=True)

    described = read(CASES[4][0])
    assert [(each.entity_type, each.match_type, each.match) for each in described.components] == [
        ("user", 0, "a"),
        ("client-id", 2, None),
        ("ip", 1, None),
    ]
    assert described.strict is True
    altered = read(AlterClientQuotas([Alteration(Entity(user="a"), {"set": 1.0, "gone": None})], True))
    assert [(op.key, op.value, op.remove) for op in altered.entries[0].ops] == [
        ("set", 1.0, False),
        ("gone", 0.0, True),
    ]
    assert altered.validate_only is True
    [upserted], [deleted] = (
        (request := read(CASES[8][0])).upsertions,
        request.deletions,
    )
    assert (upserted.name, upserted.mechanism, upserted.iterations) == ("é", 2, 4096)
    assert (upserted.salt, upserted.salted_password) == (b"s" * 32, b"p" * 64)
    assert (deleted.name, deleted.mechanism) == ("b", 1)
    assert read(DescribeUserScramCredentials()).users == []
    assert read(Metadata()).topics == []
    assert read(Metadata()).allow_auto_topic_creation is False
    config = read(CASES[9][0])
    assert (config.resources[0].resource_name, config.resources[0].configuration_keys) == ("7", ["node.id"])


@pytest.mark.parametrize(("case", "version"), EVERY_VERSION)
def test_an_answer_that_is_cut_or_goes_on_is_malformed(case: Case, version: int) -> None:
    request, fields, _, _ = case
    whole = answer(request, version, fitting(request, version, fields))
    for size in range(4, len(whole)):
        with pytest.raises(MalformedError):
            request.decode(whole[:size], version)
    with pytest.raises(MalformedError, match="1 bytes follow its end"):
        request.decode(whole + b"\0", version)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("case", "version"), EVERY_VERSION)
def test_an_answer_with_any_byte_changed_is_read_or_malformed_and_nothing_else(case: Case, version: int) -> None:
    request, fields, _, _ = case
    whole = answer(request, version, fitting(request, version, fields))
    for position in range(4, len(whole)):
        for byte in (0, 1, 0x7F, 0x80, 0xFF, whole[position] ^ 0x40):
            with suppress(MalformedError):
                request.decode(whole[:position] + bytes([byte]) + whole[position + 1 :], version)


@given(garbage=st.binary(max_size=200))
def test_garbage_is_malformed_or_short(garbage: bytes) -> None:
    for request, *_ in CASES:
        for version in request.VERSIONS:
            with suppress(MalformedError):
                request.decode(b"\0\0\0\0" + garbage, version)


def test_unknown_tagged_fields_are_passed_over() -> None:
    """KIP-482: a later broker may add some anywhere."""
    tags = b"\x02" + b"\x05\x03abc" + b"\x06\x00"
    entry = b"\x02\x05user\x02a" + tags + b"\x02\x02k" + struct.pack(">d", 1.0) + tags + tags
    body = tags + struct.pack(">ih", 0, 0) + b"\x01" + b"\x02" + entry + tags
    decoded, _ = DescribeClientQuotas(EntityFilter()).decode(b"\0\0\0\0" + body, 1)
    assert decoded.found == {Entity(user="a"): {"k": 1.0}}
    with pytest.raises(MalformedError):
        DescribeClientQuotas(EntityFilter()).decode(b"\0\0\0\0" + body[:-2] + b"\x09", 1)


def test_what_cannot_be_written_is_a_value_error() -> None:
    with pytest.raises(ValueError, match=r"a name has 40,000 bytes in UTF-8; a broker reads at most 32,767"):
        Writer().string("x" * 40_000)
    with pytest.raises(ValueError, match="contains a lone surrogate"):
        Writer(is_flexible=True).string("\ud800")


def test_long_values_of_a_hostile_answer_are_not_compared_at_each_entity() -> None:
    """An answer of 256 MiB took days: each of millions of entities was compared with eight values of many MiB."""

    class Counted(bytes):
        taken = 0

        def __getitem__(self, key: Any) -> Any:
            found = super().__getitem__(key)
            Counted.taken += len(found) if isinstance(found, bytes) else 1
            return found

    request = DescribeClientQuotas(EntityFilter())
    keys = [*("x" * (100_000 + number) for number in range(8)), *("k" for _ in range(100))]
    entries = [([("user", str(number))], [(key, number)]) for number, key in enumerate(keys)]
    fields = {"throttle_time_ms": 0, "error_code": 0, "error_message": "", "entries": entries}
    whole = answer(request, 1, fields)
    found = request.decode(Counted(whole), 1)[0].found
    assert [*found.values()] == [{key: number} for number, key in enumerate(keys)]
    assert Counted.taken < 2 * len(whole)


def test_no_secret_is_in_a_repr() -> None:
    assert "token" not in repr(SaslAuthenticate(b"token"))


def test_values_that_are_no_numbers_are_read_as_they_are() -> None:
    odd = [("a", float("nan")), ("b", float("inf")), ("c", -0.0)]
    request = DescribeClientQuotas(EntityFilter())
    held = [odd, odd, [*odd[:2], ("c", 0.0)], odd[:1], [], odd]
    entries = [([("user", str(number))], values) for number, values in enumerate(held)]
    fields = {"throttle_time_ms": 0, "error_code": 0, "error_message": "", "entries": entries}
    found = request.decode(answer(request, 1, fields), 1)[0].found.values()
    assert [repr(list(values.items())) for values in found] == [repr(values) for values in held]
    assert len({id(values) for values in found}) == len(held)
