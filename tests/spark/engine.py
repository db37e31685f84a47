"""A plan by either engine, or the error that it ended with."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from quotaform.app.base.base import BaseChoice
from quotaform.app.plan.plan import plan as plan_here
from quotaform.app.plan.request import PlanRequest
from quotaform.app.rendering import Document
from quotaform.app.repository.repository import Repository, Target
from quotaform.core.outcome import ClusterOutcome
from quotaform.core.plan import Plan
from quotaform.core.scope import ALL, Selection
from quotaform.document.plan import load_plan
from quotaform.errors import QuotaformError
from quotaform.spark.plan import plan as plan_on_spark
from tests.dumped import dumped_plan

JSON: Final = Document("json", "json", {})

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


def planned(request: PlanRequest) -> Plan:
    """Return the plan that Spark makes of the one cluster of a request."""
    text = by_spark(request)
    assert isinstance(text, str), text
    return load_plan(text, "plan.json")


def by_local(request: PlanRequest) -> Outcome:
    """Return what the local engine makes of the one cluster of a request."""
    (outcome,) = all_by_local(request)
    return outcome


def by_spark(request: PlanRequest) -> Outcome:
    """Return what the Spark engine makes of the one cluster of a request."""
    (outcome,) = all_by_spark(request)
    return outcome


def all_by_local(request: PlanRequest) -> list[Outcome]:
    """Return what the local engine makes of each cluster of a request."""
    return _outcomes(request, lambda: plan_here(request), dumped_plan)


def all_by_spark(request: PlanRequest) -> list[Outcome]:
    """Return what the Spark engine makes of each cluster of a request."""
    return _outcomes(request, lambda: plan_on_spark(request, [JSON]), lambda made: "".join(made.documents["json"]()))


def refusal(request: PlanRequest) -> tuple[str, int, str]:
    """Return the error with which both engines end."""
    outcome = by_spark(request)
    assert outcome == by_local(request)
    assert isinstance(outcome, tuple)
    return outcome


def _outcomes(
    request: PlanRequest, plan: Callable[[], Iterable[ClusterOutcome[Any]]], dump: Callable[[Any], str]
) -> list[Outcome]:
    try:
        outcomes = list(plan())
    except QuotaformError as error:
        return [_failure(error)] * len(request.clusters)
    assert [outcome.cluster for outcome in outcomes] == [cluster.name for cluster in request.clusters]
    return [dump(each.require()) if each.error is None else _failure(each.error) for each in outcomes]


def _failure(error: QuotaformError) -> tuple[str, int, str]:
    return type(error).__name__, error.exit_code, str(error)
