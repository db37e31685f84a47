"""The plan of the other examples with its blast radius: limits that change in every direction, and more than fit."""

from __future__ import annotations

from dataclasses import replace

from quotaform.model.entity import Entity
from quotaform.plan.blast_radius import Principals, make_blast_radius
from quotaform.plan.plan import Plan
from tests.builder import guarded
from tests.golden.example import ACTUAL, example_plan

PEOPLE = (
    *(Entity(user=f"anybody-{number}") for number in range(4)),
    *(Entity(user=name) for name in ("legacy-etl", "perf-test", "same", "svc-orders", "x\n::error", "<default>")),
    *(Entity(user="svc-orders", client_id=name) for name in ("backfill", "other", "")),
    Entity(user="shadowed", client_id="app"),
    Entity(user="CN=a b,O=Å", client_id="<b>@team|`"),
    *(Entity(ip=address) for address in ("10.0.0.7", "::ffff:10.0.0.7", "10.0.0.8")),
)


def principals_plan() -> Plan:
    plan = guarded(example_plan(with_findings=False))
    radius, changes = make_blast_radius(Principals.of("clients.csv", PEOPLE), ACTUAL, plan.changes, file="changed.csv")
    return replace(plan, blast_radius=radius, limit_changes=changes)
