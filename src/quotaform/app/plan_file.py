"""Saved plans: read, and compared with the id that was approved."""

from __future__ import annotations

from pathlib import Path

from quotaform.core.plan import Plan
from quotaform.document.plan import load_plan
from quotaform.errors import FileReadError, PlanFileError, PlanIdError
from quotaform.files import PLAN_LIMIT, read_bytes


def load_plan_file(path: Path) -> Plan:
    """Read a saved plan.

    Raises:
        PlanFileError: It cannot be read, is cut off, or is of an unknown major version.
        PlanFileChangedError: It was changed after it was written.
    """
    try:
        content = read_bytes(path, PLAN_LIMIT)
    except FileReadError as error:
        if error.is_missing:
            problem = f"cannot be read: {error.reason}; quotaform plan --out plan.json saves a plan"
            raise PlanFileError(error.path, problem) from error
        raise PlanFileError(error.path, f"cannot be read: {error.reason}") from error
    return load_plan(content, str(path))


def require_plan_id(plan: Plan, expected: str | None) -> None:
    """Make sure that a plan is the one that was approved elsewhere.

    Raises:
        PlanIdError: It has another id than the expected one.
    """
    if expected is not None and plan.plan_id.removeprefix("sha256:") != expected.removeprefix("sha256:"):
        raise PlanIdError(expected=expected, found=plan.plan_id)
