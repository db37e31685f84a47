"""What came of reading the base for one cluster: what it declares, and what protected the cluster then."""

from __future__ import annotations

from dataclasses import dataclass

from quotaform.core.base import DeclaredBase
from quotaform.core.safeguards import Safeguards
from quotaform.model.approval import Approval
from quotaform.model.finding import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterBase:
    """What came of reading the base for one cluster.

    Attributes:
        declared: What the base declares; `None` when nobody knows.
        findings: Why that is so, and other findings about the base.
        cluster_id: The id of the cluster that the base is of, if it is a receipt.
        safeguards: What protects the cluster at the base; `None` when there is no base, or nobody knows.
        safeguards_problem: Why nobody knows it, although there is a base.
        approvals: What the base approves; `None` like `safeguards`.
    """

    declared: DeclaredBase | None = None
    findings: tuple[Finding, ...] = ()
    cluster_id: str | None = None
    safeguards: Safeguards | None = None
    safeguards_problem: str | None = None
    approvals: frozenset[Approval] | None = None
