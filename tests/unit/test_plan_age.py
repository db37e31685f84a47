"""How old a saved plan may be."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from quotaform.model.errors import PlanAgeError
from quotaform.plan.plan import Plan
from quotaform.plan.plan_file import require_recent
from quotaform.system.clock import SystemClock
from tests.builder import plan_of

DAY = timedelta(days=1)


class Noon(SystemClock):
    """It is always noon on the 20th."""

    def now(self) -> datetime:
        return datetime(2026, 11, 20, 12, tzinfo=UTC)


def plan_at(created_at: str) -> Plan:
    plan = plan_of({}, {})
    return replace(plan, header=replace(plan.header, created_at=created_at))


@pytest.mark.parametrize("created_at", ["2026-11-20T11:59:59Z", "2026-11-19T12:00:00Z", "2026-11-20T12:05:00Z"])
def test_a_plan_within_the_allowed_age_is_accepted(created_at: str) -> None:
    require_recent(plan_at(created_at), DAY, Noon())


def test_without_a_limit_a_plan_of_any_age_is_accepted() -> None:
    require_recent(plan_at("1970-01-01T00:00:00Z"), None, Noon())


@pytest.mark.parametrize(
    ("created_at", "problem"),
    [
        ("2026-11-19T11:59:59Z", "1d ago, and may be 1d old at most; nothing was written: make a new plan"),
        ("2026-11-17T09:00:00Z", "3d 3h ago, and may be 1d old at most"),
        ("2026-11-20T12:05:01Z", "which is 5m 1s in the future: check the clocks"),
        ("2026-99-99T99:99:99Z", "which is not a time"),
    ],
)
def test_a_plan_that_is_too_old_or_from_the_future_is_refused(created_at: str, problem: str) -> None:
    with pytest.raises(PlanAgeError, match=f"the plan was made at {created_at}, {problem}") as refused:
        require_recent(plan_at(created_at), DAY, Noon())
    assert (refused.value.exit_code, refused.value.created_at, refused.value.limit) == (5, created_at, DAY)
