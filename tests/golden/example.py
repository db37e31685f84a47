"""Plans with everything in them, that all views are shown with: alone, with its guards, and with a base."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

from msgspec import structs

from quotaform.model.entity import Entity
from quotaform.model.finding import DELETE, Allowance, Approval, Finding, Severity, by_severity, pack_position
from quotaform.model.quotas import Base, Cause, DeclaredBase, Desired, Entry, LayerFile
from quotaform.model.scope import Pattern, Scope
from quotaform.model.settings import CountLimit, GuardLimits, PruneMode
from quotaform.plan.check.check import with_findings
from quotaform.plan.check.facts import Facts, Safeguards
from quotaform.plan.check.guard import GUARDS
from quotaform.plan.difference import diff, make_plan, prune, removable_entities
from quotaform.plan.plan import Plan, PlanHeader, PlanOptions, PlanSource
from tests.builder import declare

MIB = 1024.0**2

ACTUAL = {
    Entity(user=None): {"producer_byte_rate": 20 * MIB},
    Entity(user="legacy-etl"): {"producer_byte_rate": 5 * MIB, "consumer_byte_rate": 10 * MIB},
    Entity(user="svc-orders"): {"producer_byte_rate": 10 * MIB, "consumer_byte_rate": 50e6},
    Entity(user="svc-orders", client_id="backfill"): {"producer_byte_rate": 1 * MIB},
    Entity(user="svc-orders", client_id="reports"): {"producer_byte_rate": 20 * MIB},
    Entity(user="perf-test"): {"producer_byte_rate": 100 * MIB},
    Entity(user="shadowed"): {"producer_byte_rate": 1 * MIB},
    Entity(user="shadowed", client_id=None): {"producer_byte_rate": 2 * MIB},
    Entity(user="by-hand"): {"request_percentage": 12.5},
    Entity(user="kafka-internal"): {"request_percentage": 300.0},
    Entity(user="same"): {"producer_byte_rate": MIB},
    Entity(ip="10.0.0.7"): {"connection_creation_rate": 50.0},
}


def _entry(line: int, entity: Entity, **more: object) -> Entry:
    values = {key: value for key, value in more.items() if isinstance(value, float)}
    texts: dict[str, Any] = {key: value for key, value in more.items() if isinstance(value, str)}
    cause = Cause.ENTRY if values else Cause.TOMBSTONE
    file, position = LayerFile("quotas.d/teams.yaml"), pack_position(line, 5)
    return Entry(entity=entity, values=values, file=file, position=position, cause=cause, **texts)


ENTRIES = [
    _entry(3, Entity(user="legacy-etl"), owner="team-etl"),
    _entry(6, Entity(user="svc-orders"), producer_byte_rate=20 * MIB, consumer_byte_rate=50e6, owner="team-orders"),
    _entry(12, Entity(user="perf-test"), producer_byte_rate=2.0**63, reason="load test"),
    _entry(15, Entity(user="shadowed"), producer_byte_rate=3 * MIB),
    _entry(18, Entity(user="CN=a b,O=Å"), producer_byte_rate=30 * MIB, request_percentage=33.3),
    _entry(22, Entity(user="<default>"), consumer_byte_rate=1.0),
    _entry(25, Entity(user="x\n::error"), controller_mutation_rate=5.0, owner="me\n::warning"),
    _entry(28, Entity(client_id=None), producer_byte_rate=1 * MIB),
    _entry(31, Entity(ip=None), connection_creation_rate=100.0),
    _entry(34, Entity(user="same"), producer_byte_rate=MIB),
]

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
        cluster_name="prod-eu",
        cluster_id="3JxQ0v7pT2a",
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
NAMES = ("audit", "both", "config", "drifted", "expired", "gone", "keys", "moved", "new", "strange", "tombstone")
AUDIT, BOTH, CONFIG, DRIFTED, EXPIRED, GONE, KEYS, MOVED, NEW, STRANGE, TOMBSTONE = (
    Entity(user=name) for name in NAMES
)


def _rates(producer: float, consumer: float | None = None) -> dict[str, float]:
    both = {"producer_byte_rate": producer * MIB, "consumer_byte_rate": (consumer or 0) * MIB}
    return both if consumer else {"producer_byte_rate": producer * MIB}


AT_BASE: Desired = {
    **declare({GONE: _rates(5, 10), MOVED: _rates(5)}, owner="team-etl"),
    **declare(
        {
            AUDIT: _rates(16),
            BOTH: _rates(1),
            CONFIG: _rates(10, 20),
            DRIFTED: _rates(1, 2),
            KEYS: _rates(1, 1),
            TOMBSTONE: _rates(1),
        }
    ),
    **declare({EXPIRED: {}}, cause=Cause.EXPIRED, expires=date(2026, 11, 1)),
}
LIVE = {
    AUDIT: _rates(80),
    BOTH: _rates(2),
    CONFIG: _rates(10, 20),
    DRIFTED: _rates(1, 9),
    EXPIRED: _rates(3),
    GONE: _rates(5, 10),
    KEYS: _rates(1, 8),
    MOVED: _rates(6),
    STRANGE: _rates(7),
    TOMBSTONE: _rates(1),
}
FILES: Desired = {
    **declare({CONFIG: _rates(20, 20), NEW: _rates(1), TOMBSTONE: {}}, owner="team-a"),
    **declare({AUDIT: _rates(16), BOTH: _rates(3), DRIFTED: _rates(1, 2), KEYS: _rates(2, 1)}),
    **declare({EXPIRED: {}}, cause=Cause.EXPIRED, expires=date(2026, 11, 1)),
}


def based_plan() -> Plan:
    header = example_plan().header
    header = replace(
        header, source=structs.replace(header.source, base=BASE), options=PlanOptions(prune=PruneMode.SCOPE)
    )
    base = DeclaredBase(BASE, AT_BASE)
    pruned = prune(list(removable_entities(FILES, LIVE)), PruneMode.SCOPE, base)
    return make_plan(diff(FILES, LIVE, pruned), FILES, LIVE, header, base=base, pruned=pruned)


def guarded_plan() -> Plan:
    """The plan, with the numbers and patterns that its guards go by."""
    limits = GuardLimits(delete=CountLimit(0, 100), protect=(Pattern((("user", "legacy-*"),)),))
    plan = example_plan(with_findings=False)
    plan = replace(
        plan,
        header=replace(plan.header, options=PlanOptions.of(limits=limits)),
        allowances=(Allowance("delete", 9), Allowance("update", 60)),
    )
    approval = Approval(
        rule="protect",
        entity=Entity(user="legacy-etl"),
        reason="moved to svc-etl",
        approver="carol@example.com",
        expires=date(2026, 12, 1),
        action=DELETE,
    )
    pattern = Approval(
        rule="to-unlimited",
        entity=Entity(user="perf-*"),
        cluster="prod-*",
        reason="load test",
        approver="carol@example.com",
        expires=date(2026, 12, 1),
    )
    facts = Facts(
        desired={entry.entity: entry for entry in ENTRIES},
        actual=ACTUAL,
        safeguards=Safeguards(limits=limits),
        approvals=(approval, pattern),
        today=date(2026, 11, 20),
    )
    return with_findings(plan, facts, GUARDS)
