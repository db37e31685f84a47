"""On a real broker: an apply and its revert bring back every value that the apply touched."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings

from quotaform.apply.run import apply_plan
from quotaform.cluster.kafka import KafkaGateway
from quotaform.model.alteration import Alteration
from quotaform.model.quotas import Desired, Quotas
from quotaform.model.scope import ALL
from quotaform.plan.difference import make_plan
from quotaform.plan.plan import Plan, PlanOptions
from quotaform.plan.receipt_records import load_receipt
from quotaform.plan.records import load_plan
from quotaform.plan.revert import as_revert, find_revert, require_receipt_cluster, require_revertible
from quotaform.sandbox import Sandbox
from tests.builder import HEADER, guarded, plan_of
from tests.dumped import dumped_plan, dumped_receipt
from tests.strategies import desired, quotas
from tests.waiting import wait_until

pytestmark = pytest.mark.kafka


@pytest.fixture
def gateway(sandbox: Sandbox) -> Iterator[KafkaGateway]:
    with KafkaGateway.connect(sandbox.bootstrap_servers, name="lab") as made:
        yield made


def become(gateway: KafkaGateway, wanted: Quotas) -> None:
    """Make a cluster hold these quotas and nothing else."""
    live = gateway.describe()
    alterations = [
        Alteration(entity, {**dict.fromkeys(live.get(entity, {})), **wanted.get(entity, {})})
        for entity in {*live, *wanted}
        if live.get(entity, {}) != wanted.get(entity, {})
    ]
    if alterations:
        gateway.alter(alterations).raise_for_errors()
    wait_until(lambda: gateway.describe() == wanted)


def revert_of(text: str, actual: Quotas, files: Desired, cluster_id: str) -> Plan:
    receipt = load_receipt(text, "receipt.json")
    require_receipt_cluster(receipt, cluster_id)
    found = find_revert(receipt, actual, ALL)
    require_revertible(found)
    header = replace(HEADER, cluster_id=cluster_id, options=PlanOptions(revert=receipt.plan_id))
    plan = guarded(as_revert(make_plan(found.rows, files, actual, header), found))
    return load_plan(dumped_plan(plan), "plan.json")


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(quotas(), desired())
def test_an_apply_and_its_revert_bring_back_the_state_before(
    gateway: KafkaGateway, sandbox: Sandbox, before: Quotas, files: Desired
) -> None:
    become(gateway, before)
    plan = plan_of(files, before, header=replace(HEADER, cluster_id=sandbox.cluster_id))
    done = apply_plan(plan, gateway)
    assert done.is_complete
    back = revert_of(dumped_receipt(done), gateway.describe(), files, sandbox.cluster_id)
    assert len(back.rows) == len(plan.rows)
    undone = apply_plan(back, gateway)
    assert undone.is_complete
    assert gateway.describe() == before
    forward = revert_of(dumped_receipt(undone), gateway.describe(), files, sandbox.cluster_id)
    assert {(row.entity, row.key, row.before, row.after) for row in forward.rows} == {
        (row.entity, row.key, row.before, row.after) for row in plan.rows
    }
    become(gateway, {})
