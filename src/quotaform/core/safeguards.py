"""What in a repository protects a cluster, and in what way that of one change protects it less than before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from posixpath import normpath
from typing import Final

from quotaform.core.guard_limits import DEFAULT_GUARD_LIMITS, GuardLimits
from quotaform.core.prune import PruneMode
from quotaform.core.scope import FULL_SCOPE, Scope
from quotaform.model.text import inert

_PRUNED: Final = {
    PruneMode.REPORT: "no entity is deleted that no file declares",
    PruneMode.REMOVED: "an entity that is removed from the files is deleted from the cluster",
    PruneMode.SCOPE: "every entity in scope that no file declares is deleted from the cluster",
}
"""What each mode does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Safeguards:
    """What in a repository protects one cluster.

    Attributes:
        limits: The numbers and patterns that guards go by.
        prune: What happens to entities in scope that no file declares.
        pinned_id: The id that the cluster must have.
        must_confirm: Whether the name of the cluster must be typed to apply by hand.
        policies: The paths and globs of the policies, as quotaform.yaml lists them.
        policy_digests: The digest of the content of each policy file, by its path relative to quotaform.yaml.
        roots: The paths of the other quota repositories, as quotaform.yaml lists them.
    """

    limits: GuardLimits = DEFAULT_GUARD_LIMITS
    prune: PruneMode = PruneMode.REPORT
    scope: Scope = FULL_SCOPE
    pinned_id: str | None = None
    must_confirm: bool = False
    policies: tuple[str, ...] = ()
    policy_digests: Mapping[str, str] = field(default_factory=dict)
    roots: tuple[str, ...] = ()

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
