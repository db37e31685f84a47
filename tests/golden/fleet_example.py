"""Reports with everything in them: clusters of every status, rules, errors of two kinds, and snapshots."""

from __future__ import annotations

from typing import Any

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
    rules: tuple[str, ...] = (),
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
        blocking=rules,
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


def unread(cluster: str) -> ClusterOutcome[Any]:
    """A cluster that an interrupt left out."""
    return ClusterOutcome(cluster, error=NotReadError("not read: the run was interrupted"))


def example_fleet_report() -> FleetReport:
    """The report of a plan."""
    return make_fleet_report(
        "plan",
        [
            planned("prod-ap", blast_radius=radius(3, lower=2, higher=1), create=120, update=44),
            planned(
                "prod-eu",
                ("delete", "default-entity"),
                blast_radius=radius(3, newly_limited=1, lower=2, other_bucket=1),
                delete=3,
                update=1,
            ),
            planned("prod-us", ("delete",), blast_radius=radius(4, no_longer_limited=4), delete=40),
            planned("lab-1", captured_at="2026-11-20T09:12:44Z", blast_radius=radius(0)),
            planned("lab-2", captured_at="2026-11-18T23:00:00Z", blast_radius=radius(0), create=1),
            down("edge-1", "10.0.0.1:9092"),
            down("edge-22", "10.0.7.31:9093"),
            invalid("edge-3"),
            unread("edge-4"),
        ],
    )


def example_drift_report() -> FleetReport:
    """The report of a drift check."""
    return make_fleet_report(
        "drift",
        [
            compared("prod-eu", modified=2, unexpected=1),
            compared("prod-us", "in-sync"),
            compared("prod-ap", "unknown"),
            down("edge-1", "10.0.0.1:9092"),
        ],
    )


def example_apply_report() -> FleetReport:
    """The report of an apply."""
    blocked = Finding(rule="delete", message="would delete too many", blocking=True)
    return make_fleet_report(
        "apply",
        [
            applied("prod-eu", {"applied": 3, "already-applied": 2}, create=1, update=2),
            applied("prod-us", {"applied": 1, "refused": 1, "not-attempted": 4}, "SIGINT", delete=1),
            applied("prod-ap", {}),
            ClusterOutcome("prod-sa", error=PlanBlockedError("prod-sa", [blocked])),
            down("edge-1", "10.0.0.1:9092"),
        ],
    )
