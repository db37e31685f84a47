"""Saved plans: read, and compared with the approved id, the allowed age, and the guards of the repository."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from quotaform.app.clock import SYSTEM_CLOCK, Clock, today
from quotaform.core.plan import Plan
from quotaform.document.plan import load_plan
from quotaform.errors import FileReadError, PlanAgeError, PlanGuardsError, PlanIdError
from quotaform.files import PLAN_LIMIT, read_bytes
from quotaform.model.approval import APPROVALS_NAME

if TYPE_CHECKING:
    from quotaform.app.repository.repository import Repository

_SKEW: Final = timedelta(minutes=5)
"""By how much the clocks of two machines may differ."""


def load_plan_file(path: Path) -> Plan:
    """Read a saved plan.

    Raises:
        FileReadError: It cannot be read.
        PlanFileError: It is cut off, or of an unknown major version.
        PlanFileChangedError: It was changed after it was written.
    """
    try:
        content = read_bytes(path, PLAN_LIMIT)
    except FileReadError as error:
        if not error.is_missing:
            raise
        reason = f"{error.reason}; quotaform plan --out plan.json saves a plan"
        raise FileReadError(error.path, reason, is_missing=True) from error
    return load_plan(content, str(path))


def require_plan_id(plan: Plan, expected: str | None) -> None:
    """Make sure that a plan is the one that was approved elsewhere.

    Raises:
        PlanIdError: It has another id than the expected one.
    """
    if expected is not None and plan.plan_id.removeprefix("sha256:") != expected.removeprefix("sha256:"):
        raise PlanIdError(expected=expected, found=plan.plan_id)


def require_guards(plan: Plan, repository: Repository, clock: Clock = SYSTEM_CLOCK) -> None:
    """Make sure that a plan was made by the guards and the approvals of a repository, if that has a quotaform.yaml.

    A plan file holds both, and whoever writes one can compute its digests.

    Args:
        plan: The plan.
        repository: Where the plan is applied.
        clock: The time.

    Raises:
        PlanGuardsError: Its guards are looser, or it depends on an approval that the repository does not hold.
        InvalidFilesError: quotaform.yaml or approvals.yaml is invalid.
    """
    if not os.path.lexists(repository.config_path):
        return
    limits = plan.header.options.limits
    problems = [f"of the plan, {each}" for each in limits.looser_than(repository.config().guard_limits)]
    if plan.approvals:
        held = repository.approvals(today(clock))
        problems.extend(
            f"{APPROVALS_NAME} does not hold the approval of {each.rule} for {each.entity.address} ({each})"
            for each in plan.approvals
            if each not in held
        )
    if problems:
        raise PlanGuardsError(problems)


def require_recent(plan: Plan, longest: timedelta | None, clock: Clock = SYSTEM_CLOCK) -> None:
    """Make sure that a plan is not older than somebody allows.

    Args:
        plan: The plan.
        longest: How old it may be; `None` for any age.
        clock: The time.

    Raises:
        PlanAgeError: It is older, or was made more than five minutes in the future, so that its age is not known.
    """
    if longest is None:
        return
    created_at = plan.header.created_at
    age: timedelta | None = None
    with suppress(ValueError):
        age = clock.now() - datetime.strptime(created_at, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    if age is None or not -_SKEW <= age <= longest:
        raise PlanAgeError(plan.header.cluster_name, created_at, age=age, limit=longest)
