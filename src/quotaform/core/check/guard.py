"""Guards: checks that can block a plan or that judge what was asked for. `quotaform.core.check.plan` lists them."""

from __future__ import annotations

from collections.abc import Iterator

from quotaform.core.check import rule
from quotaform.core.check.facts import Facts
from quotaform.core.plan import Plan
from quotaform.core.scope import Selection
from quotaform.model.finding import Finding
from quotaform.model.text import quote


def check_cluster_id(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """Block a plan for another cluster than the pinned one."""
    found = check_pinned_id(plan.header.cluster_name, facts.pinned_id, plan.header.cluster_id)
    if found is not None:
        yield found


def check_pinned_id(cluster: str, pinned_id: str | None, live_id: str | None) -> Finding | None:
    """Return what is wrong when a cluster is not the one that quotaform.yaml pins.

    Args:
        cluster: What messages call the cluster.
        pinned_id: The id that quotaform.yaml gives; `None` and empty pin nothing.
        live_id: The id that the cluster gives itself.
    """
    if not pinned_id or pinned_id == live_id:
        return None
    return rule.CLUSTER_ID.finding(
        f"cluster {cluster} is pinned to id {pinned_id}, and the live id is {live_id}; "
        "check bootstrap_servers, or correct cluster_id in quotaform.yaml."
    )


def check_selection(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """Warn of each `--select` pattern that matches neither a declared nor a live entity."""
    for glob in facts.selection.select:
        selection = Selection((glob,))
        if not any(selection.contains(entity) for entities in (facts.desired, facts.actual) for entity in entities):
            yield rule.NO_MATCH.finding(f"--select {quote(glob)} matches no entity")
