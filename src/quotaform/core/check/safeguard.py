"""What of quotaform.yaml protects a cluster beside the limits of guards."""

from __future__ import annotations

from dataclasses import dataclass

from quotaform.core.prune import PruneMode
from quotaform.core.scope import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Safeguards:
    """What of a quotaform.yaml protects one cluster beside the limits of guards.

    Attributes:
        prune: What happens to entities in scope that no file declares.
        scope: The entities that the files speak for.
    """

    prune: PruneMode
    scope: Scope
