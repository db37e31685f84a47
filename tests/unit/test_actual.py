"""When one read of a cluster is enough to plan from, and when it takes two that agree."""

from __future__ import annotations

import pytest

from quotaform.cluster.gateway import bulk_of, is_same, read_actual, read_settled
from quotaform.model.entity import Entity
from quotaform.model.errors import ClusterError, UnsettledError
from quotaform.model.quotas import Quotas
from quotaform.plan.plan import Plan
from quotaform.plan.run import bulk_of_plan
from tests.builder import PRODUCER, plan_of
from tests.scripted_gateway import Clock, ScriptedGateway

MANY = 50


def entities(count: int, value: float = 1.0, prefix: str = "u") -> Quotas:
    return {Entity(user=f"{prefix}{number}"): {PRODUCER: value} for number in range(count)}


def planned(gateway: ScriptedGateway, files: Quotas, clock: Clock | None = None) -> Plan:
    """What a plan is made of when a cluster is read as a plan reads it."""
    return read_settled(gateway, lambda actual: plan_of(files, actual), bulk_of_plan, clock=clock or Clock())


def actual_of(gateway: ScriptedGateway, clock: Clock | None = None) -> Quotas:
    return read_actual(gateway, clock=clock or Clock())


def test_a_cluster_that_is_as_declared_is_read_once() -> None:
    gateway, clock = ScriptedGateway(entities(1000)), Clock()
    assert planned(gateway, entities(1000), clock).changes == ()
    assert gateway.log == ["describe"]
    assert clock.pauses == []


def test_a_small_difference_is_believed_at_once() -> None:
    gateway = ScriptedGateway({**entities(1000), **entities(MANY - 1, 2.0)})
    planned(gateway, entities(1000))
    assert gateway.log == ["describe"]


def test_bulk_is_a_share_of_a_large_cluster() -> None:
    assert bulk_of(199, 10_000) == 0
    assert bulk_of(200, 10_000) == 200
    assert bulk_of(49, 100) == 0
    assert bulk_of(50, 100) == 50


def test_many_entities_that_no_file_declares_are_no_reason_to_read_twice() -> None:
    # 59 unmanaged entities made every plan read twice, though nothing of what is declared differed.
    gateway = ScriptedGateway({**entities(10), **entities(59, prefix="unmanaged")})
    assert planned(gateway, entities(10)).changes == ()
    assert gateway.log == ["describe"]


@pytest.mark.parametrize(
    ("files", "live"),
    [
        (entities(MANY), {}),
        (entities(MANY), entities(MANY, 2.0)),
        (entities(200), entities(200 - MANY)),
    ],
    ids=["missing", "other values", "some missing"],
)
def test_a_difference_in_bulk_counts_once_a_second_read_says_the_same(files: Quotas, live: Quotas) -> None:
    gateway, clock = ScriptedGateway(live), Clock()
    assert len(planned(gateway, files, clock).changes) == MANY
    assert gateway.log == ["describe", "describe"]
    assert clock.pauses == [0.05]


def test_many_live_entities_are_written_down_once_a_second_read_says_the_same() -> None:
    gateway = ScriptedGateway(entities(MANY))
    assert actual_of(gateway) == entities(MANY)
    assert gateway.log == ["describe", "describe"]
    gateway = ScriptedGateway(entities(MANY))
    assert read_actual(gateway, entities(10), clock=Clock()) == entities(MANY)
    assert gateway.log == ["describe"]


def test_the_pause_grows_with_what_differs() -> None:
    clock = Clock()
    actual_of(ScriptedGateway(entities(10_000)), clock)
    assert clock.pauses == [0.1]


def test_a_change_that_is_still_spreading_is_waited_for() -> None:
    gateway = ScriptedGateway(entities(200), reads=[entities(60), entities(120), entities(199)])
    assert actual_of(gateway) == entities(200)
    assert gateway.log == ["describe"] * 5


def test_a_cluster_that_keeps_changing_is_given_up_after_a_minute() -> None:
    gateway, clock = ScriptedGateway({}, reads=[entities(MANY, 1.0), entities(MANY, 2.0)] * 650), Clock()
    with pytest.raises(
        UnsettledError, match="the quotas of lab kept changing for 60 s while they were read; wait until"
    ):
        actual_of(gateway, clock)
    assert 1060 <= clock.seconds < 1062


def test_a_snapshot_is_read_once_however_different() -> None:
    gateway = ScriptedGateway(entities(MANY * 2), is_live=False)
    assert actual_of(gateway) == entities(MANY * 2)
    assert gateway.log == ["describe"]


def test_a_read_that_fails_is_no_answer() -> None:
    gateway = ScriptedGateway(entities(MANY), reads=[None, ClusterError("gone")])
    with pytest.raises(ClusterError, match="gone"):
        actual_of(gateway)


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
