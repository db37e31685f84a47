"""Whether what is going to be applied is what was reviewed."""

from __future__ import annotations

from collections.abc import Sequence
from re import compile as regex
from typing import TYPE_CHECKING, Any, Final

from quotaform.errors import UsageError
from quotaform.model.text import quote

if TYPE_CHECKING:
    from quotaform.app.apply.apply import ClusterPlan

_ID: Final = regex(r"(?:sha256:)?[0-9a-f]{64}").fullmatch


def read_plan_id(text: str | None) -> str | None:
    """Return the value of `--expect-plan-id`; an empty one, of a variable that is not set, is no id of any plan."""
    if text is not None and not _ID(text):
        raise UsageError(f"--expect-plan-id: {quote(text)} is not a plan id; write sha256: and 64 hexadecimal digits")
    return text


def require_expected(plans: Sequence[ClusterPlan[Any]], expected_id: str | None) -> None:
    """Make sure that a plan is the one that was approved elsewhere.

    Raises `UsageError` if there are several plans, or none, and `PlanIdError` if it is another one.
    """
    from quotaform.app.plan.plan_file import require_plan_id

    if expected_id is None:
        return
    if len(plans) != 1:
        raise UsageError("--expect-plan-id is the id of one plan; apply the clusters one by one")
    require_plan_id(plans[0].digest.plan_id, expected_id)
