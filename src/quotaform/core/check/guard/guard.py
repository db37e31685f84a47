"""Guards: checks that can block a plan or that judge what was asked for. `quotaform.core.check.plan` lists them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Final

from quotaform.core.check import rule
from quotaform.core.check.facts import Facts
from quotaform.core.plan import Plan
from quotaform.model.entry import STATE_ABSENT, Cause
from quotaform.model.finding import Finding
from quotaform.model.location import Location
from quotaform.model.snapshot import SnapshotFile
from quotaform.model.text import inert, quote

_MOST_LOOSER: Final = 20
_LEAST_LOST: Final = 5
"""From how many lost entities on a smaller set of declared ones is not an ordinary change."""


def check_cluster_id(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """Block a plan for another cluster than the pinned one."""
    found = check_pinned_id(plan.header.cluster_name, facts.pinned_id, plan.header.cluster_id, plan.header.snapshot)
    if found is not None:
        yield found


def check_pinned_id(
    cluster: str, pinned_id: str | None, found_id: str | None, snapshot: SnapshotFile | None = None
) -> Finding | None:
    """Return what is wrong when a cluster is not the one that quotaform.yaml pins.

    Args:
        cluster: What messages call the cluster.
        pinned_id: The id that quotaform.yaml gives; `None` and empty pin nothing.
        found_id: The id that the cluster gives itself, or that its snapshot has.
        snapshot: The snapshot that is read instead of a running cluster.
    """
    if not pinned_id or pinned_id == found_id:
        return None
    if snapshot is None:
        found, remedy = f"the live id is {found_id}", "check the bootstrap servers"
    else:
        name = f"the snapshot {inert(snapshot.path)}" if snapshot.path else "the snapshot"
        found = f"{name} is of a cluster with id {found_id}"
        remedy = "give a snapshot of the pinned cluster"
    return rule.CLUSTER_ID.finding(
        f"cluster {cluster} is pinned to id {pinned_id}, and {found}; {remedy}; "
        "change cluster_id in quotaform.yaml only if the cluster was replaced on purpose."
    )


def check_empty(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """Block a plan of files that declare nothing at all: an emptied directory must not look like a decision."""
    if not facts.desired and facts.revert is None:
        name = inert(plan.header.cluster_name)
        yield rule.EMPTY.finding(facts.missing or f"the files declare no entries for cluster {name}")


def check_shrink(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """Block a plan of files that declare far fewer entities than the base; what they say must go is not missing."""
    base = facts.base.declared
    if base is None or facts.revert is not None:
        return
    before = {entity for entity, entry in base.desired.items() if entry.cause is Cause.ENTRY} | base.unvalued
    lost = sum(entity not in facts.desired for entity in before)
    new = sum(entry.cause is Cause.ENTRY and entity not in before for entity, entry in facts.desired.items())
    fewer = lost - new
    if fewer >= _LEAST_LOST and fewer * 2 > len(before):
        after = len(before) - fewer
        yield rule.SHRINK.finding(
            f"the files declare {after:,} {'entity' if after == 1 else 'entities'}, the base {inert(base.base.ref)} "
            f"{len(before):,} (limit: less than half, and {_LEAST_LOST} fewer)"
        )


def check_loosened(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """Block a plan of files that loosen the guards against the base: no change may switch off its own guards."""
    base, problem = facts.base.safeguards, facts.base.safeguards_problem
    if base is None:
        if problem is not None:
            yield rule.GUARDS_LOOSENED.finding(
                f"the guards of the base are not known, so quotaform.yaml may loosen them: {problem}"
            )
        return
    for what, looser in (
        ("quotaform.yaml loosens the guards of the base", list(facts.safeguards.looser_than(base))),
        ("this may loosen the policies of the base", list(facts.safeguards.policy_losses(base))),
    ):
        if looser:
            more = [f"and {len(looser) - _MOST_LOOSER:,} more"] if len(looser) > _MOST_LOOSER else []
            yield rule.GUARDS_LOOSENED.finding(f"{what}: {'; '.join(looser[:_MOST_LOOSER] + more)}")


def check_selection(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """Warn of each `--select` pattern that matches neither a declared nor a live entity."""
    for glob in facts.selection.without_match(chain(facts.desired, facts.actual)):
        yield rule.NO_MATCH.finding(f"--select {quote(glob)} matches no entity")


def check_source(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """Warn that the commit of the files is not known."""
    if facts.source_problem:
        yield rule.UNKNOWN_COMMIT.finding(f"the commit of the files is not known: {facts.source_problem}")


def check_removed(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """Warn of each entity that is on the cluster and that the files declared before."""
    for item in plan.unmanaged:
        removal = facts.removed.removals.get(item.entity) if item.in_scope else None
        if removal is not None:
            step = f"in {removal.commit[:7]}" if removal.commit else "(not committed)"
            yield rule.NO_LONGER_DECLARED.finding(
                f"removed from {inert(removal.file)} {step}; it stays on the cluster. To delete it, declare it with "
                f"{STATE_ABSENT}",
                address=item.entity.address,
                location=Location(removal.file) if removal.file_exists else None,
            )


def check_history(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """Note each part of the earlier files that was not searched for removed entities."""
    for part in facts.removed.not_searched:
        commit = (part.commit or "")[:7]
        if part.file is not None:
            more = f" and {part.count - 1:,} more" if part.count > 1 else ""
            what = f"{inert(part.file)} at {commit}{more}: not searched for removed entities"
        elif commit:
            what = f"earlier files were searched for removed entities only up to {commit}"
        else:
            what = "earlier files were not searched for removed entities"
        yield rule.HISTORY_NOT_SEARCHED.finding(f"{what}: {part.reason}")
