"""When one read of a cluster is enough to plan from, and when it takes two that agree."""

from __future__ import annotations

import pytest

from quotaform.app import actual
from quotaform.app.actual import is_same, read_actual
from quotaform.errors import ClusterError, UnsettledError
from quotaform.model.entity import Entity
from quotaform.model.quotas import Quotas
from tests.builder import PRODUCER, declare
from tests.scripted_gateway import Clock, ScriptedGateway

MANY = 50


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(actual, "time", clock)
    return clock


def entities(count: int, value: float = 1.0, prefix: str = "u") -> Quotas:
    return {Entity(user=f"{prefix}{number}"): {PRODUCER: value} for number in range(count)}


def test_a_cluster_that_is_as_declared_is_read_once(clock: Clock) -> None:
    gateway = ScriptedGateway(entities(1000))
    assert read_actual(gateway, declare(entities(1000))) == entities(1000)
    assert gateway.log == ["describe"]
    assert clock.pauses == []


def test_a_small_difference_is_believed_at_once(clock: Clock) -> None:
    gateway = ScriptedGateway({**entities(1000), **entities(MANY - 1, 2.0)})
    read_actual(gateway, declare(entities(1000)))
    assert gateway.log == ["describe"]


def test_bulk_is_a_share_of_a_large_cluster(clock: Clock) -> None:
    gateway = ScriptedGateway({**entities(10_000), **entities(199, 2.0)})
    read_actual(gateway, declare(entities(10_000)))
    assert gateway.log == ["describe"]
    gateway = ScriptedGateway({**entities(10_000), **entities(200, 2.0)})
    read_actual(gateway, declare(entities(10_000)))
    assert gateway.log == ["describe", "describe"]


@pytest.mark.parametrize(
    ("files", "live"),
    [
        (entities(MANY), {}),
        ({}, entities(MANY)),
        (entities(MANY), entities(MANY, 2.0)),
        (entities(200), entities(200 - MANY)),
    ],
    ids=["missing", "undeclared", "other values", "some missing"],
)
def test_a_difference_in_bulk_counts_once_a_second_read_says_the_same(
    clock: Clock, files: Quotas, live: Quotas
) -> None:
    gateway = ScriptedGateway(live)
    assert read_actual(gateway, declare(files)) == live
    assert gateway.log == ["describe", "describe"]
    assert clock.pauses == [0.05]


def test_the_pause_grows_with_the_cluster(clock: Clock) -> None:
    read_actual(ScriptedGateway(entities(10_000)), {})
    assert clock.pauses == [0.1]


def test_a_change_that_is_still_spreading_is_waited_for(clock: Clock) -> None:
    gateway = ScriptedGateway(entities(200), reads=[entities(60), entities(120), entities(199)])
    assert read_actual(gateway, {}) == entities(200)
    assert gateway.log == ["describe"] * 5


def test_a_cluster_that_keeps_changing_is_given_up_after_a_minute(clock: Clock) -> None:
    gateway = ScriptedGateway({}, reads=[entities(MANY, float(number)) for number in range(1, 1300)])
    with pytest.raises(
        UnsettledError, match="the quotas of lab kept changing for 60 s while they were read; wait until"
    ):
        read_actual(gateway, {})
    assert 1060 <= clock.now < 1062


def test_a_snapshot_is_read_once_however_different(clock: Clock) -> None:
    gateway = ScriptedGateway(entities(MANY * 2), is_live=False)
    assert read_actual(gateway, {}) == entities(MANY * 2)
    assert gateway.log == ["describe"]


def test_a_read_that_fails_is_no_answer(clock: Clock) -> None:
    gateway = ScriptedGateway(entities(MANY), reads=[None, ClusterError("gone")])
    with pytest.raises(ClusterError, match="gone"):
        read_actual(gateway, {})


def test_waiting_is_told(clock: Clock) -> None:
    told: list[str] = []
    read_actual(ScriptedGateway(entities(MANY)), {}, lambda what, done, total: told.append(what))
    assert told == ["Reading quotas", "Waiting for quotas to come to rest"]


def test_two_reads_with_a_value_that_is_no_number_say_the_same(clock: Clock) -> None:
    def live() -> Quotas:
        return {Entity(user="broken"): {PRODUCER: float("nan")}}

    assert is_same(live(), live())
    assert not is_same(live(), {Entity(user="broken"): {PRODUCER: 1.0}})
    assert not is_same(live(), {Entity(user="other"): {PRODUCER: float("nan")}})
    gateway = ScriptedGateway({}, reads=[{**entities(MANY), **live()}, {**entities(MANY), **live()}])
    read_actual(gateway, {})
    assert gateway.log == ["describe"] * 2
