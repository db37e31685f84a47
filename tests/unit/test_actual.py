"""When one read of a cluster is enough to plan from, and when it takes two that agree."""

from __future__ import annotations

import pytest

from quotaform.cluster.gateway import bulk_of, is_same, read_actual
from quotaform.model.entity import Entity
from quotaform.model.errors import UnsettledError
from quotaform.model.quotas import Quotas
from tests.builder import PRODUCER
from tests.scripted_gateway import Clock, ScriptedGateway

MANY = 50


def entities(count: int, value: float = 1.0, prefix: str = "u") -> Quotas:
    return {Entity(user=f"{prefix}{number}"): {PRODUCER: value} for number in range(count)}


def actual_of(gateway: ScriptedGateway, clock: Clock | None = None) -> Quotas:
    return read_actual(gateway, clock=clock or Clock())


def test_bulk_is_a_share_of_a_large_cluster() -> None:
    assert bulk_of(199, 10_000) == 0
    assert bulk_of(200, 10_000) == 200
    assert bulk_of(49, 100) == 0
    assert bulk_of(50, 100) == 50


def test_a_cluster_that_keeps_changing_is_given_up_after_a_minute() -> None:
    gateway, clock = ScriptedGateway({}, reads=[entities(MANY, 1.0), entities(MANY, 2.0)] * 650), Clock()
    with pytest.raises(
        UnsettledError, match="the quotas of lab kept changing for 60 s while they were read; wait until"
    ):
        actual_of(gateway, clock)
    assert 1060 <= clock.seconds < 1062


def test_reading_again_is_reported() -> None:
    told: list[str] = []
    read_actual(ScriptedGateway(entities(MANY)), clock=Clock(), progress=lambda what, done, total: told.append(what))
    assert told == ["Reading quotas of lab", "Reading again: many entities differ, a change may be in progress"]


def test_two_reads_with_a_value_that_is_no_number_say_the_same() -> None:
    def live() -> Quotas:
        return {Entity(user="broken"): {PRODUCER: float("nan")}}

    assert is_same(live(), live())
    assert not is_same(live(), {Entity(user="broken"): {PRODUCER: 1.0}})
    assert not is_same(live(), {Entity(user="other"): {PRODUCER: float("nan")}})
    gateway = ScriptedGateway({}, reads=[{**entities(MANY), **live()}, {**entities(MANY), **live()}])
    actual_of(gateway)
    assert gateway.log == ["describe"] * 2
