"""A plan by either engine, or the error that it ended with."""

from __future__ import annotations

from pathlib import Path

from quotaform.app.plan import PlanRequest
from quotaform.app.plan import plan_cluster as plan_here
from quotaform.app.repository import Repository, Target, open_gateway
from quotaform.core.plan import Plan
from quotaform.core.scope import ALL, Selection
from quotaform.document.plan import dump_plan
from quotaform.errors import QuotaformError
from quotaform.spark.plan import plan_cluster as plan_on_spark

Outcome = str | tuple[str, int, str]
"""The bytes of a plan file, or the class, exit code and message of an error."""


def request_for(directory: Path, selection: Selection = ALL, **target: object) -> PlanRequest:
    """Ask for the plan of a repository."""
    repository = Repository.at(directory, None)
    config = repository.config()
    cluster = repository.cluster(config, Target(**target))  # type: ignore[arg-type]
    return PlanRequest(repository=repository, config=config, cluster=cluster, selection=selection)


def by_local(request: PlanRequest) -> Outcome:
    """What the local engine says."""

    def make() -> Plan:
        desired = request.repository.desired(request.config, request.cluster.name)
        with open_gateway(request.cluster) as gateway:
            return plan_here(request, desired, gateway)

    return _outcome(make)


def by_spark(request: PlanRequest) -> Outcome:
    """What the Spark engine says."""
    return _outcome(lambda: plan_on_spark(request))


def _outcome(make: object) -> Outcome:
    try:
        return dump_plan(make())  # type: ignore[operator]
    except QuotaformError as error:
        return type(error).__name__, error.exit_code, str(error)
