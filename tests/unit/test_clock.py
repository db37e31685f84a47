"""What a use case says of the time is what its clock says."""

from __future__ import annotations

from time import sleep

import pytest

from quotaform.app.resolve.resolve import ResolveRequest, ResolveRun
from quotaform.app.snapshot import take_snapshot
from quotaform.document.resolve import dump_resolved
from quotaform.document.snapshot import dump_snapshot
from quotaform.model.entity import Entity
from tests.builder import PRODUCER
from tests.scripted_gateway import Clock, ScriptedGateway

ALICE = Entity(user="alice")


def outputs() -> tuple[str, str]:
    gateway = ScriptedGateway({ALICE: {PRODUCER: 1.0}})
    request = ResolveRequest(entities=[ALICE], has_clients=True, has_ips=False)
    run = ResolveRun(request, gateway, clock=Clock())
    return (
        dump_snapshot(take_snapshot(gateway, clock=Clock())),
        "".join(dump_resolved(run, run.header, run.findings)),
    )


@pytest.mark.slow
def test_outputs_made_in_different_seconds_by_one_fixed_clock_are_equal() -> None:
    first = outputs()
    sleep(1.05)
    assert outputs() == first
    assert all("2026-11-20T09:12:44Z" in output for output in first)
