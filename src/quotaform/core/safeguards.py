"""What of quotaform.yaml protects a cluster beside the limits of guards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from quotaform.core.prune import PruneMode
from quotaform.core.scope import Scope
from quotaform.model.text import inert


@dataclass(frozen=True, slots=True, kw_only=True)
class Safeguards:
    """What of a quotaform.yaml protects one cluster beside the limits of guards.

    Attributes:
        prune: What happens to entities in scope that no file declares.
        scope: The entities that the files speak for.
        pinned_id: The id that the cluster must have.
        must_confirm: Whether the name of the cluster must be typed to apply by hand.
        policies: The paths and globs of the policies.
    """

    prune: PruneMode
    scope: Scope
    pinned_id: str | None = None
    must_confirm: bool = False
    policies: tuple[str, ...] = ()

    def looser_than(self, base: Safeguards) -> Iterator[str]:
        """Yield in what way these protect less than others."""
        for path in base.policies:
            if path not in self.policies:
                yield f"policies has no {inert(path)}"
        if base.pinned_id and not self.pinned_id:
            yield "the cluster has no cluster_id"
        if base.must_confirm and not self.must_confirm:
            yield "the cluster has no confirm: name"
