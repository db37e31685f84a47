"""What a check of a plan may need to know beside the plan."""

from __future__ import annotations

from dataclasses import dataclass

from quotaform.core.scope import ALL, Selection
from quotaform.model.entry import Desired
from quotaform.model.quotas import Quotas


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts around a plan.

    Attributes:
        desired: What the files declare.
        actual: Everything that the cluster holds.
        pinned_id: The id that quotaform.yaml pins the cluster to, if it does.
        selection: The part of the plan that was asked for.
    """

    desired: Desired
    actual: Quotas
    pinned_id: str | None = None
    selection: Selection = ALL
