"""The RPC type `double` (KAFKA-9474): big-endian IEEE-754 on the wire, and the same bits back from a broker."""

from __future__ import annotations

from math import inf, isnan, nextafter
from struct import pack, unpack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quotaform import Alteration, Entity, QuotaAdmin
from quotaform.cluster.wire.client_quotas import AlterClientQuotas
from tests.waiting import wait_until

REQUEST = "request_percentage"

BITS = {
    1.0: "3ff0000000000000",
    -1.0: "bff0000000000000",
    0.1 + 0.2: "3fd3333333333334",
    2.0**53 + 2: "4340000000000001",
    2.0**63: "43e0000000000000",
    1e308: "7fe1ccf385ebc8a0",
    1.7976931348623157e308: "7fefffffffffffff",
    2.2250738585072014e-308: "0010000000000000",
    5e-324: "0000000000000001",
}


def encoded(value: float | None, version: int = 1) -> bytes:
    """The bytes of a request that sets a value (or removes it) on the user u."""
    return AlterClientQuotas([Alteration(Entity(user="u"), {REQUEST: value})]).encode(version)


@pytest.mark.parametrize(("value", "bits"), BITS.items(), ids=lambda case: str(case)[:20])
@pytest.mark.parametrize("version", [0, 1])
def test_eight_bytes_big_endian_follow_the_key(value: float, bits: str, version: int) -> None:
    whole = encoded(value, version)
    after = whole.index(REQUEST.encode()) + len(REQUEST)
    assert whole[after : after + 8].hex() == bits
    assert whole[after + 8] == 0, "and a byte that says that it is no removal"


def test_a_removal_says_zero_and_that_it_is_one() -> None:
    whole = encoded(None)
    after = whole.index(REQUEST.encode()) + len(REQUEST)
    assert whole[after : after + 9].hex() == "00" * 8 + "01"


@given(st.floats(allow_nan=True))
@settings(derandomize=True)
def test_the_bits_of_any_double_are_its_own(value: float) -> None:
    whole = encoded(value)
    after = whole.index(REQUEST.encode()) + len(REQUEST)
    [back] = unpack(">d", whole[after : after + 8])
    assert whole[after : after + 8] == pack(">d", value)
    assert back == value or (isnan(back) and isnan(value))


@pytest.mark.kafka
def test_a_broker_gives_back_the_bits_that_it_was_given(admin: QuotaAdmin) -> None:
    # Every power of two that is a double, and its neighbour: all exponents, mantissas of zeros and of one bit.
    powers = [2.0**exponent for exponent in range(-1074, 1024)]
    values = [*(value for value in BITS if value > 0), *powers, *(nextafter(power, inf) for power in powers)]
    asked = [Entity(user=f"double-{number}") for number in range(len(values))]
    try:
        admin.alter([Alteration(each, {REQUEST: value}) for each, value in zip(asked, values, strict=True)])
        wait_until(lambda: len(admin.describe()) >= len(asked))
        live = admin.describe()
        assert [pack(">d", live[entity][REQUEST]) for entity in asked] == [pack(">d", value) for value in values]
    finally:
        admin.alter([Alteration(each, {REQUEST: None}) for each in asked]).raise_for_errors()
