"""Reports with everything in them: clusters of every status, rules, errors of two kinds, and snapshots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import yaml

from quotaform.drift.drift import DriftDigest
from quotaform.fleet.fleet_report import FleetReport, make_fleet_report
from quotaform.model.errors import ConnectError, InvalidFilesError, NotReadError, PlanBlockedError
from quotaform.model.finding import Finding
from quotaform.model.outcome import ClusterOutcome
from quotaform.plan.blast_radius import LimitCount, LimitDirection, RadiusCounts
from quotaform.plan.plan import PlanDigest, PlanOptions
from quotaform.plan.receipt import ReceiptDigest

_NONE = dict.fromkeys(
    ("create", "update", "delete", "no_op", "loosen", "tighten", "mixed", "to_unlimited", "blocked"), 0
)


def radius(affected: int, **principals: int) -> RadiusCounts:
    """How many limits of four principals change, by direction; two keys each."""
    numbers = {each: principals.get(each, 0) for each in LimitDirection}
    counts = {each: LimitCount(principals=number, limits=2 * number) for each, number in numbers.items()}
    return RadiusCounts(source="clients.csv", principals=4, affected=affected, counts=counts)


def planned(
    cluster: str,
    rules: Sequence[str] = (),
    captured_at: str = "",
    blast_radius: RadiusCounts | None = None,
    **counts: int,
) -> ClusterOutcome[Any]:
    """What a plan amounts to."""
    digest = PlanDigest(
        cluster_name=cluster,
        cluster_id=f"id-{cluster}",
        plan_id=f"sha256:{0:064}",
        read_at=captured_at or "2026-11-21T19:36:59Z",
        is_snapshot=bool(captured_at),
        summary={**_NONE, "no_op": 2_000, **counts},
        changes=sum(counts.values()),
        rows=sum(counts.values()),
        commit=None,
        allowances=(),
        undeclared=3,
        is_applyable=not rules,
        has_entities=True,
        blocking=tuple(rules),
        blast_radius=blast_radius,
    )
    return ClusterOutcome(cluster, digest)


def compared(cluster: str, status: str = "drift", **counts: int) -> ClusterOutcome[Any]:
    """What drift amounts to."""
    digest = DriftDigest(
        cluster_name=cluster,
        cluster_id=f"id-{cluster}",
        read_at="2026-11-21T19:36:59Z",
        is_snapshot=False,
        status=status,
        summary={"modified": 0, "missing": 0, "unexpected": 0, **counts},
        in_sync=2_000,
        pending=1,
        ignored=0,
        is_complete=True,
        has_entities=True,
        fingerprint=f"sha256:{0:064}",
    )
    return ClusterOutcome(cluster, digest)


def applied(
    cluster: str, tally: dict[str, int], interrupted_by: str | None = None, **counts: int
) -> ClusterOutcome[Any]:
    """What an apply amounts to."""
    digest = ReceiptDigest(
        cluster_name=cluster,
        cluster_id=f"id-{cluster}",
        plan_id=f"sha256:{0:064}",
        tally=tally,
        applied={"create": 0, "update": 0, "delete": 0, **counts},
        options=PlanOptions(),
        interrupted_by=interrupted_by,
    )
    return ClusterOutcome(cluster, digest)


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
    return ClusterOutcome(cluster, error=PlanBlockedError(cluster, [blocked]))


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
