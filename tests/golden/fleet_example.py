"""Reports with everything in them: clusters of every status, rules, errors of two kinds, and snapshots."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal

import yaml
from msgspec import structs

from quotaform.drift.drift import DriftClass, Drifted, DriftedKey, Pending, make_drift
from quotaform.fleet.report import FleetReport, make_fleet_report
from quotaform.model.entity import Entity
from quotaform.model.errors import ConnectError, InvalidFilesError, NotReadError, PlanBlockedError
from quotaform.model.finding import Finding
from quotaform.model.outcome import ClusterOutcome
from quotaform.model.quotas import Action, Entry, SnapshotFile
from quotaform.model.records.record import ClusterRecord
from quotaform.model.rule import CLUSTER_ID
from quotaform.plan.blast_radius import LimitCount, LimitDirection, RadiusCounts
from quotaform.plan.plan import Plan, Unmanaged
from quotaform.plan.receipt import Result
from tests.builder import HEADER, PRODUCER, plan_of, receipt_of, result_of

READ_AT: Final = "2026-11-21T19:36:59Z"


def radius(affected: int, **principals: int) -> RadiusCounts:
    """How many limits of four principals change, by direction; two keys each."""
    numbers = {each: principals.get(each, 0) for each in LimitDirection}
    counts = {each: LimitCount(principals=number, limits=2 * number) for each, number in numbers.items()}
    return RadiusCounts(source="clients.csv", principals=4, affected=affected, counts=counts)


def plan_with(cluster: str, create: int = 0, update: int = 0, delete: int = 0) -> Plan:
    """A plan with so many changes of each kind."""
    created, updated, deleted = (
        [Entity(user=f"{name}{number}") for number in range(count)]
        for name, count in (("create", create), ("update", update), ("delete", delete))
    )
    wanted = {entity: Entry(entity=entity, values={PRODUCER: 1.0}) for entity in (*created, *updated)}
    wanted |= {entity: Entry(entity=entity, values={}) for entity in deleted}
    live = {entity: {PRODUCER: 2.0} for entity in (*updated, *deleted)}
    header = structs.replace(HEADER, cluster=ClusterRecord(name=cluster, id=f"id-{cluster}"), created_at=READ_AT)
    return plan_of(wanted, live, header=header)


def planned(
    cluster: str,
    rules: Sequence[str] = (),
    captured_at: str = "",
    blast_radius: RadiusCounts | None = None,
    **counts: int,
) -> ClusterOutcome[Any]:
    """A plan of a cluster that has 2,000 entities as they are declared, and three that are not."""
    plan = plan_with(cluster, **counts)
    digest = replace(
        plan,
        header=structs.replace(plan.header, snapshot=SnapshotFile("lab.json", captured_at) if captured_at else None),
        unchanged=2_000,
        unmanaged=tuple(Unmanaged(entity=Entity(user=name), values={}, in_scope=True) for name in "abc"),
        findings=tuple(Finding(rule=rule, message="", blocking=True) for rule in rules),
    ).digest
    return ClusterOutcome(cluster, structs.replace(digest, row=structs.replace(digest.row, blast_radius=blast_radius)))


def compared(cluster: str, *, is_known: bool = True, **counts: int) -> ClusterOutcome[Any]:
    """What drift amounts to on a cluster that has 2,000 entities as they are declared."""
    drift = make_drift(plan_with(cluster))
    [key] = (DriftedKey(key=PRODUCER, desired=1.0, actual=2.0),)
    entities = [
        Drifted(entity=Entity(user=f"u{number}"), drift_class=DriftClass(name), keys=(key,))
        for name, count in counts.items()
        for number in range(count)
    ]
    pending = Pending(entity=Entity(user="pending"), action=Action.UPDATE, keys=(key,))
    findings = () if is_known else (CLUSTER_ID.finding("it is another one"),)
    found = structs.replace(drift, entities=tuple(entities), in_sync=2_000, pending=(pending,), findings=findings)
    return ClusterOutcome(cluster, found.digest)


def applied(
    cluster: str, others: Mapping[str, int] = MappingProxyType({}), interrupted_by: str | None = None, **counts: int
) -> ClusterOutcome[Any]:
    """What an apply amounts to: how many entities were changed, and what became of others."""
    plan = plan_with(cluster, **counts)
    results = [result_of(change) for change in plan.changes]
    for name, count in others.items():
        results += [result_of(change, Result(name)) for change in plan_with(cluster, update=count).changes]
    receipt = receipt_of(plan, results=tuple(results), interrupted_by=interrupted_by)
    return ClusterOutcome(cluster, receipt.digest)


def down(cluster: str, server: str) -> ClusterOutcome[Any]:
    """A cluster that cannot be reached."""
    problem = f"Cannot connect to {cluster}: nothing listens at {server} (connection refused)"
    return ClusterOutcome(cluster, error=ConnectError(problem, remedy="check the host and port", cluster=cluster))


def invalid(cluster: str) -> ClusterOutcome[Any]:
    """A cluster whose files are invalid."""
    return ClusterOutcome(cluster, error=InvalidFilesError([Finding(rule="unknown-key", message="is not a quota key")]))


def refused(cluster: str) -> ClusterOutcome[Any]:
    """A cluster whose plan a guard blocks."""
    blocked = Finding(rule="delete", message="would delete too many", blocking=True)
    return ClusterOutcome(cluster, error=PlanBlockedError([blocked]))


def unread(cluster: str) -> ClusterOutcome[Any]:
    """A cluster that an interrupt left out."""
    return ClusterOutcome(cluster, error=NotReadError("not read: the run was interrupted"))


MAKERS: dict[str, Callable[..., ClusterOutcome[Any]]] = {
    each.__name__: each for each in (planned, compared, applied, down, invalid, refused, unread)
}


def example_report(command: Literal["plan", "drift", "apply"]) -> FleetReport:
    """The report of a command with the outcomes in fleet.yaml."""
    text = (Path(__file__).parents[1] / "data" / "fleet.yaml").read_text(encoding="utf-8")
    outcomes = []
    for (kind, cluster), *more in map(list, map(dict.items, yaml.safe_load(text)[command])):
        said = dict(more)
        if "blast_radius" in said:
            said["blast_radius"] = radius(**said["blast_radius"])
        outcomes.append(MAKERS[kind](cluster, **said))
    return make_fleet_report(command, outcomes)
