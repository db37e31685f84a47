"""Resolutions in every format, on a cluster that has a bit of everything."""

from __future__ import annotations

from collections.abc import Sequence
from json import loads
from typing import Any

import pytest

from quotaform.apply.freshness import as_if_applied
from quotaform.cluster.gateway import BrokerConfig
from quotaform.model.entity import Entity
from quotaform.model.errors import AuthorizationError
from quotaform.plan.plan import Plan
from quotaform.report.text import PLAIN, Style
from quotaform.resolve.records import dump_resolved
from quotaform.resolve.report import render_resolve, render_resolve_csv
from quotaform.resolve.resolve import ResolveOptions
from quotaform.resolve.run import ResolveRequest, ResolveRun
from tests.builder import plan_of
from tests.golden.conftest import Golden
from tests.scripted_gateway import Clock, ScriptedGateway

MIB = 1024.0**2
PRODUCER = "producer_byte_rate"
QUOTAS = {
    Entity(user="alice", client_id="app1"): {PRODUCER: 1 * MIB},
    Entity(user="alice"): {PRODUCER: 2 * MIB, "consumer_byte_rate": 2.0**63},
    Entity(user=None, client_id=None): {PRODUCER: 50e6, "future_rate": 7.0},
    Entity(user=None): {PRODUCER: 5 * MIB, "request_percentage": 33.3},
    Entity(client_id="app1"): {"controller_mutation_rate": 5.0},
    Entity(client_id=None): {PRODUCER: 6 * MIB},
    Entity(user="x\n::error", client_id=None): {PRODUCER: float("nan")},
    Entity(ip="10.0.0.7"): {"connection_creation_rate": 50.0},
    Entity(ip="localhost"): {"connection_creation_rate": 5.0},
    Entity(ip="127.0.0.1"): {"connection_creation_rate": 9.0},
    Entity(ip=None): {"connection_creation_rate": 0.5},
    Entity({"group": "g"}): {"future_rate": 1.0},
}
ASKED = (
    Entity(user="alice", client_id="app1"),
    Entity(user="bob", client_id="zzz"),
    Entity(user="alice"),
    Entity(client_id="app1"),
    Entity(user="x\n::error", client_id="<default>"),
    Entity(ip="10.0.0.7"),
    Entity(ip="::ffff:10.0.0.7"),
    Entity(ip="127.0.0.1"),
    Entity(ip="192.0.2.1"),
)
CONFIG = BrokerConfig(
    {1: "io.example.Callback", 2: None, 3: "io.example.Callback"},
    {4: AuthorizationError("The principal is not authorised to read the configuration of broker 4: grant it.")},
)


def run(asked: Sequence[Entity] = ASKED, plan: Plan | None = None, **detail: Any) -> ResolveRun:
    request = ResolveRequest(
        entities=asked,
        has_clients=True,
        has_ips=True,
        plan=as_if_applied(plan) if plan else None,
        detail=ResolveOptions(**detail),
    )
    return ResolveRun(request, ScriptedGateway(QUOTAS, config=CONFIG), clock=Clock())


def text_of(found: ResolveRun, style: Style = PLAIN) -> str:
    return "".join(render_resolve(found, style))


def plan() -> Plan:
    wanted = {
        Entity(user="alice"): {PRODUCER: 20 * MIB},
        Entity(user=None): {PRODUCER: 10 * MIB, "request_percentage": 33.3},
        Entity(user="bob", client_id=None): {PRODUCER: 50e6, "consumer_byte_rate": 2.0**63},
        Entity(client_id="app1"): {},
        Entity(ip="10.0.0.7"): {"connection_creation_rate": 5.0},
    }
    return plan_of(wanted, QUOTAS)


VIEWS = {
    "resolve.txt": lambda: text_of(run()),
    "resolve-colour.txt": lambda: text_of(run(ASKED[:2]), Style(True)),
    "resolve-plan.txt": lambda: text_of(run(ASKED[:6], plan())),
    "resolve-own.txt": lambda: text_of(run(inherited=False, overridden=False)),
    "resolve.json": lambda: "".join(dump_resolved(run(plan=plan()))),
    "resolve.csv": lambda: "".join(render_resolve_csv(run(plan=plan()))),
}


@pytest.mark.parametrize("name", VIEWS)
def test_resolutions_look_like_this(golden: Golden, name: str) -> None:
    golden(name, VIEWS[name]())


def test_nothing_asked_is_an_empty_document() -> None:
    found = run(())
    assert loads("".join(dump_resolved(found)))["requests"] == []
    assert "".join(render_resolve_csv(found)).count("\n") == 1
