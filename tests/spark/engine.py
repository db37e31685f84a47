"""A plan by either engine, or the error that it ended with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from quotaform.app.base.base import BaseChoice
from quotaform.app.plan.plan import Planner
from quotaform.app.plan.plan import plan as plan_here
from quotaform.app.plan.request import PlanRequest
from quotaform.app.repository.repository import Repository, Target
from quotaform.core.plan import Plan
from quotaform.core.scope import ALL, Selection
from quotaform.errors import QuotaformError
from quotaform.spark.plan import plan as plan_on_spark
from tests.dumped import dumped_plan

Outcome = str | tuple[str, int, str]
"""The bytes of a plan file, or the class, exit code and message of an error."""


def request_for(
    directory: Path, selection: Selection = ALL, base: BaseChoice | None = None, **target: Any
) -> PlanRequest:
    """Ask for the plan of a repository."""
    repository = Repository.at(directory, None)
    config = repository.config()
    clusters = repository.clusters(config, Target(**target))
    return PlanRequest(repository=repository, config=config, clusters=clusters, selection=selection, base=base)


def planned(request: PlanRequest, **options: Any) -> Plan:
    """Return the plan that Spark makes of the one cluster of a request."""
    (outcome,) = plan_on_spark(request, **options)
    return outcome.require()


def by_local(request: PlanRequest) -> Outcome:
    """Return what the local engine makes of the one cluster of a request."""
    return _outcome(plan_here, request)


def by_spark(request: PlanRequest) -> Outcome:
    """Return what the Spark engine makes of the one cluster of a request."""
    return _outcome(plan_on_spark, request)


def refusal(request: PlanRequest) -> tuple[str, int, str]:
    """Return the error with which both engines end."""
    outcome = by_spark(request)
    assert outcome == by_local(request)
    assert isinstance(outcome, tuple)
    return outcome


def _outcome(planner: Planner, request: PlanRequest) -> Outcome:
    try:
        (outcome,) = planner(request)
        return dumped_plan(outcome.require())
    except QuotaformError as error:
        return type(error).__name__, error.exit_code, str(error)
