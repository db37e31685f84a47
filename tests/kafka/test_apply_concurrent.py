"""Applies while somebody else writes: what can be noticed is, and what Kafka cannot prevent is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from quotaform.apply.run import apply_plan
from quotaform.cluster.gateway import BeforeSend, do_nothing
from quotaform.cluster.kafka import KafkaGateway
from quotaform.model.alteration import Alteration, AlterResult, AlterRow
from quotaform.model.entity import Entity
from quotaform.model.errors import StaleEntitiesError
from quotaform.model.quotas import Values
from quotaform.plan.receipt import Result
from quotaform.sandbox import Sandbox
from tests.builder import HEADER, PRODUCER, plan_of
from tests.waiting import wait_until

pytestmark = pytest.mark.kafka

ALICE, BOB = Entity(user="race-alice"), Entity(user="race-bob")


class RacedGateway(KafkaGateway):
    """Lets somebody else write at some moments of an apply."""

    after_dry_run: Callable[[], object] = staticmethod(lambda: None)
    before_write: Callable[[], object] = staticmethod(lambda: None)
    after_write: Callable[[], object] = staticmethod(lambda: None)

    def alter(self, alterations: Sequence[Alteration], **options: Any) -> AlterResult:
        result = super().alter(alterations, **options)
        self.after_dry_run()
        return result

    def alter_chunks(
        self, alterations: Sequence[Alteration], *, validate_only: bool = False, before_send: BeforeSend = do_nothing
    ) -> Iterator[tuple[AlterRow, ...]]:
        if not validate_only:
            self.before_write()
        yield from super().alter_chunks(alterations, validate_only=validate_only, before_send=before_send)
        if not validate_only:
            self.after_write()


class Other:
    """Somebody else."""

    def __init__(self, gateway: KafkaGateway) -> None:
        self.gateway = gateway

    def set(self, value: float | None, entity: Entity = ALICE) -> None:
        self.gateway.alter([Alteration(entity, {PRODUCER: value})]).raise_for_errors()
        wait_until(lambda: self.read(entity) == ({} if value is None else {PRODUCER: value}))

    def read(self, entity: Entity = ALICE) -> Values:
        return self.gateway.describe().get(entity, {})


@pytest.fixture
def gateway(sandbox: Sandbox) -> Iterator[RacedGateway]:
    with RacedGateway.connect(sandbox.bootstrap_servers, name="lab") as made:
        yield made


@pytest.fixture
def other(sandbox: Sandbox) -> Iterator[Other]:
    with KafkaGateway.connect(sandbox.bootstrap_servers) as second:
        somebody = Other(second)
        somebody.set(1.0)
        somebody.set(None, BOB)
        yield somebody
        somebody.set(None)
        somebody.set(None, BOB)


def plan_for(sandbox: Sandbox) -> Any:
    header = replace(HEADER, cluster_id=sandbox.cluster_id)
    return plan_of({ALICE: {PRODUCER: 2.0}, BOB: {PRODUCER: 2.0}}, {ALICE: {PRODUCER: 1.0}}, header=header)


def test_a_change_during_the_dry_run_is_not_overwritten(sandbox: Sandbox, gateway: RacedGateway, other: Other) -> None:
    """The check came before the dry run, and what somebody else wrote meanwhile was lost."""
    gateway.after_dry_run = lambda: other.set(7.0)
    with pytest.raises(StaleEntitiesError, match="race-alice"):
        apply_plan(plan_for(sandbox), gateway)
    assert other.read() == {PRODUCER: 7.0}
    assert other.read(BOB) == {}


def test_a_change_after_the_write_is_told(sandbox: Sandbox, gateway: RacedGateway, other: Other) -> None:
    """It was told as "not seen in time", after half a minute."""
    gateway.after_write = lambda: other.set(7.0)
    receipt = apply_plan(plan_for(sandbox), gateway)
    found = {item.entity: (item.result, item.message) for item in receipt.results}
    assert found[BOB] == (Result.APPLIED, "")
    assert found[ALICE] == (Result.OVERWRITTEN, "it has producer_byte_rate = 7 B/s")
    assert not receipt.is_complete
    assert receipt.wrote_anything


def test_a_change_between_the_last_check_and_the_write_is_overwritten(
    sandbox: Sandbox, gateway: RacedGateway, other: Other
) -> None:
    """Kafka offers no compare-and-set; docs/lifecycle.md says so."""
    gateway.before_write = lambda: other.set(7.0)
    assert apply_plan(plan_for(sandbox), gateway).is_complete
    assert other.read() == {PRODUCER: 2.0}
