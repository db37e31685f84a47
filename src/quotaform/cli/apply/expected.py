"""Whether what is going to be applied is what was reviewed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from quotaform.errors import UsageError

if TYPE_CHECKING:
    from quotaform.app.apply import ClusterPlan


def require_expected(plans: Sequence[ClusterPlan], expected_id: str | None) -> None:
    """Make sure that a plan is the one that was approved elsewhere.

    Raises:
        UsageError: There are several plans, or none.
        PlanIdError: It is another one.
    """
    from quotaform.app.plan_file import require_plan_id

    if expected_id is None:
        return
    if len(plans) != 1:
        raise UsageError("--expect-plan-id is the id of one plan; apply the clusters one by one")
    require_plan_id(plans[0].plan, expected_id)
