"""What several quota repositories declare for one cluster: no entity may be declared by two of them.

Each would take back what the other one applies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from quotaform.core.check import rule
from quotaform.core.check.finding_list import first_findings
from quotaform.model.entry import Desired
from quotaform.model.finding import Finding

_MOST_CONFLICTS: Final = 1000
"""How many conflicts are looked for, of which fewer are shown."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What one repository declares for one cluster; a tombstone and an expired entry claim an entity, too.

    `cluster` is the name of the cluster in its quotaform.yaml; `None` without clusters.
    """

    cluster: str | None
    cluster_id: str | None
    desired: Desired

    def is_of(self, cluster: str | None, cluster_id: str | None) -> bool:
        """Whether it is about a cluster: the one with the same id, or with the same name when an id is not known.

        >>> Claim("prod", "a", {}).is_of("main", "a"), Claim("prod", "a", {}).is_of("prod", "b")
        (True, False)
        >>> Claim("prod", None, {}).is_of("prod", "a")
        True
        """
        if self.cluster_id and cluster_id:
            return self.cluster_id == cluster_id
        return self.cluster == cluster


def check_claims(own: Iterable[Claim], others: Sequence[Claim]) -> list[Finding]:
    """Return an error for each entity that a repository and another one declare for the same cluster.

    `own` is what the repository declares.
    """
    return first_findings(islice(_conflicts(own, others), _MOST_CONFLICTS))


def _conflicts(own: Iterable[Claim], others: Sequence[Claim]) -> Iterator[Finding]:
    for claim in own:
        for other in others:
            if not other.is_of(claim.cluster, claim.cluster_id):
                continue
            for entity, entry in claim.desired.items():
                second = other.desired.get(entity)
                if second is not None:
                    cluster = f" ({claim.cluster})" if claim.cluster else ""
                    text = (
                        f"{entity.address} is declared here and in another quota repository, at {second.location}, for "
                        f"the same cluster{cluster}; declare it in one of them"
                    )
                    yield rule.CLAIMED_TWICE.finding(text, address=entity.address, location=entry.location)
