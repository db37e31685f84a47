"""Plans with everything in them, that all views are shown with: alone, with guards, a base or principals; and drift."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import yaml
from msgspec import structs

from quotaform.desired.config import Config
from quotaform.drift.drift import Drift, make_drift
from quotaform.model.entity import ENTITY_TYPES, Entity
from quotaform.model.finding import DELETE, Allowance, Approval, Finding, Location, Severity, by_severity
from quotaform.model.quotas import Base, Cause, DeclaredBase, Desired, Entry
from quotaform.model.records.record import ClusterRecord
from quotaform.model.scope import Pattern, Scope
from quotaform.model.settings import CountLimit, GuardLimits, Ignore, PruneMode
from quotaform.plan.blast_radius import Principals, make_blast_radius
from quotaform.plan.check.check import with_findings
from quotaform.plan.check.guard import GUARDS, Facts, Safeguards
from quotaform.plan.difference import diff, make_plan, prune, removable_entities, removals
from quotaform.plan.plan import Plan, PlanHeader, PlanOptions, PlanSource
from tests.builder import HEADER, MIB, guarded

_TEXT = (Path(__file__).parents[1] / "data" / "example.yaml").read_text(encoding="utf-8")
_DATA: dict[str, list[dict[str, Any]]] = yaml.safe_load(_TEXT)


def example_quotas(name: str) -> dict[Entity, dict[str, float]]:
    """Return quotas of example.yaml."""
    return {
        Entity({kind: item[kind] for kind in ENTITY_TYPES if kind in item}): {
            key: float(str(value).removesuffix(" MiB")) * (MIB if str(value).endswith(" MiB") else 1)
            for key, value in item.items()
            if key.endswith(("_rate", "_percentage"))
        }
        for item in _DATA[name]
    }


def example_entries(name: str, file: str = "all") -> Desired:
    """Return the entries of a file of example.yaml."""
    return {
        entity: Entry(
            entity=entity,
            values=values,
            location=Location(f"quotas.d/{file}.yaml", item["line"], 5),
            cause=Cause.ENTRY if values else Cause.EXPIRED if "expires" in item else Cause.TOMBSTONE,
            **{key: item[key] for key in ("owner", "reason", "expires") if key in item},
        )
        for item, (entity, values) in zip(_DATA[name], example_quotas(name).items(), strict=True)
    }


ACTUAL = example_quotas("actual")
ENTRIES = list(example_entries("entries", "teams").values())

FINDINGS = [
    Finding(
        rule="nan-value",
        severity=Severity.WARNING,
        address="user=broken",
        key="producer_byte_rate",
        message="producer_byte_rate is NaN; the entity is left unchanged until the files declare it",
    ),
    Finding(rule="cluster-id", message="the live id differs from the pinned one.", blocking=True),
]

SCOPE = Scope(exclude=(Pattern((("user", "kafka-*"),)),))


def example_plan(*, with_findings: bool = True) -> Plan:
    desired = {entry.entity: entry for entry in ENTRIES}
    header = PlanHeader(
        cluster=ClusterRecord(name="prod-eu", id="3JxQ0v7pT2a"),
        created_at="2026-11-20T09:12:44Z",
        source=PlanSource(directory="quotas.d", commit="4f2c1d90aa", dirty=True),
    )
    plan = make_plan(diff(desired, ACTUAL), desired, ACTUAL, header, scope=SCOPE)
    return replace(plan, findings=tuple(by_severity(FINDINGS)) if with_findings else ())


def empty_plan() -> Plan:
    desired = {Entity(user="same"): ENTRIES[-1]}
    actual = {Entity(user="same"): ACTUAL[Entity(user="same")]}
    return make_plan(diff(desired, actual), desired, actual, example_plan().header)


def of_the_right_cluster(plan: Plan) -> Plan:
    """Return a plan without the finding that another cluster was read, with which no drift is computed."""
    return replace(plan, findings=tuple(each for each in plan.findings if each.rule != "cluster-id"))


BASE = Base(ref="origin/main", commit="a91be02d41")


def based_plan() -> Plan:
    files, live = example_entries("plan_files"), example_quotas("plan_live")
    header = example_plan().header
    header = structs.replace(
        header, source=structs.replace(header.source, base=BASE), options=PlanOptions(prune=PruneMode.SCOPE)
    )
    base = DeclaredBase(BASE, example_entries("plan_base"))
    pruned = prune(list(removable_entities(files, live)), PruneMode.SCOPE, base)
    return make_plan([*diff(files, live), *removals(pruned, live)], files, live, header, base=base, pruned=pruned)


def guarded_plan() -> Plan:
    """The plan, with the numbers and patterns that its guards go by."""
    limits = GuardLimits(delete=CountLimit(0, 100), protect=(Pattern((("user", "legacy-*"),)),))
    plan = example_plan(with_findings=False)
    plan = replace(
        plan,
        header=structs.replace(plan.header, options=PlanOptions.of(limits=limits)),
        allowances=(Allowance("delete", 9), Allowance("update", 60)),
    )
    approval = Approval(
        rule="protect",
        address="user=legacy-etl",
        reason="moved to svc-etl",
        approver="carol@example.com",
        expires=date(2026, 12, 1),
        action=DELETE,
    )
    pattern = Approval(
        rule="to-unlimited",
        address="user=perf-*",
        cluster="prod-*",
        reason="load test",
        approver="carol@example.com",
        expires=date(2026, 12, 1),
    )
    facts = Facts(
        desired={entry.entity: entry for entry in ENTRIES},
        actual=ACTUAL,
        safeguards=Safeguards(Config(guard_limits=limits)),
        approvals=dict.fromkeys((approval, pattern)),
        today=date(2026, 11, 20),
    )
    return with_findings(plan, facts, GUARDS)


def example_drift() -> Drift:
    """Drift, pending changes and ignored keys, beside one entity that is in sync."""
    base = DeclaredBase(Base(ref="origin/main", commit="a91be02c"), example_entries("drift_base"))
    head, live = example_entries("drift_files"), example_quotas("drift_live")
    plan = make_plan(diff(head, live), head, live, HEADER, base=base)
    ignore = Ignore(
        entities=Scope(include=(Pattern((("user", "perf-*"),)),)),
        reason="load test",
        expires=date(2026, 12, 31),
        location=Location("quotaform.yaml", 9, 3),
    )
    return make_drift(plan, ignores=[ignore], today=date(2026, 11, 20))


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
