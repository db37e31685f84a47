"""What a check of a plan may need to know apart from the plan: safeguards, the base, what was removed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from posixpath import normpath
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from quotaform.model.entity import Entity
from quotaform.model.finding import Approval, Finding
from quotaform.model.quotas import DeclaredBase, Desired, Quotas
from quotaform.model.scope import ALL, FULL_SCOPE, Scope, Selection
from quotaform.model.settings import DEFAULT_GUARD_LIMITS, Capacity, GuardLimits, LintSettings, PruneMode
from quotaform.model.text import inert
from quotaform.plan.difference import Pruning

if TYPE_CHECKING:
    from quotaform.desired.config import Cluster, Config
    from quotaform.desired.policy.reader import Policy
    from quotaform.plan.revert import Revert


_PRUNED: Final = {
    PruneMode.REPORT: "no entity is deleted that no file declares",
    PruneMode.REMOVED: "an entity that is removed from the files is deleted from the cluster",
    PruneMode.SCOPE: "every entity in scope that no file declares is deleted from the cluster",
}
"""What each mode does."""


class Safeguards(Struct, frozen=True, kw_only=True):
    """What in a repository protects one cluster."""

    limits: GuardLimits = DEFAULT_GUARD_LIMITS
    prune: PruneMode = PruneMode.REPORT
    scope: Scope = FULL_SCOPE
    pinned_id: str | None = None  # The id that the cluster must have
    must_confirm: bool = False  # Whether the name of the cluster must be typed to apply by hand
    policies: tuple[str, ...] = ()  # The paths and globs of the policies, as quotaform.yaml lists them
    # The digest of the content of each policy file, by its path relative to quotaform.yaml.
    policy_digests: Mapping[str, str] = field(default_factory=dict)
    roots: tuple[str, ...] = ()  # The paths of the other quota repositories, as quotaform.yaml lists them

    def looser_than(self, base: Safeguards) -> Iterator[str]:
        """Yield in what way quotaform.yaml protects less than at the base.

        >>> list(Safeguards(prune=PruneMode.REMOVED).looser_than(Safeguards()))
        ['prune is removed instead of report (an entity that is removed from the files is deleted from the cluster)']
        """
        yield from self.limits.looser_than(base.limits)
        for path in base.policies:
            if path not in self.policies:
                yield f"policies has no {inert(path)}"
        roots = {normpath(path) for path in self.roots}
        for path in base.roots:
            if normpath(path) not in roots:
                yield f"roots has no {inert(path)} (what it declares counts as undeclared here)"
        if base.pinned_id and self.pinned_id != base.pinned_id:
            yield (
                f"cluster_id is {inert(self.pinned_id)} instead of {inert(base.pinned_id)}"
                if self.pinned_id
                else "the cluster has no cluster_id"
            )
        if base.must_confirm and not self.must_confirm:
            yield "the cluster has no confirm: name"
        if self.prune.deletes_more_than(base.prune):
            yield f"prune is {self.prune} instead of {base.prune} ({_PRUNED[self.prune]})"
        yield from self.scope.wider_than(base.scope)

    def policy_losses(self, base: Safeguards) -> Iterator[str]:
        """Yield what became of each policy file of the base whose content is in no policy file any more.

        Whether the content of now asks for less cannot be decided.

        >>> caps, floor = Safeguards(policy_digests={"a.json": "1"}), Safeguards(policy_digests={"a.json": "2"})
        >>> list(floor.policy_losses(caps)), list(Safeguards().policy_losses(caps))
        (['policy a.json changed'], ['policy a.json was removed'])
        """
        kept = set(self.policy_digests.values())
        for path, content in base.policy_digests.items():
            if content not in kept:
                yield f"policy {inert(path)} {'changed' if path in self.policy_digests else 'was removed'}"


def safeguards_of(config: Config, cluster: Cluster | None, policy_digests: Mapping[str, str]) -> Safeguards:
    """Return what protects a cluster.

    `cluster` is the cluster; `None` is one that quotaform.yaml does not have. `policy_digests` are the digests of the
    policy files, by path.
    """
    return Safeguards(
        limits=config.guard_limits,
        prune=config.prune,
        scope=config.scope,
        pinned_id=cluster.cluster_id if cluster else None,
        must_confirm=cluster is not None and cluster.confirm == "name",
        policies=tuple(path.text for path in config.policies),
        policy_digests=policy_digests,
        roots=tuple(path.text for path in config.roots),
    )


class ClusterBase(Struct, frozen=True, kw_only=True):
    """What came of reading the base for one cluster."""

    declared: DeclaredBase | None = None  # What the base declares; `None` when that is not known
    findings: tuple[Finding, ...] = ()  # Why that is so, and other findings about the base
    cluster_id: str | None = None  # The id of the cluster that the base is of, if it is a receipt
    # What protects the cluster at the base; `None` without a base, or when that is not known.
    safeguards: Safeguards | None = None
    safeguards_problem: str | None = None  # Why that is not known, although there is a base
    approvals: frozenset[Approval] | None = None


class Removal(Struct, frozen=True):
    """Where an entity was removed from the files."""

    file: str  # The file that declared it, as messages name it
    commit: str | None = None  # The commit that removed it; `None` when that is not committed
    file_exists: bool = True
    is_applied: bool = False  # Whether the files of the last apply did not declare it any more


class NotSearched(Struct, frozen=True):
    """Earlier files that were not searched."""

    reason: str
    # The commit of the file, or the oldest one whose files were searched; `None` when there is none.
    commit: str | None = None
    file: str | None = None  # The file, as messages name it; `None` for all files before the commit
    count: int = 1  # How many files


class RemovalSearch(Struct, frozen=True):
    """What a search of earlier files found."""

    # Entities that the files declared before and do not declare any more.
    removals: Mapping[Entity, Removal] = field(default_factory=dict)
    not_searched: tuple[NotSearched, ...] = ()  # What was left out of the search although it may declare others


class Facts(Struct, frozen=True, kw_only=True):
    """The facts around a plan."""

    desired: Desired
    actual: Quotas
    pinned_id: str | None = None  # The id that quotaform.yaml pins the cluster to, if it does
    other_pin: str | None = None  # The name of another live cluster that quotaform.yaml pins to the id of this one
    selection: Selection = ALL
    removed: RemovalSearch = field(default_factory=RemovalSearch)
    safeguards: Safeguards = Safeguards()
    approvals: tuple[Approval, ...] = ()
    today: date = date.max
    missing: str | None = None  # Why there are no files, if there are none
    source_problem: str | None = None  # Why the commit of the files is not known, although there is one
    policies: tuple[Policy, ...] = ()
    base: ClusterBase = field(default_factory=ClusterBase)  # What the files are compared with, or why nothing is
    pruning: Pruning = field(default_factory=Pruning)  # What is deleted that no file declares
    revert: Revert | None = None  # What is put back, if the plan is a revert
    lints: LintSettings | None = None  # How lints are made; `None` when they are not
    capacity: Capacity = field(default_factory=Capacity)
