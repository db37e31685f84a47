"""Every view, on examples that have everything in them, and views of what is measured."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import date
from json import loads
from typing import Any

import pytest
from msgspec import structs
from msgspec.structs import replace as changed

from quotaform.apply.freshness import as_if_applied
from quotaform.apply.report import render_receipt
from quotaform.cluster.gateway import BrokerConfig
from quotaform.cluster.records import Checkup
from quotaform.cluster.report import render_checkup
from quotaform.drift.drift import make_drift
from quotaform.drift.metric import merge_run, render_metrics
from quotaform.drift.records import dump_drift
from quotaform.drift.report import render_drift
from quotaform.model.entity import Entity
from quotaform.model.errors import AuthorizationError
from quotaform.model.records.record import decode, dump_record
from quotaform.model.records.schema import gate
from quotaform.plan.backtest import backtest_section
from quotaform.plan.plan import Plan
from quotaform.plan.receipt import Result
from quotaform.plan.records import load_plan
from quotaform.plan.report import render_plan, render_plan_summary
from quotaform.report.format import FORMATS, render, schema_builder
from quotaform.report.text import Style, section_lines
from quotaform.repository.repository import Repository
from quotaform.resolve.explain import dump_explained
from quotaform.resolve.records import dump_resolved
from quotaform.resolve.report import render_explained, render_resolve, render_resolve_csv
from quotaform.resolve.resolve import ResolveOptions
from quotaform.resolve.run import ResolveRun, explain_entity
from quotaform.usage.top import render_top
from tests.builder import MIB, PRODUCER, dumped_plan, dumped_receipt, plan_of, receipt_of
from tests.golden import usage_example as example
from tests.golden.conftest import FOLDER, Golden
from tests.golden.example import (
    based_plan,
    empty_plan,
    example_drift,
    example_plan,
    guarded_plan,
    of_the_right_cluster,
    principals_plan,
)
from tests.golden.fleet_example import example_report
from tests.markdown import markdown_of
from tests.scripted_gateway import Clock, ScriptedGateway
from tests.unit.test_audit import LINES
from tests.unit.test_metrics import run_of

RUN = "https://ci.example/runs/1"
PLAN, DRIFT = example_plan(), make_drift(of_the_right_cluster(example_plan()))
CHECKUP = decode((FOLDER / "doctor.json").read_bytes(), Checkup)
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
    {4: AuthorizationError("The principal is not authorised to read the configuration of broker 4; grant it.")},
)


def run(asked: Sequence[Entity] = ASKED, plan: Plan | None = None, **detail: Any) -> ResolveRun:
    assumed = as_if_applied(plan) if plan else None
    gateway = ScriptedGateway(QUOTAS, config=CONFIG)
    return ResolveRun(asked, gateway, assumed, ResolveOptions(**detail), clock=Clock())


def plan() -> Plan:
    wanted = {
        Entity(user="alice"): {PRODUCER: 20 * MIB},
        Entity(user=None): {PRODUCER: 10 * MIB, "request_percentage": 33.3},
        Entity(user="bob", client_id=None): {PRODUCER: 50e6, "consumer_byte_rate": 2.0**63},
        Entity(client_id="app1"): {},
        Entity(ip="10.0.0.7"): {"connection_creation_rate": 5.0},
    }
    return plan_of(wanted, QUOTAS)


VIEWS: dict[str, Iterable[str]] = {
    "plan.txt": render_plan(PLAN),
    "plan-full.txt": render_plan(PLAN, shows_unchanged=True, shows_unmanaged=True),
    "plan-colour.txt": render_plan(PLAN, Style(True)),
    "plan.json": dumped_plan(PLAN),
    "drift.txt": render_drift(DRIFT),
    "drift.json": dump_drift(DRIFT),
    "plan-empty.txt": render_plan(empty_plan()),
    "plan-base.txt": render_plan(based_plan()),
    "plan-base.json": dumped_plan(based_plan()),
    "plan-guarded.txt": render_plan(guarded_plan()),
    "plan-guarded.json": dumped_plan(guarded_plan()),
    "plan-summary.txt": render_plan_summary(PLAN),
    "plan.md": markdown_of("plan", PLAN, run_url=RUN),
    "plan-principals.txt": render_plan(principals_plan()),
    "plan-principals-summary.txt": render_plan_summary(principals_plan()),
    "plan-principals.md": markdown_of("plan", principals_plan()),
    "plan-principals.json": dumped_plan(principals_plan()),
    **{f"limit-changes.{name}": render("limit-changes", name, principals_plan()) for name in FORMATS["limit-changes"]},
    "drift.md": markdown_of("drift", DRIFT, run_url=RUN),
    "drift-baseline.txt": render_drift(example_drift()),
    "drift-baseline.json": dump_drift(example_drift()),
    "drift-empty.txt": render_drift(make_drift(empty_plan())),
    # Findings beside the files.
    **{f"plan.{name}": render("plan", name, PLAN) for name in ("github", "sarif", "gitlab")},
    **{f"drift.{name}": render("drift", name, DRIFT) for name in ("github", "sarif", "gitlab")},
    "fleet-report.txt": render("fleet-report", "text", example_report("plan")),
    "fleet-report.json": render("fleet-report", "json", example_report("plan")),
    "fleet-report.md": render("fleet-report", "markdown", example_report("plan")),
    "fleet-report-apply.txt": render("fleet-report", "text", example_report("apply")),
    "fleet-report-drift.txt": render("fleet-report", "text", example_report("drift")),
    # One server refuses the credentials, and another is not tried after it.
    "doctor.txt": render_checkup(CHECKUP),
    "doctor-colour.txt": render_checkup(CHECKUP, Style(is_coloured=True)),
    "doctor.json": dump_record(CHECKUP),
    "audit.jsonl": LINES,
    "metrics.prom": render_metrics(merge_run({}, run_of(notified=True))),
    "resolve.txt": render_resolve(run()),
    "resolve-colour.txt": render_resolve(run(ASKED[:2]), Style(True)),
    "resolve-plan.txt": render_resolve(run(ASKED[:6], plan())),
    "resolve-own.txt": render_resolve(run(inherited=False, overridden=False)),
    "resolve.json": dump_resolved(run(plan=plan())),
    "resolve.csv": render_resolve_csv(run(plan=plan())),
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_view(golden: Golden, name: str) -> None:
    golden(name, "".join(VIEWS[name]))


def test_a_plan_file_reads_back_as_it_was() -> None:
    plan = principals_plan()
    assert load_plan(dumped_plan(plan), "plan.json") == replace(plan, base=None)
    assert dumped_plan(load_plan(dumped_plan(guarded_plan()), "plan.json")) == dumped_plan(guarded_plan())


def test_where_declared_values_come_from(golden: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
    """With everything that can give or take a value."""
    monkeypatch.chdir(FOLDER.parent / "data/explained")
    found = explain_entity(Repository.at(None, None), Entity(user="svc-orders"), (), date(2026, 11, 20))
    golden("explain.txt", render_explained(found))
    golden("explain-colour.txt", render_explained(found, Style(is_coloured=True)))
    golden("explain.json", dump_explained(found))


def test_receipt_of_a_complete_apply(golden: Golden) -> None:
    plan = example_plan(with_findings=False)
    receipt = receipt_of(plan, *[Result.APPLIED] * (len(plan.changes) - 1), Result.ALREADY_APPLIED)
    golden("receipt.txt", render_receipt(receipt))
    golden("receipt.md", markdown_of("receipt", receipt))
    golden("receipt.json", dumped_receipt(receipt))


def test_receipt_of_an_incomplete_apply(golden: Golden) -> None:
    plan = example_plan(with_findings=False)
    results = [Result.APPLIED, Result.REFUSED, Result.UNKNOWN, Result.UNCONFIRMED]
    rest = [Result.NOT_ATTEMPTED] * (len(plan.changes) - 4)
    receipt = receipt_of(plan, *results, *rest, interrupted_by="SIGINT")
    whys = ("why" if each.result is Result.REFUSED else "" for each in receipt.results)
    receipt = structs.replace(
        receipt,
        results=tuple(structs.replace(each, message=why) for each, why in zip(receipt.results, whys, strict=True)),
    )
    golden("receipt-incomplete.json", dumped_receipt(receipt))
    golden("receipt-incomplete.txt", render_receipt(receipt))
    golden("receipt-incomplete.md", markdown_of("receipt", receipt, run_url=RUN))


SUFFIXES = {"text": "txt", "json": "json", "markdown": "md"}
MEASURED: dict[str, tuple[str, Any]] = {
    "headroom": ("usage-headroom", example.HEADROOM),
    "headroom-far": ("usage-headroom", example.FAR),
    "headroom-nothing": ("usage-headroom", example.NO_HEADROOM),
    "backtest": ("usage-backtest", example.BACKTEST),
    "recommend": ("usage-recommend", example.RECOMMENDED),
    "recommend-several": ("usage-recommend", example.SEVERAL),
    "recommend-untested": ("usage-recommend", example.UNTESTED),
    "stream": ("usage-stream", example.STREAMED),
    "stream-nothing": ("usage-stream", example.NOT_STREAMED),
}


@pytest.mark.parametrize("name", MEASURED)
def test_what_is_measured_in_every_format(name: str, golden: Golden) -> None:
    subject, value = MEASURED[name]
    for kind in FORMATS[subject]:
        if kind in SUFFIXES:
            text = "".join(render(subject, kind, value))
            golden(f"usage-view-{name}.{SUFFIXES[kind]}", text)
            assert "\x1b" not in text
            if kind == "json":
                assert gate(schema_builder(subject)).is_valid(json.loads(text))


def test_a_backtest_in_a_plan(golden: Golden) -> None:
    clusters = example.BACKTEST.clusters
    sections = [section for each in clusters for section in backtest_section(each)]
    golden("usage-view-plan.txt", "".join(f"{line}\n" for each in sections for line in section_lines(each)))
    buckets = clusters[0].changed
    affected = changed(clusters[0], changed=changed(buckets, affected=len(buckets.rows)))
    assert not [section for section in backtest_section(affected) if section.table.more]


def test_who_is_throttled(golden: Golden) -> None:
    hostile = example.row(2000.0, 9.0, user="a\x1b[2J\n::error::x", broker="\x1b]0;x")
    views = {
        "all of it": render_top(example.top(*example.ROWS, unread=True)),
        "all buckets": render_top(example.top(*example.ROWS), shows_all=True),
        "a limit that is none": render_top(
            example.top(example.row(4000.0, user="bob", key="request_percentage")), shows_all=True
        ),
        "one bucket": render_top(example.top(*example.ROWS), limit=1),
        "a narrow terminal": render_top(example.top(*example.ROWS), width=60, height=9),
        "nothing measured": render_top(example.top()),
        "nobody close": render_top(example.top(example.row(1.0, user="a"))),
        # With a cluster that could not be read, all buckets were said to be below their limits.
        "no quotas": render_top(example.top(example.row(1.0, user="a"), quotas=None)),
        "throttled without quotas": render_top(example.top(example.row(1200.0, 900.0, user="alice"), quotas=None)),
        "a quota that was removed": render_top(example.top(example.row(1200.0, 900.0, user="x"), quotas={})),
        # That nobody could be measured is no zero.
        "nothing read": render_top(example.top(unread=True)),
        "hostile names": render_top(example.top(hostile, unread=True)),
    }
    assert all(line.isprintable() for text in views.values() for line in text.splitlines())
    golden("usage-view-top.txt", "\n".join(f"=== {name}\n{text}" for name, text in views.items()))


def test_nothing_asked_is_an_empty_document() -> None:
    found = run(())
    assert loads("".join(dump_resolved(found)))["requests"] == []
    assert "".join(render_resolve_csv(found)).count("\n") == 1
